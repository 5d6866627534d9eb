"""A page of heads of different layers in a browser: it shows these heads, and no others."""

import pytest
from records import record_of

pytestmark = pytest.mark.slow

CHOSEN = "0.1,1.2,1.0"  # of 2 layers with 3 heads


@pytest.fixture
def shown(random_maps, opened):
    return lambda at="", **how: opened([record_of(random_maps(2, 3, 12)).select(heads=CHOSEN)], at, **how)


def here(page) -> tuple[str, str]:
    return page.tab.input_value("#layer"), page.tab.input_value("#head")


def test_model_draws_the_chosen_heads_alone(shown):
    page = shown("#view=model")
    drawn = {(mark["layer"], mark["head"]) for mark in page.marks("rect") if "kind" in mark}
    assert drawn == {(0, 1), (1, 0), (1, 2)}
    assert "heads 0.1, 1.0, 1.2 are in this page" in page.text("about")


@pytest.mark.parametrize("view", ["heads", "model", "matrix", "neuron"])
def test_no_way_leads_to_another_head(shown, view):
    page = shown(f"#view={view}&layer=1&head=2&heads=2")
    for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowRight"):
        page.press(key)
        assert here(page) in {("0", "1"), ("1", "0"), ("1", "2")}
    page.choose("layer", 0)
    assert here(page) == ("0", "1")


def test_an_address_of_another_head_opens_a_chosen_one(shown):
    for at in (
        "#view=matrix&layer=0&head=2",
        "#view=matrix&layer=0&head=0",
        "#layer=0&heads=0,2",
        "#view=matrix&layer=mean",
    ):
        assert here(shown(at)) in {("0", "1"), ("1", "0"), ("1", "2")}


def test_lines_are_of_the_chosen_heads(shown, random_maps):
    page = shown("#layer=1&head=0&heads=0,1,2")
    assert {mark["head"] for mark in page.marks("line")} == {0, 2}
    record = record_of(random_maps(2, 3, 12))
    for mark in page.marks("line"):
        weight = record.map(1, mark["head"])[int(mark["query"]), int(mark["key"])]
        assert mark["weight"] == pytest.approx(weight, abs=0.003)
