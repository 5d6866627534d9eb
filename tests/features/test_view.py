"""attncli view: from texts or saved records to a page in a file."""

import re

import pytest
from packed import page_data

from attncli.analysis.edges import with_usual
from attncli.corpus.usual import usual_of
from attncli.page import Start, advice, page
from attncli.record import save_records
from attncli.record.loading import load_record
from attncli.record.making import record_of
from attncli.record.selection import Request

TEXT = "The cat sat on the mat."
SENTENCE = "The trophy does not fit in the suitcase because it is too big."


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def described(folder):
    """`described("a.html")` -> the description in a page."""

    def read(name="attention.html"):
        document = (folder / name).read_text(encoding="utf-8")
        return page_data(document)

    return read


def test_the_path_is_the_output_and_the_page_is_there(attncli, folder):
    result = attncli("view", TEXT)
    assert (result.code, result.out) == (0, "attention.html\n")
    assert attncli("view", "-o", "out.htm", TEXT).out == "out.htm\n"
    assert {path.name for path in folder.iterdir()} == {"attention.html", "out.htm"}
    assert (folder / "attention.html").read_bytes() == (folder / "out.htm").read_bytes()


def test_the_page_is_that_of_the_record(attncli, folder, instant, described):
    attncli("view", "-l", "2,4", "-H", "1-3", "--vectors", "4.2", "--view", "matrix", "--query", "mat", TEXT)
    record = instant.attend(TEXT, layers="2,4", heads="1-3", vectors="4.2")
    record = with_usual(record, usual_of(instant, Request(layers="2,4", heads="1-3")))
    start = Start(view="matrix", query="mat")
    assert (folder / "attention.html").read_text(encoding="utf-8") == page(record, start, advice=advice.VIEW)


@pytest.mark.parametrize("options", [[], ["-l", "2,4"]])
def test_it_opens_on_the_head_that_run_puts_first(attncli, described, options):
    named = attncli("run", *(options or ["-l", "all"]), SENTENCE).out.partition("far above the usual weight")[2]
    attncli("view", *options, SENTENCE)
    opening = described()["start"]["opening"]
    assert f"{opening['layer']}.{opening['head']}" == named.splitlines()[1].split()[0]


def test_several_masks_are_one_text_with_a_switch(attncli, described):
    attncli("view", "-l", "0", "--mask", "none, causal,padding,none", "--pad-to", "12", TEXT)
    [text] = described()["texts"]
    assert [mask["name"] for mask in text["masks"]] == ["none", "causal", "padding"]
    assert len(text["tokens"]) == 12
    attncli("view", "-l", "0", TEXT)
    assert [mask["name"] for mask in described()["texts"][0]["masks"]] == ["padding"]


def test_several_texts_are_a_menu_and_each_has_every_mask(attncli, described, folder):
    (folder / "texts.txt").write_text("A cat.\nTwo dogs ran.\nIt rains.\n", encoding="utf-8")
    attncli("view", "-l", "0", "-f", "texts.txt", "--mask", "none,causal")
    texts = described()["texts"]
    assert [text["title"] for text in texts] == ["A cat.", "Two dogs ran.", "It rains."]
    assert all([mask["name"] for mask in text["masks"]] == ["none", "causal"] for text in texts)


def test_a_pair_has_segments_and_a_page_opens_as_it_was_asked(attncli, described, folder):
    options = ["--segments", "ab", "--no-special", "--words", "--threshold", "0.1", "--title", "Heads & tails"]
    attncli("view", "-l", "0", *options, "--pair", "It hid.", TEXT)
    assert "<title>Heads &amp; tails</title>" in (folder / "attention.html").read_text(encoding="utf-8")
    [text] = described()["texts"]
    assert set(text["segments"]) == {0, 1}
    start = described()["start"]
    assert start.pop("opening")["layer"] == 0
    assert start == {"view": "heads", "segments": "AB", "special": False, "words": True, "threshold": 0.1}


# --- q and k --------------------------------------------------------------------------------------------------


def vectors_of(description):
    return description["texts"][0]["masks"][0]["vectors"]["heads"]


def test_without_a_word_all_heads_of_a_short_text_bring_their_q_and_k(attncli, folder, described):
    result = attncli("view", f"{TEXT} " * 18)
    assert len(described()["texts"][0]["tokens"]) == 128
    assert vectors_of(described()) == [[layer, head] for layer in range(6) for head in range(12)]
    chunks = re.findall(r'id="vectors\d+">(.*?)</script>', (folder / "attention.html").read_text(encoding="utf-8"))
    size = sum(map(len, chunks))
    assert f"including q and k of 72 heads {size / 1e6:.1f} MB (--vectors)" in result.err
    whole = (folder / "attention.html").stat().st_size
    assert whole < 2 * (whole - size + 200_000)  # twice what it was with q and k of a few heads


