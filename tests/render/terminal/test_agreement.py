"""The table of `attncli compare`."""

import io

from rich.console import Console

from attncli.render.terminal.agreement import agreeing, agreement_table, agreement_title, ways_table

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


def drawn(document, colour=None):
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=colour is not None, color_system=colour, markup=False).print(
        agreement_title(document), agreement_table(document)
    )
    return out.getvalue()


def test_a_row_a_layer():
    lines = [line.split() for line in drawn(DOCUMENT).splitlines()]
    assert ["embeddings", "0"] in lines
    assert ["4", "2.0e-05", "5.0e-05", "99.9%"] in lines
    assert ["5", "NaN", "2.0e-04", "100%"] in lines


def test_what_is_past_the_tolerance_is_red():
    red = [part.split("\x1b")[0] for part in drawn(DOCUMENT, "truecolor").split("\x1b[1;31m")[1:]]
    assert [cell.strip() for cell in red] == ["2.0e-05", "NaN", "2.0e-04"]


def test_half_precision_has_columns_for_the_errors_and_what_is_past_is_red():
    untold = {**ROUNDING, "weights": None, "hidden": 1.0, "scale": -0.001, "scale_allowed": None}
    layers = [{**DOCUMENT["layers"][0], "weights": 1e-6, "rounding": one} for one in (ROUNDING, untold)]
    text = drawn({**DOCUMENT, "layers": layers}, "truecolor")
    red = [part.split("\x1b")[0].strip() for part in text.split("\x1b[1;31m")[1:]]
    assert red == ["2.60x", "+2.0%", "NaN"]
    assert "0.62x" in text and "1.00x" in text and "-0.1%" in text and "scores' scale" in text
    assert "scores' scale" not in drawn(DOCUMENT)


def test_a_line_a_way():
    out = io.StringIO()
    Console(file=out, width=120, force_terminal=True, color_system="truecolor", markup=False).print(
        ways_table({"ways": WAYS})
    )
    text = out.getvalue()
    red = [part.split("\x1b")[0].strip() for part in text.split("\x1b[1;31m")[1:]]
    assert red == ["3.0e-03", "NaN"]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "pair --pair 3.0e-06 1e-05" in lines
    assert "tokens theirs: no\\x1b[31m files not compared none" in lines


def test_a_name_is_text():
    assert "models/[bold]x\\x1b[31m beside transformers" in drawn(DOCUMENT)


def test_only_all_of_it_is_all():
    assert [agreeing(part) for part in (1.0, 0.99999, 0.5, 0.0)] == ["100%", "99.9%", "50.0%", "0.0%"]


def test_rows_that_do_not_count_are_said():
    assert "[PAD]" not in drawn(DOCUMENT)
    assert "20 tokens (the rows of 8 [PAD] do not count" in drawn({**DOCUMENT, "queries": 12})
