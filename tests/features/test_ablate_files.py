"""Ablation over files: equal to `ablate` on the same texts, to the last bit, for any shards."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from shell import environment, run_line

from attncli import load_model
from attncli.base.errors import Notice, RequestError
from attncli.corpus.running import Where
from attncli.corpus.texts import TextFormat
from attncli.effects.question import Asking
from attncli.features.ablate import Rows, Silencing, Ways, ablate, mean_slope, removal_orders
from attncli.features.ablate.files import AblatedTexts, ablate_files

TEXTS = ["the cat sat on it", "it is too big", "the big cat", "it is too big", "it is too big", "un believ able", "it"]
ABLATING = {
    "ways": Ways(("zero", "mean"), ["the cat sat", "it is"]),
    "layers": "1-2",
    "heads": "0,3",
    "asking": Asking(target="LABEL_1"),
}


@pytest.fixture(scope="module")
def model(tiny):
    return load_model(str(tiny("bert", head="ForSequenceClassification")), device="cpu")


@pytest.fixture(scope="module")
def expected(model):
    """The document for these texts in memory."""
    return ablate(model, TEXTS, **ABLATING).document()


@pytest.fixture
def files(tmp_path):
    """The texts in three files, with empty lines."""
    parts = TEXTS[:3], TEXTS[3:4], TEXTS[4:]
    for number, part in enumerate(parts):
        (tmp_path / f"{number}.txt").write_text("".join(f"{text}\n\n" for text in part))
    return [str(tmp_path / f"{number}.txt") for number in range(len(parts))]


@pytest.mark.parametrize("size", [None, 1, 20, 45])
def test_files_say_what_their_texts_say_whatever_the_shards(model, expected, files, size):
    """Among them shards with the same text, of which the one makes the order and the other is measured on."""
    assert ablate_files(model, files, **ABLATING, where=Where(shard_bytes=size)).document() == expected


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
def test_a_text_on_one_core_has_the_same_bits_however_many_there_are(model, files, monkeypatch, cores):
    monkeypatch.setattr(AblatedTexts, "shard_bytes", 30)  # so that these are more than one
    found = []
    for threads in (1, cores):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            found.append(ablate_files(model, files, **ABLATING).document())
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)
    assert found[0] == found[1] and found[0]["texts"] == len(TEXTS)


def test_what_is_kept_is_not_done_again(model, expected, files, tmp_path, monkeypatch):
    where = Where(state=str(tmp_path / "state"), shard_bytes=20)
    assert ablate_files(model, files, **ABLATING, where=where).document() == expected
    done = []
    monkeypatch.setattr("attncli.features.ablate.files.make_question", lambda *some: done.append(some))
    assert ablate_files(model, files, **ABLATING, where=where).document() == expected and not done


@pytest.fixture(scope="module")
def work(model):
    return AblatedTexts.of(model, TextFormat(), **ABLATING)


def some_rows(work, texts=3):
    arrays = {name: np.ones((texts, *array.shape[1:]), array.dtype) for name, array in work.nothing().arrays.items()}
    return Rows(arrays, "probability", "probability of LABEL_1")


def test_every_second_text_of_the_corpus_is_measured_on(work):
    """And not of each shard: here are five texts in shards of one, three and one."""
    rows = some_rows(work, 5)
    rows.arrays["shard"][:], rows.arrays["number"][:] = [0, 2, 2, 2, 4], [0, 0, 1, 2, 0]
    made = work.silencing.ablation(work.model.info, "padding", rows)
    second = work.with_orders(removal_orders(made, mean_slope(rows["slopes"])), rows)
    assert second.measured == {2: {0, 2}}
    assert second.options != work.options and second.digest != work.digest


def test_a_text_that_can_not_be_asked_is_named_or_passed_over(model, files):
    bad = "\u200d\u00ad"
    Path(files[1]).write_text(f"{TEXTS[3]}\n{bad}\n", encoding="utf-8")
    with pytest.raises(RequestError, match=r"1\.txt, line 2: .* --skip-bad"):
        ablate_files(model, files, **ABLATING)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = ablate_files(model, files, TextFormat(skip_bad=True), where=Where(shard_bytes=20), **ABLATING)
    assert [str(one.message)[:8] for one in told if issubclass(one.category, Notice)] == ["skipped "]
    assert found.texts == len(TEXTS) and found.curves


def test_what_can_not_be_asked_is_said_with_its_place(model, files):
    with pytest.raises(RequestError, match=r"0\.txt, line 1: no label 'NO'"):
        ablate_files(model, files, **{**ABLATING, "asking": Asking(target="NO")})


def test_an_input_that_changes_between_the_rounds_is_noticed(model, files):
    """Its size may be what it was."""

    def change(progress) -> None:
        if progress.seen.texts == len(TEXTS):
            Path(files[2]).write_bytes(b"\n" * Path(files[2]).stat().st_size)

    with pytest.raises(RequestError, match="has changed meanwhile"):
        ablate_files(model, files, **ABLATING, show=change)


@pytest.mark.parametrize("texts", [3, len(TEXTS)])
def test_interrupted_it_says_what_there_is(model, expected, files, texts):
    """Interrupt in the first round, and in the second, which starts with fewer texts than the first ended with."""
    before = []

    def interrupt(progress) -> None:
        second = before and progress.seen.texts < before[-1]
        if second or progress.seen.texts == texts < len(TEXTS):
            raise KeyboardInterrupt
        before.append(progress.seen.texts)

    with pytest.warns(Notice, match=f"PARTIAL, of {texts} texts"):
        found = ablate_files(model, files, **ABLATING, show=interrupt)
    document = found.document()
    assert found.partial and document["partial"] is True and "curves" not in document
    assert found.texts == texts
    if texts == len(TEXTS):
        assert document["effects"] == expected["effects"]


# --- the command ------------------------------------------------------------------------------------------

LINES = ["the cat sat on it", "it is too big", "the big cat", "un believ able"]


@pytest.fixture
def folder(tiny, tmp_path):
    (tmp_path / "tiny").symlink_to(tiny("bert"))
    (tmp_path / "all.txt").write_text("\n".join(LINES))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.txt").write_text("\n".join(LINES[:1]))
    (tmp_path / "parts" / "b.jsonl").write_text("".join(json.dumps({"said": text}) + "\n" for text in LINES[1:]))
    return tmp_path


def ablated(folder, line: str) -> str:
    done = run_line(f"attncli ablate -m tiny -l 0,1 {line}", folder)
    assert done.code == 0, done.text
    return done.text


@pytest.mark.slow
def test_several_files_and_a_folder_are_one_corpus(folder):
    of_one = ablated(folder, "--json -f all.txt")
    assert json.loads(of_one)["texts"] == len(LINES)
    assert ablated(folder, "--json -f parts/a.txt -f parts/b.jsonl --field said") == of_one
    assert ablated(folder, "--json -f parts --field said --shard-mb 0.00001") == of_one
    assert json.loads(ablated(folder, "--json -f parts --field said --limit 3"))["texts"] == 3


@pytest.mark.parametrize(
    "option",
    ["--workers 2", "--on ray", "--worker-gpus 1", "--state st", "--shard-mb 1", "--sample 0.5", "--seed 3",
     "--limit 2", "--skip-bad", "--field said"],
)  # fmt: skip
def test_what_is_said_of_files_is_refused_without_them(folder, option):
    done = run_line(f"attncli ablate -m tiny {option} 'the cat'", folder)
    assert (done.code, done.text.count("\n")) == (2, 1)
    assert f"{option.split()[0]} has no effect without -f, which names files" in done.text


def test_an_interruption_shows_what_there_is_as_partial_and_saves_nothing(folder, monkeypatch):
    row, done = Silencing.row, []

    def interrupted(*some):
        done.append(some)
        if len(done) % 3 == 0:
            raise KeyboardInterrupt
        return row(*some)

    monkeypatch.setattr(Silencing, "row", interrupted)
    shown = run_line("attncli ablate -m tiny -f all.txt -o a.csv", folder)
    assert shown.code == 130 and "interrupted: these effects are PARTIAL, of 2 texts" in shown.text
    assert "PARTIAL · mean of 2 texts" in shown.text.splitlines()[1] and not (folder / "a.csv").exists()
    printed = run_line("attncli ablate -m tiny -f all.txt -q --json", folder)
    document = json.loads(printed.text)
    assert (printed.code, document["partial"], document["texts"], "curves" in document) == (130, True, 2, False)


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "--workers 2", "--state st"])
def test_a_pipe_is_read_once(folder, more):
    command = [sys.executable, "-m", "attncli", "ablate", "-m", "tiny", "-l", "0,1", "--json", "-f", "-", *more.split()]
    with (folder / "all.txt").open() as texts:
        done = subprocess.run(
            command, cwd=folder, stdin=texts, env=environment(), capture_output=True, text=True, check=False
        )
    if more:
        assert done.returncode == 2 and f"{more.split()[0]} is for files" in done.stderr
    else:
        assert done.stdout == ablated(folder, "--json -f all.txt")


@pytest.mark.slow
def test_workers_print_the_same(folder):
    of_one = ablated(folder, "--json -f all.txt")
    assert ablated(folder, "--json -f all.txt --workers 2 --shard-mb 0.00001 --state st") == of_one
    assert ablated(folder, "--json -f all.txt --state st") == of_one
