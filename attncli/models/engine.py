"""Engine: runs a Request on attncli's own networks or those of transformers. Devices, memory limits and refusals."""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attncli.base import choices
from attncli.base.choices import check_instance, check_optional_text, check_text, check_texts
from attncli.base.errors import RequestError
from attncli.base.printable import printable, quoted
from attncli.models.config import ModelConfig
from attncli.models.families.family import NoEncoder
from attncli.models.hub import CONFIG_FILE, Place
from attncli.models.output import Numbers, Output, Prediction
from attncli.record.parts import ModelInfo
from attncli.record.record import AttentionRecord
from attncli.record.selection import TOKENS, Grouping, Input, NamedHeads, Request, Selection, inputs_of, select
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

# --- devices and dtypes --------------------------------------------------------------------------------


DTYPES = {name: getattr(torch, name) for name in choices.names(choices.Dtype)}


def pick_dtype(name: str) -> torch.dtype:
    """Return the dtype of this name. Raises RequestError for an unknown name."""
    choices.check("dtype", name, choices.Dtype)
    return DTYPES[name]


def pick_device(name: str) -> torch.device:
    """Return the device of this name; "auto" is a GPU if there is one. Raises RequestError if it is not available."""
    counts: dict[str, Callable[[], int]] = {
        "cuda": torch.cuda.device_count,
        "mps": lambda: int(torch.backends.mps.is_available()),
        "cpu": lambda: 1,
    }
    if name == "auto":
        name = next(kind for kind, count in counts.items() if count())
    kind = name.partition(":")[0]
    try:
        device = torch.device(name)
        count = counts[kind]()
    except (RuntimeError, KeyError) as error:
        raise RequestError(
            f"no device {quoted(name)}: it is one of {', '.join(choices.names(choices.Device))}"
        ) from error
    if (device.index or 0) >= count:
        raise RequestError(f"device {quoted(name)} is not on this machine; --device auto selects an available one")
    return device


# --- memory --------------------------------------------------------------------------------------------


MEMORY = Path("/proc/meminfo")
CGROUP, OLD_CGROUP = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")
SMALL = 2**28  # bytes that are never checked
RECORDED = 4  # bytes per weight in a record


def record_bytes(tokens: int, layers: int, heads: int, computed: int = RECORDED) -> int:
    """Return the memory of a record's maps: weights `[layer, head, query, key]` and masks `[layer, query, key]`.

    computed: bytes per weight during the computation; if it is not a record's, both copies exist.
    """
    weight = RECORDED if computed == RECORDED else RECORDED + computed
    return tokens**2 * layers * (heads * weight + 1)


def vector_bytes(tokens: int, heads: int, head_dim: int, terms: int) -> int:
    """Return the memory of the queries and keys of `heads` heads, and of `terms` score terms `[query, key]` each."""
    return heads * RECORDED * (2 * tokens * head_dim + terms * tokens**2)


def check_room(
    lengths: list[int], layers: int, heads: int, computed: int = RECORDED, vectors: int = 0, copies: float = 0
) -> None:
    """Raises RequestError if records of texts of these lengths, all in memory together, exceed the available memory.

    vectors: the bytes of their queries and keys. copies: how many copies of the maps the caller will make.
    """
    maps = sum(record_bytes(length, layers, heads, computed) for length in lengths)
    needed = maps + int(copies * sum(record_bytes(length, layers, heads) for length in lengths)) + vectors
    free = available() if needed > SMALL else None
    if free is None or needed <= free:
        return
    longest = max(lengths)
    drawn = " to draw" if copies else ""
    many = (
        f"{layers * heads} maps of {longest} tokens take" if layers * heads > 1 else f"1 map of {longest} tokens takes"
    )
    what = many if len(lengths) == 1 else f"maps of {len(lengths)} texts take"
    ways = [] if len(lengths) == 1 else ["fewer texts at a time"]
    if vectors > maps:
        what += ", with q and k,"
        ways.append("no q and k (--vectors, --terms)")
    if layers * heads > 1:
        one = giga(record_bytes(longest, 1, 1, computed))
        ways.append(f"some with -l and -H (-l 0 -H 0 takes {one} GB{'' if len(lengths) == 1 else ' a text'})")
    ways.append("stats, which keeps no maps" if ways else "a shorter text")
    raise RequestError(
        f"{what} {giga(needed)} GB{drawn} but {giga(free)} GB are available: request {', or '.join(ways)}"
    )


