"""--engine transformers: models that attncli has no encoder for, through the same commands."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from foreign_checkpoints import ANSWER, TEXT, make_foreign
from packed import page_data

from attncli import load_model, load_record
from attncli.base.printable import visible

OTHER = ("--engine", "transformers")


def taught(target):
    return () if target is None else ("--target", target)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """`checkpoint(family)` -> the directory of a small random model, made once."""
    made = {}

    def make(family: str):
        if family not in made:
            made[family] = make_foreign(tmp_path_factory.mktemp(family), family)
        return made[family]

    return make


@pytest.fixture
def expected(checkpoint):
    """`expected(family, which, ...)` -> the record that the library gives for the text."""

    def attend(family: str, **asked):
        return next(load_model(str(checkpoint(family)), "cpu", engine="transformers").attend_many([TEXT], **asked))

    return attend


def texts_of(page) -> list[dict]:
    """Return the description of the texts in a page."""
    document = page.read_text(encoding="utf-8")
    return page_data(document)["texts"]


def seen(tokens) -> list[str]:
    """Tokens as they stand in pages and pictures."""
    return [visible(token) for token in tokens.shown]


def words_of(picture) -> list[str]:
    """The texts in an SVG."""
    return [node.text for node in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("which", ["encoder", "decoder", "cross"])
def test_json_is_what_the_library_gives(attncli, checkpoint, expected, which):
    target = None if which == "encoder" else ANSWER
    record = expected("bart", which=which, target=target)
    result = attncli(
        "run", *OTHER, "-m", checkpoint("bart"), "--which", which, *taught(target), "-l", "all", "--json", TEXT
    )
    assert result.err == ""
    document = json.loads(result.out)
    [entry] = document["records"]
    assert document["model"] == record.model.document()
    assert entry["tokens"] == record.tokens.text and entry["mask"] == record.mask_name
    assert entry.get("kind", "encoder") == which
    assert entry.get("key_tokens") == (record.key_tokens.text if which == "cross" else None)
    for part in entry["attention"]:
        assert np.array_equal(np.float32(part["weights"]), record.map(part["layer"], part["head"]))


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_a_saved_cross_attention_is_loaded_and_drawn(attncli, checkpoint, expected, tmp_path, suffix):
    record = expected("t5", target=ANSWER)
    path, page, picture = tmp_path / f"maps{suffix}", tmp_path / "maps.html", tmp_path / "maps.svg"
    given = ("run", *OTHER, "-m", checkpoint("t5"), "--target", ANSWER, TEXT, "-l", "all")
    assert attncli(*given, "-o", path).code == 0
    saved = load_record(path)
    assert np.array_equal(saved.weights, record.weights) and np.array_equal(saved.mask, record.mask)
    assert (saved.tokens, saved.key_tokens, saved.kind) == (record.tokens, record.key_tokens, "cross")
    assert attncli("heatmap", "--from", path, "-l", "1", "-H", "2", "-o", picture).code == 0
    assert set(words_of(picture)) >= {*seen(record.tokens), *seen(record.keys)}
    assert attncli("view", "--from", path, "-o", page).code == 0
    [text] = texts_of(page)
    assert (text["tokens"], text["keys"]["tokens"]) == (seen(record.tokens), seen(record.keys))


def test_statistics_of_a_decoder_are_of_the_mask_that_is_asked_for(attncli, checkpoint, lines):
    by_mask = {}
    for mask in ("causal", "none"):
        found = json.loads(attncli("stats", "-m", checkpoint("gpt2"), "--mask", mask, "--json", lines).out)
        assert found["mask"] == mask
        by_mask[mask] = [one["figures"]["next"] for one in found["heads"]]
    assert not any(by_mask["causal"]) and all(by_mask["none"])


# --- commands that add up, probe and mask ----------------------------------------------------------------


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("the cat sat on the mat\na mat\nthe cat in a mat sat\n" * 4, encoding="utf-8")
    return path


def test_an_edge_of_cross_attention_is_cut_into_the_text_that_was_read(attncli, checkpoint):
    """The decoder writes fewer tokens than it reads: keys are counted and named in the text that was read."""
    given = ("-m", checkpoint("t5"), TEXT, "--target", "a")
    found = json.loads(attncli("cut", *given, "--json").out)
    assert max(edge["key"]["index"] for edge in found["edges"]) >= len(found["tokens"])
    shown = attncli("cut", *given)
    assert shown.code == 0 and "mistake" not in shown.err
