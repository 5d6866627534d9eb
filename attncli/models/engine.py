"""Run a Request on attncli's own networks or those of transformers. Refuse what is impossible or exceeds the memory."""

import os
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.base.choices import check_instance, check_optional_text, check_text, check_texts
from attncli.base.errors import Notice, RequestError
from attncli.base.printable import printable
from attncli.models.block import Tap
from attncli.models.checkpoint_files import CONFIG_FILE, Place
from attncli.models.config import ModelConfig
from attncli.models.families.family import NoOwnNetwork
from attncli.models.rows import batches, read_ahead
from attncli.models.taken import TextResult, as_record, select_in, take_batch
from attncli.models.walk import Predictor, Walker
from attncli.record.grouping import LONG, axes_of
from attncli.record.record import AttentionRecord
from attncli.record.selection import (
    TOKENS,
    Grouping,
    Heads,
    Input,
    NamedHeads,
    Request,
    Selection,
    inputs_of,
    number_list,
    select_heads,
)
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from attncli.models.answers import OutputValues, Prediction
    from attncli.models.output import Output

# --- memory --------------------------------------------------------------------------------------------


_MEMORY = Path("/proc/meminfo")
CGROUP, OLD_CGROUP = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")
SMALL = 2**28  # bytes that are never checked
_RECORDED = 4  # bytes per weight in a record


def record_bytes(cells: int, layers: int, heads: int, computed: int = _RECORDED) -> int:
    """Return the memory of a record's maps: weights `[layer, head, query, key]` and masks `[layer, query, key]`.

    cells: queries times keys. computed: bytes per weight during the computation. If a record has another number, both
    copies exist.
    """
    weight = _RECORDED if computed == _RECORDED else _RECORDED + computed
    return cells * layers * (heads * weight + 1)


def vector_bytes(tokens: int, heads: int, head_dim: int, terms: int) -> int:
    """Return the memory of the queries and keys of `heads` heads, and of `terms` score terms `[query, key]` each."""
    return heads * _RECORDED * (2 * tokens * head_dim + terms * tokens**2)


def check_room(
    sizes: Sequence[tuple[int, int]],
    layers: int,
    heads: int,
    computed: int = _RECORDED,
    vectors: int = 0,
    copies: float = 0,
    advice: str | None = None,
    beside: int = 0,
) -> None:
    """Raises RequestError if records of texts of these sizes, all in memory together, exceed the available memory.

    sizes: the queries and keys of each text. vectors: the bytes of their queries and keys. copies: how many copies of
    the maps the caller will make. advice: the fix to suggest, if the command has no -l and -H. beside: the bytes of the
    masks that the network itself builds.
    """
    cells = sum(queries * keys for queries, keys in sizes)
    maps = record_bytes(cells, layers, heads, computed)
    needed = maps + int(copies * record_bytes(cells, layers, heads)) + vectors + beside
    free = available() if needed > SMALL else None
    if free is None or needed <= free:
        return
    queries, longest = max(sizes, key=lambda size: size[0] * size[1])
    drawn = " to draw" if copies else ""
    tokens = f"{longest} tokens" if queries == longest else f"{queries} x {longest} tokens"
    many = f"{layers * heads} maps of {tokens} take" if layers * heads > 1 else f"1 map of {tokens} takes"
    what = many if len(sizes) == 1 else f"maps of {len(sizes)} texts take"
    ways = [] if len(sizes) == 1 else ["fewer texts at a time"]
    if beside > maps:
        advice = "the network of transformers builds masks of all queries and keys; request a shorter text"
    if vectors > maps:
        what += ", with q and k,"
        ways.append("no q and k (--vectors, --terms)")
    if layers * heads > 1:
        one = _giga(record_bytes(queries * longest, 1, 1, computed))
        ways.append(f"some with -l and -H (-l 0 -H 0 takes {one} GB{'' if len(sizes) == 1 else ' a text'})")
    last = "stats, which keeps no maps" if ways else "a shorter text"
    ways += [*(["the rows of some tokens (run --query LAST)"] if queries == longest > LONG else []), last]
    advice = advice or f"request {', or '.join(ways)}"
    raise RequestError(f"{what} {_giga(needed)} GB{drawn} but {_giga(free)} GB are available: {advice}")


