"""The inputs of a feature: texts and a model, or a saved record.

Texts are TEXT, --pair and --file, stdin, or the sample sentence.
"""

import os
import select
import stat
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.base.choices import UnitName, check_optional_text, describe, each_text
from attncli.base.errors import Notice, RequestError
from attncli.base.printable import quoted
from attncli.features import options
from attncli.features.measure import no_effect
from attncli.features.options import STDIN as STDIN
from attncli.features.options import ModelOrName, ModelOrRecord
from attncli.models.opening import Opening
from attncli.models.parts import error_of_one_part, self_attention_part
from attncli.record.selection import TOKENS, Grouping, Heads, Input, Request, Selection, all_name_layers
from attncli.text.chats import Chat
from attncli.text.units import PartedText

if TYPE_CHECKING:
    from attncli.analysis.edges import Usual
    from attncli.base.typed import Unpack
    from attncli.effects.asking import Asking
    from attncli.models.engine import Engine
    from attncli.record import AttentionRecord

SAVED = "with --from, which reads a saved record"
PATIENCE = 1.0  # seconds before the program says that it waits for stdin

SAMPLE = "The trophy does not fit in the suitcase because it is too big."
MOST_BYTES = 20_000_000  # of texts kept in memory: about five million tokens, hours of work for a model


def read_inputs(
    text: str | None,
    pair: str | None,
    file: str | None,
    stdin: bool = False,
    sample: str = SAMPLE,
    whole: bool = False,
) -> list[Input]:
    """Return the texts, or the sample if none is given.

    stdin: read piped texts, if any, before falling back to the sample. whole: the file is one text, not one per line.

    Raises RequestError if a file can't be read, is empty or not UTF-8, for both TEXT and --file, or for `whole` without
    a file.
    """
    if text is not None and file is not None:
        raise RequestError("both a text and --file are given: omit one")
    if text is None and file is None and stdin and stdin_is_piped():
        file = STDIN
    if whole and file is None:
        raise RequestError("--whole has no effect without a file: give one with -f")
    if text is not None:
        if os.path.isfile(text):  # noqa: PTH113  (Path.is_file fails for what no file can be called)
            notify(f"{quoted(text)} is taken as the text: -f reads the file of that name")
        return [Input(text, pair)]
    if file is not None:
        return [Input(one, pair) for one in ([read_file(file)] if whole else read_lines(file))]
    notify(f'no text given; using this sample: "{sample}"')
    return [Input(sample, pair)]


def read_prompt(
    text: str | None,
    file: str | None = None,
    whole: bool = False,
    parts: Sequence[str] | None = None,
    chat: "Path | None" = None,
    sample: str = SAMPLE,
) -> PartedText:
    """Return the one text with its parts: files (NAME=FILE) put before it, messages of a chat, or tagged spans.

    chat: the folder of the model whose chat template is used. The text is then a user's message, or it names a .json of
    messages. sample: the text if none is given.

    Raises RequestError as `read_input` does, for parts of a chat, and as `PartedText` and `chat_text` do.
    """
    from attncli.models.chat import chat_text, read_chat

    if chat is not None:
        no_effect("with --chat, whose messages are its parts", part=parts)
        name = file if file is not None and text is None else text
        if name is not None and name.endswith(".json"):
            return chat_text(chat, read_chat(Path(name)))
    if parts is not None and text is None and file is None:
        return PartedText.joined([_named_file(one) for one in parts])
    one = read_input(text, None, file, whole, "give one as TEXT", sample=sample).text
    if chat is not None:
        return chat_text(chat, Chat.of_user(one))
    if parts is not None:
        return PartedText.joined([_named_file(part) for part in parts], one)
    return PartedText.tagged(one)


