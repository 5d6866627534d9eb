"""A pipe, a socket, a device or a directory is refused in one line wherever a file is read; a link to a file is one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from irregular import KINDS, NAMED, OTHERS, guarded, make_irregular
from shell import in_process
from slow import slow_except

import attncli
from attncli import RequestError
from attncli.base.untrusted import Tensors, check_regular, open_regular, read_json, read_npz, read_regular
from attncli.checks.code.subject import open_code
from attncli.corpus.files import find_inputs
from attncli.corpus.statistics import load_statistics
from attncli.features import completion as completion
from attncli.features.inputs import read_lines
from attncli.models.config import read_config
from attncli.models.hashes import file_sha256
from attncli.models.outputs import modules_of
from attncli.models.weights import SafetensorsFile, read_pickle
from attncli.text.samples import copy_files
from attncli.text.tokenizer import byte_pairs, read_backend, tokenizer_settings, wordpiece

SAVED = Path(__file__).parent / "saved_by_0_1"


def beside(path: Path, *files: tuple[str, str]) -> Path:
    """The folder of a path, with other files in it."""
    for name, content in files:
        (path.parent / name).write_text(content)
    return path.parent


# Every place that reads a file by its path: the name that the file has, and the call.
LOADERS = {
    "open_regular": ("a", open_regular),
    "check_regular": ("a", check_regular),
    "read_regular": ("a", read_regular),
    "JSON": ("a.json", read_json),
    ".npz": ("a.npz", read_npz),
    ".safetensors": ("a.safetensors", lambda path: Tensors(path, "numpy")),
    "a record in .npz": ("a.npz", attncli.load_record),
    "a record in .safetensors": ("a.safetensors", attncli.load_record),
    "a record in .json": ("a.json", attncli.load_record),
    "statistics in .json": ("a.json", load_statistics),
    "config.json": ("config.json", read_config),
    "weights": ("model.safetensors", SafetensorsFile),
    "a pickle": ("pytorch_model.bin", read_pickle),
    "a hash": ("model.safetensors", file_sha256),
    "vocab.txt": ("vocab.txt", lambda path: wordpiece(path.parent)),
    "vocab.json": ("vocab.json", lambda path: byte_pairs(beside(path, ("merges.txt", "")))),
    "merges.txt": ("merges.txt", lambda path: byte_pairs(beside(path, ("vocab.json", "{}")))),
    "tokenizer_config.json": ("tokenizer_config.json", lambda path: tokenizer_settings(path.parent)),
    "tokenizer.json": ("tokenizer.json", lambda path: read_backend(path.parent)),
    "modules.json": ("modules.json", lambda path: modules_of(path.parent)),
    "a file of code": ("mine.py", lambda path: open_code(f"{path}:attention")),
    "a sample": ("pair.txt", lambda path: copy_files(["pair.txt"], path.parent)),
}


# How loaders say it besides.
OTHER_WORDS = {
    "pipe": ("is another file",),
    "socket": ("is another file", "No such device"),
    "device": ("is another file",),
    "directory": ("is another file", "Is a directory", "is a folder"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loader", LOADERS)
def test_a_loader_refuses_what_is_no_regular_file(loader, kind, tmp_path):
    name, load = LOADERS[loader]
    path = tmp_path / name
    make_irregular(path, kind)
    with guarded(path), pytest.raises((RequestError, OSError)) as refused:
        load(path)
    said = str(refused.value)
    assert "\n" not in said
    assert any(words in said for words in (KINDS[kind], *OTHER_WORDS[kind])), said


def test_a_link_to_a_file_is_read_as_the_file(tmp_path):
    for name in ("record.npz", "texts.safetensors"):
        (tmp_path / name).symlink_to(SAVED / name)
    [one], [other] = (attncli.load_records(folder / "record.npz") for folder in (tmp_path, SAVED))
    assert np.array_equal(one.weights, other.weights)
    assert len(attncli.load_records(tmp_path / "texts.safetensors")) == 2
    assert open_regular(tmp_path / "record.npz").read() == (SAVED / "record.npz").read_bytes()
    assert file_sha256(tmp_path / "record.npz") == file_sha256(SAVED / "record.npz")


def test_a_file_that_became_a_pipe_after_it_was_looked_at_is_not_waited_for(tmp_path, monkeypatch):
    """Check the opened file, and not only the path before it was opened."""
    path = tmp_path / "a.json"
    path.write_text("{}")
    open_file = os.open

    def replaced(name, *more, **others):
        if Path(name) == path:
            path.unlink()
            os.mkfifo(path)
        return open_file(name, *more, **others)

    monkeypatch.setattr(os, "open", replaced)
    with guarded(path), pytest.raises(OSError, match="it is a pipe, not a regular file"):
        read_json(path)


# --- checkpoints ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A checkpoint of attncli's own engine in each form, and two that transformers runs."""
    from checkpoints import make_checkpoint
    from foreign_checkpoints import make_foreign

    folder = tmp_path_factory.mktemp("models")
    for form in ("safetensors", "sharded", "bin", "sharded bin"):
        make_checkpoint(folder / form, form=form)
    make_checkpoint(folder / "words", "distilbert")  # has a tokenizer.json
    make_checkpoint(folder / "bytes", "roberta")
    for family in ("gpt2", "t5"):
        (folder / family).mkdir()
        make_foreign(folder / family, family)
    return folder


