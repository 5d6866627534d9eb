"""The head view: that lines are the weights, where they begin and end, and what is left out."""

import numpy as np
import pytest
from hypothesis import given, settings
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from pictures import random_record
from records import attention_records, record_of

from attncli.record.display import head_colour
from attncli.report.figure import lines as strands

pytestmark = pytest.mark.filterwarnings("ignore::attncli.Notice")  # there may be no Chinese font here


def bundles(drawn):
    """The lines of each panel: those that run from one column to another and are not of one colour."""
    collections = [one for one in drawn.axes[0].collections if isinstance(one, LineCollection)]
    legend = [one for one in collections if {*one.get_linewidths()} == {2.0}]
    return [
        one for one in collections if one not in legend and len(one.get_linewidths()) == len(one.get_segments()) != 0
    ]


def texts(drawn):
    return [text for text in drawn.findobj(Text) if text.get_text()]


def heights(drawn, side):
    """Return the positions of the tokens in the column on one side, in inches."""
    return [text.get_position()[1] for text in texts(drawn) if text.get_ha() == side and text.get_va() == "center"]


def expected(record, top):
    """(head, query, key) -> opacity of the lines that can be seen."""
    opacity = np.minimum(record.weights[0] / top, 1)
    return {place: value for place, value in np.ndenumerate(opacity) if value >= strands.FAINTEST}


def found(drawn, record):
    """(head, query, key) -> opacity, read off the picture: by colour, and by the tokens that lines begin and end at."""
    [bundle] = bundles(drawn)
    queries, keys = heights(drawn, "right"), heights(drawn, "left")
    colours = [to_rgb(head_colour(place)) for place in range(len(record.heads))]
    places = {}
    for (start, end), colour in zip(bundle.get_segments(), bundle.get_colors(), strict=True):
        head = int(np.argmin([np.abs(np.subtract(colour[:3], one)).sum() for one in colours]))
        query = int(np.argmin(np.abs(np.subtract(queries, start[1]))))
        key = int(np.argmin(np.abs(np.subtract(keys, end[1]))))
        places[head, query, key] = colour[3]
    return places


@pytest.mark.slow
@given(attention_records())
@settings(max_examples=20)
def test_every_weight_that_can_be_seen_is_a_line_between_its_tokens(record):
    record = record.select(layers=[0], heads=[0])
    drawn = record.figure(style="lines")
    there = found(drawn, record)
    assert there.keys() == expected(record, record.weights.max()).keys()
    for place, opacity in expected(record, record.weights.max()).items():
        assert there[place] == pytest.approx(opacity, abs=0.006)


def test_heads_of_a_layer_share_a_panel_and_no_line_hides_another():
    record = random_record(1, 5, 8)
    drawn = record.figure(style="lines", vmax=0.4)
    assert len(heights(drawn, "right")) == 8 and len(heights(drawn, "left")) == 8 + 5  # the legend's entries
    [bundle] = bundles(drawn)
    assert len(bundle.get_segments()) == len(expected(record, 0.4))
    ends = {tuple(np.round(segment[:, 1], 6)) for segment in bundle.get_segments()}
    assert len(ends) == len(bundle.get_segments())
    assert (np.diff(bundle.get_colors()[:, 3]) >= 0).all()  # the strongest lie above
    assert (np.diff(bundle.get_linewidths()) >= 0).all()
    assert {f"0.{head}" for head in range(5)} < {text.get_text() for text in texts(drawn)}


def test_several_layers_are_a_grid_with_a_panel_a_head():
    record = random_record(3, 4, 6)
    drawn = record.figure(style="lines")
    panels = bundles(drawn)
    assert len(panels) == 12
    for panel, (layer, head) in zip(panels, np.ndindex(3, 4), strict=True):
        assert (
            len(panel.get_segments()) == (record.weights[layer, head] / record.weights.max() >= strands.FAINTEST).sum()
        )
        assert tuple(panel.get_colors()[0][:3]) == pytest.approx(to_rgb(head_colour(head)))
    said = [text.get_text() for text in texts(drawn)]
    assert {"head 0.0", "head 0.3", "head 2.0", "head 2.3"} < set(said)
    assert len(bundles(record.figure(style="lines", mean=True))) == 3


def test_other_queries_are_faint_and_the_held_one_has_its_weights_beside_the_keys():
    record = record_of([[0.125, 0.875, 0], [0.5, 0.25, 0.25], [1, 0, 0]])
    drawn = record.figure(style="lines", query=1)
    opacities = {(1, 0): 1, (1, 1): 0.5, (1, 2): 0.5, (0, 0): 0.03, (0, 1): 0.12, (2, 0): 0.12}
    assert found(drawn, record) == pytest.approx({(0, *place): one for place, one in opacities.items()}, abs=0.006)
    assert not bundles(record_of(np.zeros((1, 2, 4, 4))).figure(style="lines", query=1))  # a picture too
    said = [text.get_text() for text in texts(drawn)]
    assert sorted(text for text in said if text.startswith("0.")) == ["0.25", "0.25", "0.50"]
    assert "full colour: weight 0.5, no line below 0.01, for other queries below 0.08" in " ".join(said)


def test_weights_of_many_heads_are_squares_beside_the_keys():
    record = random_record(1, 12, 6)
    drawn = record.figure(style="lines", query=3)
    [squares] = [one for one in drawn.axes[0].collections if isinstance(one, PatchCollection)]
    row = record.weights[0, :, 3] / record.weights[0, :, 3].max()
    assert squares.get_facecolor()[:, 3] == pytest.approx(row[row >= strands.FAINTEST], abs=0.006)
