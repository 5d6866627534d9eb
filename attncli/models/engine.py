"""Engine: answers a Request, by attncli's own networks or those of transformers; devices, memory, refusals."""

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
from attncli.base.arguments import check_instance, check_optional_text, check_text, check_texts
from attncli.base.errors import RequestError
from attncli.base.printable import printable, quoted
from attncli.models.config import ModelConfig
from attncli.models.families.family import NoEncoder
from attncli.models.hub import CONFIG_FILE, Place
from attncli.models.output import Numbers, Output, Prediction
from attncli.record.parts import ModelInfo
from attncli.record.record import AttentionRecord
from attncli.record.request import TOKENS, Grouping, Input, Request, inputs_of
from attncli.record.selection import NamedHeads, Selection, select
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

# --- devices and dtypes --------------------------------------------------------------------------------


DTYPES = {name: getattr(torch, name) for name in choices.names(choices.Dtype)}


def pick_dtype(name: str) -> torch.dtype:
    """The dtype of this name. Raises RequestError when there is none."""
    choices.check("dtype", name, choices.Dtype)
    return DTYPES[name]


def pick_device(name: str) -> torch.device:
    """The device of this name; "auto" is a GPU where there is one. Raises RequestError for one that is not here."""
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
        raise RequestError(f"device {quoted(name)} is not on this machine; --device auto takes what there is")
    return device


# --- memory --------------------------------------------------------------------------------------------


MEMORY = Path("/proc/meminfo")
CGROUP, OLD_CGROUP = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")
SMALL = 2**28  # bytes that nobody asks about
RECORDED = 4  # bytes of a weight in a record


def record_bytes(tokens: int, layers: int, heads: int, computed: int = RECORDED) -> int:
    """What a record of so many maps takes: weights `[layer, head, query, key]` and masks `[layer, query, key]`.

    computed: bytes of a weight as it is computed; where these are not a record's, it is there twice.
    """
    weight = RECORDED if computed == RECORDED else RECORDED + computed
    return tokens**2 * layers * (heads * weight + 1)


def vector_bytes(tokens: int, heads: int, head_dim: int, terms: int) -> int:
    """What queries and keys of so many heads take, and so many terms of each of their scores, `[query, key]`."""
    return heads * RECORDED * (2 * tokens * head_dim + terms * tokens**2)


def check_room(
    lengths: list[int], layers: int, heads: int, computed: int = RECORDED, vectors: int = 0, copies: float = 0
) -> None:
    """Raises RequestError where records of texts of so many tokens, or units, all there at once, do not fit into
    memory.

    vectors: the bytes of their queries and keys; copies: how many of the maps whoever asks will make besides.
    """
    maps = sum(record_bytes(length, layers, heads, computed) for length in lengths)
    needed = maps + int(copies * sum(record_bytes(length, layers, heads) for length in lengths)) + vectors
    there = available() if needed > SMALL else None
    if there is None or needed <= there:
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
    raise RequestError(f"{what} {giga(needed)} GB{drawn} and there are {giga(there)}: ask for {', or '.join(ways)}")


def giga(size: int) -> str:
    """Bytes in gigabytes, with as many digits as matter: 71, 3.4, 0.02."""
    return f"{size / 1e9:.0f}" if size >= 9.5e9 else f"{size / 1e9:.{2 if size >= 1e9 else 1}g}"


