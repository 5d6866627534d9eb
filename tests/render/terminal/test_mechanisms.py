"""Mechanisms in the terminal: every variant has its map and its figures, and every claim its verdict."""

import pytest
from heads import heads, made_up
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from terminals import PLAIN, canvases, rows

from attncli.attention import NORMALISERS, SCORES
from attncli.checks.claims import Claim
from attncli.checks.variants import variants
from attncli.render.terminal import mechanisms
from attncli.report.terminal import NUMBERS_WIDTH as NUMBERS
from attncli.report.terminal import picture


@pytest.mark.slow
@settings(max_examples=20)
@given(heads(), canvases())
def test_maps_fit_the_width_three_beside_each_other(head, canvas):
    shown = mechanisms.variant_maps(head.record, variants(head), 1.0, 0, canvas)
    own = next(place for place, line in enumerate(shown) if line.plain == "the head's own map")
    wide = [line.plain for line in shown[own:] if cell_len(line.plain) > canvas.width]
    assert all(line.endswith(("untrained (seed 0)", "own score")) for line in wide)  # words may fold
    names = [line.plain.split() for line in shown if line.plain.startswith("softmax")]
    if canvas.width >= 40:
        assert names == [list(NORMALISERS)] * len(SCORES)


def test_each_map_is_that_of_its_variant_and_the_own_one_comes_first():
    head = made_up(tokens=20)
    found = variants(head)
    shown = [line.plain for line in mechanisms.variant_maps(head.record, found, 1.0, 0, PLAIN)]

    def drawn(weights):
        return [line.plain.rstrip() for line in picture(weights, PLAIN, 20, 20)]

    own = shown.index("the head's own map") + 2
    assert [line[NUMBERS:].rstrip() for line in shown[own : own + 20]] == drawn(head.record.map(0, 0))
    first = own + 20 + 1 + 3  # an empty line, the score, its normalisers, the keys' numbers
    for place, one in enumerate(found):
        row, column = divmod(place, 3)
        top, left = first + row * 24, column * (20 + NUMBERS + 2) + NUMBERS
        assert [line[left : left + 20].rstrip() for line in shown[top : top + 20]] == drawn(one.weights)


def test_long_texts_are_pooled_and_say_so():
    head = made_up(tokens=70)
    shown = [line.plain for line in mechanisms.variant_maps(head.record, variants(head), 1.0, 0, PLAIN)]
    assert "a cell is the largest of the weights that fall into it" in shown
    assert len(shown) < (len(SCORES) + 1) * (mechanisms.LINES + 3) + 20
    short = mechanisms.variant_maps(made_up().record, variants(made_up()), 1.0, 0, PLAIN)
    assert not any("a cell is" in line.plain for line in short)


def test_what_was_not_learned_is_called_untrained():
    head = made_up()
    found = variants(head, seed=7)
    shown = [line.plain for line in mechanisms.variant_maps(head.record, found, 1.0, 7, PLAIN)]
    names = [name for name in SCORES if name not in ("dot", "scaled_dot")]
    assert [line for line in shown if "untrained" in line] == [f"{name}, untrained (seed 7)" for name in names]
    assert "scaled_dot, the head's own score" in shown and "dot" in shown
    for row, one in zip(rows(mechanisms.variants_table(found, 1.0, 7)), found, strict=True):
        assert row[-1] == ("" if one.trained else "untrained (seed 7)")


@settings(max_examples=20)
@given(heads(), st.sampled_from([0.5, 1.0, 3.0]))
def test_the_table_has_every_variants_figures(head, temperature):
    found = variants(head, temperature)
    for row, one in zip(rows(mechanisms.variants_table(found, temperature, 0)), found, strict=True):
        name = f"softmax, T = {temperature:g}" if one.normaliser == "softmax" and temperature != 1 else one.normaliser
        assert row[:5] == (one.score, name, f"{one.entropy:.2f}", f"{one.moved:.3f}", f"{one.same_key:.0%}")


def test_claims_come_with_what_was_measured_and_a_verdict():
    claims = [
        Claim("a", "it grows", {"d_k 4": 3.941, "d_k 1024": 1006.8}, True),
        Claim("b", "it is small", {"deviation": 2.57e-7, "other": 0.0}, False),
        Claim("c", "it turns", {"8 keys: d_k 4, least": 0.9, "8 keys: d_k 4, most": 1.1}, True, "from d_k 16"),
    ]
    assert rows(mechanisms.claims_table(claims)) == [
        ("holds", "it grows\n  d_k 4: 3.94   1024: 1007"),
        ("DOES NOT HOLD here", "it is small\n  deviation: 2.6e-07   other: 0.0e+00"),
        ("holds", "it turns\n  least -> most   8 keys   d_k 4: 0.900 -> 1.10\n  from d_k 16"),
    ]
    assert mechanisms.claims_count(claims).plain == "2 of 3 claims hold here"


def test_figures_of_the_same_size_stand_together():
    figures = {"d_k 4, q·k": 3.9385, "d_k 4, / √d_k": 0.98, "d_k 16, q·k": 15.8, "d_k 16, / √d_k": 0.99015}
    assert mechanisms.measured(figures) == ["q·k -> / √d_k   d_k 4: 3.94 -> 0.980   16: 15.8 -> 0.990"]


def test_groups_have_a_line_each_and_what_is_compared_is_said_once():
    figures = {f"{keys} keys: d_k {size}, {end}": 1.0 for keys in (8, 32) for size in (4, 16) for end in ("a", "b")}
    assert mechanisms.measured(figures) == [
        "a -> b   8 keys   d_k 4: 1.00 -> 1.00   16: 1.00 -> 1.00",
        "32 keys   d_k 4: 1.00 -> 1.00   16: 1.00 -> 1.00",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0.0e+00"), (1, "1.00"), (0.5, "0.500"), (257.8, "258"), (-0.02, "-0.0200"), (-1e-9, "-1.0e-09")],
)
def test_numbers_have_three_digits(value, shown):
    assert mechanisms.three_digits(value) == shown
