"""Model: a checkpoint with its tokenizer, ready to be asked for the attention of texts."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from copy import copy

from attncli.base.arguments import check_optional_text, check_text, check_texts
from attncli.base.errors import Notice, RequestError
from attncli.models.block import Tap
from attncli.models.encoder import Encoder
from attncli.models.engine import Engine, check_model
from attncli.models.outputs.finding import outputs_of
from attncli.models.outputs.output import Numbers, Output, Prediction
from attncli.models.outputs.predicting import embed, notices, predict
from attncli.models.own_only import refuse_theirs
from attncli.models.room import vector_bytes
from attncli.models.rows import batches, read_ahead
from attncli.models.taken import Asked, Taken, as_record, take_batch
from attncli.record import AttentionRecord, ModelInfo, Request
from attncli.record.grouping import axes_of
from attncli.record.named_heads import NamedHeads, select_heads
from attncli.record.selection import select
from attncli.text.tokens import Tokens

EVERYTHING = Request()


class Model(Encoder, Engine):
    """An encoder that answers requests with records."""

    name = "attncli"

    @property
    def parts(self) -> tuple[str, ...]:
        return ("encoder",)

    def info_of(self, which: str | None) -> ModelInfo:
        return self.info

    def without(self, heads: NamedHeads) -> "Model":
        """The same model with these heads silenced, "3.1" or [(3, 1)]: 0 stands in place of what they give. It shares
        the weights of this one.

        Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3.

        Raises RequestError for a head that is not there, and where none is named.
        """
        layers, of_layer = range(self.config.layers), range(self.config.heads)
        named = select_heads(heads, layers, of_layer, self.config.layers, self.config.heads)
        if not named:
            raise RequestError("--without names no head, and silences none: leave it out, or write 3.1")
        made = copy(self)
        made.known = {}
        made.network = copy(self.network)
        made.network.silenced = sorted({*self.silenced, *named})
        return made

    def check(self, request: Request) -> None:
        for option, value in (("--which", request.which), ("--target", request.target)):
            if value is not None:
                raise RequestError(
                    f"{option} is for encoder-decoders, and {self.place.name} is an encoder: leave it out"
                )
        if request.measure == "norm" and request.vectors not in (None, "none"):
            raise RequestError("q and k make weights and not norms: leave --vectors, --terms or --measure norm out")
        if self.silenced:
            self.check_silenced(request)
        if request.predict:
            for notice in notices(self):
                warnings.warn(notice, Notice, stacklevel=2)

    def check_silenced(self, request: Request) -> None:
        """Raises RequestError where nothing that is asked for comes after a silenced head."""
        last = max(select(request.layers, self.config.layers, "layer"))
        says = request.predict and any(one.kind != "embedding" for one in self.outputs().values())
        if min(self.silenced)[0] >= last and not says:
            nothing = f"{self.info.changes} nothing changes in layers up to {last}"
            raise RequestError(f"{nothing}: ask for a later one, or leave --without out")

    def attend_tokens(
        self, texts: Iterable[Tokens], request: Request = EVERYTHING, taps: Sequence[Tap] = ()
    ) -> Iterator[AttentionRecord]:
        """Yield a record of each text. Neighbours go through the network together. taps: as for `take`."""
        for taken in self.take(texts, request, taps):
            yield as_record(self, taken, request)

    def take(self, texts: Iterable[Tokens], request: Request = EVERYTHING, taps: Sequence[Tap] = ()) -> Iterator[Taken]:
        """Yield what a request asks for, for each text in their order, on the model's device.

        Texts are read ahead, so that those of near length go through the network together. taps: read or change blocks
        before the request's own taps read them; they know a text by its number among those that go together.
        """
        asked = self.asked(request)
        for group in read_ahead(texts, len(asked.layers) * len(asked.heads), self.batch_tokens):
            taken: dict[int, Taken] = {}
            for numbers in batches(group, self.batch_tokens):
                batch = [group[number] for number in numbers]
                taken.update(zip(numbers, take_batch(self, batch, asked, request, taps), strict=True))
            for number in range(len(group)):
                yield taken.pop(number)  # whoever drops a record has its memory back

    def asked(self, request: Request) -> Asked:
        """Raises RequestError for a layer or a head that is not there."""
        layers = select(request.layers, self.config.layers, "layer")
        heads = select(request.heads, self.config.heads, "head")
        return Asked(layers, heads, select_heads(request.vectors, layers, heads, self.config.layers, self.config.heads))

    def kept_units(self, tokens: Tokens, request: Request) -> int:
        return len(axes_of(request.grouping, tokens).queries)

    def vector_bytes(self, tokens: Tokens, request: Request) -> int:
        heads = self.asked(request).vectors if axes_of(request.grouping, tokens).apart else []
        terms = max((len(self.network.layer(layer).score.names) for layer, _ in heads), default=0)
        return vector_bytes(len(tokens), len(heads), self.config.head_dim, terms)

    def outputs(self) -> dict[str, Output]:
        """What the checkpoint can say of a text, by name: "classes", "tokens", "span", "embedding", "words", or what
        its family has besides. The first is the one that it is for; each is read when it is first called.
        """
        return dict(outputs_of(self).outputs)

    def predict(
        self,
        text: str,
        pair: str | None = None,
        output: str | None = None,
        mask: str = "padding",
        pad_to: int | None = None,
    ) -> Prediction:
        """What the checkpoint says of a text, or of a pair: by the `output` of this name, by default by that of words
        where there is a [MASK], else by the first.

        Raises RequestError where the checkpoint has none, or not this one; and as `attend` does.
        """
        check_text("text", text, "predict each text by itself")
        check_optional_text("pair", pair)
        return predict(self, self.tokenizer.encode(text, pair, pad_to), output, mask)

    def embed(self, texts: Sequence[str]) -> Numbers:
        """Sentence embeddings, `[text, size]`, as sentence-transformers makes them.

        Raises RequestError where the checkpoint's files don't say how; and as `attend` does.
        """
        check_texts("texts", texts)
        return embed(self, texts)


def require_own(model: object) -> Model:
    """Return a model for code that looks inside the network.

    Raises RequestError where transformers runs it, and TypeError for what is no model.
    """
    if isinstance(model, Model):
        return model
    check_model(model)
    assert isinstance(model, Engine)
    raise refuse_theirs(model.place)