def read_parts(
    text: str | None,
    pair: str | None,
    file: str | None,
    whole: bool,
    parts: Sequence[str] | None,
    chat: "Path | None",
    unit: UnitName | None,
    sample: str = SAMPLE,
) -> PartedText | None:
    """Return the one text with its parts, as `read_prompt` does; None if no option asks for parts.

    Raises RequestError for a text without parts, and for a second text with a chat.
    """
    if chat is None and parts is None and unit != "part":
        return None
    if chat is not None:
        no_effect("with --chat, which is one text", pair=pair)
    parted = read_prompt(text, file, whole, parts, chat, sample=sample)
    if not parted.parts and chat is None:
        raise RequestError(
            'the text has no parts: put tags around them (<doc id="1"> ... </doc>), or give --part or --chat'
        )
    return parted


def _named_file(written: str) -> tuple[str, str]:
    """Return the name of a part and the text of its file, from NAME=FILE."""
    name, equals, file = written.partition("=")
    if not (name.strip() and equals and file):
        raise RequestError(f"--part takes NAME=FILE, as in --part notes=notes.txt; got {quoted(written)}")
    return name.strip(), read_file(file)


def read_input(
    text: str | None, pair: str | None, file: str | None, whole: bool, otherwise: str, sample: str = SAMPLE
) -> Input:
    """Return the one text, or the sample. Raises RequestError as `read_inputs` and `check_one` do."""
    inputs = read_inputs(text, pair, file, sample=sample, whole=whole)
    check_one(len(inputs), otherwise)
    return inputs[0]


def read_lines(name: str) -> list[str]:
    """Return the lines of a file, without empty ones. Raises RequestError as `read_file` does."""
    lines = [line.strip() for line in read_file(name).split("\n")]
    return [line for line in lines if line]


def read_file(name: str) -> str:
    """Return the text of a file, without newlines at its end. "-" is stdin.

    Raises RequestError as `read_inputs` does, and for more than MOST_BYTES.
    """
    shown = "stdin" if name == STDIN else name
    try:
        if name == STDIN:
            content = read_stdin()
        else:
            with Path(name).open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise RequestError(
                f"{shown} has more than {MOST_BYTES // 10**6} MB of text: shorten it (head -n 1000); "
                "attncli stats has no limit"
            )
        # utf-8-sig: editors on Windows put a byte order mark at the head of a file
        text = content.decode("utf-8-sig").replace("\r\n", "\n").rstrip("\n")
    except UnicodeDecodeError as error:
        raise RequestError(f"{shown} is not UTF-8 at byte {error.start}: convert it first") from error
    except (OSError, ValueError) as error:
        from attncli.text.samples import where_to_find

        why = f"{getattr(error, 'strerror', None) or error}{where_to_find(name)}"
        raise RequestError(f"can't read {shown}: {why}") from error
    if not text.strip():
        raise RequestError(f"{shown} has no text: put one text on each line")
    return text


def read_stdin() -> bytes:
    """Read stdin, up to one byte more than MOST_BYTES. Tell a user who waits that stdin is read."""
    with suppress(OSError, ValueError):  # stdin doesn't support select
        ready, _, _ = select.select([sys.stdin], [], [], PATIENCE)
        if not ready:
            notify("reading texts from stdin, one per line, until it ends")
    return sys.stdin.buffer.read(MOST_BYTES + 1)