def giga(size: int) -> str:
    """Format bytes in gigabytes with the digits that matter: 71, 3.4, 0.02."""
    return f"{size / 1e9:.0f}" if size >= 9.5e9 else f"{size / 1e9:.{2 if size >= 1e9 else 1}g}"


def available() -> int | None:
    """Return the bytes of memory available without swapping, or the rest of a container's limit if that is less.

    None if the system does not report it.
    """
    known = [size for size in (system_room(), *map(cgroup_room, (CGROUP, OLD_CGROUP))) if size is not None]
    return min(known, default=None)


def system_room() -> int | None:
    if MEMORY.is_file():
        for line in MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


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


def why_no_encoder(place: Place) -> str | None:
    """Return why attncli has no encoder for a model; None if it has one.

    Raises RequestError if its configuration can't be read.
    """
    try:
        ModelConfig.from_file(place.path / CONFIG_FILE)
    except NoEncoder as error:
        return error.why
    return None


@contextmanager
def needing_own(name: str) -> Iterator[None]:
    """Add the model and the need for attncli's own network to any NoEncoder raised inside the block."""
    try:
        yield
    except NoEncoder as error:
        raise NoEncoder(error.why, no_network(name, error.why)) from error


def no_network(name: str, why: str) -> str:
    """Return the error text for code that needs attncli's own network of a model without one."""
    return f"{NEEDS_OWN}, but none exists for {name}: {why}. Use a model of the BERT family (attncli models lists some)"


def refuse_theirs(place: Place) -> RequestError:
    """Return the error for code that needs attncli's own network when transformers runs the model."""
    why = why_no_encoder(place)
    if why is None:
        return RequestError(f'{NEEDS_OWN}, but transformers runs {place.name}: load it without engine="transformers"')
    return RequestError(no_network(place.name, why))


def closed(what: str, place: Place, instead: str) -> RequestError:
    """Return the error for `what` in a network of transformers that never calls our attention function.

    instead: the advice if attncli has no encoder for the model either.
    """
    if why_no_encoder(place) is None:
        instead = "omit --engine transformers, so that attncli's own network provides them"
    return RequestError(
        f"{what}, but the network of {place.name} in transformers hides them (it calls no attention function "
        f"that can be replaced): {instead}"
    )


def only_maps(place: Place) -> str:
    """Return a notice that only maps are available from a network of transformers that never calls our attention
    function.
    """
    return (
        f"the network of {place.name} in transformers calls no attention function that can be replaced: "
        "attncli shows its maps and nothing else"
    )


# --- the engine ----------------------------------------------------------------------------------------


DTYPE_BYTES = {"float64": 8}  # per weight during the computation; CPUs compute half precision in float32
FORMER = "neurons"  # the name of `vectors` before version 0.2


