"""attncli probe: which heads find the syntactic heads of a treebank's words."""

from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.base.errors import RequestError
from attncli.cli import corpora, hints, options, output, saving

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def probe(
    context: typer.Context,
    files: Annotated[
        list[str], options.argument("FILES", "A treebank in CoNLL-U: files, folders, addresses; - is stdin.")
    ],
    model: options.ModelName = "minilm",
    test: Annotated[
        str | None,
        options.option(options.TEXT, "--test", metavar="FILE", help="Choose heads on FILES, measure them on this one."),
    ] = None,
    limit: Annotated[
        int | None,
        options.option(options.TEXT, "--limit", metavar="N", min=1, help="Read the first N sentences of a treebank."),
    ] = None,
    sample: corpora.Sample = None,
    seed: corpora.Seed = 0,
    skip_bad: corpora.SkipBad = False,
    engine: options.Engine = "auto",
    which: options.OwnWhich = None,
    workers: corpora.Workers = None,
    on: corpora.On = "here",
    worker_gpus: corpora.WorkerGpus = 0.0,
    output_path: options.Picture = None,
    state: corpora.State = None,
    shard_mb: corpora.ShardMb = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Find the heads that know the syntactic head of a word.

    For each dependency relation, as in Clark et al. 2019. A head of the model guesses the other word with the
    strongest weight: the one that a word attends to (child->head), or the one that attends to it (head->child).
    Beside the best one stands the best fixed offset, of all there are: -1 always guesses the word before. Roots and
    punctuation are not asked for their head. Below: how much of the trees is in maximum spanning trees of a layer's
    maps.

    The best of many heads, chosen and measured on the same sentences, looks better than it is: the verdict says whether
    it is better than the offset, whether that may be luck, or whether the words are too few. --test says how much.
    Ctrl-C shows what there is so far. Reading treebanks needs the extra probe: pip install ".[probe]" in
    a clone of attncli.

    \b
    Examples:
      attncli probe sample_inputs/treebank.conllu
      attncli probe sample_inputs/treebank.conllu --limit 20 -o probe.png
      cat sample_inputs/treebank.conllu | attncli probe - --json
    """
    from attncli.cli.source import open_part
    from attncli.corpus.files import STDIN
    from attncli.corpus.treebank import TreebankReading
    from attncli.models.opening import Opening

    if output_path is not None:
        saving.check(output_path, "what is probed")
    if STDIN in files and test == STDIN:
        raise RequestError("both FILES and --test are stdin: give one of them as a file")
    reading = TreebankReading(limit=limit, sample=sample, seed=seed, skip_bad=skip_bad)
    where = corpora.where_of(context)
    opened = open_part(Opening(model, device, dtype, engine), which)
    from attncli.corpus.probing import probe as probe_treebank

    with corpora.progress("sentences", "words") as show:
        found = probe_treebank(opened, files, None if test is None else [test], reading, which, where, show)
    document = found.document()
    if json:
        output.json_document(document)
    elif output_path is None or found.partial:
        from attncli.render.terminal.probe import probe_view

        output.show(*probe_view(document))
    if found.partial:
        raise typer.Exit(output.INTERRUPTED)
    if output_path is not None:
        saving.save(output_path, lambda: document, itemgetter("relations"), lambda: figure(document))
        output.file(output_path, json)
    best = found.relations[0]  # of all of them together
    hints.offer(context, "the best of these heads", "run", layer=best.layer, head=best.head)


def figure(document: dict[str, Any]) -> "Figure":
    """What -o draws."""
    from attncli.render.figures.probe import probe_figure

    return probe_figure(document)
