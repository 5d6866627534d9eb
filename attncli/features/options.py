"""The options of features as plain data: names, help, and shell completion. `inputs` interprets them.

`--help` lists the options of a command in groups, in the feature's order; `--help-all` also lists `rare` ones. Every
kind of value has a short metavar (N, NAME, PATH).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from attncli.base import choices
from attncli.base.schema import LARGEST
from attncli.features import completion

if TYPE_CHECKING:
    from attncli.models import engine as models
    from attncli.record import AttentionRecord

    ModelOrName = models.Engine | str
    ModelOrRecord = models.Engine | str | AttentionRecord
else:  # the module of engines imports torch
    ModelOrName = ModelOrRecord = Any

GROUPS = TEXT, SELECTION, MODEL, OUTPUT, MORE = "Text", "Selection", "Model", "Output", "More"
STDIN = "-"  # as the name of a file


class Option(NamedTuple):
    """An option or an argument of a feature, as the command line shows it.

    names: its names, none for an argument. only_shown: it affects only the terminal, not --json or -o. kind: the type
    of its value on the command line, if Python callers may pass other types. not_saved: suffixes of files that it does
    not affect; only_saved: the only suffixes that it affects. needed: the command line requires it.
    """

    group: str
    names: tuple[str, ...]
    help: str
    metavar: str | None = None
    rare: bool = False
    complete: Callable[..., Any] | None = None
    least: float | None = None
    most: float | None = None
    show_default: bool | str = True
    only_shown: bool = False
    kind: Any = None
    not_saved: tuple[str, ...] = ()
    only_saved: tuple[str, ...] = ()
    needed: bool = False


def option_name(option: Option) -> str:
    """Return an option by its long name, and an argument by its metavar."""
    return str(option.metavar) if not option.names else max(option.names, key=lambda name: name.startswith("--"))


def argument(metavar: str, help: str, complete: Callable[..., Any] | None = None, **more: Any) -> Option:
    """Return an argument, which is listed in the first group. more: other fields of `Option`."""
    return Option(TEXT, (), help, metavar, complete=complete, show_default=False, **more)


def option(
    group: str, *names: str, help: str, min: float | None = None, max: float | None = None, **more: Any
) -> Option:
    """Return an option of a group.

    more: other fields of `Option`. With a minimum but no maximum, the maximum is LARGEST.
    """
    most = LARGEST if min is not None and max is None else max
    return Option(group, names, help, least=min, most=most, **more)


def choice(group: str, kind: Any, *names: str, help: str = "", **more: Any) -> Option:
    """Return an option that takes one name of a choice in `attncli.base.choices`. Its help ends with these names."""
    return option(group, *names, metavar="NAME", help=f"{help}{choices.one_of(kind)}.", **more)


def some_of(group: str, choice: Any, *names: str, **more: Any) -> Option:
    """Return an option that takes several names of a choice, separated by commas."""
    help, complete = f"Any of {', '.join(choices.names(choice))}.", completion.several(choice)
    return option(group, *names, metavar="NAMES", help=help, complete=complete, **more)


def layer(help: str, show_default: bool | str = True, **more: Any) -> Option:
    """Return the option that names layers, or one."""
    return option(SELECTION, "--layer", "-l", metavar="N", help=help, show_default=show_default, **more)


def head(help: str, show_default: bool | str = True, **more: Any) -> Option:
    """Return the option that names heads, or one."""
    return option(SELECTION, "--head", "-H", metavar="N", help=help, show_default=show_default, **more)


def model(help: str, metavar: str = "NAME", complete: Callable[..., Any] = completion.model, **more: Any) -> Option:
    """Return the option that names a model, or several."""
    return option(MODEL, "--model", "-m", metavar=metavar, help=help, complete=complete, **more)


def which(kind: Any, show_default: str) -> Option:
    """Return the option that names a part of an encoder-decoder."""
    about = "For an encoder-decoder: "
    return choice(SELECTION, kind, "--which", rare=True, help=about, show_default=show_default)


def top(help: str, rare: bool = False, **more: Any) -> Option:
    """Return the option for the number of rows that the terminal lists."""
    return option(OUTPUT, "--top", rare=rare, metavar="N", min=1, help=help, only_shown=True, **more)


def query(**more: Any) -> Option:
    """Return the option that names a query."""
    about = "The query: it, it#2 (the second it), or a number."
    return option(SELECTION, "--query", metavar="TOKEN", help=about, kind=str | None, **more)


def kinds(**more: Any) -> Option:
    """Return the option that names a file of kinds."""
    about = "Label heads with the kinds in FILE (attncli kinds -o FILE.json)."
    return option(OUTPUT, "--kinds", rare=True, metavar="FILE", help=about, **more)


def some_tokens(**more: Any) -> Option:
    """Return the option that chooses tokens of a long text."""
    about = "Only these tokens of a long text: 4000-4099."
    return option(SELECTION, "--tokens", rare=True, metavar="N", help=about, **more)


def vectors(help: str, **more: Any) -> Option:
    """Return the option that names heads whose q and k are kept."""
    return option(OUTPUT, "--vectors", rare=True, metavar="L.H", help=help, **more)


Text = Annotated[str | None, argument("TEXT", "The sentence. Without it: a sample.")]
TextsOption = Annotated[
    str | Sequence[str] | None,
    argument("TEXT", "The sentence. Without it: a sample.", kind=str | None),
]
PipedText = Annotated[str | None, argument("TEXT", "The sentence. Without it: stdin if piped, or a sample.")]
Pair = Annotated[str | None, option(TEXT, "--pair", metavar="TEXT", help="A second text: the model's second segment.")]
File = Annotated[str | None, option(TEXT, "--file", "-f", metavar="PATH", help="Texts, one per line; - is stdin.")]
Whole = Annotated[bool, option(TEXT, "--whole", rare=True, help="Read the file of -f as one text.")]
Saved = Annotated[Path | None, option(TEXT, "--from", metavar="PATH", help="A saved record; no model is run.")]
PadTo = Annotated[
    int | None,
    option(
        TEXT,
        "--pad-to",
        rare=True,
        metavar="N",
        help="Pad to N tokens: after the text, or before it on a decoder.",
    ),
]
Target = Annotated[
    str | None,
    option(
        TEXT,
        "--target",
        rare=True,
        metavar="TEXT",
        help="The output text of an encoder-decoder.",
        show_default="its own greedy output",
    ),
]
_LAYERS = "Layers, from 0: 3; 0,3; 0-3; -1, the last; all."
_HEADS = "Heads, in the same forms; or 3.1,4.7 with layers."
Numbers = str | int | Sequence[int]
Layers = Annotated[Numbers | None, layer(_LAYERS, kind=str | None)]
HeadsOption = Annotated[Numbers | Sequence[tuple[int, int]] | None, head(_HEADS, kind=str | None)]
ALayer = Annotated[int | str | None, layer("The layer, from 0; -1 is the last.", show_default="-1", kind=str | None)]
AHead = Annotated[
    int | str | None, head("The head, from 0; or 3.1, with its layer.", show_default="0", kind=str | None)
]
Query = Annotated[str | None, query()]
TermsOption = Annotated[
    bool, option(SELECTION, "--terms", rare=True, help="Show one head's scores, and what positions add to them.")
]
SomeTokens = Annotated[str | None, some_tokens()]


class TypedEdge(NamedTuple):
    """A query and a key as typed."""

    query: str
    key: str


Edges = Annotated[
    Sequence[tuple[str | int, str | int]] | None,
    option(
        SELECTION,
        "--cut",
        metavar="QUERY KEY",
        help="Cut this edge; * is any token. Can be repeated.",
        kind=list[TypedEdge] | None,
    ),
]
Words = Annotated[bool, option(SELECTION, "--words", rare=True, help="Merge pieces into words, as --unit word does.")]
Unit = Annotated[
    choices.UnitName | None,
    option(
        SELECTION,
        "--unit",
        metavar="NAME",
        help="The units of maps: token, word, line, sentence, part.",
        show_default=False,
    ),
]
LiveUnit = Annotated[
    choices.LiveUnit | None,
    choice(SELECTION, choices.LiveUnit, "--unit", help="The units of maps: ", show_default=False),
]
PartFiles = Annotated[
    Sequence[str] | None,
    option(
        TEXT,
        "--part",
        rare=True,
        metavar="NAME=FILE",
        help="A named part before the text. Can be repeated.",
        kind=list[str] | None,
    ),
]
Chat = Annotated[
    bool,
    option(TEXT, "--chat", rare=True, help="Use the chat template: TEXT is a message, or a .json file of messages."),
]
NoSpecial = Annotated[
    bool, option(SELECTION, "--no-special", help="Omit [CLS], [SEP], [PAD]; rows then sum to less than 1.")
]
Segments = Annotated[
    str,
    option(
        SELECTION,
        "--segments",
        rare=True,
        metavar="NAME",
        help="For a pair: AB, from the first text to the second; BA; AA; BB.",
        complete=completion.segments,
    ),
]
Which = Annotated[choices.KindName | None, which(choices.KindName, "cross")]
OwnWhich = Annotated[choices.Itself | None, which(choices.Itself, "encoder")]
ModelOption = Annotated[
    ModelOrName | None,
    model("Short name, Hub id or path.", kind=str | None, show_default="minilm"),
]
ModelOrSaved = Annotated[
    ModelOrRecord | None,
    model("Short name, Hub id or path.", kind=str | None, show_default="minilm"),
]
ModelNames = Annotated[
    str | None, model("Short name, Hub id or path; several: A,B.", "NAMES", completion.models, show_default="minilm")
]
AS_TRAINED = "as trained"
MaskOption = Annotated[
    choices.MaskName | None,
    option(
        MODEL,
        "--mask",
        metavar="NAME",
        help="What to hide: [PAD] (padding), also the future (causal), or nothing (none).",
        show_default=AS_TRAINED,
    ),
]
MasksOption = Annotated[str | None, some_of(MODEL, choices.MaskName, "--mask", show_default=AS_TRAINED)]
MeasureOption = Annotated[
    choices.MeasureName,
    option(
        MODEL,
        "--measure",
        rare=True,
        metavar="NAME",
        help="weight, or norm: the length of weight times transformed value (Kobayashi et al. 2020).",
        show_default="weight",
    ),
]
ENGINE = option(
    MODEL,
    "--engine",
    rare=True,
    metavar="NAME",
    help="What runs the model: attncli (BERT, GPT-2, Llama and their kin), transformers (any: T5, OPT ...), instant "
    "(attncli without torch, for short texts), or auto.",
    show_default="auto",
)
EngineOption = Annotated[choices.EngineName, ENGINE]
Without = Annotated[
    str | None,
    option(MODEL, "--without", rare=True, metavar="L.H", help="Silence heads: 3.1 or 4.0-3. Their output is 0."),
]
DEVICE = choice(
    MODEL,
    choices.DeviceName,
    "--device",
    rare=True,
    help="Where to compute: ",
    show_default="auto",
    complete=completion.device,
)
DTYPE = choice(MODEL, choices.DtypeName, "--dtype", rare=True, help="The data type: ", show_default="float32")
DeviceOption = Annotated[str, DEVICE]
DtypeOption = Annotated[choices.DtypeName, DTYPE]
# How a picture is printed, in every command that saves one (`attncli.cli.command`).
PRINTED = {
    "width": (
        str,
        option(
            OUTPUT,
            "--width",
            rare=True,
            metavar="LENGTH",
            help="Width in print: 8cm, 80mm, 227pt or 3.15in; a bare 3.15 is inches.",
        ),
    ),
    "font": (str, option(OUTPUT, "--font", rare=True, metavar="NAME", help="An installed font, for the picture.")),
    "font_size": (
        float,
        option(OUTPUT, "--font-size", rare=True, metavar="PT", help="Size of tokens in points, if there is room."),
    ),
    "title": (
        str,
        option(
            OUTPUT, "--title", rare=True, metavar="TEXT", help="Title of the picture; with --width, none by default."
        ),
    ),
    "dpi": (
        int,
        option(
            OUTPUT,
            "--dpi",
            rare=True,
            metavar="N",
            min=20,
            help="Resolution in dots per inch.",
            show_default="150; with --width 300",
        ),
    ),
}
SimilarTo = Annotated[
    str | None, option(TEXT, "--similar-to", metavar="TEXT", help="Measure the cosine with this text.")
]
Ask = Annotated[
    choices.QuestionKind | None, choice(TEXT, choices.QuestionKind, "--ask", rare=True, help="What to measure: ")
]
Label = Annotated[
    str | None, option(TEXT, "--target", metavar="LABEL", help="The label, or the word at [MASK], to measure.")
]
At = Annotated[
    str | None, option(TEXT, "--at", rare=True, metavar="TOKEN", help="The token whose label or word is measured.")
]
Task = Annotated[
    str | None,
    option(MODEL, "--task", rare=True, metavar="NAME", help="The output head: words, classes, tokens or span."),
]


class ComputeOptions(TypedDict, total=False):
    """The options for the device and the dtype of a model."""

    device: DeviceOption
    dtype: DtypeOption


class RowOptions(TypedDict, total=False):
    """The options of a measure of one head on one text."""

    pair: Pair
    file: File
    whole: Whole
    saved: Saved
    which: Which
    target: Target
    mask: MaskOption
    pad_to: PadTo
    device: DeviceOption
    dtype: DtypeOption


class _TextOptions(TypedDict, total=False):
    pair: Pair
    file: File
    whole: Whole
    part: PartFiles
    chat: Chat
    saved: Saved


class MapOptions(TypedDict, total=False):
    """The options of a measure that computes maps: the heads, and how to compute."""

    layer: Layers
    head: HeadsOption
    unit: Unit
    pad_to: PadTo
    measure: MeasureOption
    engine: EngineOption
    without: Without
    which: Which
    target: Target
    device: DeviceOption
    dtype: DtypeOption


class RecordOptions(_TextOptions, MapOptions, total=False):
    """The options of a measure that takes records: texts, heads and how to compute them, or a saved record."""


class _AskedOptions(TypedDict, total=False):
    pair: Pair
    similar_to: SimilarTo
    ask: Ask
    target: Label
    at: At
    task: Task
    mask: MaskOption
    device: DeviceOption
    dtype: DtypeOption


class AskedOptions(_AskedOptions, total=False):
    """The options of a measure that changes attention and measures an output: the output, and how to compute."""

    which: Which


class OwnAskedOptions(_AskedOptions, total=False):
    """The options of `AskedOptions`, for a measure of self-attention only."""

    which: OwnWhich
