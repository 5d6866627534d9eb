"""What masks do, in the terminal: a map a mask, and a verdict a law."""

from types import SimpleNamespace

import numpy as np
from records import record_of
from terminals import PLAIN, rows

from attncli.analysis.masking import MaskEffect
from attncli.render.terminal.masks import effects_table, laws_table, mask_maps
from attncli.report.terminal import picture


def test_the_map_under_each_mask_stands_under_its_name():
    causal = np.tri(25) / np.tri(25).sum(axis=1, keepdims=True)
    records = {"none": record_of(np.full((25, 25), 0.04)), "causal": record_of(causal)}
    lines = [line.plain for line in mask_maps(records, [(0, 0)], PLAIN)]
    place = next(number for number, line in enumerate(lines) if line.split() == ["0.0", "unmasked", "0.0", "causal"])
    drawn = [[line.plain for line in picture(one.map(0, 0), PLAIN, 25, 32)] for one in records.values()]
    for number, (line, left, right) in enumerate(zip(lines[place + 2 :], *drawn, strict=False)):
        assert line == f"{number:>5} {left}  {number:>5} {right}".rstrip()


def test_a_row_a_head_has_what_each_mask_moved():
    effects = {"causal": {(3, 1): MaskEffect(0.25, 0.0)}, "padding": {(3, 1): MaskEffect(0.5, 0.125)}}
    assert rows(effects_table(effects)) == [("3.1", "0.250", "0", "0.500", "0.125")]


def test_a_law_has_its_deviation_and_a_verdict():
    laws = [
        SimpleNamespace(statement="a", deviation=2e-7, holds=True, note=""),
        SimpleNamespace(statement="b", deviation=0.5, holds=False, note=""),
        SimpleNamespace(statement="c", deviation=None, holds=None, note="no room"),
        SimpleNamespace(statement="d", deviation=1e-3, holds=None, note=""),
    ]
    assert rows(laws_table(laws)) == [
        ("a", "2.0e-07", "holds"),
        ("b", "5.0e-01", "DOES NOT HOLD"),
        ("c\n  (no room)", "-", "not tested"),
        ("d", "1.0e-03", "no change seen"),
    ]
