"""Models that offer their blocks to taps: attncli's own networks, and transformers networks that call our attention."""

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from attncli.base.choices import check_optional_text, check_text, check_texts
from attncli.base.errors import Notice, RequestError
from attncli.models.block import Tap
from attncli.models.engine import Engine, check_model, vector_bytes
from attncli.models.output import Numbers, Output, Prediction
from attncli.models.outputs import embed, notices, predict
from attncli.models.rows import batches, read_ahead
from attncli.models.taken import Selected, Taken, as_record, take_batch
from attncli.models.walk import Walker
from attncli.record import AttentionRecord, Input, Request
from attncli.record.grouping import axes_of
from attncli.record.selection import NamedHeads, number_list, select, select_heads
from attncli.text.tokens import Tokens

EVERYTHING = Request()


class TappedModel(Walker, Engine):
    """A model that answers requests with taps. can_be_tapped: the network calls our attention function."""

    can_be_tapped = True

    @abstractmethod
    def of_part(self, which: str | None) -> "TappedModel":
        """Return the model restricted to one of its parts, whose blocks are offered to taps. None is the default part.

        Raises RequestError for a missing part, and if the network can't be tapped.
        """

    @abstractmethod
    def silencing(self, heads: Sequence[tuple[int, int]]) -> "TappedModel":
        """Return the model with these heads silenced."""

    def ready(self, tokens: Tokens, target: str | None = None) -> Tokens:
        """Return the query tokens of the part, with the tokens of the other half of an encoder-decoder.

        target: the text that the decoder must write; by default its own output.
        """
        return tokens

    def with_answer(self, tokens: Tokens, target: str | None = None) -> Tokens:
        """Return the query tokens of the part such that the last vectors are those of a decoder's output.

        target: as for `ready`.
        """
        return self.ready(tokens, target)

    def without(self, heads: NamedHeads) -> "TappedModel":
        """Return the model with these heads silenced, "3.1" or [(3, 1)]: their outputs are replaced with 0. It shares
        this model's weights.

        Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3.

        Raises RequestError for a missing head, and for an empty selection.
        """
        part = self.of_part(None)
        named = select_heads(heads, range(part.layers), range(part.heads), part.layers, part.heads)
        if not named:
            raise RequestError("--without selects no head: omit it, or write 3.1")
        return self.silencing(sorted({*self.silenced, *named}))

    def check(self, request: Request) -> None:
        if request.measure == "norm" and request.vectors not in (None, "none"):
            raise RequestError("q and k belong to weights, not norms: omit --vectors, --terms or --measure norm")
        if self.silenced:
            self.of_part(request.which).check_silenced(request)
        if request.predict:
            for notice in notices(self):
                warnings.warn(notice, Notice, stacklevel=2)

    def check_silenced(self, request: Request) -> None:
        """Raises RequestError if no requested result depends on the silenced heads."""
        last = max(self.select_layers(request.layers))
        says = request.predict and any(one.kind != "embedding" for one in self.outputs().values())
        if min(self.silenced)[0] >= last and not says:
            nothing = f"{self.info.changes} nothing changes in layers up to {last}"
            raise RequestError(f"{nothing}: request a later layer, or omit --without")

    def attend_tokens(
        self, texts: Iterable[Tokens], request: Request = EVERYTHING, taps: Sequence[Tap] = ()
    ) -> Iterator[AttentionRecord]:
        """Yield a record of each text. Neighbouring texts share batches. taps: as for `take`."""
        part = self.of_part(request.which)
        for taken in part.take(texts, request, taps):
            yield as_record(part, taken, request)

    def take(self, texts: Iterable[Tokens], request: Request = EVERYTHING, taps: Sequence[Tap] = ()) -> Iterator[Taken]:
        """Yield the requested results for each text in order, on the model's device.

        Texts are read ahead, so that those of similar length share batches. taps: read or change blocks before the
        request's own taps. They identify a text by its number in the batch.
        """
        asked = self.asked(request)
        ready = (self.ready(one, request.target) for one in texts)
        for group in read_ahead(ready, len(asked.layers) * len(asked.heads), self.batch_tokens):
            taken: dict[int, Taken] = {}
            for numbers in batches(group, self.batch_tokens):
                batch = [group[number] for number in numbers]
                taken.update(zip(numbers, take_batch(self, batch, asked, request, taps), strict=True))
            for number in range(len(group)):
                yield taken.pop(number)  # so that the caller can free its memory

    def asked(self, request: Request) -> Selected:
        """Return the selected layers and heads. Raises RequestError for a missing layer or head."""
        layers = self.select_layers(request.layers)
        heads = select(request.heads, self.heads, "head")
        return Selected(layers, heads, select_heads(request.vectors, layers, heads, self.layers, self.heads))

    def kept_units(self, tokens: Tokens, request: Request) -> int:
        return len(axes_of(request.grouping, tokens).queries)

    def vector_bytes(self, tokens: Tokens, request: Request) -> int:
        if not self.can_be_tapped:
            return 0
        part = self.of_part(request.which)
        heads = part.asked(request).vectors if axes_of(request.grouping, tokens).apart else []
        terms = max((len(part.term_names(layer)) for layer, _ in heads), default=0)
        return vector_bytes(len(tokens), len(heads), part.head_dim, terms)

    def outputs(self) -> dict[str, Output]:
        """Return the checkpoint's outputs by name: "classes", "tokens", "span", "embedding", "words", "next", or others
        of its family.

        The first is its main output. Each is read when it is first called.
        """
        return dict(self.found.outputs)

    def predict(
        self,
        text: str,
        pair: str | None = None,
        output: str | None = None,
        mask: str | None = None,
        pad_to: int | None = None,
    ) -> Prediction:
        """Return the prediction for a text or a pair from the output of this name.

        By default, that is "words" if there is a [MASK], else the first output. Raises RequestError if the checkpoint
        does not have the output, and as `attend` does.
        """
        check_text("text", text, "predict each text separately")
        check_optional_text("pair", pair)
        part = self.of_part(None)
        return predict(part, part.ready(self.tokenizer.encode(text, pair, pad_to)), output, mask)

    def embed(self, texts: Sequence[str]) -> Numbers:
        """Return sentence embeddings, `[text, size]`, as sentence-transformers computes them.

        Raises RequestError if the checkpoint's files do not define them, and as `attend` does.
        """
        check_texts("texts", texts)
        return embed(self.of_part("encoder" if len(self.parts) > 1 else None), texts)


