"""Check that the screen is saved as the same file and command that `heatmap`, `view` and `run` give."""

import json
import shlex
import time

import numpy as np
import pytest
import shell
from exploring import PATIENCE, TEXT, explore
from PIL import Image

from attncli.base.errors import RequestError
from attncli.live.explorer.app import command
from attncli.live.explorer.panes import ScreenState
from attncli.models.opening import Opening
from attncli.record.loading import load_record
from attncli.record.selection import Input


async def saved(it, name):
    await it.pilot.press("S")
    await it.answer_line(str(name))
    end = time.monotonic() + PATIENCE
    while it.said.startswith("saving") and time.monotonic() < end:
        await it.pilot.pause(0.02)


@pytest.mark.slow
def test_records_a_picture_and_a_page(session, minilm, tmp_path):
    async def script(it):
        await it.press("m")
        for name in ("a.safetensors", "a.npz", "a.json"):
            await saved(it, tmp_path / name)
            assert f"saved {tmp_path / name}" in it.said
        before = it.state
        for name in ("nowhere/a.png", "a.txt", "a"):
            await saved(it, tmp_path / name)
            said = " ".join(it.said.split())
            assert "No such file" in said or "a picture, a page or a record is saved as" in said
            assert it.state == before
        await it.press("j")
        for name in ("a.png", "a.svg", "a.html"):
            await saved(it, tmp_path / name)
            assert f"saved {tmp_path / name}" in it.said

    explore(session, script, begin=("3", "1"))
    assert len(list(tmp_path.iterdir())) == 6
    expected = minilm.attend(TEXT, mask="causal")
    for suffix in ("safetensors", "npz", "json"):
        np.testing.assert_allclose(load_record(tmp_path / f"a.{suffix}").weights, expected.weights, atol=1e-5)
    assert Image.open(tmp_path / "a.png").width > 300
    page = (tmp_path / "a.html").read_text()
    assert '"opening":{"layer":3,"head":1,"heads":[1]}' in page
    assert '"token":0' in page
    assert '"vectors"' in page


@pytest.mark.slow
def test_what_is_saved_gives_way_to_nothing(session, minilm, tmp_path, monkeypatch):
    slow = type(session).compute_records

    def compute_records(self, *arguments):
        time.sleep(0.3)  # in which other keys are pressed
        return slow(self, *arguments)

    async def script(it):
        monkeypatch.setattr(type(session), "compute_records", compute_records)
        for name in ("a", "b"):
            await it.pilot.press("m", "S")
            await it.pilot.pause()
            it.app.screen.query_one("Input").value = str(tmp_path / f"{name}.npz")
            await it.pilot.press("enter", "w", "w", "w", "w")

        async def is_saved():
            return (tmp_path / "b.npz").exists()

        await it.until(is_saved)
        await it.settled()

    explore(session, script, pad_to=19)
    for name, mask in (("a", "causal"), ("b", "none")):
        expected = minilm.attend(TEXT, mask=mask, pad_to=19)
        np.testing.assert_array_equal(load_record(tmp_path / f"{name}.npz").weights, expected.weights)


def test_the_command_gives_the_view(session, tmp_path):
    lines = []

    async def script(it):
        await it.press("m", "w")
        it.app.copy_to_clipboard = lines.append
        await it.press("y")
        assert lines[0] == " ".join(it.said.split())

    explore(session, script, begin=("2", "5"))
    assert lines == [f"attncli run -l 2 -H 5 --mask causal --device cpu --unit word '{TEXT}'"]
    done = shell.in_process([*shlex.split(lines[0])[1:], "--json"], tmp_path)
    [record] = json.loads(done.text[done.text.index("{") :])["records"]
    assert record["mask"] == "causal"
    assert [(one["layer"], one["head"]) for one in record["attention"]] == [(2, 5)]


@pytest.mark.slow
@pytest.mark.parametrize("against", ["before", "whole"])
def test_the_command_of_what_is_compared_gives_the_difference(session, tmp_path, against):
    lines, moved = [], []

    async def script(it):
        if against == "before":
            await it.write("The dog sat.")
            await it.press("=")
        else:
            await it.press("x", "down", "down")
        it.app.copy_to_clipboard = lines.append
        await it.press("y")
        moved.append(it.answer.difference.of(it.state.layer, it.state.head))

    explore(session, script, state=ScreenState("minilm", Input("The cat sat.")), begin=("2", "5"))
    words = shlex.split(lines[0])
    assert words[1] == "diff"
    done = shell.in_process([*words[1:], "--json"], tmp_path)
    [head] = json.loads(done.text[done.text.index("{") :])["heads"]
    assert head["moved"] == pytest.approx(moved[0], abs=1e-6)


@pytest.mark.parametrize(
    "state, options, expected",
    [
        (ScreenState("minilm", Input("--no")), {}, ["--", "--no"]),
        (
            ScreenState("a b", Input("it's", "so")),
            {"device": "cpu"},
            ["-m", "a b", "--device", "cpu", "--pair", "so", "it's"],
        ),
        (
            ScreenState("minilm", Input("a"), without=((3, 1), (3, 2))),
            {"without": "0.1"},
            ["--without", "0.1,3.1-2", "a"],
        ),
        (ScreenState("minilm", Input("a"), measure="norm"), {}, ["--measure", "norm", "a"]),
    ],
)  # fmt: skip
def test_a_command_has_what_is_not_usual_and_no_more(state, options, expected):
    assert shlex.split(command(state, Opening(state.model, **options), None))[6:] == expected


def test_no_command_has_what_could_command_a_terminal():
    assert command(ScreenState("minilm", Input("a\x1b[2Jb")), Opening("minilm"), None) is None


def test_a_wrong_suffix_is_refused_before_anything_runs(session, tmp_path, monkeypatch):
    from attncli.live.explorer.app import save

    monkeypatch.setattr(type(session), "records", None)
    with pytest.raises(RequestError, match="a picture, a page or a record"):
        save(session, ScreenState("minilm", Input("a"), layer=0, head=0), tmp_path / "a.gif", None)
