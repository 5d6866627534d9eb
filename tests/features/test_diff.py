"""attncli diff."""

import json
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from foreign_checkpoints import make_foreign
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from packed import page_data
from records import record_of

from attncli import RequestError, diff, load_model
from attncli.analysis.difference import difference, largest_cells
from attncli.analysis.patterns import row_shares, total_variation
from attncli.features.diff import ComparedRecords
from attncli.report.figure.drawing import INK
from attncli.report.figure.maps import COLOURS
from attncli.report.paper import Paper
from attncli.report.parts import in_cell, signed

CAT, DOG = "The cat sat on the mat.", "The dog sat on the mat."


def document_of(attncli, *arguments):
    return json.loads(attncli("diff", *arguments, "--json").out)


def check(found, first, second):
    """Every head's number, and the largest cell, against the two records."""
    moved = total_variation(first.weights, second.weights).mean(axis=-1)
    assert {(one["layer"], one["head"]) for one in found["heads"]} == {
        (layer, head) for layer in first.layers for head in first.heads
    }
    for one in found["heads"]:
        place = first.layers.index(one["layer"]), first.heads.index(one["head"])
        assert one["moved"] == pytest.approx(moved[place], abs=1e-6)
    change = np.abs(second.weights - first.weights)
    cell = found["cells"][0]
    assert abs(cell["change"]) == pytest.approx(change.max(), abs=1e-6)
    assert cell["first"] == pytest.approx(first.map(cell["layer"], cell["head"])[cell["query"], cell["key"]], abs=1e-6)


CAUSAL, NORM = ("--masks", "padding,causal"), ("--measures", "weight,norm")


@pytest.mark.parametrize(
    ("arguments", "first", "second", "differs"),
    [
        ((CAT, DOG, "-l", "1,4"), {"layers": "1,4"}, {"text": DOG, "layers": "1,4"}, "tokens"),
        (
            (CAT, DOG, "-l", "1", "--pair", "Why?"),
            {"layers": 1, "pair": "Why?"},
            {"text": DOG, "layers": 1, "pair": "Why?"},
            "tokens",
        ),
        (
            (CAT, DOG, "-l", "2", "--measure", "norm"),
            {"layers": 2, "measure": "norm"},
            {"text": DOG, "layers": 2, "measure": "norm"},
            "tokens",
        ),
        ((CAT, "-H", "3", *CAUSAL), {"heads": 3}, {"heads": 3, "mask": "causal"}, "mask"),
        ((CAT, "-l", "1,4", *NORM), {"layers": "1,4"}, {"layers": "1,4", "measure": "norm"}, "measure"),
    ],
)
def test_two_texts_masks_or_measures(attncli, minilm, arguments, first, second, differs):
    """Norms are compared as shares of their rows."""
    found = document_of(attncli, *arguments)
    check(found, *(row_shares(minilm.attend(**{"text": CAT, **side})) for side in (first, second)))
    assert [name for name in ("tokens", "mask", "measure") if found["first"][name] != found["second"][name]] == [
        differs
    ]


def test_transformers_runs_what_attncli_does_not(attncli, tmp_path):
    opt = str(make_foreign(tmp_path, "opt"))
    found = document_of(attncli, "the cat", "a cat", "-m", opt, "--engine", "transformers")
    model = load_model(opt, "cpu", engine="transformers")
    check(found, *model.attend_many(["the cat", "a cat"]))
    found = document_of(attncli, "the cat", "--measures", "weight,norm", "-m", opt)
    check(found, model.attend("the cat"), row_shares(model.attend("the cat", measure="norm")))
    found = document_of(attncli, "the cat", "--masks", "causal,none", "-m", opt)
    check(found, model.attend("the cat"), model.attend("the cat", mask="none"))
    assert found["heads"][0]["moved"] > 0


def test_two_models_on_one_text_in_what_both_have(attncli, tiny):
    small, large = tiny("bert", num_hidden_layers=2), tiny("bert", seed=1)
    done = attncli("diff", "the cat", "--models", f"{small},{large}", "--json")
    found = json.loads(done.out)
    assert [found[name]["model"]["name"] for name in ("first", "second")] == [str(small), str(large)]
    assert {one["layer"] for one in found["heads"]} == {0, 1} and found["heads"][0]["moved"] > 0
    assert "only heads that both sides have are compared: layers 0-1, heads 0-3" in done.err


