"""Check in a real browser that a page opens on the head that tells most, and that links go where they always did."""

import pytest
from records import record_of

from attncli.analysis.edges import Usual, edges

pytestmark = pytest.mark.slow


@pytest.fixture
def record(random_maps):
    return record_of(random_maps(3, 4, 9))


@pytest.fixture
def first(record):
    """The edge farthest above what is usual: of no head that comes first anyway."""
    [[edge, *_], *_] = edges(record, Usual.of_text(record))
    assert edge.layer and edge.head
    return edge


def heads(page):
    return {(int(line["layer"]), int(line["head"])) for line in page.marks("line")}


def test_a_page_opens_on_the_head_that_tells_most_alone(opened, record, first):
    page = opened(record)
    assert heads(page) == {(first.layer, first.head)} and page.hash == {}
    pressed = page.tab.eval_on_selector_all("#heads [aria-pressed=true]", "all => all.map(one => one.textContent)")
    assert pressed == [str(first.head)]
    assert page.held() == first.query
    assert page.text("said").startswith(f"Layer {first.layer}, head {first.head}: ")


def test_a_link_that_names_no_heads_means_all_of_the_first_layer_or_of_its_own(opened, record):
    page = opened(record, "#token=2")
    assert heads(page) == {(0, head) for head in range(4)}
    page.go("#layer=2")
    assert heads(page) == {(2, head) for head in range(4)}


def test_every_place_has_a_hash_that_leads_back_to_it(opened, record, first):
    page = opened(record)
    page.press("j")
    opening = {"layer": str(first.layer), "head": str(first.head), "heads": str(first.head)}
    place = {} if first.query == 8 else {"token": str(first.query + 1)}
    assert page.hash == opening | place
    page.press("Escape")
    assert page.hash == opening
    for at in ("#layer=0", "#layer=0&heads=0", "#view=matrix", ""):
        page.go(at)
        before, hash_before = page.pixels(), page.hash
        page.reload()
        assert (page.pixels() == before).all() and page.hash == hash_before
    page.go("#heads=0,1,2,3&head=0&layer=0")  # where a link leads that says nothing new
    page.press("s", "s")
    assert page.hash == {"layer": "0"} and len(heads(page)) == 4