def _giga(size: int) -> str:
    """Format bytes in gigabytes with the digits that matter: 71, 3.4, 0.02."""
    return f"{size / 1e9:.0f}" if size >= 9.5e9 else f"{size / 1e9:.{2 if size >= 1e9 else 1}g}"


def available() -> int | None:
    """Return the bytes of memory available without swapping, or what is left of a container's limit if that is less.

    None if the system does not report it.
    """
    lines = _MEMORY.read_text().splitlines() if _MEMORY.is_file() else []
    system = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    if system is None:
        with suppress(AttributeError, OSError, ValueError):
            system = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    known = [size for size in (system, *map(cgroup_room, (CGROUP, OLD_CGROUP))) if size is not None]
    return min(known, default=None)


def cgroup_room(folder: Path) -> int | None:
    """Return the memory left in a cgroup, version 2 or 1: its limit minus used memory that is not file cache."""
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        try:
            most, now = (int((folder / name).read_text()) for name in (limit, used))
            fields = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # no cgroup, or its limit is "max"
            continue
        cached = int(fields.get("inactive_file", fields.get("total_inactive_file", 0)))
        return max(0, most - now + cached)
    return None


# --- refusals ------------------------------------------------------------------------------------------


NEEDS_OWN = "this needs attncli's own network"


def check_own(place: Place) -> None:
    """Raises RequestError if attncli has no network for a model, or the configuration can't be read."""
    try:
        ModelConfig.from_file(place.path / CONFIG_FILE)
    except NoOwnNetwork as error:
        use = "Use a model that attncli models lists"
        raise RequestError(f"{NEEDS_OWN}, but none exists for {place.name}: {error.why}. {use}") from error


# --- the engine ----------------------------------------------------------------------------------------


_DTYPE_BYTES = {"float64": 8}  # per weight during the computation; CPUs compute half precision in float32
_ALL = Request()


