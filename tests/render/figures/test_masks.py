"""The picture of `attncli mask`: a row a head, a column a mask."""

import numpy as np
from pictures import maps, random_record, said

from attncli.render.figures.masks import masks_figure


def test_every_map_stands_in_the_row_of_its_head_and_the_column_of_its_mask():
    records = {name: random_record(2, 3, 5, seed) for seed, name in enumerate(("none", "causal", "padding"))}
    drawn = masks_figure(records, [(0, 2), (1, 1)])
    wanted = [record.map(*head) for head in ((0, 2), (1, 1)) for record in records.values()]
    for image, weights in zip(maps(drawn), wanted, strict=True):
        np.testing.assert_array_equal(image.get_array(), weights)
    assert {"unmasked", "causal", "padding", "layer 0 head 2", "layer 1 head 1", "made-up: what masks do"} < set(
        said(drawn)
    )
