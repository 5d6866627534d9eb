"""The options that commands share: names, help, and what the shell completes. What they mean is in `source`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from attncli.base import choices
from attncli.cli import output


def choice(kind: Any, *names: str, help: str) -> Any:
    """An option that takes one of the names of a choice in `attncli.base.choices`."""
    return typer.Option(*names, metavar="|".join(choices.names(kind)), help=help)


def vectors(help: str) -> Any:
    """The option that names heads whose q and k are wanted; `neurons` is what it was called up to version 0.1."""
    return typer.Option("--vectors", "--neurons", metavar="L.H", help=help)


def complete_model(incomplete: str) -> Iterator[str]:
    """The aliases; a directory is the shell's own business."""
    from attncli.models.hub import ALIASES

    return (name for name in ALIASES if name.startswith(incomplete))


Text = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="The sentence. Without it: a sample.", show_default=False)
]
PipedText = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="The sentence. Without it: stdin if piped, else a sample.", show_default=False),
]
Pair = Annotated[
    str | None, typer.Option("--pair", metavar="TEXT", help="A second text, as the model's second segment.")
]
File = Annotated[
    str | None,
    typer.Option("--file", "-f", metavar="PATH", help="Read texts from a file, one a line; - is stdin."),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        envvar="ATTNCLI_MODEL",
        help="An alias, a Hub repository id, or a directory.",
        autocompletion=complete_model,
    ),
]
Layer = Annotated[
    str | None,
    typer.Option("--layer", "-l", metavar="N", help='Layers from 0: "3", "0,3", "0-3", "-1" (the last), "all".'),
]
Head = Annotated[
    str | None,
    typer.Option("--head", "-H", metavar="N", help='Heads from 0: "3", "0,3", "0-3", "-1", "all".'),
]
OneLayer = Annotated[str, typer.Option("--layer", "-l", metavar="N", help="The layer, from 0; -1 is the last.")]
OneHead = Annotated[str, typer.Option("--head", "-H", metavar="N", help="The head, from 0; -1 is the last.")]
Engine = Annotated[
    choices.Engine,
    choice(
        choices.Engine,
        "--engine",
        help="What runs the model: attncli the BERT family, transformers any (GPT-2, T5, BART, Llama ...).",
    ),
]
Which = Annotated[
    choices.Kind | None,
    choice(choices.Kind, "--which", help="Which attention of an encoder-decoder.  [default: cross]"),
]
OwnWhich = Annotated[
    choices.Kind | None,
    choice(choices.Kind, "--which", help="Which part of an encoder-decoder: encoder or decoder.  [default: encoder]"),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="TEXT",
        help="What an encoder-decoder is made to write.  [default: its own greedy output]",
    ),
]
Measure = Annotated[
    choices.Measure,
    choice(
        choices.Measure,
        "--measure",
        help="norm is the length of weight times transformed value: what a token brings (Kobayashi et al. 2020).",
    ),
]
Mask = Annotated[
    choices.Mask,
    choice(choices.Mask, "--mask", help="padding hides [PAD], causal hides [PAD] and the future, none hides nothing."),
]
PadTo = Annotated[
    int | None, typer.Option("--pad-to", metavar="N", help="Append [PAD] up to N tokens.", show_default=False)
]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda|mps", help="Where to compute.")]
Dtype = Annotated[choices.Dtype, choice(choices.Dtype, "--dtype", help="What to compute in.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]
Saved = Annotated[
    Path | None,
    typer.Option("--from", metavar="PATH", help="Use a saved record (.safetensors, .npz); no model is run."),
]
NoSpecial = Annotated[
    bool,
    typer.Option("--no-special", help="Leave out [CLS], [SEP], [PAD]; rows no longer sum to 1 then."),
]
Words = Annotated[bool, typer.Option("--words", help="Put the pieces of a word together.")]
Segments = Annotated[
    str,
    typer.Option("--segments", metavar="AB", help='Of a pair: "AB" is from the first text to the second; "all".'),
]
Query = Annotated[
    str | None,
    typer.Option("--query", metavar="TOKEN", help='Hold one query: "it", "it#2" (the second one), or its number.'),
]
Picture = Annotated[Path | None, typer.Option("--output", "-o", metavar="PATH", help="Draw it as .png, .svg or .pdf.")]
Debug = Annotated[
    bool,
    typer.Option("--debug", help="Show where an error came from.", callback=output.set_debug, is_eager=True),
]
