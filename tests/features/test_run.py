"""attncli run: views, selections, outputs."""

import json
import subprocess
import sys

import numpy as np
import pytest

import attncli as library
from attncli import Request
from attncli.analysis.edges import Usual, edges
from attncli.corpus.usual import lines, usual_of
from attncli.record.selection import Grouping

TEXT = "The trophy does not fit in the suitcase."


def named(tokens, place):
    """A token, with its number where others are the same."""
    same = [number for number, token in enumerate(tokens) if token == tokens[place]]
    return tokens[place] if len(same) == 1 else f"{tokens[place]}#{same.index(place) + 1}"


def test_a_first_look_at_all_layers_by_default(attncli, instant):
    result = attncli("run", TEXT)
    assert result.code == 0 and result.err == ""
    lines = result.out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("layer ")] == list("012345")
    assert "←" in result.out  # head 0.2
    record = instant.attend(TEXT)
    over = Usual.with_text(record, usual_of(instant, Request()))
    best = edges(record, over)[0][0]
    ends = f"{named(record.tokens.text, best.query)} → {named(record.tokens.text, best.key)}"
    assert f"{best.layer}.{best.head}  {ends} {best.weight:.2f} ({best.usual:.2f})" in result.out
    assert "\x1b" not in result.out  # no terminal, no colour
    assert attncli("run", "-l", "all", TEXT).out.splitlines()[:8] == lines[:8]


def test_a_sample_text_is_held_against_the_other_samples(attncli):
    """Once as this text, not once more as one of the twelve."""
    sample, other = lines()[2], "The trophy does not fit in the suitcase."
    assert len(lines()) == 12
    for text, count in ((sample, 11), (other, 12)):
        assert f"over this text and {count} sample texts" in " ".join(attncli("run", text).out.split())


@pytest.mark.parametrize(
    ("selection", "layers", "heads", "title"),
    [
        ([], range(6), range(12), "6 layers x 12 heads"),
        (["-l", "2"], [2], range(12), "layer 2"),
        (["-l", "0-1"], [0, 1], range(12), "2 layers x 12 heads"),
        (["-H", "3"], [5], [3], "layer 5 head 3"),
        (["-l", "all", "-H", "3"], range(6), [3], "layers 0-5"),
    ],
)
def test_what_is_saved_is_what_is_shown(attncli, tmp_path, selection, layers, heads, title):
    """All layers, and of a head alone the last one: on the terminal, as --json, in a file, and of many texts."""
    every = {(layer, head) for layer in layers for head in heads}
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{TEXT}\nA cat sat.\n", encoding="utf-8")
    for text, count in ([TEXT], 1), (["-f", texts], 2):
        attncli("run", *selection, "-o", tmp_path / "a.safetensors", *text)
        saved = library.load_records(tmp_path / "a.safetensors")
        printed = json.loads(attncli("run", *selection, "--json", *text).out)["records"]
        assert len(saved) == len(printed) == count
        for record, entry in zip(saved, printed, strict=True):
            assert set(record.each_head) == {(one["layer"], one["head"]) for one in entry["attention"]} == every
    assert title in attncli("run", *selection, TEXT).out.splitlines()[0].split(" · ")


def test_json_is_what_the_library_gives(attncli, instant):
    document = json.loads(attncli("run", "--json", "-l", "0,3", "-H", "-1", TEXT).out)
    record = instant.attend(TEXT, layers=[0, 3], heads=[11])
    [entry] = document["records"]
    assert document["model"].keys() == {"name", "path", "sha256", "layers", "heads", "hidden_size"}
    assert entry.keys() == {"tokens", "segments", "mask", "attention"}
    assert entry["tokens"] == record.tokens.text
    assert [(part["layer"], part["head"]) for part in entry["attention"]] == [(0, 11), (3, 11)]
    for part in entry["attention"]:
        assert np.array_equal(np.float32(part["weights"]), record.map(part["layer"], part["head"]))


def test_one_head_shows_every_query_with_its_strongest_keys(attncli, instant):
    out = attncli("run", "-l", "0", "-H", "2", TEXT).out
    record = instant.attend(TEXT, layers=0, heads=2)
    weights = record.map(0, 2)
    for query, token in enumerate(record.tokens.text):
        [line] = [line for line in out.splitlines() if line.startswith(f"{query:>3} {token}")]
        best = int(weights[query].argmax())
        assert f"{named(record.tokens.text, best)} {weights[query, best]:.3f}" in line


