"""The reports of `attncli check` in the terminal."""

import re

import numpy as np
import pytest
from rich.cells import cell_len
from terminals import printed_lines

from attncli.features.check import CheckedCode, CheckedModel
from attncli.report.canvas import Canvas
from attncli.report.terminal import lines_of

DOCUMENT = {
    "name": "Mine[bold]\x1b[31m",
    "kind": "attention",
    "checks": [
        {"name": "self-attention", "holds": True, "difference": 0.0, "note": ""},
        {"name": "causal mask", "holds": False, "difference": 2.13, "note": ""},
        {
            "name": "float16",
            "holds": False,
            "difference": None,
            "note": "RuntimeError: \x1b]0;title\x07 of a [half] " * 4,
        },
        {"name": "weights sum to 1", "holds": None, "difference": None, "note": "it gives no weights"},
    ],
    "conventions": ["arrays are [batch, token, d_model]", "mask: [query, key], True = allowed"],
    "diagnosis": [
        {"mistake": "a", "says": "with a", "remedy": "divide by √d_k", "line": 14, "text": "q @ k\x1b[2J"},
        {"mistake": "b", "says": "with b", "remedy": "transpose", "line": None, "text": ""},
    ],
    "smallest": None,
    "hint": None,
    "maps": None,
    "verdict": "wrong: Mine computes attention with a, and with b",
    "right": False,
}


def lines(result, width=100):
    report = result.report()
    canvas = Canvas(width, colour=False, unicode=True)
    return printed_lines(*lines_of(report.title, report.parts, canvas), width=width)


def test_a_wrong_one_has_its_conventions_checks_places_and_remedies():
    text = lines(CheckedCode(DOCUMENT))
    assert text[:2] == [r"Mine[bold]\x1b[31m as attention", "; ".join(DOCUMENT["conventions"])]
    rows = [" ".join(line.split()) for line in text]
    assert "self-attention right 0" in rows and "causal mask WRONG 2.1e+00" in rows
    assert "weights sum to 1 not checked it gives no weights" in rows
    assert r"probably line 14, `q @ k\x1b[2J`: divide by √d_k" in text and text[-1] == "transpose"
    assert CheckedCode(DOCUMENT).report().holds is False
    smallest = lines(CheckedCode({**DOCUMENT, "diagnosis": [], "smallest": "of one token: it gives 1, the formula 2"}))
    assert smallest[-1] == "the smallest input that shows it, of one token: it gives 1, the formula 2"


def test_a_right_one_names_its_conventions_once():
    document = {**DOCUMENT, "right": True, "diagnosis": [], "verdict": f"right, {DOCUMENT['conventions'][1]}"}
    assert "\n".join(lines(CheckedCode(document))).count("True = allowed") == 1 and CheckedCode(document).report().holds


@pytest.mark.parametrize("width", [30, 44, 60, 120])
def test_it_fits_and_nothing_of_theirs_reaches_the_terminal(width):
    for line in lines(CheckedCode(DOCUMENT), width):
        assert cell_len(line) <= width
        assert not {"\x1b", "\x07"} & set(line)


def test_maps_stand_beside_each_other_where_there_is_room():
    ours = np.eye(3).tolist()
    maps = {"layer": 0, "head": 0, "tokens": list("abc"), "shown": ["a", "b\x1b", "c"], "ours": ours, "theirs": ours}
    for width, together in ((100, True), (24, False)):
        text = lines(CheckedCode({**DOCUMENT, "name": "My\x1bOwn", "maps": maps}), width)
        assert together == any("0.0 of the model" in line and "0.0 by" in line for line in text)
        assert not any("\x1b" in line for line in text)
    alone = "\n".join(lines(CheckedCode({**DOCUMENT, "maps": {**maps, "theirs": None}})))
    assert "0.0 of the model" in alone and "0.0 by" not in alone


def test_the_laws_of_a_model_by_backend():
    def outcome(law, backend, holds, note=""):
        return {"name": law, "backend": backend, "holds": holds, "note": note, "says": note}

    document = {
        "name": "transformers:mine",
        "kind": "decoder",
        "checks": [
            outcome("look-ahead", "eager", True),
            outcome("look-ahead", "sdpa", False, "token 1 differs by 0.5"),
            outcome("packed documents", "eager", None, "not promised: eager does not"),
            outcome("packed documents", "sdpa", None, "not promised: sdpa does not"),
            outcome("window", "eager", None, "the configuration has no window"),
        ],
        "backends": [
            {"name": "eager", "available": True, "note": ""},
            {"name": "sdpa", "available": True, "note": ""},
            {"name": "flash", "available": False, "note": "no package"},
        ],
        "verdict": "wrong: transformers:mine breaks look-ahead (sdpa)",
        "right": False,
    }
    rows = [" ".join(line.split()) for line in lines(CheckedModel(document))]
    assert {
        "law eager sdpa",
        "look-ahead right WRONG",
        "packed documents - -",
        "window - -",
    } <= set(rows)
    assert rows[-5:] == [
        "wrong: transformers:mine breaks look-ahead (sdpa)",
        "look-ahead (sdpa): token 1 differs by 0.5",
        "packed documents: not promised: eager, sdpa does not",
        "not checked: window (the configuration has no window)",
        "not checked: flash (no package)",
    ]
    assert CheckedModel(document).report().holds is False
    law = {**document["checks"][0], "name": "packed documents, a mask of ones", "backend": "flex_attention"}
    backends = [*document["backends"], {"name": "flex_attention", "available": True, "note": ""}]
    narrow = lines(CheckedModel({**document, "checks": [*document["checks"], law], "backends": backends}), 60)
    assert re.search(r"packed documents, a mask of +- +- +right *\n +ones", "\n".join(narrow))
