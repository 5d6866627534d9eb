"""The words for the heads whose queries and keys are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.base.errors import RequestError
from attncli.record.selection import Choice, select, select_heads

LAYERS, HEADS = 6, 12  # of the model
SIDES = ["0", "3", "-1", "0-2", "-3--1", "2-2", "all"]


def selected(selection, layers=range(LAYERS), heads=range(HEADS)) -> list[tuple[int, int]]:
    return select_heads(selection, Choice(list(layers), list(heads)), LAYERS, HEADS)


@st.composite
def kept(draw) -> tuple[list[int], list[int]]:
    """Layers and heads in any order."""
    layers = draw(st.lists(st.integers(0, LAYERS - 1), min_size=1, unique=True))
    return layers, draw(st.lists(st.integers(0, HEADS - 1), min_size=1, unique=True))


@given(st.lists(st.tuples(st.sampled_from(SIDES), st.sampled_from(SIDES)), min_size=1, max_size=4))
def test_a_side_means_what_it_means_for_layers_and_heads(parts):
    """Every head of the one with every layer of the other, each once, in the order written."""
    meant = [
        (layer, head)
        for layers, heads in parts
        for layer in select(layers, LAYERS, "layer")
        for head in select(heads, HEADS, "head")
    ]
    assert selected(" , ".join(f"{layers}.{heads}" for layers, heads in parts)) == list(dict.fromkeys(meant))


@given(kept(), st.data())
def test_all_means_all_that_are_kept(kept, data):
    layers, heads = kept
    layer, head = data.draw(st.sampled_from(layers)), data.draw(st.sampled_from(heads))
    every = [(one, other) for one in layers for other in heads]
    assert selected("all", *kept) == selected(" ALL ", *kept) == selected("all.all", *kept) == every
    assert selected(f"{layer}.all", *kept) == [(layer, other) for other in heads]
    assert selected(f"all.{head}", *kept) == [(one, head) for one in layers]


@pytest.mark.parametrize(
    ("selection", "says"),
    [
        ("6.0", "layer 6 is out of range: layers are 0 to 5"),
        ("4.x", "head 'x' is not a number"),
        ("4.3-1", "runs backwards"),
        ("", "'' is not LAYER.HEAD"),
        ("4", "'4' is not LAYER.HEAD"),
        ([4.7], r"heads \[4\.7\] are not numbers or pairs"),
        ([4], "'4' is not LAYER.HEAD"),
        ([(1, 2, 3)] * 1000, r"^heads .{1,150} are not numbers or pairs"),
    ],
)
def test_what_names_no_head_says_what_does(selection, says):
    with pytest.raises(RequestError, match=says):
        selected(selection)


def test_what_is_not_kept_is_refused():
    for selection in ("3.1", "all.all,3.1", [(3, 1)]):
        with pytest.raises(RequestError, match=r"head 3\.1 is not kept .*-l and -H"):
            selected(selection, [3], [0, 2])