class Engine(Walker):
    """A model with its tokenizer, ready to compute the attention of texts. It answers requests with taps.

    name: "attncli", "transformers" or "instant". place: the location of the model. sha256: of its weights. tokenizer:
    splits texts. device: where it computes. parts: its kinds of attention, as in `AttentionRecord.kind`.
    `attncli.models.opening.Opening.of` describes how to open the model again in another process.
    """

    name: str
    mask_bytes = 0  # bytes per query and key of a text, in masks that its network builds
    writes = False  # True if a decoder must generate text before there are maps

    def __repr__(self) -> str:
        """<Model minilm: 6 layers x 12 heads, hidden 384, float32 on cpu>"""
        info = self.info
        size = f"{info.layers} layers x {info.heads} heads, hidden {info.hidden_size}"
        return f"<{type(self).__name__} {printable(info.full_name)}: {size}, {self.dtype_name} on {self.device}>"

    # --- the model and its parts

    @property
    @abstractmethod
    def parts(self) -> tuple[str, ...]: ...

    @abstractmethod
    def of_part(self, which: str | None) -> "Engine":
        """Return the model restricted to one of its parts, whose blocks are offered to taps. None is the default part.

        Raises RequestError for a missing part.
        """

    @abstractmethod
    def silencing(self, heads: Sequence[tuple[int, int]]) -> "Engine":
        """Return the model with these heads silenced, and no others."""

    def without(self, heads: NamedHeads) -> "Engine":
        """Return the model with these heads silenced, "3.1" or [(3, 1)]: their outputs are 0. It shares the weights.

        Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3.

        Raises RequestError for a missing head, and for an empty selection.
        """
        part = self.of_part(None)
        named = select_heads(heads, None, part.layers, part.heads)
        if not named:
            raise RequestError("--without selects no head: omit it, or write 3.1")
        return self.silencing(sorted({*self.silenced_heads, *named}))

    def in_torch(self) -> "Engine":
        """Return the model in torch, for gradients or access to its parameters; itself if it is in torch."""
        return self

    # --- tokens

    def ready(self, tokens: Tokens, target: str | None = None, answer: bool = False) -> Tokens:
        """Return the query tokens of the part, with the tokens of the other half of an encoder-decoder.

        target: the text that the decoder must write; by default its own output. answer: for an encoder, add the
        decoder's input, so that the last vectors are the decoder's output.
        """
        return tokens

    # --- requests

    def attend(
        self,
        text: str,
        pair: str | None = None,
        layers: Selection = "all",
        heads: Heads = "all",
        mask: str | None = None,
        pad_to: int | None = None,
        measure: str = "weight",
        vectors: NamedHeads = None,
        which: str | None = None,
        target: str | None = None,
        predict: bool = False,
        grouping: Grouping = TOKENS,
    ) -> AttentionRecord:
        """Return the attention of one text, or of a pair of texts.

        `attncli.Request` documents the other arguments.

        Raises TypeError for a value that is not text, and RequestError as `answer` and `Request` do.
        """
        check_text("text", text, "use attend_many(texts) for several")
        check_optional_text("pair", pair)
        request = Request(layers, heads, mask, pad_to, measure, vectors, which, target, predict, grouping)
        return next(self.answer([Input(text, pair)], request))

    def attend_many(
        self,
        texts: Iterable[str],
        pairs: Iterable[str | None] | None = None,
        layers: Selection = "all",
        heads: Heads = "all",
        mask: str | None = None,
        pad_to: int | None = None,
        progress: bool = False,
        measure: str = "weight",
        vectors: NamedHeads = None,
        which: str | None = None,
        target: str | None = None,
        predict: bool = False,
        grouping: Grouping = TOKENS,
    ) -> Iterator[AttentionRecord]:
        """Yield the attention of many texts in order. Arguments and errors as for `attend`.

        progress: show a progress bar in a terminal or notebook. For a generator of texts it shows no total.
        """
        check_texts("texts", texts, "use attend(text) for one")
        if pairs is not None:
            check_texts("pairs", pairs, "give a second segment, or None, for each text")
        request = Request(layers, heads, mask, pad_to, measure, vectors, which, target, predict, grouping)
        records: Iterable[AttentionRecord] = self.answer(inputs_of(texts, pairs), request)
        if progress:
            from tqdm.auto import tqdm

            records = tqdm(records, total=len(texts) if isinstance(texts, Sized) else None, unit=" texts")
        yield from records

    def answer(
        self, inputs: Iterable[Input], request: Request, together: bool = False, copies: float = 0
    ) -> Iterator[AttentionRecord]:
        """Yield a record of each text in order.

        together: the caller keeps the records of all texts. copies: how many copies of their maps the caller makes.

        Raises RequestError as `check` does, for an empty text, and for a layer, head or length out of range. Also,
        before computing anything, if a record, or all together, would exceed the memory.
        """
        self.check(request)
        texts = self.tokenizer.encode_each(inputs, request.pad_to, request.grouping.marked)
        groups: Iterable[Iterable[Tokens]] = [texts] if together else ([one] for one in texts)
        yield from self.attend_tokens(check_memory(self, groups, request, copies=copies), request)

    def check(self, request: Request) -> None:
        """Raises RequestError for requests that this engine or model can't satisfy. All these checks are here."""
        if request.measure == "norm" and request.vectors not in (None, "none"):
            raise RequestError("q and k belong to weights, not norms: omit --vectors, --terms or --measure norm")
        if self.silenced_heads:
            part = self.of_part(request.which)
            last = max(request.choose(part.select_layers, part.heads).layers)
            if min(self.silenced_heads)[0] >= last and not (
                request.predict and any(one.kind != "embedding" for one in part.outputs().values())
            ):
                nothing = f"{part.info.changes} nothing changes in layers up to {last}"
                raise RequestError(f"{nothing}: request a later layer, or omit --without")
        if request.predict:  # warn of each prediction that is missing although config.json names its task
            refused = self.refused_outputs
            for name in (name for name in ("heads", "classes", "tokens", "span") if name in refused):
                warnings.warn(f"no prediction: {refused[name]}", Notice, stacklevel=3)

    def attend_tokens(
        self, texts: Iterable[Tokens], request: Request = _ALL, taps: Sequence[Tap] = ()
    ) -> Iterator[AttentionRecord]:
        """Yield a record of each text. Neighbouring texts share batches. taps: as for `take`."""
        part = self.of_part(request.which)
        for taken in part.take(texts, request, taps):
            yield as_record(part, taken, request)

    def take(self, texts: Iterable[Tokens], request: Request = _ALL, taps: Sequence[Tap] = ()) -> Iterator[TextResult]:
        """Yield the requested results for each text in order, on the model's device.

        Texts are read ahead, so that those of similar length share batches. taps: read or change blocks before the
        request's own taps. They identify a text by its number in the batch.
        """
        asked = select_in(self, request)
        ready = (self.ready(one, request.target) for one in texts)
        for group in read_ahead(ready, len(asked.layers) * len(asked.heads), self.batch_tokens):
            taken: dict[int, TextResult] = {}
            for numbers in batches(group, self.batch_tokens):
                batch = [group[number] for number in numbers]
                taken.update(zip(numbers, take_batch(self, batch, asked, request, taps), strict=True))
            for number in range(len(group)):
                yield taken.pop(number)  # so that the caller can free its memory

    # --- outputs

    @property
    def refused_outputs(self) -> Mapping[str, str]:
        """Return why the checkpoint lacks outputs that its files name, by their names."""
        return self.available_outputs.refused

    def outputs(self) -> "dict[str, Output]":
        """Return the checkpoint's outputs by name: "classes", "tokens", "span", "embedding", "words", "next", or others
        of its family.

        The first is its main output. Each is read when it is first called.
        """
        return dict(self.available_outputs.outputs)

    def predictor(self, texts: Sequence[Tokens]) -> Predictor | None:
        from attncli.models.outputs import find_answering, predict_texts

        return partial(predict_texts, self, texts) if any(find_answering(self, tokens) for tokens in texts) else None

    def predict(
        self,
        text: str,
        pair: str | None = None,
        output: str | None = None,
        mask: str | None = None,
        pad_to: int | None = None,
    ) -> "Prediction":
        """Return the prediction for a text or a pair from the output of this name.

        By default, that is "words" if there is a [MASK], else the first output. Raises RequestError if the checkpoint
        does not have the output, and as `attend` does.
        """
        check_text("text", text, "predict each text separately")
        check_optional_text("pair", pair)
        part = self.in_torch().of_part(None)
        from attncli.models.outputs import predict

        return predict(part, part.ready(self.tokenizer.encode(text, pair, pad_to)), output, mask)

    def embed(self, texts: Sequence[str]) -> "OutputValues":
        """Return sentence embeddings, `[text, size]`, as sentence-transformers computes them.

        Raises RequestError if the checkpoint's files do not define them, and as `attend` does.
        """
        check_texts("texts", texts)
        from attncli.models.outputs import embed

        return embed(self.in_torch().of_part("encoder" if len(self.parts) > 1 else None), texts)