def stdin_is_piped() -> bool:
    """Return whether stdin is a pipe, a file or a socket; not a terminal, and not /dev/null."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or replaced by a test
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def check_one(count: int, otherwise: str, lines: bool = True) -> None:
    """Raises RequestError unless there is one text.

    otherwise: what to do then. lines: whether texts are lines of a file.
    """
    if count != 1:
        whole = "; or use --whole to read the file as one text" if lines else ""
        raise RequestError(f"one text is needed, but {count} are given: {otherwise}{whole}")


def names_of(written: str) -> list[str]:
    """Split names at commas, each once. Raises RequestError if none is left."""
    names = list(dict.fromkeys(name.strip() for name in written.split(",") if name.strip()))
    if not names:
        raise RequestError("--model is empty: give a name")
    return names


def edge_names(edges: Sequence[tuple[str | int, str | int]]) -> list[tuple[str, str]]:
    """Return the names of queries and keys; a number is a position. Raises TypeError for anything but pairs."""
    given = list(edges) if isinstance(edges, Sequence) and not isinstance(edges, str) else [edges]
    for edge in given:
        pair = edge if isinstance(edge, Sequence) and not isinstance(edge, str) and len(edge) == 2 else [None]
        if not all(isinstance(name, (str, int)) for name in pair):
            raise TypeError(
                f'an edge is a pair of tokens, not {describe(edge)}: write ("it", "trophy") for query and key'
            )
    return [(str(query), str(key)) for query, key in given]


def notify(text: str) -> None:
    """Tell the user something: the command line prints it on stderr."""
    warnings.warn(text, Notice, stacklevel=3)


def notify_about(record: "AttentionRecord") -> "AttentionRecord":
    """Notify the user of stretches, chosen tokens and sinks in a record, and return it."""
    from attncli.record.display import notes

    for note in notes(record):
        notify(note)
    return record


def notify_sinks(engine: "Engine", which: str | None, measure: str) -> None:
    """Tell the user that rows sum to less than 1, if heads of the part that is counted have sinks."""
    from attncli.record.display import SINKS

    if engine.of_part(self_attention_part(engine, which)).has_sinks and measure == "weight":
        notify(f"{SINKS}; numbers cover only the weight on tokens")


# --- models ---------------------------------------------------------------------------------------------


def default_model(otherwise: str = "minilm") -> str:
    """Return the name of the model that is used if none is named."""
    return os.environ.get("ATTNCLI_MODEL") or otherwise


def opening_of(model: ModelOrName | None, **how: str | None) -> "Opening | Engine":
    """Return the opening of a named model, or the model that is already open.

    how: fields of `Opening`; None means not given. Raises RequestError for any `how` of an open model except `without`,
    and TypeError for anything but a model.
    """
    given = {name: value for name, value in how.items() if value is not None}
    if model is None or isinstance(model, str):
        return Opening(default_model() if model is None else model, **given)
    from attncli.models.engine import check_model

    check_model(model)
    without = given.pop("without", None)
    no_effect("on an open model", **given)
    return model if without is None else model.without(without)


def open_model(model: ModelOrName | None, engine: str | None = None, **how: str | None) -> "Engine":
    """Return the model, opened if it is not open yet. how: as for `opening_of`.

    Raises as `opening_of` and `Opening.open` do.
    """
    opening = opening_of(model, engine=None if engine == "auto" else engine, **how)
    return opening.open() if isinstance(opening, Opening) else opening


def open_tappable(opening: "Opening | Engine", which: str | None, answers: bool = False) -> "Engine":
    """Return the model as the part that --which names, for taps that look into it.

    answers: open it for records only (`Opening.open_for_answers`). Raises RequestError as `Opening.open` does, for
    --which on a model with one part, and if nothing can be tapped.
    """
    if not isinstance(opening, Opening):
        from attncli.models.engine import require_tapped

        return require_tapped(opening, which)
    if answers:
        return check_part(opening.open_for_answers(), which).of_part(which)
    return check_part(opening.open(), which).in_torch().of_part(which)


def layers_or(default: str, layer: "Selection | None", head: "Heads | None") -> "Selection":
    """Return the layers, or the default; "all" if none is given and every head names its layer."""
    return layer if layer is not None else "all" if all_name_layers(head) else default


def check_part(engine: "Engine", which: str | None) -> "Engine":
    """Return the model. Raises RequestError for --which on a model with one part."""
    if [which] == list(engine.parts):
        raise error_of_one_part(engine, "--which")
    return engine


# --- sources of records ---------------------------------------------------------------------------------


class RecordSource(ABC):
    """A source of records: texts and a model, or a saved record."""

    @abstractmethod
    def records(
        self, together: bool = False, copies: float = 0, stretches: bool | None = None
    ) -> "Iterator[AttentionRecord]":
        """Yield a record per text.

        together: whether the caller keeps all of them; copies: how many copies of their maps it makes then. stretches:
        whether to group long texts into stretches; None leaves that to the grouping.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of texts."""

    @property
    @abstractmethod
    def has_rows(self) -> bool:
        """Return True if its records have only some rows."""

    def usual(self, words: bool = False) -> "Usual | None":
        """Return the usual weights of the heads, over texts that come with the program; None without a model."""
        return None

    def single_record(self, otherwise: str, copies: float = 0) -> "AttentionRecord":
        """Return the one record. Raises RequestError for several texts: `otherwise` says what to do."""
        check_one(len(self), otherwise, lines=isinstance(self, Texts))
        [record] = self.records(copies=copies)
        return record


@dataclass(frozen=True)
class Texts(RecordSource):
    """Texts, a model (open, or to be opened) and the request to it."""

    inputs: Sequence[Input]
    opening: "Opening | Engine"
    request: Request

    def __post_init__(self) -> None:
        if self.request.target is not None and len(self.inputs) > 1:
            raise RequestError(f"--target needs one text, but {len(self.inputs)} are given: give one, or use --whole")

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def has_rows(self) -> bool:
        return self.request.grouping.queries is not None

    @cached_property
    def engine(self) -> "Engine":
        """The open model. Raises RequestError as `load_model` does."""
        return self.opening.open_for_answers() if isinstance(self.opening, Opening) else self.opening

    def records(
        self, together: bool = False, copies: float = 0, stretches: bool | None = None
    ) -> "Iterator[AttentionRecord]":
        request = replace(self.request, grouping=self.request.grouping.in_stretches(stretches))
        return self.engine.answer(self.inputs, request, together, copies)

    def usual(self, words: bool = False) -> "Usual | None":
        from attncli.corpus.usual import usual_of

        if self.request.grouping.long_units:
            return None
        return usual_of(self.engine, self.request, words or self.request.grouping.words)

    def asking(self, **changes: Any) -> "Texts":
        """Return the same texts with another request."""
        return replace(self, request=replace(self.request, **changes))


@dataclass(frozen=True)
class SavedRecords(RecordSource):
    """Records, or a file of them.

    layers, heads: None means all that they hold. last: with layers None, take the last layer.
    """

    saved: "Path | Sequence[AttentionRecord]"
    layers: "Selection | None"
    heads: "Heads | None"
    grouping: Grouping = TOKENS
    last: bool = False

    def __len__(self) -> int:
        return len(self.loaded)

    @property
    def has_rows(self) -> bool:
        return self.grouping.queries is not None or any(record.rows is not None for record in self.loaded)

    def records(
        self, together: bool = False, copies: float = 0, stretches: bool | None = None
    ) -> "Iterator[AttentionRecord]":
        """Yield its records. Raises RequestError if the file is not a record, or does not hold the selection."""
        from attncli.record.grouping import group_record

        for record in self.loaded:
            all_layers = record.pairs is not None or all_name_layers(self.heads)
            last = self.last and self.layers is None and not all_layers
            some = record.select([max(record.layers)] if last else self.layers, self.heads)
            yield group_record(some, self.grouping.in_stretches(stretches))

    @cached_property
    def loaded(self) -> "Sequence[AttentionRecord]":
        """The records."""
        from attncli.record.loading import load_records

        return load_records(self.saved) if isinstance(self.saved, Path) else self.saved


def record_source(
    model: ModelOrRecord | None,
    text: str | None,
    mask: str | None = None,
    layers: str = "all",
    grouping: Grouping = TOKENS,
    stdin: bool = False,
    more: Mapping[str, Any] | None = None,
    **given: "Unpack[options.RecordOptions]",
) -> SavedRecords | Texts:
    """Return the source of records: a record, a saved one, or texts with a request to the model.

    layers: the layers to compute without -l; in a saved record "-1" is the last that it holds. stdin: whether texts may
    be piped in. more: further fields of the request.

    Raises RequestError for an option that has no effect on a record or an open model, and as `read_inputs` does;
    TypeError for an unknown option.
    """
    from attncli.record import AttentionRecord

    named: dict[str, Any] = {**given}
    check_optional_text("text", text)
    check_optional_text("pair", named.get("pair"))
    layer, head, saved = (named.pop(name, None) for name in ("layer", "head", "saved"))
    last = layers == "-1"
    unit = named.pop("unit", None)
    if unit is not None:
        no_effect("with --unit, which already merges tokens", words=grouping.words)
    if isinstance(model, AttentionRecord):
        no_effect("on a record", saved=saved, text=text, mask=mask, **named)
        return SavedRecords([model], layer, head, saved_grouping(grouping, unit), last)
    if saved is not None:
        no_effect(SAVED, model=model, text=text, mask=mask, **named)
        return SavedRecords(Path(saved), layer, head, saved_grouping(grouping, unit), last)
    pair, file, whole, parts, chat = (named.pop(name, None) for name in ("pair", "file", "whole", "part", "chat"))
    how = {name: named.pop(name, None) for name in ("device", "dtype", "engine", "without")}
    opening = opening_of(model, **how)
    chosen, heads = layers_or(layers, layer, head), "all" if head is None else head
    grouping = replace(grouping, unit=unit or grouping.unit)
    if chat and isinstance(opening, Opening):  # its template is in the model's folder
        opening = opening.open_for_answers()
    folder = opening.place.path if chat and not isinstance(opening, Opening) else None
    parted = read_parts(text, pair, file, bool(whole), parts, folder, unit)
    grouping = replace(grouping, parted=parted)
    inputs = [Input(parted.text, pair)] if parted else read_inputs(text, pair, file, stdin, whole=bool(whole))
    request = Request(chosen, heads, mask, grouping=grouping, **named, **(more or {}))
    return Texts(inputs, opening, request)


def saved_grouping(grouping: Grouping, unit: UnitName | None) -> Grouping:
    """Return the units of a saved record. Raises RequestError for parts, which it does not have."""
    if unit == "part":
        raise RequestError(
            "a saved record does not know the parts of its text: run the model on the text, or use --unit sentence"
        )
    return grouping if unit is None else replace(grouping, unit=unit)


# --- texts whose attention is changed ------------------------------------------------------------------


@dataclass(frozen=True)
class AskedRun:
    """A model, texts whose attention is changed, the output to measure, and the units of the text."""

    opening: "Opening | Engine"
    texts: Sequence[str]
    asking: "Asking"
    grouping: Grouping = TOKENS

    @classmethod
    def of(
        cls,
        model: ModelOrName | None,
        text: str | Sequence[str] | None,
        file: str | None = None,
        whole: bool = False,
        unit: UnitName | None = None,
        part: Sequence[str] | None = None,
        chat: bool = False,
        **asked: "Unpack[options.AskedOptions]",
    ) -> "AskedRun":
        """Build the run from TEXT, a list of texts, a file or the sample. Units and parts need a single text.

        Raises RequestError as `read_inputs` does, and for the device of an open model; TypeError for anything but
        texts, and for an unknown option.
        """
        from attncli.effects.asking import Asking

        named: dict[str, Any] = {**asked}
        opening = opening_of(model, device=named.pop("device", None), dtype=named.pop("dtype", None))
        asking = Asking(**named)
        if unit is not None or part is not None or chat:
            check_optional_text("text", text)
            one = None if text is None else str(text)
            opening = open_tappable(opening, asking.which) if chat else opening
            folder = opening.place.path if chat and not isinstance(opening, Opening) else None
            parted = read_parts(one, asking.pair, file, whole, part, folder, unit)
            read = parted or read_input(one, asking.pair, file, whole, "give one as TEXT")
            return cls(opening, [read.text], asking, Grouping(unit=unit or "token", parted=parted))
        if text is None or isinstance(text, str):
            texts: Sequence[str] = [one.text for one in read_inputs(text, asking.pair, file, whole=whole)]
        else:
            if not isinstance(text, Sequence):
                raise TypeError(f"text is {describe(text)}: give a str, or a list of them")
            no_effect("with texts in a list", file=file, whole=whole)
            texts = list(each_text(text))
        return cls(opening, texts, asking)

    def one_text(self) -> str:
        """Return the text. Raises RequestError for several."""
        check_one(len(self.texts), "give one as TEXT")
        return self.texts[0]

    @cached_property
    def engine(self) -> "Engine":
        """The open model, as the part whose attention is changed. Raises RequestError as `open_tappable` does."""
        return open_tappable(self.opening, self.asking.which)
