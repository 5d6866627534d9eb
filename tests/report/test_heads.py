"""Heads in the terminal: glyphs, those worth a closer look, small maps, and a large one."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, cross_records, layered_records, record_of
from rich.cells import cell_len
from terminals import canvases

from attncli.analysis.edges import Usual, edges
from attncli.analysis.patterns import summarise
from attncli.record.display import head_colour
from attncli.record.selection import numbered_names
from attncli.report.canvas import Canvas
from attncli.report.heads import (
    ASCII_GLYPHS,
    BELOW,
    MOST_NAMED,
    first_look,
    glyph_table,
    one_head,
    small_maps,
)

PLAIN = Canvas(80, colour=False, unicode=False)

# --- glyphs


@given(attention_records())
def test_every_head_has_the_glyph_of_its_pattern_and_the_legend_names_those_that_are_there(record):
    header, *lines = [line.plain for line in glyph_table(record, PLAIN)]
    assert header.split() == ["head", *map(str, record.heads)]
    summaries = summarise(record)
    for layer, line in zip(record.layers, lines, strict=False):
        shown = line.removeprefix(f"layer {layer}").split()
        assert [one[0] for one in shown] == [ASCII_GLYPHS[summaries[layer, head].label] for head in record.heads]
    legend = " ".join(lines[len(record.layers) :]).partition("  entropy")[0].split("  ")
    labels = {summary.label for summary in summaries.values()}
    assert legend == [f"{glyph} {name.replace('_', ' ')}" for name, glyph in ASCII_GLYPHS.items() if name in labels]


# --- the first look

COMMAND = "attncli run -l 3 -H 1 'The cat sat.'"


def shown_look(record, canvas, over=None, command=COMMAND):
    over = Usual.of_text(record) if over is None else over
    return [line.plain for line in first_look(record, edges(record, over), over, canvas, command)]


def model_of(layers, heads, length=16):
    """A model of this size, each head with an edge of its own."""
    weights = np.random.default_rng(0).random((layers, heads, length, length)) ** 12
    return record_of(weights / weights.sum(axis=-1, keepdims=True))


def test_a_model_of_any_usual_size_fits_80_columns_and_24_lines_with_the_prompt():
    for layers, heads in ((1, 1), (2, 2), (6, 12), (12, 12), (12, 4), (24, 16), (6, 8)):
        lines = shown_look(model_of(layers, heads), Canvas(80, colour=True, unicode=True, height=24))
        assert len(lines) <= 23 and all(cell_len(line) <= 80 for line in lines), (layers, heads)
        assert f"Next: {COMMAND}" in lines


@given(attention_records() | cross_records(), st.integers(44, 200), st.none() | st.integers(24, 60), st.booleans())
def test_no_line_is_wider_than_the_terminal(record, width, height, unicode):
    lines = shown_look(record, Canvas(width, colour=True, unicode=unicode, height=height))
    assert all(cell_len(line) <= width for line in lines)
    assert height is None or len(lines) < height


def test_the_map_beside_the_list_is_neither_dim_nor_bold():
    record, canvas = model_of(6, 12), Canvas(200, colour=True, unicode=True, height=50)
    over = Usual.of_text(record)
    lines = first_look(record, edges(record, over), over, canvas, COMMAND)
    beside = [line for line in lines if any("rgb" in str(span.style) for span in line.spans)]
    assert len(beside) == len(record.tokens) and not any(line.style for line in beside)


def test_patterns_have_other_colours_on_a_light_background():
    record, canvas = record_of(np.eye(8)[None, None]), Canvas(80, colour=True, unicode=True)
    dark, light = (glyph_table(record, one)[1].spans[0].style for one in (canvas, replace(canvas, light=True)))
    assert dark == "cyan" and light == head_colour(0)


def test_heads_are_named_with_their_edges_and_what_is_usual():
    record = model_of(2, 3)
    found = edges(record, Usual.of_text(record))
    lines = shown_look(record, Canvas(200, colour=False, unicode=False))
    assert f"{len(found)} of 6 heads have word-to-word edges far above the usual weight:" in lines
    for of_head in found[:MOST_NAMED]:
        edge = of_head[0]
        ends = f"{named(record.tokens.text, edge.query)} -> {named(record.tokens.text, edge.key)}"
        wanted = f"{edge.layer}.{edge.head}  {ends} {edge.weight:.2f} ({edge.usual:.2f})"
        assert any(line.strip().startswith(wanted) for line in lines)


def named(tokens, place):
    """A token, with its number where others are the same."""
    same = [number for number, token in enumerate(tokens) if token == tokens[place]]
    return tokens[place] if len(same) == 1 else f"{tokens[place]}#{same.index(place) + 1}"


@pytest.mark.parametrize("family", ["gpt2", "llama-no-bos"])
def test_that_the_first_token_of_a_decoder_is_a_sink_is_said(foreign, minilm, family):
    def is_said(record):
        lines = shown_look(record, Canvas(100, colour=False, unicode=True))
        found = f'(The first token, "{named(record.tokens.text, 0)}", is a sink'
        return found in re.sub(r"\s+", " ", " ".join(lines))

    text = "the cat sat on the mat"
    assert is_said(foreign(family).attend(text))
    assert not is_said(foreign("t5").attend(text, which="encoder"))
    assert not is_said(minilm.attend(text, mask="causal"))


def test_where_nothing_stands_out_it_says_so_and_what_commands_a_terminal_is_harmless():
    record = record_of(np.full((2, 2, 9, 9), 1 / 9))
    hostile = replace(record.tokens, shown=["\x1b[31mred" for _ in record.tokens.text])
    text = "\n".join(shown_look(replace(record, tokens=hostile), Canvas(100, colour=True, unicode=True)))
    assert "none of 4 heads has word-to-word edges far above the usual weight\n" in text
    assert "\x1b" not in text


# --- small maps


@given(attention_records(), canvases())
def test_small_maps_fit_the_width(record, canvas):
    wide = [line.plain for line in small_maps(record, canvas) if cell_len(line.plain.rstrip()) > canvas.width]
    assert all(line.startswith(("weight 0", "a cell is")) for line in wide)  # words may fold


def test_long_texts_are_pooled_and_say_so():
    lines = small_maps(record_of(np.eye(200)), Canvas(80, colour=True, unicode=True))
    assert any("largest of the weights" in line.plain for line in lines)
    assert len(lines) < 120


# --- a large map


@given(attention_records())
def test_a_large_map_has_every_weight(record):
    layer, head = record.layers[-1], record.heads[-1]
    lines = one_head(record, layer, head, Canvas(1000, colour=False, unicode=True))
    rows = [line.plain for line in lines[4 : 4 + len(record.tokens)]]
    for query, row in enumerate(rows):
        assert row.startswith(f"{query:>3} {record.tokens.text[query]}")
        shown = row[4 + max(map(cell_len, record.tokens.text)) + 1 :].split("  ")[0]
        for key, weight in enumerate(record.map(layer, head)[query].tolist()):
            if weight >= 0.005:
                assert f"{weight:.2f}".lstrip("0") in row or weight >= 0.995, (query, key, shown)


@given(layered_records(padding=1))
def test_a_row_that_its_own_layer_hides_all_from_says_so(record):
    """And the entropy is at most that of the keys which this layer allows."""
    for layer, masks in zip(record.layers, record.masks, strict=True):
        lines = [line.plain for line in one_head(record, layer, 0, Canvas(300, colour=False, unicode=True))]
        assert sum("may attend to nothing" in line for line in lines) == (~masks.any(axis=1)).sum()
        assert f"of at most {np.log(max(masks[:-1].sum(axis=1).max(), 1)):.2f} nats" in lines[0]


@given(cross_records(), canvases())
def test_keys_of_another_text_are_named(record, canvas):
    """A cross-attention: its rows are what was written, its columns what was read."""
    shown = "\n".join(line.plain for line in small_maps(record, canvas))
    assert shown.startswith("queries\n") and "\nkeys\n" in shown and f"{len(record.keys) - 1} [SEP]" in shown
    lines = one_head(record, 0, 0, canvas)
    assert "\nkeys\n" in "\n".join(line.plain for line in lines)
    best = int(record.map(0, 0)[-1].argmax())
    assert f"{numbered_names(record.keys)[best]} {record.map(0, 0)[-1, best]:.3f}" in lines[-1].plain


TEXTS = st.one_of(
    st.text("abc", min_size=1, max_size=40), st.text("中文🙂é", min_size=1, max_size=12), st.just("a" * 300)
)


@st.composite
def named_records(draw):
    """Draw records with tokens of any width."""
    record = draw(attention_records())
    tokens = replace(
        record.tokens, text=draw(st.lists(TEXTS, min_size=len(record.tokens), max_size=len(record.tokens)))
    )
    return replace(record, tokens=tokens)


@given(named_records(), canvases(40, 140, st.integers(8, 60)), st.integers(1, 4))
def test_it_fits_a_terminal_or_says_that_it_does_not(record, canvas, top_k):
    lines = [line.plain for line in one_head(record, record.layers[0], record.heads[0], canvas, top_k)]
    assert all(cell_len(line) <= canvas.width for line in lines)
    if "taller than the terminal" not in " ".join(lines[-2:]):
        assert len(lines) <= canvas.height - BELOW


@pytest.mark.parametrize("size", [(80, 24), (100, 24), (44, 24), (60, 24)])
def test_a_sentence_fits_common_terminals_and_what_has_no_room_is_named(size):
    """As many tokens as the sample sentence has, each with its strongest key."""
    record = record_of(np.random.default_rng(0).dirichlet(np.ones(16), 16))
    lines = [line.plain for line in one_head(record, 0, 0, Canvas(size[0], True, True, size[1]))]
    assert len(lines) <= 21 and not any("taller" in line for line in lines)
    assert "no room for " in lines[-1]
    for query, token in enumerate(record.tokens.text):
        best = int(record.map(0, 0)[query].argmax())
        [line] = [line for line in lines if line.startswith(f"{query:>3} {token}")]
        assert f"{record.map(0, 0)[query, best]:.3f}" in line
    for canvas in (Canvas(80, True, True, 60), Canvas(10_000, False, True)):
        assert not any("no room" in line.plain for line in one_head(record, 0, 0, canvas))
