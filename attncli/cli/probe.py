"""attncli probe: which heads find the syntactic heads of a treebank's words."""

import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli import options, output
from attncli.errors import Notice, RequestError
from attncli.files import PICTURES, check_suffix

if TYPE_CHECKING:
    from attncli.analysis.probing import Tally
    from attncli.models.model import Model
    from attncli.record import AttentionRecord
    from attncli.text import Tokens
    from attncli.treebank import Sentence


def probe(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A treebank in CoNLL-U; - is stdin.", show_default=False)],
    model: options.ModelName = "minilm",
    test: Annotated[
        str | None,
        typer.Option(
            "--test",
            metavar="FILE",
            help="Choose heads on the first treebank, measure them on this one.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", metavar="N", min=1, help="Read the first N sentences of a treebank.", show_default=False
        ),
    ] = None,
    output_path: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="Draw it as .png, .svg or .pdf.")
    ] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    debug: options.Debug = False,
) -> None:
    """Find the heads that know the syntactic head of a word, for each dependency relation (Clark et al. 2019).

    A head of the model guesses the other word with the strongest weight: the one that a word attends to
    (child->head), or the one that attends to it (head->child). Beside the best one stands the best fixed offset:
    -1 always guesses the word before. Below: how much of the trees is in maximum spanning trees of a layer's maps.

    The best of many heads, chosen and measured on the same sentences, looks better than it is; --test says how much.
    Ctrl-C shows what there is so far. Reading treebanks needs conllu: pip install 'attncli[probe]'.

    \b
    Examples:
      attncli probe sample_inputs/treebank.conllu
      attncli probe sample_inputs/treebank.conllu --limit 20 -o probe.png
      cat sample_inputs/treebank.conllu | attncli probe - --json
    """
    from attncli.corpus import STDIN
    from attncli.treebank import read_treebank

    if output_path is not None:
        check_suffix(output_path, PICTURES, "a picture")
    if file == test == STDIN:
        raise RequestError("both FILE and --test are stdin: give one of them as a file")
    treebanks = {path: read_treebank(path, limit) for path in (file, test) if path is not None}
    loaded = options.open_model(model, device, dtype)
    tallies, partial = count_all(loaded, treebanks)
    measured = file if test is None or test not in tallies else test
    found = {
        "model": asdict(loaded.info),
        "partial": partial,
        "treebank": about(file, tallies[file]),
        "test": None if measured != test else about(measured, tallies[measured]),
        **results(tallies[file], tallies[measured]),
    }
    if json:
        output.json_document(found)
    elif output_path is None or partial:
        from attncli.render import probe as tables

        output.show(
            tables.probe_title(found),
            tables.relation_table(found, output.console().width),
            tables.tree_table(found),
            tables.probe_end(found),
        )
    if partial:
        raise typer.Exit(output.INTERRUPTED)
    if output_path is not None:
        from attncli.render.figure import save_figure
        from attncli.render.probe_figure import probe_figure

        save_figure(probe_figure(found), output_path)
        output.words(f"attncli: saved {output_path}") if json else output.data(str(output_path))


def count_all(model: "Model", treebanks: "Mapping[str, Sequence[Sentence]]") -> "tuple[dict[str, Tally], bool]":
    """What the model's heads find in each treebank, and whether Ctrl-C ended that early.

    Then a treebank of which nothing has been counted is left out; when that is all of them, the program ends.
    Raises RequestError as `count` does.
    """
    tallies: dict[str, Tally] = {}
    for path, sentences in treebanks.items():
        tallies[path] = count(model, path, sentences)
        if tallies[path].seen < len(sentences):
            break
    else:
        return tallies, False
    begun = {path: counted for path, counted in tallies.items() if counted.edges}
    if not begun:
        raise typer.Exit(output.INTERRUPTED)
    of = " and ".join(f"{counted.seen} of {len(treebanks[path])}" for path, counted in begun.items())
    output.words(f"attncli: interrupted: these figures are PARTIAL, of {of} sentences")
    return begun, True


def count(model: "Model", path: str | Path, sentences: "Sequence[Sentence]") -> "Tally":
    """What the model's heads find in a treebank; after Ctrl-C, in those sentences that it has seen by then.

    A Notice says how many can't be read whole. Raises RequestError when that is all of them, or no word in the others
    depends on another.
    """
    from attncli.analysis.probing import Tally, tally
    from attncli.corpus import shown

    counted = Tally.nothing(model.config.layers, model.config.heads)
    with options.progress(len(sentences), "sentences") as advance:
        try:
            for so_far in tally(read_all(model, sentences), counted):
                counted = so_far
                advance()
        except KeyboardInterrupt:
            return counted
    if not counted.edges:
        raise RequestError(f"{shown(str(path))}: in no sentence that the model can read does a word depend on another")
    if counted.skipped:
        warnings.warn(
            f"{shown(str(path))}: skipped {counted.skipped} of {len(sentences)} sentences: the model does not "
            f"read all of their words (it reads {model.config.max_tokens} tokens)",
            Notice,
            stacklevel=2,
        )
    return counted


def read_all(model: "Model", sentences: "Sequence[Sentence]") -> "Iterator[tuple[AttentionRecord | None, Sentence]]":
    """Every sentence with its maps; with None where the model can't read it whole. They come in groups of one length.

    Tokens are cheap to make: they are counted first, and made again when their turn comes, so that they are not held.
    Lengths come in an order of chance, always the same: whoever interrupts has seen short sentences and long ones.
    """
    by_length: dict[int, list[Sentence]] = {}
    for sentence in sentences:
        tokens = tokenise(model, sentence)
        if tokens is None:
            yield None, sentence
        else:
            by_length.setdefault(len(tokens), []).append(sentence)
    lengths = sorted(by_length)
    random.Random(0).shuffle(lengths)
    ordered = [sentence for length in lengths for sentence in by_length[length]]
    records = model.attend_tokens(tokens for sentence in ordered if (tokens := tokenise(model, sentence)) is not None)
    yield from zip(records, ordered, strict=True)


def tokenise(model: "Model", sentence: "Sentence") -> "Tokens | None":
    """Its tokens, which say which word of the treebank they are of; None when the model can't read it whole.

    Raises RequestError when the tokenizer is of another model.
    """
    from attncli.corpus import encode
    from attncli.treebank import words_of

    try:
        tokens = encode(sentence.text, model.tokenizer)
    except ValueError:  # there is nothing in it that the tokenizer keeps
        return None
    return words_of(tokens, sentence) if len(tokens) <= model.config.max_tokens else None


def about(path: str, counted: "Tally") -> dict[str, Any]:
    """What --json prints of a treebank."""
    from attncli.corpus import shown

    return {
        "path": shown(path),
        "sentences": counted.sentences,
        "words": counted.words,
        "skipped": counted.skipped,
    }


def results(chosen: "Tally", measured: "Tally") -> dict[str, Any]:
    """What --json prints of relations and trees: heads and offsets by `chosen`, figures by `measured`."""
    from attncli.analysis.probing import guesses, layer_trees

    return {
        "relations": [asdict(guess) for guess in guesses(chosen, measured)],
        "trees": {
            "edges": measured.edges,
            "neighbours": measured.chain_edges / measured.edges,
            "layers": [asdict(layer) for layer in layer_trees(chosen, measured)],
        },
    }
