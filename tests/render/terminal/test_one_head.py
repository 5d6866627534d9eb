"""One head large: every weight is there, and what a query looks at most."""

import numpy as np
from hypothesis import given
from records import attention_records, cross_records, layered_records, record_of
from rich.cells import cell_len
from terminals import canvases

from attncli.render.terminal.canvas import Canvas
from attncli.render.terminal.one_head import one_head


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
    assert f"{record.keys.text[best]} {record.map(0, 0)[-1, best]:.3f}" in lines[-1].plain