def test_two_saved_records_are_as_the_texts_themselves(attncli, tmp_path):
    paths = [str(tmp_path / name) for name in ("a.npz", "b.safetensors")]
    for text, path in zip((CAT, DOG), paths, strict=True):
        attncli("run", text, "-l", "all", "-o", path)
    assert document_of(attncli, *paths) == document_of(attncli, CAT, DOG)
    assert {one["layer"] for one in document_of(attncli, *paths, "-l", "2")["heads"]} == {2}
    assert document_of(attncli, paths[0], paths[0])["cells"] == []


def test_the_terminal_shows_the_numbers_of_json(attncli):
    found = document_of(attncli, CAT, DOG, "--top", "4")
    shown = attncli("diff", CAT, DOG, "--top", "4").out
    assert all(in_cell(one["moved"]) in shown for one in found["heads"])
    rows = [line.split() for line in shown.splitlines() if line.strip()[:2] == f"{found['heads'][0]['layer']}."]
    assert [row[-1] for row in rows] == [signed(cell["change"]) for cell in found["cells"]]
    assert len(rows) == 4


def test_words_of_other_pieces_are_made_as_many(attncli, refused):
    texts = ("The embeddings sat.", "The big cat.")
    assert "merge pieces into words with --words" in refused("diff", *texts)
    found = document_of(attncli, *texts, "--words")
    assert found["first"]["tokens"][2] == "embeddings" and len(found["first"]["tokens"]) == 6


@pytest.mark.parametrize(
    ("arguments", "sides"),
    [
        ((CAT, DOG), ["the cat sat on the mat .", "the dog sat on the mat ."]),
        ((CAT, "--masks", "none,causal"), ["mask none", "mask causal"]),
        ((CAT, "--measures", "weight,norm"), ["weight", "share of norm"]),
        ((CAT, "--without", "0.1"), ["minilm", "minilm without 0.1"]),
    ],
)
def test_its_page_opens_where_they_differ_most_and_says_what_differs(attncli, tmp_path, arguments, sides):
    path = tmp_path / "diff.html"
    assert attncli("diff", *arguments, "-l", "0,1", "-o", str(path)).out == f"{path}\n"
    held = page_data(path.read_text(encoding="utf-8"))
    found = document_of(attncli, *arguments, "-l", "0,1")
    assert [panel.get("about") for panel in held["panels"]] == [*sides, None]
    assert [held["start"][name] for name in ("layer", "head")] == [
        found["heads"][0][name] for name in ("layer", "head")
    ]
    moved = {(one["layer"], one["head"]): one["moved"] for one in found["heads"]}
    assert np.array(held["moved"]).ravel().tolist() == pytest.approx([moved[head] for head in sorted(moved)], abs=1e-6)


def test_a_text_that_ends_like_a_file_is_a_text(attncli):
    found = document_of(attncli, "I saved maps.npz", "I found maps.npz", "-l", "0")
    assert found["first"]["tokens"][1:3] == ["i", "saved"]


def test_in_python_it_takes_models_records_and_their_files(minilm, tmp_path):
    first, second = minilm.attend(CAT), minilm.attend(DOG)
    first.save(tmp_path / "a.npz")
    found = diff(minilm, CAT, DOG).document()
    assert found == diff(first, second).document()
    assert found == diff(first=tmp_path / "a.npz", second=second).document()
    silenced = diff(minilm, CAT, without="0.1").document()
    assert silenced == diff(first=CAT, models=[minilm, minilm.without("0.1")]).document()
    assert diff(minilm, CAT, masks=("none", "causal")).found.second.mask_name == "causal"


