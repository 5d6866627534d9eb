"""What only attncli's own networks give: the one place that words what is said where transformers runs a model."""

from collections.abc import Iterator
from contextlib import contextmanager

from attncli.base.errors import RequestError
from attncli.models.checkpoint_files import CONFIG_FILE
from attncli.models.config import ModelConfig
from attncli.models.families.values import NoEncoder
from attncli.models.hub import Place

NOT_GIVEN = "which transformers does not give of {}"
# What commands that look into the network need of it.
LOOKING = {
    "explain": f"explain needs queries, keys, values and the output projection, {NOT_GIVEN}",
    "mechanisms": f"mechanisms needs queries, keys, values and their projections, {NOT_GIVEN}",
    "compare": "compare needs a network of attncli's own, or transformers would run on both sides, and has none for {}",
}


def why_no_encoder(place: Place) -> str | None:
    """Why attncli has no encoder for a model; None where it has.

    Raises RequestError when its configuration can't be read.
    """
    try:
        ModelConfig.from_file(place.path / CONFIG_FILE)
    except NoEncoder as error:
        return error.why
    return None


@contextmanager
def looking_into(command: str, name: str) -> Iterator[None]:
    """Around the opening of a model by a command that has to look into the network: NoEncoder becomes a RequestError
    that says what the command needs.
    """
    try:
        yield
    except NoEncoder as error:
        raise RequestError(f"{LOOKING[command].format(name)}: {error.why}") from error


def not_given(what: str, option: str, place: Place) -> RequestError:
    """For what an option asks and transformers does not give: the way out is attncli's own encoder for the model, if
    there is one, and else to leave the option out.
    """
    why = why_no_encoder(place)
    said = f"{what}, {NOT_GIVEN.format(place.name)}"
    if why is None:
        return RequestError(f"{said}: leave --engine transformers out")
    return RequestError(f"{said}: leave {option} out ({why})")
