"""Records in the terminal: what is drawn is what is in the record, and it fits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, cross_records, record_of
from rich.cells import cell_len

from attncli.render import terminal
from attncli.render.cells import ASCII_SHADES, SHADES, Canvas, brightness, colour, pool, shade

canvases = st.builds(Canvas, width=st.integers(30, 200), colour=st.booleans(), unicode=st.booleans())
views = {
    "overview": lambda record, canvas: terminal.overview(record, canvas),
    "one_head": lambda record, canvas: terminal.one_head(record, record.layers[0], record.heads[0], canvas, top_k=1),
    "glyph_table": lambda record, canvas: terminal.glyph_table(record, canvas),
}


@given(attention_records(), canvases, st.sampled_from(["overview"]))
def test_small_maps_fit_the_width(record, canvas, view):
    wide = [line.plain for line in views[view](record, canvas) if cell_len(line.plain.rstrip()) > canvas.width]
    assert all(line.startswith(("made-up", "weight 0", "a cell is")) for line in wide)  # words may fold


@given(attention_records(), canvases, st.sampled_from(sorted(views)))
def test_ascii_means_ascii(record, canvas, view):
    tokens = type(record.tokens)(**{**vars(record.tokens), "text": [f"t{n}" for n in range(len(record.tokens))]})
    record = type(record)(**{**vars(record), "tokens": tokens})
    plain = Canvas(canvas.width, canvas.colour, unicode=False)
    assert all(line.plain.isascii() for line in views[view](record, plain))


@given(attention_records(), canvases, st.sampled_from(sorted(views)))
def test_no_styles_without_colour(record, canvas, view):
    plain = Canvas(canvas.width, colour=False, unicode=canvas.unicode)
    for line in views[view](record, plain):
        assert not line.style and not any(span.style for span in line.spans)


@given(attention_records())
def test_a_large_map_has_every_weight(record):
    layer, head = record.layers[-1], record.heads[-1]
    lines = terminal.one_head(record, layer, head, Canvas(1000, colour=False, unicode=True))
    rows = [line.plain for line in lines[5 : 5 + len(record.tokens)]]
    for query, row in enumerate(rows):
        cells = row[4 + max(map(cell_len, record.tokens.text)) + 1 :].split("  ")[0]
        for key, weight in enumerate(record.map(layer, head)[query].tolist()):
            if weight >= 0.005:
                assert f"{weight:.2f}".lstrip("0") in row or weight >= 0.995, (query, key, cells)


def test_colours_of_a_picture_are_those_of_its_weights():
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], dtype=np.float32)
    top, bottom = terminal.picture(weights, Canvas(80, colour=True, unicode=True), 3, 10)
    assert [span.style for span in top.spans] == [
        f"{colour(upper)} on {colour(lower)}" for upper, lower in zip(weights[0], weights[1], strict=True)
    ]
    assert [span.style for span in bottom.spans] == [colour(weight) for weight in weights[2]]


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 30), st.integers(1, 30))
def test_pooling_keeps_the_largest(rows, columns, most_rows, most_columns):
    weights = np.random.default_rng(0).random((rows, columns)).astype(np.float32)
    small = pool(weights, most_rows, most_columns)
    assert small.shape == (min(rows, most_rows), min(columns, most_columns))
    assert small.max() == weights.max()
    if small.shape == weights.shape:
        assert np.array_equal(small, weights)


@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_larger_weights_are_never_fainter(some, more, unicode):
    scale = SHADES if unicode else ASCII_SHADES
    small, large = sorted((some, more))
    assert brightness(small) <= brightness(large)
    assert scale.index(shade(small, unicode)) <= scale.index(shade(large, unicode))


def test_long_texts_are_pooled_and_say_so():
    length = 200
    record = record_of(np.eye(length))
    lines = terminal.overview(record, Canvas(80, colour=True, unicode=True))
    assert any("largest of the weights" in line.plain for line in lines)
    assert len(lines) < 120


def test_a_row_that_may_attend_to_nothing_says_so():
    mask = np.tri(5, k=-1, dtype=bool)
    weights = np.tril(np.ones((5, 5)), k=-1)
    weights[1:] /= weights[1:].sum(axis=1, keepdims=True)
    record = record_of(weights, mask=mask, mask_name="causal")
    lines = terminal.one_head(record, 0, 0, Canvas(200, colour=False, unicode=True))
    assert sum("may attend to nothing" in line.plain for line in lines) == 1


@pytest.mark.parametrize("name", ["/very/long/path/to/model", "model", "C:\\models\\mine\\"])
def test_a_model_is_named_without_its_folders(name):
    assert terminal.shown_name(name) in ("model", "mine")


@given(cross_records(), canvases)
def test_keys_of_another_text_are_named(record, canvas):
    """A cross-attention: its rows are what was written, its columns what was read."""
    large = terminal.one_head(record, 0, 0, canvas)
    shown = "\n".join(line.plain for line in large)
    assert "cross attention" in shown and "\nkeys\n" in shown
    best = int(record.map(0, 0)[-1].argmax())
    assert f"{record.keys.text[best]} {record.map(0, 0)[-1, best]:.3f}" in large[-1].plain
    small = "\n".join(line.plain for line in terminal.overview(record, canvas))
    assert "\nqueries\n" in small and f"{len(record.keys) - 1} [SEP]" in small
    assert terminal.glyph_table(record, canvas)