class Engine(ABC):
    """A model with its tokenizer, ready to compute the attention of texts.

    name: "attncli" or "transformers". place: the location of the model. sha256: of its weights. tokenizer: cuts the
    model's input. device: computes. parts: its kinds of attention, as in `AttentionRecord.kind`.
    `attncli.models.opening.Opening.of` describes how to open it again in another process.
    """

    name: str
    place: Place
    sha256: str
    tokenizer: Tokenizer
    device: torch.device

    def __repr__(self) -> str:
        """<Model minilm: 6 layers x 12 heads, hidden 384, float32 on cpu>"""
        info = self.info
        size = f"{info.layers} layers x {info.heads} heads, hidden {info.hidden_size}"
        return f"<{type(self).__name__} {printable(info.shown)}: {size}, {self.dtype_name} on {self.device}>"

    @property
    @abstractmethod
    def parts(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def dtype_name(self) -> str:
        """Return the dtype of the computation as --dtype names it."""

    @property
    def silenced(self) -> list[tuple[int, int]]:
        """Return the heads, (layer, head), that `without` removed."""
        return []

    @abstractmethod
    def info_of(self, which: str | None) -> ModelInfo:
        """Return the model's description with the layers and heads of one part. None is the default part."""

    @abstractmethod
    def check(self, request: Request) -> None:
        """Raises RequestError for requests that this engine or model can't satisfy. No other place does."""

    def why_not(self, mask: str, kind: str) -> str | None:
        """Return why the engine can't apply a mask to one of the model's parts; None if it can."""
        return None

    @abstractmethod
    def attend_tokens(self, texts: Iterable[Tokens], request: Request) -> Iterator[AttentionRecord]:
        """Yield records as `answer` does, for tokens and a request that `check` has accepted."""

    @abstractmethod
    def hidden_states(self, tokens: Tokens, mask: str | None = None, positions: bool = True) -> list[Tensor]:
        """Return the vectors `[token, hidden_size]` of one text after the embeddings and after every layer of its
        reader.

        Without `positions` the network does not receive the order of the tokens. Raises RequestError if the engine
        can't apply this mask or can't omit positions.
        """

    def answer(
        self, inputs: Iterable[Input], request: Request, together: bool = False, copies: float = 0
    ) -> Iterator[AttentionRecord]:
        """Yield a record of each text in order.

        together: the caller keeps the records of all texts. copies: how many copies of their maps the caller makes.

        Raises RequestError as `check` does, for an empty text, and for a layer, head or length out of range. Also,
        before computing anything, if a record, or all together, would exceed the memory.
        """
        self.check(request)
        texts = self.tokenize(inputs, request.pad_to)
        groups: Iterable[Iterable[Tokens]] = [texts] if together else ([one] for one in texts)
        yield from self.attend_tokens(self.fitting(groups, request, copies=copies), request)

    def fitting(
        self, groups: Iterable[Iterable[Tokens]], request: Request, masks: int = 1, copies: float = 0
    ) -> Iterator[Tokens]:
        """Yield the texts of these groups after checking memory. The records of a group's texts are in memory together,
        under `masks` masks, with `copies` copies of their maps.

        Raises RequestError if they would exceed the memory (`attncli.models.engine`).
        """
        info = self.info_of(request.which)
        layers = len(select(request.layers, info.layers, "layer"))
        heads = len(select(request.heads, info.heads, "head"))
        for group in groups:
            texts = list(group)
            units = [self.kept_units(one, request) for one in texts] * masks
            vectors = masks * sum(self.vector_bytes(one, request) for one in texts)
            check_room(units, layers, heads, DTYPE_BYTES.get(self.dtype_name, RECORDED), vectors, copies)
            yield from texts

    def kept_units(self, tokens: Tokens, request: Request) -> int:
        """Return the number of units (tokens, words or stretches) on each axis of a text's maps."""
        return len(tokens)

    def vector_bytes(self, tokens: Tokens, request: Request) -> int:
        """Return the memory of the requested queries and keys of a text."""
        return 0

    def tokenize(self, inputs: Iterable[Input], pad_to: int | None) -> Iterator[Tokens]:
        """Yield the tokens of each input. Raises RequestError as `Tokenizer.encode` does."""
        for text, pair in inputs:
            yield self.tokenizer.encode(text, pair, pad_to)

    @abstractmethod
    def outputs(self) -> dict[str, Output]:
        """Return the checkpoint's outputs by name."""

    @abstractmethod
    def predict(self, *text: Any, **more: Any) -> Prediction:
        """Return the checkpoint's prediction for a text (`TappedModel.predict`)."""

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> Numbers:
        """Return sentence embeddings (`TappedModel.embed`)."""

    @abstractmethod
    def without(self, heads: NamedHeads) -> "Engine":
        """Return the same model with these heads silenced (`TappedModel.without`)."""

    @property
    def info(self) -> ModelInfo:
        return self.info_of(None)

    def mask_of(self, mask: str | None, which: str | None) -> str:
        """Return the name of the mask on self-attention; by default the one from the network's training."""
        if mask is not None:
            return mask
        return "causal" if self.kind(which) == "decoder" else "padding"

    def to_itself(self, which: str | None) -> str | None:
        """Return `Request.which` for code about self-attention: by default the encoder of an encoder-decoder.

        Raises RequestError for cross-attention.
        """
        if len(self.parts) == 1:
            return which
        if which == "cross":
            raise RequestError(
                "cross-attention is between two texts, but this needs self-attention: use --which encoder or decoder"
            )
        return which or self.parts[0]

    def writes(self, request: Request) -> bool:
        """Return True if a decoder must generate text before there are maps."""
        return False

    def kind(self, which: str | None) -> str:
        """Return the selected kind of self-attention. Raises RequestError as `to_itself` does."""
        return self.to_itself(which) or self.parts[0]

    def attend(
        self,
        text: str,
        pair: str | None = None,
        layers: Selection = "all",
        heads: Selection = "all",
        mask: str | None = None,
        pad_to: int | None = None,
        measure: str = "weight",
        vectors: NamedHeads = None,
        which: str | None = None,
        target: str | None = None,
        predict: bool = False,
        grouping: Grouping = TOKENS,
        **former: Any,
    ) -> AttentionRecord:
        """Return the attention of one text, or of a pair of texts.

        `attncli.Request` documents the other arguments. former: arguments under their names in version 0.1.

        Raises TypeError for a value that is no text, and RequestError as `answer` and `Request` do.
        """
        check_text("text", text, "use attend_many(texts) for several")
        check_optional_text("pair", pair)
        vectors = vectors if not former else renamed("attend", former)
        request = Request(layers, heads, mask, pad_to, measure, vectors, which, target, predict, grouping)
        return next(self.answer([Input(text, pair)], request))

    def attend_many(
        self,
        texts: Iterable[str],
        pairs: Iterable[str | None] | None = None,
        layers: Selection = "all",
        heads: Selection = "all",
        mask: str | None = None,
        pad_to: int | None = None,
        progress: bool = False,
        measure: str = "weight",
        vectors: NamedHeads = None,
        which: str | None = None,
        target: str | None = None,
        predict: bool = False,
        grouping: Grouping = TOKENS,
        **former: Any,
    ) -> Iterator[AttentionRecord]:
        """Yield the attention of many texts in order. Arguments and errors as for `attend`.

        progress: show a progress bar in a terminal or notebook. For a generator of texts it shows no total.
        """
        check_texts("texts", texts, "use attend(text) for one")
        if pairs is not None:
            check_texts("pairs", pairs, "give a second segment, or None, for each text")
        vectors = vectors if not former else renamed("attend_many", former)
        request = Request(layers, heads, mask, pad_to, measure, vectors, which, target, predict, grouping)
        records = self.answer(inputs_of(texts, pairs), request)
        yield from with_bar(records, texts) if progress else records


def check_model(model: object) -> None:
    """Raises TypeError unless `model` is a model, for example if it is a name."""
    check_instance("model", model, Engine, "open one with attncli.load_model(name)")


def with_bar(records: Iterator[AttentionRecord], texts: Iterable[str]) -> Iterable[AttentionRecord]:
    """Yield the records with a progress bar on stderr, one step per text."""
    from tqdm.auto import tqdm

    return tqdm(records, total=len(texts) if isinstance(texts, Sized) else None, unit=" texts")


def renamed(called: str, former: dict[str, Any]) -> NamedHeads:
    """Return `vectors` passed under its former name. Raises TypeError for any other name."""
    for name in former:
        if name != FORMER:
            raise TypeError(f"{called}() got an unexpected keyword argument {name!r}")
    warnings.warn(f"{FORMER} is called vectors now", DeprecationWarning, stacklevel=3)
    vectors: NamedHeads = former[FORMER]
    return vectors