def tapped(engine: Engine, which: str | None = None) -> TappedModel | None:
    """Return a model restricted to one of its parts if it can be tapped, else None."""
    return engine.of_part(which) if isinstance(engine, TappedModel) and engine.can_be_tapped else None


def check_every_layer(engine: Engine, which: str | None, what: str) -> None:
    """Raises RequestError if any layer has no attention, for code that needs the attention of every layer."""
    part = tapped(engine, which)
    if part is not None and len(layers := part.select_layers("all")) < part.layers:
        raise RequestError(
            f"{what} needs the attention of every layer, but {part.place.name} has it only in {number_list(layers)}: "
            f"run -l {layers[-1]} shows one of these"
        )


def require_tapped(model: object, which: str | None = None) -> TappedModel:
    """Return a model, restricted to one of its parts, for code that uses taps.

    Raises RequestError if it can't be tapped, and TypeError for anything but a model.
    """
    check_model(model)
    assert isinstance(model, Engine)
    if not isinstance(model, TappedModel):
        raise RequestError(f"{model.place.name} can't be tapped")
    return model.of_part(which)


NEURONS = 75_000  # elements of q and k in a page of long texts if no heads are selected: 0.2 MB
SHORT = 128  # maximum tokens of a text for which queries and keys of all heads are included
ALWAYS = 600_000  # elements of q and k that are always allowed, in addition to as many as the maps have


def under_masks(
    engine: Engine,
    inputs: Sequence[Input],
    request: Request,
    masks: Sequence[str | None],
    most: float,
    copies: float = 0,
    taps: Sequence[Tap] = (),
) -> Iterator[list[AttentionRecord]]:
    """Yield every text's records, one per mask in the order of `masks`. A text is tokenized once.

    If the request is for weights and names no vectors, the heads that `vectors_within` selects keep theirs. Norms and
    other engines have no vectors. taps: as for `Model.take`.

    Raises RequestError as the engine does, and for several masks of a model that can't be tapped.
    """
    part = tapped(engine, request.which)
    if part is not None:
        engine.check(request)
        texts = [part.ready(one, request.target) for one in engine.tokenize(inputs, request.pad_to)]
        if request.vectors is None and request.measure == "weight":
            request = replace(request, vectors=vectors_within(part, texts, request, most, len(masks)))
        texts = list(part.fitting([texts], request, len(masks), copies))
        runs = [part.attend_tokens(texts, replace(request, mask=mask), taps) for mask in masks]
    elif len(masks) > 1:
        raise RequestError(f"{engine.place.name} supports only its own mask: request a single mask")
    else:
        runs = [engine.answer(inputs, replace(request, mask=mask), together=True, copies=copies) for mask in masks]
    for records in zip(*runs, strict=True):
        yield list(records)


def vectors_within(model: TappedModel, texts: Sequence[Tokens], request: Request, most: float, masks: int = 1) -> str:
    """Return the first heads whose queries, keys and terms are at most `most` elements under all these masks, at least
    one.

    For texts of at most SHORT tokens, they may have as many elements as the weights plus ALWAYS, which allows all heads
    of BERT. The result is written as in `Request.vectors`.
    """
    layers = model.select_layers(request.layers)
    heads = select(request.heads, model.heads, "head")
    every = [f"{layer}.{head}" for layer in layers for head in heads]
    terms = max(sum(model.term_numbers(layer, text) for text in texts) for layer in layers)
    of_one = masks * (2 * sum(map(len, texts)) * model.head_dim + terms)
    if max(map(len, texts), default=0) <= SHORT:
        most = max(most, ALWAYS + masks * len(every) * sum(len(text) ** 2 for text in texts))
    return ",".join(every[: max(1, int(most / of_one))])
