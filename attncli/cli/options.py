"""Options that commands share, and how they become texts and a model."""

import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from attncli.cli import output
from attncli.errors import RequestError

if TYPE_CHECKING:
    from attncli.models.foreign import ForeignModel
    from attncli.models.model import Model
    from attncli.record import AttentionRecord

T = TypeVar("T")

SAMPLE = "The trophy does not fit in the suitcase because it is too big."
ENGINES = ("attncli", "transformers")
MEASURES = ("weight", "norm")
PATIENCE = 1.0  # seconds until the user is told of what takes long

Text = Annotated[
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
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="attncli|transformers",
        help="What runs the model: attncli for the BERT family, transformers for any (GPT-2, T5, BART, Llama ...).",
    ),
]
Which = Annotated[
    str | None,
    typer.Option(
        "--which",
        metavar="encoder|decoder|cross",
        help="Which attention of an encoder-decoder, with --engine transformers.  [default: cross]",
    ),
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
    str,
    typer.Option(
        "--measure",
        metavar="weight|norm",
        help="norm is the length of weight times transformed value: what a token brings (Kobayashi et al. 2020).",
    ),
]
Mask = Annotated[
    str,
    typer.Option(
        "--mask",
        metavar="padding|causal|none",
        help="padding hides [PAD], causal hides [PAD] and the future, none hides nothing.",
    ),
]
PadTo = Annotated[
    int | None, typer.Option("--pad-to", metavar="N", help="Append [PAD] up to N tokens.", show_default=False)
]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda|mps", help="Where to compute.")]
Dtype = Annotated[str, typer.Option("--dtype", metavar="float32|float64|bfloat16|float16", help="What to compute in.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]
Saved = Annotated[
    Path | None,
    typer.Option("--from", metavar="PATH", help="Use a saved record (.safetensors, .npz); no model is run."),
]
Neurons = Annotated[
    str | None,
    typer.Option("--neurons", metavar="L.H", help='Save q and k of these heads too: "4.7", "4.0-3", "4.all", "all".'),
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
Debug = Annotated[
    bool,
    typer.Option("--debug", help="Show where an error came from.", callback=output.set_debug, is_eager=True),
]


class Input(NamedTuple):
    """One text to look at, and its second segment if it has one."""

    text: str
    pair: str | None


def read_inputs(text: str | None, pair: str | None, file: str | None) -> list[Input]:
    """The texts meant by TEXT, --pair and --file; without any: stdin if piped, else the sample sentence.

    Raises RequestError when a file can't be read, is empty or not UTF-8, or both TEXT and --file are given.
    """
    if text is not None and file is not None:
        raise RequestError("both a text and --file are given: which one is meant?")
    if text is not None:
        return [Input(text, pair)]
    if file is None and not stdin_is_piped():
        output.words(f'attncli: no text given, so this one: "{SAMPLE}"')
        return [Input(SAMPLE, pair)]
    return [Input(line, pair) for line in read_lines(file or "-")]


def read_lines(name: str) -> list[str]:
    """The lines of a file that hold something. "-" is stdin. Raises RequestError as `read_inputs` does."""
    shown = "stdin" if name == "-" else name
    try:
        content = read_stdin() if name == "-" else Path(name).read_bytes()
        # utf-8-sig: editors on Windows put a byte order mark at the head of a file
        lines = [line.strip() for line in content.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        raise RequestError(f"{shown} is not UTF-8 at byte {error.start}: convert it first") from error
    except (OSError, ValueError) as error:
        raise RequestError(f"can't read {shown}: {getattr(error, 'strerror', None) or error}") from error
    lines = [line for line in lines if line]
    if not lines:
        raise RequestError(f"{shown} has no text in it: put one text on a line")
    return lines


def read_stdin() -> bytes:
    """All of stdin. A user who waits for us, while we wait for stdin, is told so."""
    with suppress(OSError, ValueError):  # stdin is something that can't be waited for
        ready, _, _ = select.select([sys.stdin], [], [], PATIENCE)
        if not ready:
            output.words("attncli: reading texts from stdin, one a line, until it ends")
    return sys.stdin.buffer.read()


def stdin_is_piped() -> bool:
    """Whether stdin is a pipe, a file or a socket: not a terminal, and not nothing (/dev/null)."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or replaced by a test
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def open_model(name: str, device: str, dtype: str) -> "Model":
    """The model that the options name. Raises RequestError as `load_model` does."""
    from attncli.models.hub import locate

    locate(name)  # what is wrong with a name is said before torch is imported, which takes over a second
    from attncli.models.model import load_model

    return load_model(name, device, dtype)


def open_foreign(name: str, device: str, dtype: str) -> "ForeignModel":
    """The same, of any kind that transformers has. Raises RequestError as `load_foreign` does."""
    from attncli.models.hub import locate

    locate(name)  # before transformers is imported, which takes longer still
    from attncli.models.foreign import load_foreign

    return load_foreign(name, device, dtype)


def attend(
    inputs: Sequence[Input],
    engine: str,
    name: str,
    device: str,
    dtype: str,
    which: str | None,
    target: str | None,
    neurons: str | None = None,
    measure: str = "weight",
    **asked: Any,
) -> "Iterator[AttentionRecord]":
    """The attention of every text, by the model and the engine that the options name.

    `asked` is what `attend_many` of both engines takes: layers, heads, mask, pad_to.

    Raises RequestError as `check_engine` and the model do.
    """
    check_engine(engine, len(inputs), which, target, neurons, measure)
    opened = open_any(engine, name, device, dtype)
    return attend_by(opened, engine, inputs, which, target, neurons, measure, **asked)


def open_any(engine: str, name: str, device: str, dtype: str) -> "Model | ForeignModel":
    """The model that the options name, for their engine. Raises RequestError as `load_model` and `load_foreign` do."""
    return open_foreign(name, device, dtype) if engine == "transformers" else open_model(name, device, dtype)


def attend_by(
    model: Any,
    engine: str,
    inputs: Sequence[Input],
    which: str | None,
    target: str | None,
    neurons: str | None = None,
    measure: str = "weight",
    **asked: Any,
) -> "Iterator[AttentionRecord]":
    """`attend` with a model that is open."""
    texts = [one.text for one in inputs], [one.pair for one in inputs]
    own = {"which": which, "target": target} if engine == "transformers" else {"neurons": neurons, "measure": measure}
    records: Iterator[AttentionRecord] = model.attend_many(*texts, **own, **asked)
    return records


def check_measure(measure: str) -> None:
    """Raises RequestError for a measure that there is not."""
    if measure not in MEASURES:
        raise RequestError(f"no measure {measure!r}: --measure is one of {', '.join(MEASURES)}")


def check_engine(
    engine: str, texts: int, which: str | None, target: str | None, neurons: str | None, measure: str = "weight"
) -> None:
    """Raises RequestError for an engine or a measure that there is not, and for options that don't go with it."""
    check_measure(measure)
    if measure == "norm" and engine == "transformers":
        raise RequestError("transformers does not give values: leave --measure norm or --engine transformers out")
    if measure == "norm" and neurons not in (None, "none"):
        raise RequestError("q and k make weights and not norms: leave --neurons or --measure norm out")
    if engine not in ENGINES:
        raise RequestError(f"no engine {engine!r}: --engine is one of {', '.join(ENGINES)}")
    if engine == "transformers" and neurons is not None:
        raise RequestError("transformers does not give q and k: leave --neurons or --engine transformers out")
    for option, value in (("--which", which), ("--target", target)):
        if engine != "transformers" and value is not None:
            raise RequestError(f"{option} is for encoder-decoders, which --engine transformers runs: give that too")
    if target is not None and texts > 1:
        raise RequestError(f"--target is what becomes of one text, and there are {texts}: give the one")


def open_saved(path: Path, layer: str | None, head: str | None) -> "list[AttentionRecord]":
    """The records of a saved file, with the layers and heads chosen; numbers are the model's.

    Raises RequestError when the file is no record, or does not hold what is chosen.
    """
    from attncli.record import load_records

    return [record.select(layer, head) for record in load_records(path)]


def open_one_saved(path: Path, layer: str | None, head: str | None, mask: str, otherwise: str) -> "AttentionRecord":
    """The one record of a saved file, made with this mask unless that is the default; `otherwise` is what to do else.

    Raises RequestError as `open_saved` does, for several texts, and for another mask.
    """
    records = open_saved(path, layer, head)
    check_one_text(len(records), otherwise)
    [record] = records
    if mask not in ("padding", record.mask_name):
        raise RequestError(f"{path} was made with --mask {record.mask_name}: --mask can't change that")
    return record


@contextmanager
def progress(total: int, what: str) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr, on a terminal only, once it is clear that it will take a while.

    Yields what to call when one more of `total` is done.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    begun = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, visible=False)
        yield lambda: bar.update(task, advance=1, visible=time.monotonic() - begun > PATIENCE)


def counted(things: Iterable[T], total: int) -> Iterator[T]:
    """The same things, one a text, with a progress bar on stderr."""
    with progress(total, "texts") as advance:
        for thing in things:
            yield thing
            advance()


def check_as_saved(measure: str = "weight", **given: str | int | None) -> None:
    """Raises RequestError when an option asks for something else than what was saved."""
    for name, value in {**given, "measure": None if measure == "weight" else measure}.items():
        if value is not None:
            option = "TEXT" if name == "text" else "--" + name.replace("_", "-")
            raise RequestError(f"--from draws what was saved: {option} can't be given with it")


def check_one_text(count: int, otherwise: str) -> None:
    """Raises RequestError when there is not one text, and says what to do `otherwise`."""
    if count != 1:
        raise RequestError(f"there are {count} texts and a picture shows one: {otherwise}")
