"""attncli ablate: what an output does without a head."""

from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base import choices
from attncli.cli import corpora, hints, options, output, saving
from attncli.cli.given import refuse
from attncli.cli.texts import STDIN, check_either, read_inputs, read_lines
from attncli.features import completion

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.analysis.effects import Ablation

# What is said of files: with TEXT there is one, which is done here.
OF_FILES = ("field", "skip_bad", "limit", "sample", "seed", *corpora.WHERE)


def ablate(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    similar_to: options.SimilarTo = None,
    file: Annotated[
        list[str] | None,
        options.option(options.TEXT, "--file", "-f", metavar="PATH", help="Texts, one a line; or several -f."),
    ] = None,
    field: corpora.Field = None,
    skip_bad: corpora.SkipBad = False,
    limit: Annotated[
        int | None,
        options.option(options.TEXT, "--limit", rare=True, min=1, metavar="N", help="Only the first N texts."),
    ] = None,
    sample: corpora.Sample = None,
    seed: corpora.Seed = 0,
    ask: options.Ask = None,
    target: options.Label = None,
    at: options.At = None,
    task: options.Task = None,
    way: Annotated[
        str,
        options.option(
            options.MODEL,
            "--way",
            metavar="NAMES",
            help="Some of zero, mean, resample.",
            complete=completion.several(choices.Way),
        ),
    ] = "zero",
    reference: Annotated[
        str | None,
        options.option(
            options.MODEL,
            "--reference",
            rare=True,
            metavar="PATH",
            help="Texts for mean and resample.",
            show_default="samples",
        ),
    ] = None,
    layer: options.Layer = None,
    head: options.Head = None,
    top: Annotated[
        int, options.option(options.OUTPUT, "--top", metavar="N", min=1, help="How many heads to list.")
    ] = 5,
    model: options.ModelName = "minilm",
    mask: options.Mask = None,
    which: options.Which = None,
    output_path: options.PictureOrPage = None,
    state: Annotated[str | None, corpora.state(rare=True)] = None,
    shard_mb: Annotated[float | None, corpora.shard_mb("1/16")] = None,
    workers: corpora.Workers = None,
    on: corpora.On = "here",
    worker_gpus: corpora.WorkerGpus = 0.0,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Say what the output does without a head.

    Effect: the output without a head minus with it; each head, each layer, all. The output is the cosine of two texts,
    the probability of a label, the divergence of what is predicted, or how far the last vectors move. Several texts:
    means, intervals (of at least 3 texts), importance, and how far the output holds beside random heads.

    \b
    Examples:
      attncli ablate "The cat sat on the mat." --similar-to "A cat sits on a rug."
      attncli ablate --way zero,mean -o heads.png "The cat sat on the mat."
      attncli ablate -l 5 -f sample_inputs/negation.txt
    """
    if output_path is not None:
        saving.check(output_path, "effects", page=True)
    if json or output_path is not None:
        refuse(context, f"with {'--json' if json else '-o'}, which has all heads", "top")
    ways = choices.several("way", way, choices.Way)
    if ways == ["zero"]:
        refuse(context, "with --way zero, which takes nothing from other texts", "reference")
    check_either(text, file)
    if not file:
        refuse(context, "without -f, which names files", *OF_FILES)
    where = corpora.where_of(context)
    texts = [] if file else [one.text for one in read_inputs(text, pair, None)]
    from attncli.cli.source import open_tapped
    from attncli.effects.ablation import Ways
    from attncli.effects.ablation import ablate as find
    from attncli.effects.asking import Asking

    asked = Ways(ways, None if reference is None else read_lines(reference)), layer or "all", head or "all"
    asking = Asking(pair, similar_to, target, at, ask, task, mask, which)
    opened = open_tapped(context.params)
    if file:
        from attncli.corpus.texts import Reading
        from attncli.effects.ablated_corpus import ablate_files
        from attncli.effects.ablated_texts import Ablating

        reading = Reading(field=field, skip_bad=skip_bad, limit=limit, sample=sample, seed=seed)
        with corpora.progress() as show:
            found = ablate_files(opened, file, reading, Ablating(*asked, asking), where, show)
    else:
        from attncli.cli.progress import progress

        found = find(opened, texts, *asked, asking, progress)
    if json:
        output.json_document(found.document())
    elif output_path is None or found.partial:
        from attncli.render.terminal.effects import ablation_view

        output.show(*ablation_view(found, top, output.canvas()))
    if found.partial:
        raise typer.Exit(output.INTERRUPTED)
    if output_path is not None:
        saving.save(output_path, found.document, itemgetter("effects"), lambda: figure(found), lambda: page(found))
        output.file(output_path, json)
    if not file or runs(file):
        most_layer, most_head = found.ranked()[0]
        texts_of = {"file": file[0]} if file else {}
        hints.offer(context, "what that head does", "run", layer=most_layer, head=most_head, **texts_of)


def runs(files: list[str]) -> bool:
    """Whether `run` takes the same: one file of lines."""
    from attncli.corpus.files import is_compressed, is_json, is_table

    [one, *others] = files
    lines = not (is_compressed(one) or is_json(one) or is_table(one))
    return not others and lines and (one == STDIN or Path(one).is_file())


def figure(found: "Ablation") -> "Figure":
    """A picture for -o."""
    from attncli.render.figures.effects import ablation_figure

    return ablation_figure(found)


def page(found: "Ablation") -> str:
    """A page for -o."""
    from attncli.render.page.compare import ablation_page

    return ablation_page(found)
