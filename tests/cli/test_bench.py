"""attncli bench: a table for people, a document for programs."""

import json

import pytest

from attncli.checks import bench_maps as measuring
from attncli.checks import bench_stats as stats_measuring
from attncli.checks import timing
from attncli.checks.bench_stats import Plan
from attncli.checks.contestants import KEPT, Shape

pytestmark = pytest.mark.slow


@pytest.fixture
def small(monkeypatch, tiny):
    """A model, and shapes, that take no time."""
    monkeypatch.setattr(measuring, "SHAPES", (Shape(1, 8, 2, 1), Shape(2, 16, 2, 1)))
    monkeypatch.setattr(timing, "PRODUCT", (64, 32, 48))
    return tiny("bert")


def test_json_is_all_there_is_on_stdout(attncli, small):
    result = attncli("bench", "-m", small, "--quick", "--json", "--device", "cpu")
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    assert (document["device"], document["weights"], document["dtype"]) == ("cpu", "random", "float32")
    assert [row["kept"] for row in document["rows"]] == [*KEPT, *KEPT]
    assert {row["rounds"] for row in document["rows"]} == {1}


def test_the_table_has_a_line_a_row_and_says_what_it_was_measured_on(attncli, small):
    result = attncli("bench", "-m", small, "--device", "cpu")
    assert (result.code, result.err) == (0, "")
    names = [line[: len("   one, first layer")].strip() for line in result.out.splitlines()]
    assert [name for name in names if name in KEPT] == [*KEPT, *KEPT]
    assert "GFLOP/s" in result.out and "GB/s" in result.out
    assert "transformers" in result.out


def test_unknown_names_and_devices_are_refused(refused, small):
    assert "bert-base" in refused("bench", "-m", "bert-bse")
    assert "device" in refused("bench", "-m", small, "--device", "abacus")
    assert "it is one of maps, stats, long" in refused("bench", "speed")
    assert "bert-base" in refused("bench", "stats", "-m", "bert-bse")


def test_statistics_in_words_and_as_json(attncli, tiny, monkeypatch):
    monkeypatch.setattr(stats_measuring, "QUICK", Plan(texts=4, rounds=1, lines=(2, 3), long=80))
    monkeypatch.setattr(
        stats_measuring, "run_apart", lambda *_: {"tokens": 70, "seconds": 0.5, "peak_bytes": 200_000_000}
    )
    asked = ("bench", "stats", "--quick", "-m", tiny(), "--device", "cpu")
    document = json.loads(attncli(*asked, "--json").out)
    assert [one["lines"] for one in document["memory"]] == [2, 3]
    result = attncli(*asked)
    assert (result.code, result.err) == (0, "")
    assert "4 texts of 5 to 40 tokens" in result.out and "200 MB\n  1.00 x" in result.out
    long = document["long"]
    assert f"one text of 70 tokens, {long['layers']} layers x {long['heads']} heads" in result.out


def test_long_texts_as_a_table_and_as_json(attncli, tiny):
    asked = ("bench", "long", "-m", tiny("modernbert"), "--tokens", "8,40", "--device", "cpu")
    document = json.loads(attncli(*asked, "--json").out)
    assert [row["tokens"] for row in document["rows"]] == [8, 40]
    result = attncli(*asked)
    assert (result.code, result.err) == (0, "")
    assert [line.split()[0] for line in result.out.splitlines() if line.strip()[:1].isdigit()] == ["8", "40"]
    said = " ".join(result.out.split())
    assert "seconds of the processor" in said and "how many times as long a global one takes" in said


def test_lengths_are_of_long_texts_and_numbers(refused, small):
    assert "--tokens has no effect on maps" in refused("bench", "-m", small, "--tokens", "8")
    assert "--tokens has no effect on stats" in refused("bench", "stats", "-m", small, "--tokens", "8")
    assert "--quick has no effect" in refused("bench", "long", "-m", small, "--tokens", "8", "--quick")
    assert "write --tokens 2048,8192" in refused("bench", "long", "-m", small, "--tokens", "8,x")
    assert "takes 1 to 40 tokens" in refused("bench", "long", "-m", small, "--tokens", "4000")
