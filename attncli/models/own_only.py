"""What is said where transformers runs a model and only attncli's own network will do, or the model is closed."""

from collections.abc import Iterator
from contextlib import contextmanager

from attncli.base.errors import RequestError
from attncli.models.checkpoint_files import CONFIG_FILE
from attncli.models.config import ModelConfig
from attncli.models.families.values import NoEncoder
from attncli.models.hub import Place

NEEDED = "this needs attncli's own network"


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
    """Say why code that needs attncli's own network can't have one of this model."""
    return f"{NEEDED}, and there is none for {name}: {why}. Use a model of the BERT family (attncli models lists some)"


def refuse_theirs(place: Place) -> RequestError:
    """Return the error for code that needs attncli's own network, of a model that transformers runs."""
    why = why_no_encoder(place)
    if why is None:
        return RequestError(f'{NEEDED}, and transformers runs {place.name}: load it without engine="transformers"')
    return RequestError(no_network(place.name, why))


def closed(what: str, place: Place, instead: str) -> RequestError:
    """Return the error for `what`, of a network of transformers that calls no attention function of ours.

    instead: what to do where attncli has no encoder for the model either.
    """
    if why_no_encoder(place) is None:
        instead = "leave --engine transformers out, and attncli's own network gives them"
    return RequestError(
        f"{what}, and the network of {place.name} in transformers keeps them to itself (it calls no attention function "
        f"that can be replaced): {instead}"
    )


def only_maps(place: Place) -> str:
    """Say what can be had of a network of transformers that calls no attention function of ours."""
    return (
        f"the network of {place.name} in transformers calls no attention function that can be replaced: "
        "attncli shows its maps and nothing else"
    )
