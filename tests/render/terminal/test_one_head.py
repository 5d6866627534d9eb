"""One head large: every weight is there, and what a query looks at most."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, cross_records, layered_records, record_of
from rich.cells import cell_len
from terminals import canvases

from attncli.record.selection import numbered_names
from attncli.render.terminal.one_head import BELOW, one_head
from attncli.report.canvas import Canvas


@given(attention_records())
def test_a_large_map_has_every_weight(record):
    layer, head = record.layers[-1], record.heads[-1]
    lines = one_head(record, layer, head, Canvas(1000, colour=False, unicode=True))
    rows = [line.plain for line in lines[5 : 5 + len(record.tokens)]]
    for query, row in enumerate(rows):
        assert row.startswith(f"{query:>3} {record.tokens.text[query]}")
        shown = row[4 + max(map(cell_len, record.tokens.text)) + 1 :].split("  ")[0]
        for key, weight in enumerate(record.map(layer, head)[query].tolist()):
            if weight >= 0.005:
                assert f"{weight:.2f}".lstrip("0") in row or weight >= 0.995, (query, key, shown)


def test_a_row_that_may_attend_to_nothing_says_so():
    mask = np.tri(5, k=-1, dtype=bool)
    weights = np.tril(np.ones((5, 5)), k=-1)
    weights[1:] /= weights[1:].sum(axis=1, keepdims=True)
    record = record_of(weights, mask=mask, mask_name="causal")
    lines = one_head(record, 0, 0, Canvas(200, colour=False, unicode=True))
    assert sum("may attend to nothing" in line.plain for line in lines) == 1


@given(layered_records(padding=1))
def test_a_row_that_its_own_layer_hides_all_from_says_so(record):
    """And the entropy is at most that of the keys which this layer allows."""
    for layer, masks in zip(record.layers, record.masks, strict=True):
        lines = [line.plain for line in one_head(record, layer, 0, Canvas(300, colour=False, unicode=True))]
        assert sum("may attend to nothing" in line for line in lines) == (~masks.any(axis=1)).sum()
        assert f"of at most {np.log(max(masks[:-1].sum(axis=1).max(), 1)):.2f} nats" in lines[1]


@given(cross_records(), canvases())
def test_keys_of_another_text_are_named(record, canvas):
    """A cross-attention: its rows are what was written, its columns what was read."""
    lines = one_head(record, 0, 0, canvas)
    shown = "\n".join(line.plain for line in lines)
    assert "cross attention" in shown and "\nkeys\n" in shown
    best = int(record.map(0, 0)[-1].argmax())
    assert f"{numbered_names(record.keys)[best]} {record.map(0, 0)[-1, best]:.3f}" in lines[-1].plain


TEXTS = st.one_of(
    st.text("abc", min_size=1, max_size=40), st.text("中文🙂é", min_size=1, max_size=12), st.just("a" * 300)
)


@st.composite
def named_records(draw):
    """With tokens of any width."""
    record = draw(attention_records())
    tokens = replace(
        record.tokens, text=draw(st.lists(TEXTS, min_size=len(record.tokens), max_size=len(record.tokens)))
    )
    return replace(record, tokens=tokens)


@given(named_records(), canvases(40, 140, st.integers(8, 60)), st.integers(1, 4))
def test_it_fits_a_terminal_or_says_that_it_does_not(record, canvas, top_k):
    lines = [line.plain for line in one_head(record, record.layers[0], record.heads[0], canvas, top_k)]
    assert all(cell_len(line) <= canvas.width for line in lines)
    if "longer than the terminal" not in " ".join(lines[-2:]):
        assert len(lines) <= canvas.height - BELOW


def sixteen():
    """As many tokens as "The trophy does not fit in the suitcase because it is too big." has."""
    return record_of(np.random.default_rng(0).dirichlet(np.ones(16), 16))


@pytest.mark.parametrize("size", [(80, 24), (100, 24), (44, 24), (60, 24)])
def test_a_sentence_fits_common_terminals_with_a_strongest_key_a_token(size):
    canvas = Canvas(size[0], True, True, size[1])
    record = sixteen()
    lines = [line.plain for line in one_head(record, 0, 0, canvas)]
    assert len(lines) <= 21 and not any("longer" in line for line in lines)
    for query, token in enumerate(record.tokens.text):
        best = int(record.map(0, 0)[query].argmax())
        [line] = [line for line in lines if line.startswith(f"{query:>3} {token}")]
        assert f"{record.map(0, 0)[query, best]:.3f}" in line


def test_what_has_no_room_is_named_and_a_pipe_has_it():
    record = sixteen()
    high, low = (one_head(record, 0, 0, Canvas(80, True, True, height)) for height in (60, 24))
    piped = one_head(record, 0, 0, Canvas(10_000, False, True))
    assert "no room for the numbers in the cells" in low[-1].plain
    assert not any("no room" in line.plain for line in (*high, *piped))
    assert len(high) > 2 * 16 and len(piped) == 4 + 1 + 1 + 16 - 1


def test_a_long_text_is_a_picture_that_fits():
    record = record_of(np.full((300, 300), 1 / 300))
    lines = one_head(record, 0, 0, Canvas(80, True, True, 24))
    assert len(lines) <= 21 and "no room for strongest keys" in lines[-1].plain
