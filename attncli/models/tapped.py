"""A model whose blocks taps are offered: attncli's own networks, and those of transformers that call our attention."""

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from attncli.base.arguments import check_optional_text, check_text, check_texts
from attncli.base.errors import Notice, RequestError
from attncli.models.block import Tap
from attncli.models.engine import Engine, check_model, vector_bytes
from attncli.models.output import Numbers, Output, Prediction
from attncli.models.outputs import embed, notices, predict
from attncli.models.rows import batches, read_ahead
from attncli.models.taken import Asked, Taken, as_record, take_batch
from attncli.models.walk import Walker
from attncli.record import AttentionRecord, Input, Request
from attncli.record.grouping import axes_of
from attncli.record.selection import NamedHeads, number_list, select, select_heads
from attncli.text.tokens import Tokens

EVERYTHING = Request()


class TappedModel(Walker, Engine):
    """A model that answers requests by taps. can_be_tapped: whether there is a place that taps can look into."""

    can_be_tapped = True

    @abstractmethod
    def of_part(self, which: str | None) -> "TappedModel":
        """Return the model as one of its parts, whose blocks taps are offered; None is the part that is meant then.

        Raises RequestError for a part that it does not have, and where nothing can be tapped.
        """

    @abstractmethod
    def silencing(self, heads: Sequence[tuple[int, int]]) -> "TappedModel":
        """Return the same model in which these heads are silenced."""

    def ready(self, tokens: Tokens, target: str | None = None) -> Tokens:
        """Return the tokens that the part's queries are of, with those of the other half of an encoder-decoder.

        target: what the decoder is made to write; by default what it writes itself.
        """
        return tokens

    def with_answer(self, tokens: Tokens, target: str | None = None) -> Tokens:
        """Return the tokens that the part's queries are of, so that last vectors are those of what a decoder writes.

        target: as for `ready`.
        """
        return self.ready(tokens, target)

    def without(self, heads: NamedHeads) -> "TappedModel":
        """The same model with these heads silenced, "3.1" or [(3, 1)]: 0 stands in place of what they give. It shares
        the weights of this one.

        Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3.

        Raises RequestError for a head that is not there, and where none is named.
        """
        part = self.of_part(None)
        named = select_heads(heads, range(part.layers), range(part.heads), part.layers, part.heads)
        if not named:
            raise RequestError("--without names no head, and silences none: leave it out, or write 3.1")
        return self.silencing(sorted({*self.silenced, *named}))

    def check(self, request: Request) -> None:
        if request.measure == "norm" and request.vectors not in (None, "none"):
            raise RequestError("q and k make weights and not norms: leave --vectors, --terms or --measure norm out")
        if self.silenced:
            self.of_part(request.which).check_silenced(request)
        if request.predict:
            for notice in notices(self):
                warnings.warn(notice, Notice, stacklevel=2)

    def check_silenced(self, request: Request) -> None:
        """Raises RequestError where nothing that is asked for comes after a silenced head."""
        last = max(self.select_layers(request.layers))
        says = request.predict and any(one.kind != "embedding" for one in self.outputs().values())
        if min(self.silenced)[0] >= last and not says:
            nothing = f"{self.info.changes} nothing changes in layers up to {last}"
            raise RequestError(f"{nothing}: ask for a later one, or leave --without out")

    def attend_tokens(
        self, texts: Iterable[Tokens], request: Request = EVERYTHING, taps: Sequence[Tap] = ()
    ) -> Iterator[AttentionRecord]:
        """Yield a record of each text. Neighbours go through the network together. taps: as for `take`."""
        part = self.of_part(request.which)
        for taken in part.take(texts, request, taps):
            yield as_record(part, taken, request)

    def take(self, texts: Iterable[Tokens], request: Request = EVERYTHING, taps: Sequence[Tap] = ()) -> Iterator[Taken]:
        """Yield what a request asks for, for each text in their order, on the model's device.

        Texts are read ahead, so that those of near length go through the network together. taps: read or change blocks
        before the request's own taps read them; they know a text by its number among those that go together.
        """
        asked = self.asked(request)
        ready = (self.ready(one, request.target) for one in texts)
        for group in read_ahead(ready, len(asked.layers) * len(asked.heads), self.batch_tokens):
            taken: dict[int, Taken] = {}
            for numbers in batches(group, self.batch_tokens):
                batch = [group[number] for number in numbers]
                taken.update(zip(numbers, take_batch(self, batch, asked, request, taps), strict=True))
            for number in range(len(group)):
                yield taken.pop(number)  # whoever drops a record has its memory back

    def asked(self, request: Request) -> Asked:
        """Raises RequestError for a layer or a head that is not there."""
        layers = self.select_layers(request.layers)
        heads = select(request.heads, self.heads, "head")
        return Asked(layers, heads, select_heads(request.vectors, layers, heads, self.layers, self.heads))

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
        """What the checkpoint can say of a text, by name: "classes", "tokens", "span", "embedding", "words", "next", or
        what its family has besides. The first is the one that it is for; each is read when it is first called.
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
        """What the checkpoint says of a text, or of a pair: by the `output` of this name, by default by that of words
        where there is a [MASK], else by the first.

        Raises RequestError where the checkpoint has none, or not this one; and as `attend` does.
        """
        check_text("text", text, "predict each text by itself")
        check_optional_text("pair", pair)
        part = self.of_part(None)
        return predict(part, part.ready(self.tokenizer.encode(text, pair, pad_to)), output, mask)

    def embed(self, texts: Sequence[str]) -> Numbers:
        """Sentence embeddings, `[text, size]`, as sentence-transformers makes them.

        Raises RequestError where the checkpoint's files don't say how; and as `attend` does.
        """
        check_texts("texts", texts)
        return embed(self.of_part("encoder" if len(self.parts) > 1 else None), texts)


def tapped(engine: Engine, which: str | None = None) -> TappedModel | None:
    """Return a model as one of its parts if taps can look into it; else None."""
    return engine.of_part(which) if isinstance(engine, TappedModel) and engine.can_be_tapped else None


def check_every_layer(engine: Engine, which: str | None, what: str) -> None:
    """Raises RequestError where layers in between have no attention, for what needs that of every layer."""
    part = tapped(engine, which)
    if part is not None and len(there := part.select_layers("all")) < part.layers:
        raise RequestError(
            f"{what} needs the attention of every layer, and {part.place.name} has some in {number_list(there)} alone: "
            f"run -l {there[-1]} shows one of these"
        )


def require_tapped(model: object, which: str | None = None) -> TappedModel:
    """Return a model, as one of its parts, for code whose taps look into the network.

    Raises RequestError where nothing can be tapped, and TypeError for what is no model.
    """
    check_model(model)
    assert isinstance(model, Engine)
    if not isinstance(model, TappedModel):
        raise RequestError(f"{model.place.name} can't be tapped")
    return model.of_part(which)


NEURONS = 75_000  # numbers of q and k in a page of long texts, where nobody says of which heads: 0.2 MB
SHORT = 128  # tokens of a text, at most, all of whose heads bring their queries and keys
ALWAYS = 600_000  # of their numbers in a page, whose maps may be as many more


def under_masks(
    engine: Engine,
    inputs: Sequence[Input],
    request: Request,
    masks: Sequence[str | None],
    most: float,
    copies: float = 0,
    taps: Sequence[Tap] = (),
) -> Iterator[list[AttentionRecord]]:
    """Every text's records, one a mask, in the order of `masks`; a text is cut into tokens once.

    Of weights for which the request names no vectors, those heads bring theirs that `vectors_within` finds. Norms have
    none, nor has another engine. taps: as for `Model.take`.

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
        raise RequestError(f"{engine.place.name} can have one mask a page: its own")
    else:
        runs = [engine.answer(inputs, replace(request, mask=mask), together=True, copies=copies) for mask in masks]
    for records in zip(*runs, strict=True):
        yield list(records)


def vectors_within(model: TappedModel, texts: Sequence[Tokens], request: Request, most: float, masks: int = 1) -> str:
    """The heads, from the first on, whose queries and keys, with terms, are no more than `most` numbers under all these
    masks; one at least. Of SHORT texts they may be as many as their weights, and ALWAYS, which are all heads of BERT.

    Written as `Request.vectors` takes it.
    """
    layers = model.select_layers(request.layers)
    heads = select(request.heads, model.heads, "head")
    every = [f"{layer}.{head}" for layer in layers for head in heads]
    terms = max(sum(model.term_numbers(layer, text) for text in texts) for layer in layers)
    of_one = masks * (2 * sum(map(len, texts)) * model.head_dim + terms)
    if max(map(len, texts), default=0) <= SHORT:
        most = max(most, ALWAYS + masks * len(every) * sum(len(text) ** 2 for text in texts))
    return ",".join(every[: max(1, int(most / of_one))])
