"""The table of `attncli compare`, of a document made up here."""

from attncli.features.compare import _layers, _ways
from attncli.report import Cell
from attncli.report.terminal import text_of

DOCUMENT = {
    "model": {"name": "models/[bold]x\x1b[31m"},
    "weights": "pretrained",
    "against": "transformers",
    "dtype": "float32",
    "mask": "causal",
    "texts": 2,
    "tokens": 20,
    "queries": 20,
    "tolerance": {"weights": 1e-5, "hidden": 1e-4},
    "vectors": "hidden states",
    "embeddings": 0.0,
    "embeddings_allowed": 1e-4,
    "layers": [
        {"layer": 4, "weights": 2e-5, "hidden": 5e-5, "agreement": 0.9996, "weights_allowed": 1e-5},
        {"layer": 5, "weights": None, "hidden": 2e-4, "agreement": 1.0, "weights_allowed": 1e-3},
    ],
}
for _layer in DOCUMENT["layers"]:
    _layer |= {"hidden_allowed": 1e-4, "rounding": None}
ROUNDING = {"weights": 0.62, "hidden": 2.6, "allowed": 2.5, "scale": 0.02, "scale_allowed": 0.014}


WAYS = [
    {"way": "pair", "of": "--pair", "difference": 3e-6, "allowed": 1e-5, "same": True, "note": ""},
    {"way": "norms", "of": "[bold]", "difference": 3e-3, "allowed": 1e-4, "same": False, "note": ""},
    {"way": "sums", "of": "stats", "difference": None, "allowed": 1e-4, "same": False, "note": "too large"},
    {"way": "tokens", "of": "theirs", "difference": None, "allowed": 0.0, "same": True, "note": "no\x1b[31m files"},
]


def cells(table, style):
    return [cell.text for row in table.rows for cell in row if isinstance(cell, Cell) and cell.style == style]


def drawn(document):
    return text_of([], [_layers(document)])


def test_what_is_past_the_tolerance_is_marked():
    assert cells(_layers(DOCUMENT), "wrong") == ["2.0e-05", "NaN", "2.0e-04"]
    assert cells(_ways(WAYS), "wrong") == ["3.0e-03", "NaN"]


def test_half_precision_has_columns_for_the_errors():
    untold = {**ROUNDING, "weights": None, "hidden": 1.0, "scale": -0.001, "scale_allowed": None}
    layers = [{**DOCUMENT["layers"][0], "weights": 1e-6, "rounding": one} for one in (ROUNDING, untold)]
    document = {**DOCUMENT, "layers": layers}
    assert cells(_layers(document), "wrong") == ["2.60x", "+2.0%", "NaN"]
    text = drawn(document)
    assert "0.62x" in text and "1.00x" in text and "-0.1%" in text and "scores' scale" in text
    assert "scores' scale" not in drawn(DOCUMENT)


def test_a_line_a_way_and_names_are_text():
    lines = [" ".join(line.split()) for line in text_of([], [_ways(WAYS)]).splitlines()]
    assert "pair --pair 3.0e-06 1e-05" in lines
    assert "tokens theirs: no\\x1b[31m files not compared none" in lines


def test_only_all_of_it_is_all():
    layers = [{**DOCUMENT["layers"][0], "agreement": share} for share in (1.0, 0.99999, 0.5, 0.0)]
    table = _layers({**DOCUMENT, "layers": layers})
    assert [row[3] for row in table.rows[1:]] == ["100%", "99.9%", "50.0%", "0.0%"]
