"""What `attncli check` found, in the terminal."""

import numpy as np
import pytest
from rich.cells import cell_len
from terminals import PLAIN, rows, shown

from attncli.render.terminal.checked import checks_table, checks_title, diagnosis_lines, layer_maps
from attncli.report.canvas import Canvas

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
    "verdict": "wrong: Mine is attention with a, and with b",
    "right": False,
}


def lines(document, width=100, canvas=PLAIN):
    return shown(
        *checks_title(document, canvas), checks_table(document), *diagnosis_lines(document, canvas), width=width
    )


def test_a_row_a_check():
    assert [row[:3] for row in rows(checks_table(DOCUMENT))] == [
        ("self-attention", "right", "0"),
        ("causal mask", "WRONG", "2.1e+00"),
        ("float16", "WRONG", ""),
        ("weights sum to 1", "not checked", ""),
    ]


def test_what_is_wrong_is_told_with_its_place_and_what_to_change():
    text = "\n".join(lines(DOCUMENT))
    assert "mask: [query, key], True = allowed" in text
    assert "line 14 has `q @ k\\x1b[2J` (a guess, by what it does): divide by √d_k" in text
    assert "\ntranspose" in text
    smallest = lines({**DOCUMENT, "diagnosis": [], "smallest": "of one token: it gives 1, the formula 2"})
    assert smallest[-1] == "the smallest input that shows it, of one token: it gives 1, the formula 2"


def test_what_is_right_names_its_conventions_once():
    document = {**DOCUMENT, "right": True, "diagnosis": [], "verdict": f"right, {DOCUMENT['conventions'][1]}"}
    assert "\n".join(lines(document)).count("True = allowed") == 1


@pytest.mark.parametrize("width", [30, 44, 60, 120])
def test_it_fits_and_nothing_of_theirs_reaches_the_terminal(width):
    for line in lines(DOCUMENT, width):
        assert cell_len(line) <= width
        assert not {"\x1b", "\x07"} & set(line)


def test_maps_stand_beside_each_other_where_there_is_room():
    ours = np.eye(3).tolist()
    maps = {
        "layer": 0,
        "head": 0,
        "tokens": list("abc"),
        "shown": ["a", "b\x1b", "[UNK:☃]"],
        "ours": ours,
        "theirs": ours[::-1],
    }
    for width, together in ((100, True), (24, False)):
        canvas = Canvas(width, colour=False, unicode=True)
        text = [str(line) for line in layer_maps(maps, "My\x1bOwn", canvas)]
        assert together == any("0.0 of the model" in line and "0.0 by" in line for line in text)
        assert not any("\x1b" in line for line in text) and any("☃ is not in the vocabulary" in line for line in text)
    alone = "\n".join(str(line) for line in layer_maps({**maps, "theirs": None}, "Mine", PLAIN))
    assert "0.0 of the model" in alone and "0.0 by" not in alone
