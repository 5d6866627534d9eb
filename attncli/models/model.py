"""Model: attncli's own network of a checkpoint, with its tokenizer, ready to be asked for the attention of texts."""

from collections.abc import Sequence
from copy import copy

from attncli.base.errors import RequestError
from attncli.models.encoder import Encoder
from attncli.models.engine import Engine, check_model
from attncli.models.output import Found
from attncli.models.outputs.finding import find_outputs
from attncli.models.own_only import refuse_theirs
from attncli.models.tapped import TappedModel
from attncli.record import ModelInfo, Request


class Model(Encoder, TappedModel):
    """An encoder that answers requests with records."""

    name = "attncli"

    @property
    def parts(self) -> tuple[str, ...]:
        return ("encoder",)

    def of_part(self, which: str | None) -> "Model":
        if which not in (None, "encoder"):
            raise RequestError(f"--which is for encoder-decoders, and {self.place.name} is an encoder: leave it out")
        return self

    def info_of(self, which: str | None) -> ModelInfo:
        return self.info

    def silencing(self, heads: Sequence[tuple[int, int]]) -> "Model":
        made = copy(self)
        vars(made).pop("found", None)
        made.network = copy(self.network)
        made.network.silenced = list(heads)
        return made

    def find_outputs(self) -> Found:
        return find_outputs(self)

    def check(self, request: Request) -> None:
        for option, value in (("--which", request.which), ("--target", request.target)):
            if value is not None:
                raise RequestError(
                    f"{option} is for encoder-decoders, and {self.place.name} is an encoder: leave it out"
                )
        super().check(request)


def require_own(model: object) -> Model:
    """Return a model for code that looks at the parameters of attncli's own network.

    Raises RequestError where transformers runs it, and TypeError for what is no model.
    """
    if isinstance(model, Model):
        return model
    check_model(model)
    assert isinstance(model, Engine)
    raise refuse_theirs(model.place)
