"""A glyph a head: which pattern it is, and how broad it looks."""

import numpy as np
from hypothesis import given
from records import attention_records, cross_records, record_of

from attncli.analysis.patterns import summarise
from attncli.render.terminal.canvas import Canvas
from attncli.render.terminal.glyphs import ASCII_GLYPHS, bar, glyph_table, possible_keys

PLAIN = Canvas(80, colour=False, unicode=False)


@given(attention_records())
def test_every_head_has_the_glyph_of_its_pattern_in_its_layers_line(record):
    _, header, *lines = [line.plain for line in glyph_table(record, PLAIN)]
    assert header.split() == ["head", *map(str, record.heads)]
    for layer, line in zip(record.layers, lines[: len(record.layers)], strict=True):
        shown = line.removeprefix(f"layer {layer}").split()
        wanted = [ASCII_GLYPHS[summarise(record)[layer, head].label] for head in record.heads]
        assert [one[0] for one in shown] == wanted


def test_the_bar_is_as_high_as_its_share():
    assert [bar(share, PLAIN) for share in (0, 0.55, 1)] == ["0", "5", "9"]


@given(cross_records())
def test_keys_of_another_text_are_what_a_query_may_look_at(record):
    assert possible_keys(record) == len(record.keys)
    assert glyph_table(record, PLAIN)


def test_padding_is_nothing_to_look_at():
    assert possible_keys(record_of(np.full((6, 6), 1 / 6), padding=2)) == 4
