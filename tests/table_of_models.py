"""List which commands work on which model types: each command on a small random model of each type.

`python tests/table_of_models.py` runs them all and writes the table into attncli/models/README.md, between its markers.
`python tests/table_of_models.py llama t5` prints the rows of these types and writes nothing.
"""

import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import checkpoints
import pytest
import torch
import transformers
from checkpoints import ONE_OF_EACH, language_head, make_checkpoint
from cli.commands import commands
from cli.test_every_model import (
    ARGUMENTS,
    MODEL,
    TREES,
    on_a_model,
    plain_call,
    read_once,
    without_terminal,
)
from foreign_checkpoints import NO_TEXT, make_foreign, write_foreign_tokenizer
from own_attention import MINE
from small_networks import MORE, SMALL, sharpen
from transformers import AutoConfig

from attncli.cli.app import main

README = Path(__file__).parents[1] / "attncli" / "models" / "README.md"
MARKERS = "<!-- table of models -->", "<!-- end of the table of models -->"

DECODERS = (
    "phi", "gpt_oss", "mixtral", "deepseek_v3", "opt", "starcoder2", "granite", "cohere", "stablelm", "biogpt",
    "qwen3_next", "lfm2", "falcon", "bloom", "gptj",
)  # fmt: skip
PAIRED = ("t5", "bart", "marian", "mt5", "pegasus", "mbart")
BY_TRANSFORMERS = (
    "bert",
    "modernbert",
    "mpnet",
    "deberta",
    "llama",
)  # of our own families, for whoever asks transformers
# More of a configuration than `SMALL` says of it.
OWN: dict[str, dict[str, Any]] = {
    **MORE,
    "mt5": {"vocab_size": 64},
    "qwen3_next": {
        "layer_types": ["linear_attention", "full_attention", "full_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "shared_expert_intermediate_size": 32,
    },
    "lfm2": {"layer_types": ["conv", "full_attention", "full_attention"], "block_ff_dim": 64},
    "gptj": {"rotary_dim": 4},
}
# What is asked beside the plain call of a command: a column of its own.
ASKED: dict[str, tuple[str, ...]] = {
    "run --words": ("run", "--words"),
    "run --measure norm": ("run", "--measure", "norm"),
    "run --vectors": ("run", "--vectors", "all", "-o", "vectors.safetensors"),
    "run --terms": ("run", "--terms", "-l", "1", "-H", "0"),
    "run --without": ("run", "--without", "1.0"),
    "run --mask none": ("run", "--mask", "none"),
    "stats --measure norm": ("stats", "--measure", "norm"),
}
# A word for each way in which a command is refused, a part of the line that says so, and the reason.
REFUSALS: dict[str, tuple[str, str]] = {
    "audio": ("reads audio", "the network reads audio, and attncli supports only text"),
    "pictures": ("reads pictures", "the network reads pictures, and attncli supports only text"),
    "own only": ("this needs attncli's own network", "the command is about attncli's own network, and there is none"),
    "no terms": (
        "positions add no term",
        "scores are only q·k, scaled: positions rotate queries and keys, or are part of the tokens' vectors",
    ),
    "no W_O": (
        "norms need the output projection",
        "something else, such as a gate, changes the heads' outputs before the output projection, so norms are "
        "undefined",
    ),
    "writes nothing": ("writes no text", "the model predicts no next token"),
    "both parts": ("has both: take -m smollm2", "the command is for decoders and encoders, and the model has both"),
    "no offsets": (
        "positions of these tokens in their text are unknown",
        "the tokenizer does not say where tokens are in their text",
    ),
    "some layers": (
        "needs the attention of every layer",
        "the command needs the attention of every layer, and some layers have none (linear attention, convolution)",
    ),
    "positions": (
        "depend on positions",
        "the model's scores depend on positions, and those of the checked code do not",
    ),
    "no sentence": (
        "no sentence that the model can read",
        "the tokenizer splits no sentence of the treebank into words",
    ),
}


TO_ITSELF = (
    "flow",
    "diff",
    "patch",
)  # of an encoder-decoder the encoder is asked: the table's other cells are of cross
FOREIGN = ("esm", "t5", "bart", "marian")  # `make_foreign` makes these, with tokenizers of their own
TOKENIZERS = {"mt5": "t5", "pegasus": "bart", "mbart": "bart"}
ENDS: dict[str, dict[str, Any]] = {
    "gpt_neox": {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None},
    "t5": {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0},
    "bart": {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2},
}


class Row(NamedTuple):
    """A model type, who runs it, and how a small random checkpoint of it is made in a directory."""

    name: str
    by: str
    make: Callable[[Path], Any]


def rows() -> list[Row]:
    """Return the types of the table: attncli's own families, then transformers'."""
    own = [Row(family, "attncli", partial(make_own, family=family)) for family in ONE_OF_EACH]
    theirs = [Row(name, "transformers", partial(make_random, model_type=name)) for name in (*DECODERS, "esm", *PAIRED)]
    asked = [Row(name, "transformers", partial(make_own, family=name)) for name in BY_TRANSFORMERS]
    nobody = [Row(name, "nobody", partial(make_foreign, family=name)) for name in NO_TEXT]
    nobody.append(Row("dinov2", "nobody", make_dinov2))
    return [*sorted(own, key=lambda row: row.name), *theirs, *asked, *nobody]


def make_own(directory: Path, family: str) -> None:
    """Write a small network of our own families: a decoder with its head, so that it predicts the next token."""
    head = "Model" if family not in checkpoints.DECODERS or family == "gemma3_text" else language_head(family)
    make_checkpoint(directory, family, head)


def make_dinov2(directory: Path) -> None:
    """Write a small network that reads pictures, with a tokenizer that it has no use for."""
    write_foreign_tokenizer(directory, "vit")
    config = AutoConfig.for_model("dinov2", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=28)
    transformers.AutoModel.from_config(config).save_pretrained(directory)


def make_random(directory: Path, model_type: str) -> None:
    """Write a small random network with its head, and a tokenizer, as `save_pretrained` does."""
    if model_type in FOREIGN:
        make_foreign(directory, model_type)
        return
    tokenizer = TOKENIZERS.get(model_type, "gpt_neox")
    vocab_size = write_foreign_tokenizer(directory, tokenizer)
    known = AutoConfig.for_model(model_type)
    named = {*known.to_dict(), *type(known).attribute_map}
    ends = ENDS[tokenizer]
    small = {**SMALL, **ends, "vocab_size": vocab_size}
    given = {name: value for name, value in small.items() if name in named} | OWN.get(model_type, {}) | ends
    config = AutoConfig.for_model(model_type, **given)
    torch.manual_seed(0)
    kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    network = kind.from_config(config).eval()
    sharpen(network, model_type)
    network.generation_config.no_repeat_ngram_size = 1  # greedy output of random weights says one thing for ever
    network.save_pretrained(directory)


class Result(NamedTuple):
    """Return the output of a call and its exit code."""

    code: int
    out: str
    err: str


@contextlib.contextmanager
def prepared(folder: Path) -> Iterator[None]:
    """Stand in a folder with the files that calls name; read each model once; let no command wait for a person."""
    (folder / "lines.txt").write_text(f"{ARGUMENTS['first']}\n{ARGUMENTS['second']}\n" * 2, encoding="utf-8")
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    trees = TREES.read_text(encoding="utf-8").split("\n\n")
    (folder / "trees.conllu").write_text("\n\n".join(trees[:3]) + "\n\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "stdin", io.StringIO())
        read_once({}, patch)
        without_terminal(patch)
        yield


def run(words: Sequence[str]) -> Result:
    """Run the program in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(words))
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return Result(code, *(one.buffer.getvalue().decode() for one in (out, err)))  # type: ignore[attr-defined]


def columns() -> dict[str, list[str]]:
    """Return the call of each column: of every command that opens a model, and of some with options."""
    plain = {name: plain_call(name) for name in on_a_model()}
    plain["similar"] += ["--pool", "mean"]
    asked = {name: [*plain_call(words[0]), *words[1:]] for name, words in ASKED.items()}
    asked["ablate -f"] = ["ablate", "-m", MODEL, "-f", "lines.txt"]
    return plain | asked


def cell(row: Row, name: str, call: Sequence[str]) -> str:
    """Return what a command does on a model type: "yes", or the word for why it is refused."""
    if row.name in PAIRED and call[0] in TO_ITSELF:
        call = [*call, "--which", "encoder", *(("--target", "the") if call[0] == "patch" else ())]
    words = [word.replace(MODEL, f"./{row.name}") for word in call]
    asked = any(one.name == "engine" for one in commands()[call[0] if call[0] in commands() else name].params)
    if row.name in BY_TRANSFORMERS and row.by == "transformers" and asked:
        words += ["--engine", "transformers"]
    result = run(words)
    said = result.err + result.out
    for wrong in ("bug in attncli", "Traceback", "transformers can't run", "failed 3 times"):
        assert wrong not in said, (words, said)
    lines = result.err.splitlines()
    wrong = lines[-1] if result.code == 2 else ""
    if name == "explore" and result.code == 0:
        wrong = next((part for part, _ in REFUSALS.values() if part in result.out), "")
    if not wrong:
        assert result.code == 0 or (result.code == 1 and name == "check"), (
            words,
            said,
        )  # which finds the text's mistake
        return "yes"
    for word, (part, _) in REFUSALS.items():
        if part in wrong:
            return word
    raise AssertionError(f"{words}: no reason is listed for {wrong!r}")


def table(wanted: Sequence[str] = ()) -> str:
    """Run every call on every type, and return the table with the reasons below it; of the wanted types, or all."""
    calls, lines, seen = columns(), [], set()
    for row in rows():
        if wanted and row.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder, prepared(Path(folder)):
            (Path(folder) / row.name).mkdir()
            row.make(Path(folder) / row.name)
            cells = [cell(row, name, call) for name, call in calls.items()]
        seen |= {*cells}
        lines.append(f"| {row.name} | {row.by} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    head = f"| model type | run by | {' | '.join(f'`{name}`' for name in calls)} |"
    reasons = [f"- *{word}*: {why}" for word, (_, why) in REFUSALS.items() if word in seen]
    return "\n".join([head, "|" + " --- |" * (len(calls) + 2), *lines, "", *reasons])


def write(made: str) -> None:
    """Put the table between its markers in the README."""
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    README.write_text(f"{before}{MARKERS[0]}\n\n{made}\n\n{MARKERS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    made = table(sys.argv[1:])
    if sys.argv[1:]:
        print(made)
    else:
        write(made)