def check_memory(
    engine: Engine, groups: Iterable[Iterable[Tokens]], request: Request, masks: int = 1, copies: float = 0
) -> Iterator[Tokens]:
    """Yield the texts of these groups after checking memory.

    The records of a group's texts are in memory together, once per mask (`masks`), with `copies` copies of their maps.

    Raises RequestError if they would exceed the memory (`attncli.models.engine`).
    """
    info = engine.of_part(request.which).info
    layers, heads, _ = request.choose_in(info.layers, info.heads)
    grouping = request.grouping
    if len(engine.parts) > 1:  # the queries may be of a text that is not written yet
        grouping = replace(grouping, queries=None)
    for group in groups:
        texts = list(group)
        sizes, vectors = [], 0
        for one in texts:
            part, axes = engine.of_part(request.which), axes_of(grouping, one)
            sizes += [(len(axes.queries), len(axes.keys))] * masks
            kept = select_in(part, request).vectors if axes.are_tokens else []
            terms = max((len(part.term_names(layer)) for layer, _ in kept), default=0)
            vectors += masks * vector_bytes(len(one), len(kept), part.head_dim, terms)
        computed = _DTYPE_BYTES.get(engine.dtype_name, _RECORDED)
        beside = engine.mask_bytes * max((len(one) for one in texts), default=0) ** 2
        check_room(sizes, len(layers), len(heads), computed, vectors, copies, beside=beside)
        yield from texts


