"""Long texts on the command line: stretches, some tokens by themselves, and what does not fit."""

import json
import re

import pytest

from attncli.models import engine as room
from attncli.record import grouping

ZOOM = "--tokens 0-255 shows single tokens"
TEXT = "the cat sat on the big cat, and it sat on the cat"


@pytest.fixture
def short(monkeypatch):
    """Texts of more than 8 tokens are long, and are shown as at most 4 stretches."""
    monkeypatch.setattr(grouping, "LONG", 8)
    monkeypatch.setattr(grouping, "MOST", 4)


def test_a_long_text_is_shown_in_stretches(attncli, short, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = attncli("run", "-l", "3", "-H", "1", TEXT)
    assert (
        "16 tokens are shown as 4 stretches of 4: weights to a stretch are summed, weights from it are averaged"
        in shown.err
    )
    assert "0-3 [CLS]the" in shown.out and len(shown.out.splitlines()) < 12
    page = attncli("view", "-l", "3", "-o", "a.html", TEXT)
    assert "16 tokens are shown as 4 stretches" in page.err
    assert ZOOM in (tmp_path / "a.html").read_text(encoding="utf-8")
    refused = attncli("view", "-l", "3", "--vectors", "3.1", "-o", "a.html", TEXT)
    assert refused.code == 2 and "--vectors has no effect on stretches of several tokens" in refused.err


@pytest.mark.parametrize("options", [(), ("--words",), ("--style", "lines", "-H", "1")])
def test_a_picture_of_a_long_text_shows_stretches_and_says_how_to_see_some(attncli, short, tmp_path, options):
    drawn = attncli("heatmap", "-l", "3", *options, "-o", str(tmp_path / "a.svg"), TEXT)
    assert "are shown as 4 stretches of 4" in drawn.err
    picture = " ".join(re.findall(r"<text[^>]*>([^<]*)<", (tmp_path / "a.svg").read_text(encoding="utf-8")))
    assert "stretches of 4" in picture and "--tokens 0-255" in picture


def test_a_saved_record_is_shown_as_what_a_model_gives(attncli, short, tmp_path):
    """Compare the stretches and words of the full record with those of the reduced one."""
    attncli("run", "-l", "3", "-o", str(tmp_path / "a.npz"), TEXT)
    for options in ((), ("--words",), ("--tokens", "1-11"), ("-H", "1", "--tokens", "2,4-9", "--words")):
        saved = attncli("run", "--from", str(tmp_path / "a.npz"), "-l", "3", *options)
        made = attncli("run", "-l", "3", *options, TEXT)
        assert (saved.out, saved.err, saved.code) == (made.out, made.err, 0)


def test_what_is_saved_or_printed_for_programs_has_every_token(attncli, short):
    found = json.loads(attncli("run", "--json", "-l", "3", "-H", "1", TEXT).out)
    assert len(found["records"][0]["tokens"]) == 16


def test_some_tokens_are_shown_one_by_one(attncli, short):
    shown = attncli("run", "-l", "3", "-H", "1", "--tokens", "2-6", TEXT)
    assert "tokens 2-6 of 16, renumbered from 0: they give each other" in shown.err and "stretches" not in shown.err
    found = json.loads(attncli("run", "--json", "-l", "3", "-H", "1", "--tokens", "2-6", TEXT).out)
    assert found["records"][0]["tokens"] == ["cat", "sat", "on", "the", "big"]


@pytest.mark.parametrize(
    "words", [("run",), ("run", "-o", "a.npz"), ("heatmap",), ("view",), ("find", "cat", "sat"), ("flow",), ("mask",)]
)
def test_what_would_not_fit_is_refused(attncli, monkeypatch, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(room, "SMALL", 0)
    monkeypatch.setattr(room, "available", lambda: 1000)
    refused = attncli(*words, TEXT)
    assert refused.code == 2 and re.search("maps of (16|20) tokens take", refused.err) and "request " in refused.err
    assert len(refused.err.splitlines()) == 1 and not list(tmp_path.iterdir())
