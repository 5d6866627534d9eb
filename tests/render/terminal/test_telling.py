"""The first look at a text: it fits the terminal, and says what it is held against."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, cross_records, record_of
from rich.cells import cell_len

from attncli.analysis.telling import Usual, edges
from attncli.render.terminal.telling import MOST, first_look
from attncli.report.canvas import Canvas

COMMANDS = ["attncli run -l 3 -H 1 'The cat sat.'", "attncli run -l 3 'The cat sat.'", "attncli view 'The cat sat.'"]


def look(record, canvas, over=None, commands=COMMANDS):
    over = Usual.of_text(record) if over is None else over
    return [line.plain for line in first_look(record, edges(record, over), over, canvas, commands)]


def model_of(layers, heads, length=16):
    """A model of this size, each head with an edge of its own."""
    weights = np.random.default_rng(0).random((layers, heads, length, length)) ** 12
    return record_of(weights / weights.sum(axis=-1, keepdims=True))


def test_a_model_of_any_usual_size_fits_80_columns_and_24_lines_with_the_prompt():
    for layers, heads in ((1, 1), (2, 2), (6, 12), (12, 12), (12, 4), (24, 16), (6, 8)):
        lines = look(model_of(layers, heads), Canvas(80, colour=True, unicode=True, height=24))
        assert len(lines) <= 23 and all(cell_len(line) <= 80 for line in lines), (layers, heads)
        assert "attncli run -l 3 -H 1 'The cat sat.'" in lines


@given(attention_records() | cross_records(), st.integers(44, 200), st.none() | st.integers(24, 60), st.booleans())
def test_no_line_is_wider_than_the_terminal(record, width, height, unicode):
    lines = look(record, Canvas(width, colour=True, unicode=unicode, height=height))
    assert all(cell_len(line) <= width for line in lines[1:])  # the first is the title, whose words may fold
    assert height is None or len(lines) < height


def test_a_long_command_takes_more_lines_and_fewer_are_shown():
    long = [f"attncli run -l 3 -H 1 '{'cat ' * 60}'"] * 3
    canvas = Canvas(80, colour=True, unicode=True, height=24)
    lines = look(model_of(6, 12), canvas, commands=long)
    assert lines.count(long[0]) == 1 and len(lines) + 3 < 24


def test_heads_are_named_with_their_edges_and_what_is_usual():
    record = model_of(2, 3)
    found = edges(record, Usual.of_text(record))
    lines = look(record, Canvas(200, colour=False, unicode=False))
    assert f"{len(found)} of 6 heads have edges between words far above what is usual:" in lines
    for of_head in found[:MOST]:
        edge = of_head[0]
        ends = f"{named(record.tokens.text, edge.query)} -> {named(record.tokens.text, edge.key)}"
        wanted = f"{edge.layer}.{edge.head}  {ends} {edge.weight:.2f} ({edge.usual:.2f})"
        assert any(line.strip().startswith(wanted) for line in lines)


def named(tokens, place):
    """A token, with its number where others are the same."""
    same = [number for number, token in enumerate(tokens) if token == tokens[place]]
    return tokens[place] if len(same) == 1 else f"{tokens[place]}#{same.index(place) + 1}"


def test_two_edges_between_the_same_words_are_told_apart():
    weights = np.full((14, 14), 1 / 14)
    for query, key in ((3, 10), (10, 3)):
        weights[query] = 0.1 / 13
        weights[query, key] = 0.9
    record = record_of(weights)
    assert record.tokens.text[3] == record.tokens.text[10]
    [line] = [one for one in look(record, Canvas(100, colour=False, unicode=True)) if one.startswith("  0.0")]
    named = [part.rsplit(" ", 2)[0] for part in line.split("  ")[2:]]
    assert sorted(named) == ["中#1 → 中#2", "中#2 → 中#1"]


@pytest.mark.parametrize("family", ["gpt2", "llama-no-bos"])
def test_that_the_first_token_of_a_decoder_is_a_sink_is_said(foreign, minilm, family):
    def said(record):
        lines = look(record, Canvas(100, colour=False, unicode=True))
        return re.sub(r"\s+", " ", " ".join(lines))

    record = foreign(family).attend("the cat sat on the mat")
    assert f'(the first token, "{named(record.tokens.text, 0)}", is a sink' in said(record)
    assert "is a sink" not in said(foreign("t5").attend("the cat sat on the mat", which="encoder"))
    assert "is a sink" not in said(minilm.attend("the cat sat on the mat", mask="causal"))


def test_where_nothing_stands_out_it_says_so():
    text = "\n".join(look(record_of(np.full((2, 2, 9, 9), 1 / 9)), Canvas(100, colour=False, unicode=True)))
    assert "none of 4 heads has edges between words far above what is usual\n" in text


def test_what_it_is_held_against_is_said():
    record = model_of(2, 2)
    for texts, said in ((1, "in this text,"), (13, "in this and 12 texts of attncli's own,")):
        over = Usual.of([record] * texts)
        assert said in re.sub(r"\s+", " ", " ".join(look(record, Canvas(80, colour=False, unicode=True), over)))


def test_in_a_pipe_there_is_nothing_to_type():
    assert not any(
        line.startswith("attncli") for line in look(model_of(6, 12), Canvas(100, colour=False, unicode=True))
    )


def test_what_commands_a_terminal_is_harmless():
    record = record_of(model_of(1, 2).weights)
    hostile = replace(record.tokens, shown=["\x1b[31mred" for _ in record.tokens.text])
    text = "\n".join(look(replace(record, tokens=hostile), Canvas(80, colour=True, unicode=True, height=24)))
    assert "\x1b" not in text
