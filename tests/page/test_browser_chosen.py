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


def test_it_shows_these_heads_and_no_way_or_address_leads_to_another(shown, random_maps):
    page = shown("#view=model")
    assert {(mark["layer"], mark["head"]) for mark in page.marks("rect") if "kind" in mark} == {(0, 1), (1, 0), (1, 2)}
    assert "heads 0.1, 1.0, 1.2 are in this page" in page.text("about")

    for view in ("heads", "model", "matrix", "neuron"):
        page.go(f"#view={view}&layer=1&head=2&heads=2")
        for key in ("Left", "Up", "Right", "Down", "Down", "Left", "Up", "Right"):
            page.press(f"Arrow{key}")
            assert here(page) in {("0", "1"), ("1", "0"), ("1", "2")}
        page.choose("layer", 0)
        assert here(page) == ("0", "1")

    for at in (
        "view=matrix&layer=0&head=2",
        "view=matrix&layer=0&head=0",
        "layer=0&heads=0,2",
        "view=matrix&layer=mean",
    ):
        page.open(f"#{at}")
        assert here(page) in {("0", "1"), ("1", "0"), ("1", "2")}

    page.open("#layer=1&head=0&heads=0,1,2")
    record = record_of(random_maps(2, 3, 12))
    assert {mark["head"] for mark in page.marks("line")} == {0, 2}
    for mark in page.marks("line"):
        weight = record.map(1, mark["head"])[int(mark["query"]), int(mark["key"])]
        assert mark["weight"] == pytest.approx(weight, abs=0.003)
