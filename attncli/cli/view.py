"""attncli view: every head of a text in one HTML file that opens anywhere."""

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.cli import options, output
from attncli.errors import RequestError
from attncli.files import check_suffix

if TYPE_CHECKING:
    from attncli.models.model import Model
    from attncli.record import AttentionRecord
    from attncli.text import Tokens

NEURON_BYTES = 200_000  # of a page, for q and k, where nobody says of which heads
PACKED = 4 * 4 / 3  # characters of a page for one number of q or k


def view(
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    saved: options.Saved = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    mask: Annotated[
        str | None,
        typer.Option(
            "--mask",
            metavar="NAMES",
            help="padding, causal, none; several (none,causal,padding) make a switch.  [default: padding]",
        ),
    ] = None,
    pad_to: options.PadTo = None,
    measure: options.Measure = "weight",
    neurons: Annotated[
        str | None,
        typer.Option(
            "--neurons",
            metavar="L.H",
            help='Heads with q and k: "4.7", "4.0-3", "4.all", "all", "none".  [default: as many as take 0.2 MB]',
        ),
    ] = None,
    engine: options.Engine = "attncli",
    which: options.Which = None,
    target: options.Target = None,
    start: Annotated[
        str, typer.Option("--view", metavar="heads|model|matrix|neuron", help="What the page opens with.")
    ] = "heads",
    query: options.Query = None,
    segments: options.Segments = "all",
    no_special: options.NoSpecial = False,
    words: options.Words = False,
    threshold: Annotated[float, typer.Option("--threshold", metavar="X", help="Draw no weight below X.")] = 0.0,
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="The page's title.  [default: model and text]")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    output_path: Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="A .html.")] = Path(
        "attention.html"
    ),
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    debug: options.Debug = False,
) -> None:
    """Make a page of every head, to move through with a pointer; one file, that needs no network.

    All layers and heads are in it unless -l and -H keep a part. Four views: lines between tokens (heads), all
    heads as thumbnails (model), one head as a heat map (matrix), q and k element by element (neuron). The
    filters, the masks and everything else can be changed in the page.

    \b
    Examples:
      attncli view "The trophy does not fit in the suitcase because it is too big." -o view.html
      attncli view --mask none,causal,padding --pad-to 12 "The cat sat on the mat."
      attncli view "Where did the bear hide?" --pair "It hid in a cave." --segments AB
      attncli run -l all -o maps.safetensors "The cat sat." && attncli view --from maps.safetensors
    """
    from attncli.analysis.filters import check_segments
    from attncli.render.page import document

    check_suffix(output_path, document.SUFFIXES, "a page")
    document.check_view(start)
    document.check_threshold(threshold)
    check_segments(segments)
    layers, heads = "all" if layer is None else layer, "all" if head is None else head
    if saved is not None:
        options.check_as_saved(
            text=text,
            pair=pair,
            file=file,
            pad_to=pad_to,
            neurons=neurons,
            which=which,
            target=target,
            measure=measure,
        )
        records = with_masks(options.open_saved(saved, layer, head), mask, saved)
    else:
        inputs = options.read_inputs(text, pair, file)
        options.check_engine(engine, len(inputs), which, target, neurons, measure)
        if engine == "transformers":
            foreign = options.attend(
                inputs,
                engine,
                model,
                device,
                dtype,
                which,
                target,
                layers=layers,
                heads=heads,
                mask=mask_of_transformers(mask),
                pad_to=pad_to,
            )
            records = list(options.counted(foreign, len(inputs)))
        else:
            opened = options.open_model(model, device, dtype)
            records = attend(inputs, opened, layers, heads, mask_names(mask or "padding"), pad_to, neurons, measure)
    made = document.page(
        records,
        view=start,
        query=query,
        segments=segments,
        special=not no_special,
        words=words,
        threshold=threshold,
        title=title,
    )
    document.save_page(made, output_path)
    output.words(f"attncli: {output_path} takes {len(made) / 1e6:.1f} MB{cost(records)}")
    output.data(str(output_path))
    if open_it and not webbrowser.open(output_path.resolve().as_uri()):
        output.words(f"attncli: no browser could be opened: open {output_path} yourself")


def attend(
    inputs: Sequence[options.Input],
    model: "Model",
    layers: str,
    heads: str,
    masks: Sequence[str],
    pad_to: int | None,
    neurons: str | None,
    measure: str,
) -> "list[AttentionRecord]":
    """Every text under every mask; a text's records are neighbours. Norms have no q and k."""
    from attncli.selection import select

    texts = list(model.tokenize_many([one.text for one in inputs], [one.pair for one in inputs], pad_to))
    if neurons is None and measure == "weight":
        kept = select(layers, model.config.layers, "layer"), select(heads, model.config.heads, "head")
        neurons = affordable(model, texts, *kept, len(masks))
    runs = [model.attend_tokens(texts, layers, heads, mask, neurons, measure) for mask in masks]
    return [record for records in options.counted(zip(*runs, strict=True), len(texts)) for record in records]


def affordable(
    model: "Model", texts: "Sequence[Tokens]", layers: Sequence[int], heads: Sequence[int], masks: int
) -> str:
    """The heads, from the first on, whose q and k take no more than NEURON_BYTES of a page; at least one."""
    tokens = sum(len(text) for text in texts) * masks
    of_one = 2 * tokens * (model.config.hidden_size // model.config.heads) * PACKED
    every = [f"{layer}.{head}" for layer in layers for head in heads]
    return ",".join(every[: max(1, int(NEURON_BYTES / of_one))])


def mask_names(names: str) -> list[str]:
    """ "none,causal" -> the two. Raises RequestError for a name that is no mask's."""
    from attncli.models.model import check_mask_name

    chosen = list(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in chosen:
        check_mask_name(name)
    return chosen


def mask_of_transformers(names: str | None) -> str:
    """The one mask. Raises RequestError when several are named."""
    if names is not None and "," in names:
        raise RequestError("--engine transformers takes one --mask a page: give padding or none")
    return names or "padding"


def with_masks(records: "list[AttentionRecord]", names: str | None, saved: Path) -> "list[AttentionRecord]":
    """Those made with one of the masks; all where none is named. Raises RequestError when there is none."""
    wanted = None if names is None else [name.strip() for name in names.split(",")]
    missing = set(wanted or ()) - {record.mask_name for record in records}
    if missing:
        there = ", ".join(dict.fromkeys(record.mask_name for record in records))
        raise RequestError(f"{saved} was made with --mask {there}: --mask can't change that")
    return [record for record in records if wanted is None or record.mask_name in wanted]


def cost(records: "Sequence[AttentionRecord]") -> str:
    """What q and k take of a page, in words."""
    kept = [record.vectors for record in records if record.vectors is not None]
    if not kept:
        return ", without q and k"
    size = sum(vectors.query.size + vectors.key.size for vectors in kept) * PACKED
    heads = len(kept[0].heads)
    return f", of which q and k of {heads} head{'s' if heads > 1 else ''} {size / 1e6:.1f} MB (--neurons)"
