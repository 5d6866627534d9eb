"""Mistakes in the terminal: the maps that they change, and a row for each, with what it would take to show."""

from types import SimpleNamespace

import numpy as np
from heads import made_up
from rich.cells import cell_len
from terminals import PLAIN, rows

from attncli.attention.mistakes import MISTAKES
from attncli.checks.planted import Made, Mistakes, Moved
from attncli.render.captions.mistakes import SEEN, changed_maps
from attncli.render.terminal import mistakes

HEAD = made_up(tokens=9)
OWN = HEAD.record.map(0, 0)
NAN = float("nan")


def found(*moved):
    """The first mistakes, which move so much; None: they don't show."""
    made = [
        Made(one) if figures is None else Made(one, np.flip(OWN, 1).copy(), Moved(*figures))
        for one, figures in zip(MISTAKES, moved, strict=False)
    ]
    return Mistakes(made, Moved(0.5, [0.25, 0.75], 1.0))


def test_the_maps_are_the_own_one_and_those_that_change():
    some = found((0.5, [0.1], 1.0), (SEEN / 2, [0.9], 1.0), None, (NAN, [NAN], NAN))
    assert [name for name, _ in changed_maps(some)] == ["no scale", "softmax over queries"]
    lines = [line.plain for line in mistakes.mistake_maps(HEAD.record, some, PLAIN)]
    assert any(line.split("  ")[0] == "as it is" and "no scale" in line for line in lines)
    assert "scale by d_model" not in " ".join(lines)
    assert all(cell_len(line) <= PLAIN.width for line in lines)


def test_a_map_of_no_numbers_can_be_drawn():
    weights = np.full_like(OWN, NAN)
    made = [Made(MISTAKES[0], weights, Moved(NAN, [], NAN))]
    assert any("no scale" in line.plain for line in mistakes.mistake_maps(HEAD.record, Mistakes(made, None), PLAIN))


def test_rows_are_the_control_what_shows_and_what_does_not():
    shown = rows(mistakes.mistakes_table(found(None, (0.5, [0.1, 0.2], 1.25), (NAN, [], NAN))))
    assert [row[:3] for row in shown] == [
        ("maps exchanged", "0.500 (0.500)", "1.00"),
        ("scale by d_model", "0.500 (0.150)", "1.25"),
        ("scale without root", "nan", "nan"),
        ("no scale", "-", "-"),
    ]
    assert shown[-1][3].startswith("does not show here\n")
    assert shown[1][3] == f"{MISTAKES[1].says}\n  {MISTAKES[1].where}"


def test_what_does_not_show_says_what_it_takes():
    for one in MISTAKES:
        said = mistakes.unseen(Made(one))
        assert said == (f"shows only with {one.needs}" if one.needs else "does not show here")


def test_one_head_has_no_control():
    table = mistakes.mistakes_table(SimpleNamespace(made=[Made(MISTAKES[0])], exchanged=None))
    assert [row[0] for row in rows(table)] == ["no scale"]
