"""A glyph a head: which pattern it is, and how broad it looks."""

import numpy as np
from hypothesis import given
from records import attention_records, cross_records, record_of
from rich.cells import cell_len
from terminals import canvases

from attncli.analysis.patterns import summarise
from attncli.render.terminal.glyphs import ASCII_GLYPHS, bar, glyph_table, possible_keys
from attncli.report.canvas import Canvas

PLAIN = Canvas(80, colour=False, unicode=False)


@given(attention_records())
def test_every_head_has_the_glyph_of_its_pattern_in_its_layers_line(record):
    _, header, *lines = [line.plain for line in glyph_table(record, PLAIN)]
    assert header.split() == ["head", *map(str, record.heads)]
    for layer, line in zip(record.layers, lines[: len(record.layers)], strict=True):
        shown = line.removeprefix(f"layer {layer}").split()
        wanted = [ASCII_GLYPHS[summarise(record)[layer, head].label] for head in record.heads]
        assert [one[0] for one in shown] == wanted


@given(attention_records())
def test_the_legend_names_the_patterns_that_are_there_and_no_others(record):
    lines = [line.plain for line in glyph_table(record, PLAIN)[2 + len(record.layers) :]]
    said = " ".join(lines).partition("  entropy")[0].split("  ")
    labels = {summary.label for summary in summarise(record).values()}
    assert said == [f"{glyph} {name.replace('_', ' ')}" for name, glyph in ASCII_GLYPHS.items() if name in labels]


def test_the_bar_is_as_high_as_its_share():
    assert [bar(share, PLAIN) for share in (0, 0.55, 1)] == ["0", "5", "9"]


@given(cross_records())
def test_keys_of_another_text_are_what_a_query_may_look_at(record):
    assert possible_keys(record, record.layers[0]) == len(record.keys)
    assert glyph_table(record, PLAIN)


def test_padding_is_nothing_to_look_at():
    assert possible_keys(record_of(np.full((6, 6), 1 / 6), padding=2), 0) == 4


def test_what_a_layer_hides_is_nothing_to_look_at_in_this_layer():
    """Both layers look at all that they may alike: at six keys, and at three."""
    masks = np.stack([np.ones((6, 6), dtype=bool), np.tile([True, False], (6, 3))])
    record = record_of((masks / masks.sum(axis=-1, keepdims=True))[:, None], masks)
    assert [possible_keys(record, layer) for layer in record.layers] == [6, 3]
    lines = [line.plain for line in glyph_table(record, PLAIN)]
    assert [line[-1] for line in lines[2:4]] == ["9", "9"]


@given(attention_records(), canvases(narrowest=20))
def test_heads_that_have_no_room_follow_below(record, canvas):
    lines = [line.plain for line in glyph_table(record, canvas)[1:]]
    heads = [int(number) for line in lines if line.startswith("head ") for number in line.split()[1:]]
    assert heads == record.heads
    grid = [line for line in lines if line.startswith(("head ", "layer "))]
    assert all(cell_len(line) <= canvas.width for line in grid)
    assert len(grid) % (1 + len(record.layers)) == 0
