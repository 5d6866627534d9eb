"""axe-core finds nothing that keeps people from using the pages."""

import importlib.resources
from dataclasses import replace

import numpy as np
import pytest
from records import record_of

from attncli.report.page import page_of
from attncli.report.parts import HeadGrid, Panel, TextLine

pytestmark = pytest.mark.slow

AXE = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
THEMES = ["light", "dark"]


def violations(page):
    """Return what axe-core objects to, one line each: the rule and the elements."""
    page.tab.evaluate(AXE)
    found = page.tab.evaluate("() => axe.run(document)")["violations"]
    return [f"{one['id']}: {[node['html'][:80] for node in one['nodes']]}" for one in found]


@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_in_any_view(opened, random_maps, width):
    """Among it no control without a name, and no text that can't be read on its ground."""
    weights = random_maps(2, 12, 12)
    weights[0, 0] = np.eye(12)  # the strongest shade of a token
    record = record_of(weights)
    page = opened([record, replace(record, mask_name="causal")], width=width)
    for view in ("heads", "model", "matrix", "neuron"):
        page.go(f"#view={view}&token=3&special=no&words=yes&heads=0")  # filters that are on say so
        for menu in (False, True):
            if menu:
                page.tab.click("#more")
                page.tab.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
            for scheme in THEMES:
                page.tab.emulate_media(color_scheme=scheme)
                page.settle()
                assert violations(page) == [], (view, scheme)


@pytest.mark.parametrize("scheme", THEMES)
def test_axe_finds_nothing_on_a_page_of_effects(opened, scheme):
    panel = Panel("zero", np.linspace(-1, 1, 6).reshape(2, 3), "head output replaced by 0")
    document = page_of(
        ["made-up"], [TextLine("effect", caption=True), HeadGrid([panel], [0, 1], [0, 1, 2], "effect", True)]
    )
    assert violations(opened([], document=document, scheme=scheme)) == []


def test_axe_finds_what_was_planted(opened, random_maps):
    page = opened([record_of(random_maps(1, 2, 5))])
    page.tab.eval_on_selector("#more", "button => { button.textContent = ''; button.title = ''; }")
    page.tab.eval_on_selector("#said", "said => { said.style.color = '#eee'; }")
    assert [line.partition(":")[0] for line in violations(page)] == ["button-name", "color-contrast"]
