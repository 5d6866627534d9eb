"""The options that commands share: names, help, and what the shell completes. What they mean is in `source`.

`--help` lists the options of a command in groups, in the order in which the command has them; `rare` ones are listed by
`--help-all` (`attncli.cli.help`). For every value there is a short name that is ours (N, NAME, PATH).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from attncli.base import choices
from attncli.base.schema import LARGEST
from attncli.cli import output
from attncli.features import completion

GROUPS = TEXT, SELECTION, MODEL, OUTPUT, MORE = "Text", "Selection", "Model", "Output", "More"


from attncli.cli.command import adapted  # noqa: E402


def argument(metavar: str, help: str, complete: Callable[..., Any] | None = None) -> Any:
    """What a command is about, in the first group."""
    return typer.Argument(
        metavar=metavar, help=help, show_default=False, autocompletion=adapted(complete), rich_help_panel=TEXT
    )


def option(
    group: str, *names: str, rare: bool = False, complete: Callable[..., Any] | None = None, **others: Any
) -> Any:
    """An option of a group. complete: what gives its values to the shell; without it they are files, or a choice's.

    A number that has a least has a most too: what it counts fits a list, and a float.
    """
    if "min" in others:
        others.setdefault("max", LARGEST)
    return typer.Option(*names, rich_help_panel=group, hidden=rare, autocompletion=adapted(complete), **others)


def choice(group: str, kind: Any, *names: str, help: str = "", rare: bool = False) -> Any:
    """An option that takes one of the names of a choice in `attncli.base.choices`, with which its help ends."""
    return option(group, *names, rare=rare, metavar="NAME", help=f"{help}{one_of(kind)}.")


def one_of(kind: Any) -> str:
    """ "weight or norm" """
    *others, last = choices.names(kind)
    return f"{', '.join(others)} or {last}"


def into(help: str) -> Any:
    """The option that names the file a command writes."""
    return option(OUTPUT, "--output", "-o", metavar="PATH", help=help)


def vectors(help: str) -> Any:
    """The option that names heads whose q and k are wanted; `neurons` is what it was called up to version 0.1."""
    return option(OUTPUT, "--vectors", "--neurons", rare=True, metavar="L.H", help=help)


Text = Annotated[str | None, argument("TEXT", "The sentence. Without it: a sample.")]
PipedText = Annotated[str | None, argument("TEXT", "The sentence; else what is piped in, or a sample.")]
Pair = Annotated[str | None, option(TEXT, "--pair", metavar="TEXT", help="A second text: the model's second segment.")]
File = Annotated[str | None, option(TEXT, "--file", "-f", metavar="PATH", help="Texts, one a line; - is stdin.")]
Saved = Annotated[Path | None, option(TEXT, "--from", metavar="PATH", help="A saved record; no model is run.")]
PadTo = Annotated[int | None, option(TEXT, "--pad-to", rare=True, metavar="N", help="Append [PAD] up to N tokens.")]
Target = Annotated[
    str | None,
    option(
        TEXT,
        "--target",
        rare=True,
        metavar="TEXT",
        help="What an encoder-decoder is made to write.",
        show_default="its own greedy output",
    ),
]
Layer = Annotated[
    str | None,
    option(
        SELECTION,
        "--layer",
        "-l",
        metavar="N",
        help="Layers, from 0: 3; 0,3; 0-3; -1, the last; all.",
        complete=completion.layers,
    ),
]
Head = Annotated[
    str | None,
    option(SELECTION, "--head", "-H", metavar="N", help="Heads, from 0, in the same way.", complete=completion.heads),
]
OneLayer = Annotated[
    str,
    option(
        SELECTION,
        "--layer",
        "-l",
        metavar="N",
        help="The layer, from 0; -1 is the last.",
        complete=completion.one_layer,
    ),
]
OneHead = Annotated[
    str,
    option(
        SELECTION, "--head", "-H", metavar="N", help="The head, from 0; -1 is the last.", complete=completion.one_head
    ),
]
Query = Annotated[
    str | None,
    option(SELECTION, "--query", metavar="TOKEN", help="Whose row: it, it#2 (the second one), a number."),
]
Terms = Annotated[
    bool,
    option(SELECTION, "--terms", rare=True, help="Of one head: its scores, and what positions add to them."),
]
SomeTokens = Annotated[
    str | None,
    option(SELECTION, "--tokens", rare=True, metavar="N", help="These tokens alone, of a long text: 4000-4099."),
]


class Edge(NamedTuple):
    """A query and a key as they are typed."""

    query: str
    key: str


Edges = Annotated[
    list[Edge] | None,
    option(SELECTION, "--cut", metavar="QUERY KEY", help="Cut this edge, * is any; may be given again."),
]
Words = Annotated[bool, option(SELECTION, "--words", help="Put pieces together; BERT's don't is three words.")]
NoSpecial = Annotated[
    bool,
    option(SELECTION, "--no-special", help="Without [CLS], [SEP], [PAD]: rows sum to less then."),
]
Segments = Annotated[
    str,
    option(
        SELECTION,
        "--segments",
        rare=True,
        metavar="NAME",
        help="Of a pair: AB is from the first text to the second; so BA, AA, BB.",
        complete=completion.segments,
    ),
]
Which = Annotated[
    choices.Kind | None,
    option(
        SELECTION,
        "--which",
        rare=True,
        metavar="NAME",
        help=f"Of an encoder-decoder: {one_of(choices.Kind)}.",
        show_default="cross",
    ),
]
OwnWhich = Annotated[
    choices.Itself | None,
    option(
        SELECTION,
        "--which",
        rare=True,
        metavar="NAME",
        help=f"Of an encoder-decoder: {one_of(choices.Itself)}.",
        show_default="encoder",
    ),
]
ModelName = Annotated[
    str,
    option(
        MODEL,
        "--model",
        "-m",
        metavar="NAME",
        envvar="ATTNCLI_MODEL",
        help="Alias, Hub id, directory, address.",
        complete=completion.model,
    ),
]
ModelNames = Annotated[
    str,
    option(
        MODEL,
        "--model",
        "-m",
        metavar="NAMES",
        envvar="ATTNCLI_MODEL",
        help="Alias, Hub id, directory, address; several: A,B.",
        complete=completion.models,
    ),
]
AS_TRAINED = "as trained"
Mask = Annotated[
    choices.Mask | None,
    option(
        MODEL,
        "--mask",
        metavar="NAME",
        help="padding hides [PAD], causal [PAD] and the future, none hides nothing.",
        show_default=AS_TRAINED,
    ),
]
Masks = Annotated[
    str | None,
    option(
        MODEL,
        "--mask",
        metavar="NAMES",
        help="padding, causal, none, or several.",
        show_default=AS_TRAINED,
        complete=completion.several(choices.Mask),
    ),
]
Measure = Annotated[
    choices.Measure,
    option(
        MODEL,
        "--measure",
        rare=True,
        metavar="NAME",
        help="weight, or norm: the length of weight times transformed value, which is what a token brings "
        "(Kobayashi et al. 2020).",
    ),
]
Engine = Annotated[
    choices.Engine,
    option(
        MODEL,
        "--engine",
        rare=True,
        metavar="NAME",
        help="What runs the model: attncli the BERT family, transformers any (GPT-2, T5, BART, Llama ...), or auto.",
    ),
]
Without = Annotated[
    str | None,
    option(MODEL, "--without", rare=True, metavar="L.H", help="Silence heads, as 3.1 or 4.0-3: they give 0."),
]
Device = Annotated[
    str,
    option(
        MODEL,
        "--device",
        rare=True,
        metavar="NAME",
        help=f"Where to compute: {one_of(choices.Device)}.",
        complete=completion.device,
    ),
]
Dtype = Annotated[choices.Dtype, choice(MODEL, choices.Dtype, "--dtype", rare=True, help="What to compute in: ")]
SimilarTo = Annotated[
    str | None, option(TEXT, "--similar-to", metavar="TEXT", help="Another text: the cosine of the two is asked.")
]
Ask = Annotated[
    choices.Asked | None,
    choice(TEXT, choices.Asked, "--ask", rare=True, help="What is asked of the output: "),
]
Label = Annotated[
    str | None,
    option(TEXT, "--target", metavar="LABEL", help="The label, or word at [MASK], that is asked for."),
]
At = Annotated[
    str | None, option(TEXT, "--at", rare=True, metavar="TOKEN", help="The token whose label or word is asked.")
]
Task = Annotated[
    str | None,
    option(MODEL, "--task", rare=True, metavar="NAME", help="Of a checkpoint's outputs: words, classes, tokens, span."),
]
Picture = Annotated[Path | None, into("Draw .png, .svg, .pdf; save .json, .csv.")]
PictureOrPage = Annotated[Path | None, into("A .png, .svg, .pdf, .html, .json or .csv.")]
Json = Annotated[bool, option(OUTPUT, "--json", help="Print one JSON document, and nothing else.")]
Quiet = Annotated[
    bool,
    option(
        OUTPUT,
        "--quiet",
        "-q",
        help="Only errors on stderr (or ATTNCLI_QUIET=1).",
        envvar="ATTNCLI_QUIET",
        callback=output.set_quiet,
        is_eager=True,
    ),
]
Debug = Annotated[
    bool,
    option(
        MORE,
        "--debug",
        rare=True,
        help="Show where an error came from.",
        callback=output.set_debug,
        is_eager=True,
    ),
]