def test_tokens_are_text_and_never_commands(attncli):
    hostile = "[bold]x[/bold] \x1b[31mred \x07 \u202egnirts :smile: \x9b5n"
    for options in (["-l", "all"], ["-H", "0"], []):
        out = attncli("run", *options, hostile).out
        assert all(character.isprintable() or character == "\n" for character in out)
    assert "bold" in attncli("run", hostile).out


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-H", "3"], ["-l", "all"], ["-l", "0,1", "-H", "3"]])
def test_plain_output_where_blocks_cannot_be_encoded(process, options):
    result = process("run", *options, TEXT, env={"PYTHONIOENCODING": "ascii"})
    assert result.code == 0
    assert result.out.isascii() and "\\u" not in result.out


@pytest.mark.slow
def test_colour_only_where_it_is_wanted(process):
    def coloured(**env):
        return "\x1b[" in process("run", TEXT, env={"COLUMNS": "80", "FORCE_COLOR": "1", **env}).out

    assert coloured(TERM="xterm-256color", COLORTERM="truecolor")
    assert not coloured(TERM="xterm-256color", NO_COLOR="1")


def test_a_pipe_gets_whole_rows(attncli):
    words = " ".join(["word"] * 100)
    out = attncli("run", "-H", "0", words).out
    rows = [line for line in out.splitlines() if line[:3].strip().isdigit() and " word" in line]
    assert len(rows) == 102
    assert min(map(len, rows)) > 400  # 102 numbers of four columns