@pytest.mark.parametrize(
    "arguments, options, says",
    [
        (("record", "record", CAT), {}, "second has no effect after two records"),
        ((None, "record", CAT), {}, "can only be compared with another one"),
        (("record", "record"), {"mask": "causal"}, "mask has no effect on saved records"),
        (("minilm", CAT), {"masks": ["none"]}, "takes two names separated by a comma"),
        (("minilm", CAT), {"models": "a,b"}, "model has no effect with --models, which names both"),
    ],
)
def test_what_python_gives_in_vain_is_refused(minilm, arguments, options, says):
    given = [minilm.attend(CAT) if one == "record" else one for one in arguments]
    with pytest.raises(RequestError, match=says):
        diff(*given, **options)


# --- the report -----------------------------------------------------------------------------------------


def test_the_two_are_told_apart_and_a_long_text_is_cut():
    long = record_of(np.full((60, 60), 1 / 60))
    title, *lines = str(ComparedRecords(difference(long, replace(long, mask_name="causal")))).splitlines()
    assert title == "A: mask padding · B: mask causal"
    assert lines[0].startswith("A  made-up · mask padding · 60 tokens · cat ##s")
    assert lines[1].startswith("B  made-up · mask causal · 60 tokens")
    assert all(line.endswith(" ...") and len(line) < 130 for line in lines[:2])


def test_tokens_that_are_not_the_same_are_both_named():
    first = record_of(np.full((4, 4), 1 / 4))
    tokens = replace(first.tokens, shown=[], text=["[CLS]", "dog\x1b", "##s", "[SEP]"])
    other = replace(first, tokens=tokens, weights=np.eye(4, dtype=np.float32)[None, None])
    shown = str(ComparedRecords(difference(first, other), 16))
    assert "1 cat / dog" in shown and "2 ##s " in shown and "\x1b" not in shown


# --- the picture ----------------------------------------------------------------------------------------


def drawn_of(found, top=10):
    return ComparedRecords(found, top).report().parts[0].figure(["A: one", "B: other"], Paper())


NUMBERS = np.random.default_rng(4)


def two(layers=2, heads=3, tokens=5):
    first = record_of(NUMBERS.dirichlet(np.ones(tokens), (layers, heads, tokens)))
    return difference(first, record_of(NUMBERS.dirichlet(np.ones(tokens), (layers, heads, tokens))))


def images(drawn):
    return [one for one in drawn.axes[0].get_children() if isinstance(one, AxesImage)]


def texts_in_picture(drawn):
    return [text.get_text() for text in drawn.findobj(Text) if text.get_text()]


def test_the_maps_are_those_of_the_heads_that_differ_most():
    found = two()
    drawn = images(drawn_of(found))
    assert len(drawn) == 9
    first = max(found.first.weights.max(), found.second.weights.max())
    weights = matplotlib.colormaps[COLOURS]
    for place, (layer, head) in enumerate(found.heads()[:3]):
        for column, record in enumerate((found.first, found.second)):
            colours = weights(record.map(layer, head) / first)
            np.testing.assert_allclose(drawn[3 * place + column].get_array(), colours, atol=0.02)
        change = found.second.map(layer, head) - found.first.map(layer, head)
        picture = drawn[3 * place + 2].get_array()
        red, blue = picture[..., 0], picture[..., 2]
        assert ((red > blue) == (change > 0))[np.abs(change) > 0.05].all()


def test_the_cells_that_differ_most_have_frames_in_all_three_maps():
    found = two(layers=1, heads=1, tokens=6)
    drawn = drawn_of(found, 4)
    left, right, _, top = images(drawn)[2].get_extent()
    cell = (right - left) / 6
    frames = {
        (round((one.get_y() - top) / cell), round((one.get_x() - left) / cell))
        for one in drawn.findobj(Rectangle)
        if not one.get_fill()
        and matplotlib.colors.same_color(one.get_edgecolor(), INK)
        and one.get_width() == pytest.approx(cell)
        and one.get_x() >= left - 1e-6
    }
    assert frames == {(one.query, one.key) for one in largest_cells(found, 4)}


@pytest.mark.parametrize("tokens", [2, 40, 300])
def test_it_is_drawn_at_any_length_and_nothing_reaches_out_of_it(tokens):
    drawn = drawn_of(two(1, 2, tokens))
    width, height = drawn.get_size_inches()
    assert max(width, height) < 30
    for image in images(drawn):
        left, right, bottom, top = image.get_extent()
        assert 0 < left < right < width and 0 < top < bottom < height
