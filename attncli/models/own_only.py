"""What only attncli's own networks give: the one place that words what is said where transformers runs a model."""

from collections.abc import Iterator
from contextlib import contextmanager

from attncli.base.errors import RequestError
from attncli.models.checkpoint_files import CONFIG_FILE
from attncli.models.config import ModelConfig
from attncli.models.families.values import NoEncoder
from attncli.models.hub import Place

NOT_GIVEN = "which transformers does not give of {}"
NEEDED = "this needs attncli's own network (transformers gives attention maps alone)"


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
def needing_own(name: str) -> Iterator[None]:
    """Put the model and what was needed into a NoEncoder. Goes around whatever builds a network of attncli's own."""
    try:
        yield
    except NoEncoder as error:
        raise NoEncoder(error.why, no_network(name, error.why)) from error


def no_network(name: str, why: str) -> str:
    """Say why code that looks inside a network can't look inside this model."""
    return f"{NEEDED}, and there is none for {name}: {why}. Use a model of the BERT family (attncli models lists some)"


def refuse_theirs(place: Place) -> RequestError:
    """Return the error for code that looks inside a network, of a model that transformers runs."""
    why = why_no_encoder(place)
    if why is None:
        return RequestError(f'{NEEDED}, and transformers runs {place.name}: load it without engine="transformers"')
    return RequestError(no_network(place.name, why))


def not_given(what: str, option: str, place: Place) -> RequestError:
    """For what an option asks and transformers does not give: the way out is attncli's own encoder for the model, if
    there is one, and else to leave the option out.
    """
    why = why_no_encoder(place)
    said = f"{what}, {NOT_GIVEN.format(place.name)}"
    if why is None:
        return RequestError(f"{said}: leave --engine transformers out")
    return RequestError(f"{said}: leave {option} out ({why})")
