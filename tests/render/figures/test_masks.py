"""The picture of `attncli mask`: a row a head, a column a mask."""

import numpy as np
import pytest
from pictures import maps, random_record, said
from records import record_of

from attncli.render.captions.masks import hidden_keys
from attncli.render.figures.masks import masks_figure


def test_every_map_stands_in_the_row_of_its_head_and_the_column_of_its_mask():
    records = {name: random_record(2, 3, 5, seed) for seed, name in enumerate(("none", "causal", "padding"))}
    drawn = masks_figure(records, [(0, 2), (1, 1)])
    wanted = [record.map(*head) for head in ((0, 2), (1, 1)) for record in records.values()]
    for image, weights in zip(maps(drawn), wanted, strict=True):
        np.testing.assert_array_equal(image.get_array(), weights)
    assert {
        "unmasked\nhidden: nothing",
        "causal\nhidden: nothing",
        "layer 0 head 2",
        "layer 1 head 1",
        "made-up: what masks do",
    } < set(said(drawn))


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (np.ones((4, 4), dtype=bool), "hidden: nothing"),
        (np.tri(4, dtype=bool), "hidden: later keys"),
        (np.tri(4, dtype=bool) & [True, True, True, False], "hidden: later keys, [PAD]"),
        (np.ones((4, 4), dtype=bool) & [True, True, True, False], "hidden: [PAD]"),
        (np.tri(4, k=1, dtype=bool) & np.tri(4, k=1, dtype=bool).T, "hidden: keys too far away"),
    ],
)
def test_it_says_which_keys_are_hidden(mask, said):
    padding = 1 if said.endswith("[PAD]") else 0
    record = record_of(np.full((1, 1, 4, 4), 0.25), mask, padding=padding)
    assert hidden_keys(record, 0) == said