def test_a_text_is_cut_once_however_many_masks_there_are(attncli, folder):
    (folder / "long.txt").write_text("word " * 600)
    result = attncli("view", "-l", "0", "-H", "0", "--mask", "none,causal,padding", "-f", "long.txt")
    assert [line for line in result.err.splitlines() if "kept the first" in line] == [
        "attncli: kept the first 512 of 602 tokens"
    ]


def test_the_chosen_heads_bring_theirs(attncli, described):
    attncli("view", "--vectors", "4.7,5.0-1", TEXT)
    assert vectors_of(described()) == [[4, 7], [5, 0], [5, 1]]
    result = attncli("view", "--vectors", "none", TEXT)
    assert vectors_of(described()) == []
    assert result.err.endswith("without q and k\n")


def test_a_page_tells_how_to_make_one_that_has_q_and_k_of_a_head(attncli, described, minilm):
    """Truly: what it says can be typed. Of norms, and of maps from elsewhere, another thing is true."""

    def page_advice(*options):
        assert attncli("view", *options).code == 0
        return described()["advice"]

    assert page_advice("--vectors", "4.0", TEXT) == "attncli view --vectors {head} makes a page that has them."
    assert "without --measure norm" in page_advice("--measure", "norm", TEXT)
    minilm.attend(TEXT, layers=[1]).save("maps.npz")
    assert "attncli run --vectors {head} -o maps.safetensors TEXT" in page_advice("--from", "maps.npz")
    assert attncli("run", "-l", "all", "--vectors", "1.3", "-o", "maps.safetensors", TEXT).code == 0
    page_advice("--from", "maps.safetensors")
    assert vectors_of(described()) == [[1, 3]]
    record_of([[1.0]], ["a"]).save("other.npz")
    assert page_advice("--from", "other.npz") == advice.FOREIGN
    assert attncli("align", "3 March 2021", "-o", "date.npz").code == 0
    assert page_advice("--from", "date.npz") == advice.ALIGN


# --- saved records --------------------------------------------------------------------------------------------


def test_a_saved_record_gives_the_same_page(attncli, folder, instant):
    record = instant.attend(TEXT, layers=[1, 4], heads=[2, 6], vectors="4.6")
    usual = usual_of(instant, Request(layers=[1, 4], heads=[2, 6]))  # which `run` saves as well
    with_usual(record, usual).save("maps.safetensors")
    attncli("view", "-l", "1,4", "-H", "2,6", "--vectors", "4.6", "-o", "model.html", TEXT)
    attncli("view", "--from", "maps.safetensors", "-o", "saved.html")
    first, second = ((folder / name).read_text(encoding="utf-8") for name in ("model.html", "saved.html"))
    assert first.replace(advice.VIEW, advice.SAVED) == second != first  # how to get more q and k is another thing
    attncli("view", "--from", "maps.safetensors", "-l", "4", "-H", "6", "-o", "part.html")
    part = load_record("maps.safetensors").select(layers=[4], heads=[6])
    assert (folder / "part.html").read_text(encoding="utf-8") == page(part, advice=advice.SAVED)


def test_of_a_saved_record_some_masks_can_be_kept(attncli, refused, described, minilm):
    masks = ("none", "causal", "padding")
    save_records([minilm.attend(TEXT, layers=0, heads=0, mask=mask) for mask in masks], "maps.safetensors")
    attncli("view", "--from", "maps.safetensors")
    assert [mask["name"] for mask in described()["texts"][0]["masks"]] == list(masks)
    attncli("view", "--from", "maps.safetensors", "--mask", "causal,none")
    assert [mask["name"] for mask in described()["texts"][0]["masks"]] == ["none", "causal"]
    minilm.attend(TEXT, layers=0, heads=0).save("one.npz")
    assert "was made with --mask padding" in refused("view", "--from", "one.npz", "--mask", "causal,padding")


def test_open_opens_the_page_in_the_browser(attncli, monkeypatch, folder):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    attncli("view", "-l", "0", TEXT)
    assert opened == []
    assert attncli("view", "-l", "0", "--open", TEXT).code == 0
    assert opened == [(folder / "attention.html").as_uri()]
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    result = attncli("view", "-l", "0", "--open", TEXT)
    assert result.code == 0 and result.err.endswith("no browser could be opened: open attention.html yourself\n")
