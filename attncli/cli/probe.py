"""attncli probe: which heads find the syntactic heads of a treebank's words."""

import warnings
from collections.abc import Iterator, Sequence
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

WINDOW = 1000  # sentences that are sorted by length together; their maps are never held together


def probe(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A treebank in CoNLL-U.", show_default=False)],
    model: options.ModelName = "minilm",
    test: Annotated[
        Path | None,
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
    Reading treebanks needs conllu: pip install 'attncli[probe]'.

    \b
    Examples:
      attncli probe sample_inputs/treebank.conllu
      attncli probe sample_inputs/treebank.conllu --limit 20 -o probe.png
      attncli probe sample_inputs/treebank.conllu --json
    """
    from attncli.treebank import read_treebank

    if output_path is not None:
        check_suffix(output_path, PICTURES, "a picture")
    treebanks = {path: read_treebank(path, limit) for path in (file, test) if path is not None}
    loaded = options.open_model(model, device, dtype)
    tallies = {path: count(loaded, path, sentences) for path, sentences in treebanks.items()}
    found = {
        "model": asdict(loaded.info),
        "treebank": about(file, treebanks[file], tallies[file]),
        "test": None if test is None else about(test, treebanks[test], tallies[test]),
        **results(tallies[file], tallies[file if test is None else test]),
    }
    if json:
        output.json_document(found)
    elif output_path is None:
        from attncli.render import probe as tables

        output.show(
            tables.probe_title(found), tables.relation_table(found), tables.tree_table(found), tables.probe_end(found)
        )
    if output_path is not None:
        from attncli.render.figure import save_figure
        from attncli.render.probe_figure import probe_figure

        save_figure(probe_figure(found), output_path)
        output.words(f"attncli: saved {output_path}") if json else output.data(str(output_path))


def count(model: "Model", path: Path, sentences: "Sequence[Sentence]") -> "Tally":
    """What the model's heads find in a treebank; a Notice says how many sentences it can't read whole.

    Raises RequestError when it can read none, or no word in them depends on another.
    """
    from attncli.analysis.probing import tally

    counted = tally(read_all(model, sentences), model.config.layers, model.config.heads)
    if counted.sentences < len(sentences):
        warnings.warn(
            f"{path}: skipped {len(sentences) - counted.sentences} of {len(sentences)} sentences: the model does not "
            f"read all of their words (it reads {model.config.max_tokens} tokens)",
            Notice,
            stacklevel=2,
        )
    if not counted.edges:
        raise RequestError(f"{path}: in no sentence that the model can read does a word depend on another")
    return counted


def read_all(model: "Model", sentences: "Sequence[Sentence]") -> "Iterator[tuple[AttentionRecord, Sentence]]":
    """Every sentence that the model can read whole, with its maps: of a window, the short ones first."""
    with options.progress(len(sentences), "sentences") as advance:
        for start in range(0, len(sentences), WINDOW):
            window = [(tokenise(model, sentence), sentence) for sentence in sentences[start : start + WINDOW]]
            whole = [(tokens, sentence) for tokens, sentence in window if tokens is not None]
            whole.sort(key=lambda pair: len(pair[0]))
            records = model.attend_tokens(tokens for tokens, _ in whole)
            for record, (_, sentence) in zip(records, whole, strict=True):
                yield record, sentence
                advance()


def tokenise(model: "Model", sentence: "Sentence") -> "Tokens | None":
    """Its tokens, which say which word of the treebank they are of; None when the model can't read it whole."""
    from attncli.treebank import words_of

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)  # a text that is cut is left out, and `count` says so
        return words_of(model.tokenizer.encode(sentence.text), sentence)


def about(path: Path, sentences: "Sequence[Sentence]", counted: "Tally") -> dict[str, Any]:
    """What --json prints of a treebank; `sentences` are all that were read of it."""
    return {
        "path": str(path),
        "sentences": counted.sentences,
        "words": counted.words,
        "skipped": len(sentences) - counted.sentences,
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
