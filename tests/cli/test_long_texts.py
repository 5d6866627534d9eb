"""Long texts on the command line: stretches, some tokens by themselves, and what does not fit."""

import json

import pytest

from attncli.models import room
from attncli.record import grouping

TEXT = "the cat sat on the big cat, and it sat on the cat"


@pytest.fixture
def short(monkeypatch):
    """Texts of more than 8 tokens are long, and are shown as at most 4 stretches."""
    monkeypatch.setattr(grouping, "LONG", 8)
    monkeypatch.setattr(grouping, "MOST", 4)


def test_a_long_text_is_shown_in_stretches(attncli, short, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = attncli("run", "-l", "3", "-H", "1", TEXT)
    assert "16 tokens are shown as 4 stretches of 4: weights to one add up, from one are averaged" in shown.err
    assert "0-3 [CLS]the" in shown.out and len(shown.out.splitlines()) < 12
    page = attncli("view", "-l", "3", "-o", "a.html", TEXT)
    assert "16 tokens are shown as 4 stretches" in page.err
    refused = attncli("view", "-l", "3", "--vectors", "3.1", "-o", "a.html", TEXT)
    assert refused.code == 2 and "--vectors has no effect on stretches" in refused.err


def test_what_is_saved_or_printed_for_programs_has_every_token(attncli, short):
    found = json.loads(attncli("run", "--json", "-l", "3", "-H", "1", TEXT).out)
    assert len(found["records"][0]["tokens"]) == 16


def test_some_tokens_are_shown_one_by_one(attncli, short):
    shown = attncli("run", "-l", "3", "-H", "1", "--tokens", "2-6", TEXT)
    assert "tokens 2-6 of 16, counted from 0 anew: they give each other" in shown.err and "stretches" not in shown.err
    found = json.loads(attncli("run", "--json", "-l", "3", "-H", "1", "--tokens", "2-6", TEXT).out)
    assert found["records"][0]["tokens"] == ["cat", "sat", "on", "the", "big"]
    refused = attncli("run", "--tokens", "2-60", TEXT)
    assert refused.code == 2 and "token 60 is out of range: tokens are 0 to 15" in refused.err
    refused = attncli("run", "-o", "a.npz", "--tokens", "2-6", TEXT)
    assert refused.code == 2 and "--tokens has no effect on a saved record" in refused.err


@pytest.mark.parametrize(
    "words", [("run",), ("run", "-o", "a.npz"), ("heatmap",), ("view",), ("find", "cat", "sat"), ("flow",), ("mask",)]
)
def test_what_would_not_fit_is_refused(attncli, monkeypatch, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(room, "SMALL", 0)
    monkeypatch.setattr(room, "available", lambda: 1000)
    refused = attncli(*words, TEXT)
    assert refused.code == 2 and "maps of 16 tokens take" in refused.err and "ask for" in refused.err
    assert len(refused.err.splitlines()) == 1 and not list(tmp_path.iterdir())


def test_stats_stream_and_are_not_refused(attncli, monkeypatch, tmp_path):
    monkeypatch.setattr(room, "SMALL", 0)
    monkeypatch.setattr(room, "available", lambda: 1000)
    (tmp_path / "one.txt").write_text(TEXT)
    assert attncli("stats", str(tmp_path / "one.txt"), "--json").code == 0