def available() -> int | None:
    """Bytes of memory that can be had without swapping: the system's, or what is left of a container's limit if that is
    less. None where the system does not tell.
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
    """What a cgroup leaves, version 2 or 1: its limit less what is used and is no cache of files."""
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        try:
            most, now = (int((folder / name).read_text()) for name in (limit, used))
            fields = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # there is none, or its limit is "max"
            continue
        cached = int(fields.get("inactive_file", fields.get("total_inactive_file", 0)))
        return max(0, most - now + cached)
    return None


# --- refusals ------------------------------------------------------------------------------------------


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


# --- the engine ----------------------------------------------------------------------------------------


DTYPE_BYTES = {"float64": 8}  # of a map as it is computed; half precision is made in float32 on a CPU
FORMER = "neurons"  # what vectors were called before version 0.2


class Engine(ABC):
    """A model with its tokenizer, ready to be asked for the attention of texts.

    name: "attncli" or "transformers"; place: where the model lies; sha256: of its weights; tokenizer: cuts what the
    model is given to read; device: that it computes on. parts: the attentions that it has, in the words of
    `AttentionRecord.kind`. How it is opened again, in another process, is `attncli.models.opening.Opening.of` it.
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
        """What it computes in, as --dtype says it."""

    @property
    def silenced(self) -> list[tuple[int, int]]:
        """The heads, (layer, head), that `without` took out."""
        return []

    @abstractmethod
    def info_of(self, which: str | None) -> ModelInfo:
        """The model, with the layers and heads of one of its parts; None is the one that `Request.which` means then."""

    @abstractmethod
    def check(self, request: Request) -> None:
        """Raises RequestError for what this engine, or this model, can't do: the one place where that is said."""

    def why_not(self, mask: str, kind: str) -> str | None:
        """Why the engine does not put a mask on one of the model's parts; None where it does."""
        return None

    @abstractmethod
    def attend_tokens(self, texts: Iterable[Tokens], request: Request) -> Iterator[AttentionRecord]:
        """`answer` for texts that are tokens already, to a request that `check` lets pass."""

    @abstractmethod
    def hidden_states(self, tokens: Tokens, mask: str | None = None, positions: bool = True) -> list[Tensor]:
        """Of one text, the vectors `[token, hidden_size]` after the embeddings and after every layer of what reads it.

        Without `positions` the network is not told the order of the tokens. Raises RequestError where the engine can't
        put this mask on the network, or can't leave positions out.
        """

    def answer(
        self, inputs: Iterable[Input], request: Request, together: bool = False, copies: float = 0
    ) -> Iterator[AttentionRecord]:
        """A record of each text, in their order.

        together: whether whoever asks keeps the records of all texts; copies: how many of their maps are made then.

        Raises RequestError as `check` does; for an empty text; for a layer, head or length out of range; and, before
        anything is computed, where a record, or all of them together, would not fit into memory.
        """
        self.check(request)
        texts = self.tokenize(inputs, request.pad_to)
        groups: Iterable[Iterable[Tokens]] = [texts] if together else ([one] for one in texts)
        yield from self.attend_tokens(self.fitting(groups, request, copies=copies), request)

    def fitting(
        self, groups: Iterable[Iterable[Tokens]], request: Request, masks: int = 1, copies: float = 0
    ) -> Iterator[Tokens]:
        """The texts of these groups; the records of a group's texts, under so many masks, are there at once, and so
        many copies of their maps.

        Raises RequestError where they would not fit into memory (`attncli.models.engine`).
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
        """How many tokens, or what they are grouped to, stand along the axes of the maps that are there for a text."""
        return len(tokens)

    def vector_bytes(self, tokens: Tokens, request: Request) -> int:
        """What its queries and keys take, where the request asks for some."""
        return 0

    def tokenize(self, inputs: Iterable[Input], pad_to: int | None) -> Iterator[Tokens]:
        """Raises RequestError as `Tokenizer.encode` does."""
        for text, pair in inputs:
            yield self.tokenizer.encode(text, pair, pad_to)

    @abstractmethod
    def outputs(self) -> dict[str, Output]:
        """Return what the checkpoint can say of a text, by name."""

    @abstractmethod
    def predict(self, *text: Any, **more: Any) -> Prediction:
        """Return what the checkpoint says of a text (`TappedModel.predict`)."""

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
        """Return the name of a mask on a text's attention to itself; None is the one that it was trained with."""
        if mask is not None:
            return mask
        return "causal" if self.kind(which) == "decoder" else "padding"

    def to_itself(self, which: str | None) -> str | None:
        """`Request.which` for whoever looks at a text's attention to itself: of an encoder-decoder its encoder, unless
        its decoder is asked for.

        Raises RequestError for cross-attention.
        """
        if len(self.parts) == 1:
            return which
        if which == "cross":
            raise RequestError(
                "cross-attention leads into another text, and this is about one: --which encoder or decoder"
            )
        return which or self.parts[0]

    def writes(self, request: Request) -> bool:
        """Whether a decoder has to write something before the maps are there."""
        return False

    def kind(self, which: str | None) -> str:
        """Which of its attentions is meant, of a text to itself. Raises RequestError as `to_itself` does."""
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
        """The attention of one text, or of a pair of texts.

        `attncli.Request` says what the other arguments mean. former: arguments by the names of version 0.1.

        Raises TypeError for what is no text, and RequestError as `answer` and `Request` do.
        """
        check_text("text", text, "attend_many(texts) takes several, and gives a record of each")
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
        """The attention of many texts, in their order. Arguments and errors as for `attend`.

        progress: show how far it is, in a terminal as in a notebook; of a generator's texts without how many there are.
        """
        check_texts("texts", texts, "attend(text) takes one")
        if pairs is not None:
            check_texts("pairs", pairs, "give a second segment, or None, for each text")
        vectors = vectors if not former else renamed("attend_many", former)
        request = Request(layers, heads, mask, pad_to, measure, vectors, which, target, predict, grouping)
        records = self.answer(inputs_of(texts, pairs), request)
        yield from with_bar(records, texts) if progress else records


def check_model(model: object) -> None:
    """Raises TypeError for what is no model, such as its name."""
    check_instance("model", model, Engine, "open one with attncli.load_model(name)")


def with_bar(records: Iterator[AttentionRecord], texts: Iterable[str]) -> Iterable[AttentionRecord]:
    """The same records, one a text, with a bar on stderr."""
    from tqdm.auto import tqdm

    return tqdm(records, total=len(texts) if isinstance(texts, Sized) else None, unit=" texts")


def renamed(called: str, former: dict[str, Any]) -> NamedHeads:
    """The vectors asked for, by their former name. Raises TypeError for another name."""
    for name in former:
        if name != FORMER:
            raise TypeError(f"{called}() got an unexpected keyword argument {name!r}")
    warnings.warn(f"{FORMER} is called vectors now", DeprecationWarning, stacklevel=3)
    vectors: NamedHeads = former[FORMER]
    return vectors