@pytest.mark.slow
def test_who_waits_for_stdin_is_told(tmp_path):
    waiting = subprocess.Popen(
        [sys.executable, "-m", "attncli", "run", "--json", "-l", "0", "-H", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "reading texts from stdin" in waiting.stderr.readline()
    out, _ = waiting.communicate("a b c")
    assert json.loads(out)["records"][0]["tokens"] == ["[CLS]", "a", "b", "c", "[SEP]"]


@pytest.fixture(scope="module")
def known():
    """The output for the text by its options, computed once."""
    return {}


def unmarked(shown):
    """Return the lines of a first look without the marks of listed heads."""
    return shown.replace("*", " ").splitlines()


@pytest.mark.parametrize("suffix", [".npz", ".json", ".safetensors"])
def test_a_saved_record_is_shown_as_its_text_would_be(suffix, attncli, known, tmp_path):
    text, path = "The unbelievable cat sat.", tmp_path / f"maps{suffix}"
    assert attncli("run", "-l", "all", "-o", path, text).code == 0
    for options in (["-l", "all"], ["-l", "3"], ["-l", "3", "-H", "1"], ["-l", "0", "--words"]):
        if str(options) not in known:
            known[str(options)] = attncli("run", text, *options)
        shown, computed = attncli("run", "--from", path, *options), known[str(options)]
        if "all" in options and suffix == ".json":  # which does not keep what is usual of the heads
            shown, computed = ([*unmarked(one.out)[:8], one.code, one.err] for one in (shown, computed))
        assert shown == computed


@pytest.mark.parametrize("selection", [(), ("-l", "all"), ("-l", "0-2"), ("-l", "3"), ("--words",)])
@pytest.mark.parametrize("saved", [False, True])
def test_a_document_has_all_findings_that_the_terminal_counts(attncli, instant, tmp_path, selection, saved):
    file = tmp_path / "a.json"
    out = attncli("run", *selection, TEXT, *(["-o", file] if saved else ["--json"])).out
    document = json.loads(file.read_text(encoding="utf-8") if saved else out)
    heads = list(dict.fromkeys((one["layer"], one["head"]) for one in document["findings"]))
    layers = {"0-2": [0, 1, 2], "3": [3]}.get(selection[-1] if selection else "", range(6))
    request, words = Request(layers=list(layers)), "--words" in selection
    record = instant.attend(TEXT, layers=list(layers), grouping=Grouping(unit="word" if words else "token"))
    found = edges(record, Usual.with_text(record, usual_of(instant, request, words)))
    assert heads == [(one.layer, one.head) for one, *_ in found]
    assert len(document["findings"]) == sum(map(len, found))
    shown = attncli("run", *selection, TEXT).out
    if len(layers) > 1:
        assert f"{len(heads)} of {12 * len(layers)} heads ha" in shown
    if saved:  # and the document is a record that can be read
        assert attncli("run", "--from", file, "--json").code == 0


@pytest.mark.parametrize("way", [("--json",), ("-o", "a.json")])
def test_findings_of_many_texts_name_their_text(attncli, tmp_path, monkeypatch, way):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text(f"A cat sat.\n{TEXT}\n", encoding="utf-8")
    out = attncli("run", "-f", "texts.txt", *way).out
    document = json.loads(out if way == ("--json",) else (tmp_path / "a.json").read_text(encoding="utf-8"))
    alone = json.loads(attncli("run", "--json", TEXT).out)["findings"]
    found = [{**one, "text": 0} for one in document["findings"] if one["text"] == 1]
    assert found == [pytest.approx(one, abs=1e-5) for one in alone]


def test_chosen_heads_have_no_findings(attncli):
    assert "findings" not in json.loads(attncli("run", "--json", "-H", "1", TEXT).out)


# --- rows of some queries ---------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["LAST", "3,suitcase", "2-4"])
def test_rows_of_some_queries_are_those_of_all(attncli, query):
    full, some = (json.loads(attncli("run", "--json", *more, TEXT).out) for more in ((), ("--query", query)))
    [whole], [record] = full["records"], some["records"]
    rows = record["rows"]
    assert rows == {"LAST": [10], "3,suitcase": [3, 8], "2-4": [2, 3, 4]}[query]
    assert record["key_tokens"] == whole["tokens"] and record["tokens"] == [whole["tokens"][row] for row in rows]
    for one, other in zip(record["attention"], whole["attention"], strict=True):
        np.testing.assert_allclose(one["weights"], np.array(other["weights"])[rows], atol=1e-5)
    for edge in some["findings"]:  # which are found among fewer words
        assert edge["query_token"] == record["tokens"][edge["query"]] and edge["weight"] >= edge["usual"] + 0.3


def test_rows_are_shown_with_their_numbers_and_saved(attncli, tmp_path):
    path = tmp_path / "rows.safetensors"
    assert attncli("run", "--query", "3,LAST", "-o", path, TEXT).code == 0
    for options in ([], ["-l", "3"], ["-l", "3", "-H", "1"]):
        shown = attncli("run", *options, "--query", "3,LAST", TEXT)
        saved = attncli("run", "--from", path, *(options or ["-l", "all"]))
        assert shown.code == 0 and saved.out.splitlines()[:9] == shown.out.splitlines()[:9]
        assert "2 tokens to 11 tokens" in shown.out
    assert "\n  3 does" in shown.out and "\n 10 [SEP]" in shown.out  # of one head
    assert attncli("run", "--from", path, "--query", "does", "--json").code == 0
    refused = attncli("flow", "--from", path)
    assert (refused.code, refused.err) == (
        2,
        "attncli: error: the record has only some rows, and following attention down to the input needs all: "
        "save it without --query\n",
    )


def test_a_row_of_a_text_of_many_tokens_has_no_legend_of_all_of_them(attncli, tiny, tmp_path):
    """And sentences of it are summed over keys."""
    (tmp_path / "long.txt").write_text("the cat sat on it.\n" * 100, encoding="utf-8")
    model = str(tiny("llama", max_position_embeddings=4096))
    line = ("run", "-m", model, "--whole", "-f", tmp_path / "long.txt", "--query", "LAST", "-l", "1", "-H", "2")
    shown = attncli(*line)
    assert shown.code == 0 and max(map(len, shown.out.splitlines())) < 120 and len(shown.out.splitlines()) < 12
    whole, merged = (json.loads(attncli(*line, *more, "--json").out)["records"][0] for more in ((), ("--unit", "line")))
    assert len(merged["key_tokens"]) == 101 and merged["rows"] == [100]  # the first token stands apart
    [row], [sums] = (one["attention"][0]["weights"] for one in (whole, merged))
    by_line = np.append(row[1:], 0).reshape(100, -1).sum(axis=1)  # the last line has no end
    np.testing.assert_allclose(sums, [row[0], *by_line], atol=1e-6)


def test_findings_have_no_bound(attncli, tiny, tmp_path, monkeypatch):
    """The findings in 600 tokens equal those of a search through the whole record."""
    (tmp_path / "long.txt").write_text("the cat sat on the unbelievable cat and it is too big " * 40, encoding="utf-8")
    monkeypatch.setenv("ATTNCLI_MODEL", str(tiny("bert", max_position_embeddings=1024)))
    document = json.loads(attncli("run", "-l", "1", "--whole", "-f", tmp_path / "long.txt", "--json").out)
    assert len(document["records"][0]["tokens"]) > 512 and document["findings"]
    model = library.load_model(str(tiny("bert", max_position_embeddings=1024)), device="cpu")
    record = model.attend((tmp_path / "long.txt").read_text(encoding="utf-8").strip(), layers=1)
    found = edges(record, Usual.with_text(record, usual_of(model, Request(layers=1))))
    assert [(one["query"], one["key"]) for one in document["findings"]] == [
        (edge.query, edge.key) for of_head in found for edge in of_head
    ]