COMMANDS = ("run", "explain", "compare", "stats")
OF = {
    **dict.fromkeys(("safetensors", "sharded", "bin", "sharded bin", "words", "bytes"), "attncli"),
    **dict.fromkeys(("gpt2", "t5"), "transformers"),
}


def copied(model: Path, folder: Path) -> Path:
    """A copy made of links, as the Hub's cache is."""
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).symlink_to(file)
    return folder


def typed(command: str, model: Path, engine: str) -> list[str]:
    words = [command, "-m", str(model), "the cat"]
    if command == "stats":
        words = [command, "-m", str(model), str(model.parent / "lines.txt")]
    return [*words, "--engine", "transformers"] if engine == "transformers" and command in ("run", "stats") else words


@pytest.mark.parametrize("model", OF)
def test_a_checkpoint_of_links_is_run(model, models, tmp_path):
    made = in_process(typed("run", copied(models / model, tmp_path / "model"), OF[model]), tmp_path)
    assert made.code == 0, made.text


@pytest.mark.parametrize("engine", ["attncli", "transformers"])
@pytest.mark.parametrize("model", slow_except(OF, ["sharded bin", "words"]))
def test_each_file_of_a_checkpoint_that_is_a_pipe_is_named_in_one_line(model, engine, models, tmp_path):
    (tmp_path / "lines.txt").write_text("the cat\n")
    there = {file.name for file in (models / model).iterdir()}
    for number, name in enumerate(sorted({*there, *NAMED, *OTHERS})):
        folder = copied(models / model, tmp_path / str(number))
        path = folder / name
        make_irregular(path, "pipe")
        for command in COMMANDS if name == "config.json" else [COMMANDS[number % len(COMMANDS)]]:
            with guarded(path):
                made = in_process(typed(command, folder, engine), tmp_path)
            assert (made.code, made.text.count("\n")) == (2, 1), (name, command, made.text)
            assert f"{path} is a pipe, not a regular file" in made.text, (name, command, made.text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["attncli", "transformers"])
def test_each_file_of_a_checkpoint_that_is_something_else_is_named_in_one_line(kind, engine, models, tmp_path):
    for number, name in enumerate(NAMED):
        folder = copied(models / "safetensors", tmp_path / str(number))
        path = folder / name
        make_irregular(path, kind)
        made = in_process(typed("run", folder, engine), tmp_path)
        assert (made.code, made.text.count("\n")) == (2, 1), (name, made.text)
        assert f"{path} is {KINDS[kind]}, not a regular file: replace it with the file" in made.text, (name, made.text)


def test_folders_and_links_that_lead_nowhere_may_stand_beside_a_checkpoint(models, tmp_path):
    folder = copied(models / "safetensors", tmp_path / "model")
    (folder / "onnx").mkdir()
    os.mkfifo(folder / "onnx" / "pipe")  # which nobody opens
    (folder / "notes").symlink_to("nowhere")
    made = in_process(typed("run", folder, "attncli"), tmp_path)
    assert made.code == 0, made.text


def test_a_look_at_a_model_without_running_it_is_not_kept_waiting(models, tmp_path):
    folder = copied(models / "safetensors", tmp_path / "model")
    make_irregular(folder / "config.json", "pipe")
    with guarded(folder / "config.json"):
        made = in_process(["models", "show", str(folder)], tmp_path)
        assert made.code == 2 and "config.json is a pipe" in made.text


# --- texts ----------------------------------------------------------------------------------------------


def test_an_address_of_this_machine_is_a_file_of_it(tmp_path):
    (tmp_path / "a.txt").write_text("the cat\n")
    [found] = find_inputs([f"local://{tmp_path}/a.txt"])
    assert found.path == str(tmp_path / "a.txt")


@pytest.mark.slow
@pytest.mark.parametrize("command", [["run", "-f"], ["stats"]])
def test_texts_come_from_pipes_that_are_named(command, models, tmp_path):
    """A shell's <(...) is a pipe, and so is /dev/stdin: whoever names one means to read it."""
    model = ["-m", str(models / "safetensors"), "--json"]
    (tmp_path / "lines.txt").write_text("the cat sat\n")
    expected = in_process([*command, "lines.txt", *model], tmp_path)
    assert expected.code == 0, expected.text
    program = f"{sys.executable} -m attncli {' '.join(command)} {{}} {' '.join(model)}"
    for line in (program.format("<(cat lines.txt)"), f"cat lines.txt | {program.format('/dev/stdin')}"):
        made = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)
        one, other = json.loads(made.stdout), json.loads(expected.text)
        assert (one.get("records"), one.get("heads")) == (other.get("records"), other.get("heads"))


def test_lines_come_from_a_pipe_that_somebody_writes_into(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writing = subprocess.Popen(["sh", "-c", 'echo "the cat" >"$0"', str(path)])
    assert read_lines(str(path)) == ["the cat"]
    assert writing.wait() == 0
