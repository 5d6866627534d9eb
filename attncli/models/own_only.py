"""What only attncli's own networks give: the one place that words what is said where transformers runs a model."""

from attncli.base.errors import RequestError
from attncli.models.checkpoint_files import CONFIG_FILE
from attncli.models.config import ModelConfig
from attncli.models.families.values import NoEncoder
from attncli.models.hub import Place


def why_no_encoder(place: Place) -> str | None:
    """Why attncli has no encoder for a model; None where it has.

    Raises RequestError when its configuration can't be read.
    """
    try:
        ModelConfig.from_file(place.path / CONFIG_FILE)
    except NoEncoder as error:
        return error.why
    return None


def needs(what: str, parts: str, name: str) -> str:
    """ "explain needs queries and keys, which transformers does not give of gpt2" """
    return f"{what} needs {parts}, which transformers does not give of {name}"


def not_given(option: str, parts: str, place: Place) -> RequestError:
    """For an option that needs what transformers does not give: whoever has attncli's own encoder for the model takes
    that, and whoever has none leaves the option out.
    """
    why = why_no_encoder(place)
    said = needs(option, parts, place.name)
    return RequestError(f"{said}: leave --engine transformers out" if why is None else f"{said}: leave it out ({why})")