def check_model(model: object) -> None:
    """Raises TypeError if `model` is not a model, for example a name."""
    check_instance("model", model, Engine, "open one with attncli.load_model(name)")


# --- models that taps can observe ------------------------------------------------------------------------


def check_every_layer(engine: Engine, which: str | None, what: str) -> None:
    """Raises RequestError if any layer has no attention, for code that needs the attention of every layer."""
    part = engine.of_part(which)
    if len(layers := part.select_layers("all")) < part.layers:
        raise RequestError(
            f"{what} needs the attention of every layer, but {part.place.name} has it only in {number_list(layers)}: "
            f"run -l {layers[-1]} shows one of these"
        )


def require_tapped(model: object, which: str | None = None) -> Engine:
    """Return a model, restricted to one of its parts, for code that uses taps.

    Raises RequestError for a missing part, and TypeError for anything but a model.
    """
    check_model(model)
    assert isinstance(model, Engine)
    return model.in_torch().of_part(which)


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

    If the request is for weights and names no vectors, the heads that `vectors_within` selects keep theirs. Norms have
    no vectors. taps: as for `Model.take`.

    Raises RequestError as the engine does.
    """
    part = engine.of_part(request.which)
    engine.check(request)
    texts = [
        part.ready(one, request.target)
        for one in engine.tokenizer.encode_each(inputs, request.pad_to, request.grouping.marked)
    ]
    yield from tokens_under_masks(part, texts, request, masks, most, copies, taps)


def tokens_under_masks(
    part: Engine,
    texts: Sequence[Tokens],
    request: Request,
    masks: Sequence[str | None],
    most: float,
    copies: float = 0,
    taps: Sequence[Tap] = (),
) -> Iterator[list[AttentionRecord]]:
    """Yield the records of tokenized texts as `under_masks` does."""
    if request.vectors is None and request.measure == "weight":
        request = replace(request, vectors=vectors_within(part, texts, request, most, len(masks)))
    texts = list(check_memory(part, [texts], request, len(masks), copies))
    runs = [part.attend_tokens(texts, replace(request, mask=mask), taps) for mask in masks]
    for records in zip(*runs, strict=True):
        yield list(records)


def vectors_within(model: Engine, texts: Sequence[Tokens], request: Request, most: float, masks: int = 1) -> str:
    """Return the first heads, at least one, whose q, k and terms have at most `most` elements under all these masks.

    For texts of at most SHORT tokens, they may have as many elements as the weights plus ALWAYS, which allows all heads
    of BERT. The result is written as in `Request.vectors`.
    """
    choice = request.choose(model.select_layers, model.heads)
    every = [f"{layer}.{head}" for layer, head in choice.each]
    terms = max(sum(model.term_numbers(layer, text) for text in texts) for layer in choice.layers)
    of_one = masks * (2 * sum(map(len, texts)) * model.head_dim + terms)
    if max(map(len, texts), default=0) <= SHORT:
        most = max(most, ALWAYS + masks * len(every) * sum(len(text) ** 2 for text in texts))
    return ",".join(every[: max(1, int(most / of_one))])
