"""The page as one file and in a notebook's frame, and its modules as one script."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed import page_data
from records import (
    ablation_page,
    an_ablation,
    attention_records,
    cut_edges,
    edges_page,
    page_of_two,
    record_of,
)

from attncli.analysis.difference import difference
from attncli.base.errors import RequestError
from attncli.page import Start, page, save_page
from attncli.page.document import FOLDER, LIVE_MAIN, MAIN, as_json, frame, script
from attncli.report import page as panels

LONG = Path(__file__).parents[2] / "sample_inputs" / "long.txt"


@pytest.fixture
def record(random_maps):
    return record_of(random_maps(2, 2, 7))


@pytest.fixture(scope="module")
def long(minilm):
    """The longest text that the model takes: 512 tokens, all 72 heads."""
    with pytest.warns(match="512"):
        return minilm.attend(LONG.read_text(encoding="utf-8"))


@settings(max_examples=10)
@given(attention_records(padding=1))
def test_the_same_record_gives_the_same_page(record):
    copy = replace(record, weights=record.weights.copy())
    assert page(record) == page([copy])


@given(st.text())
def test_json_in_a_page_holds_no_markup_and_means_the_same(text):
    made = as_json({"text": text, text: 1})
    assert made.isascii() and not set("<>&") & set(made)
    assert json.loads(made) == {"text": text, text: 1} | ({"text": 1} if text == "text" else {})


@given(st.lists(st.text(st.characters(categories=None)), min_size=3, max_size=3), st.text())
def test_whatever_the_tokens_are_the_page_has_the_elements_that_it_always_has(tokens, title):
    made = record_of(np.eye(3))
    hostile = replace(made, tokens=replace(made.tokens, shown=[], text=tokens))
    found = [re.findall(r"</?[a-z]+", page(one, title=title)) for one in (made, hostile)]
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["one", "two", "ablation", "edges"])
def test_a_page_is_whole_and_has_nothing_to_ask_for(record, kind):
    document = {
        "one": lambda: page(record),
        "two": lambda: page_of_two(difference(record, replace(record, weights=record.weights[..., ::-1]))),
        "ablation": lambda: ablation_page(an_ablation()),
        "edges": lambda: edges_page(cut_edges()),
    }[kind]()
    assert document.startswith("<!doctype html>") and document.endswith("</html>\n")
    assert "{{" not in document.replace("${{", "")
    assert set(re.findall(r"https?://[^\"'` ]+", document)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe|object|embed|base)\b|\bsrc=|@import|url\((?!#)", document)


def test_how_a_page_begins_is_in_it(record):
    start = Start("matrix", query="cat", special=False, words=True, threshold=0.25, head=(1, 0))
    document = page(record, start, title="A <title>")
    assert page_data(document)["start"] == {
        "view": "matrix", "segments": "all", "special": False, "words": True, "threshold": 0.25, "token": 1,
        "opening": {"layer": 1, "head": 0, "heads": [0]},
    }  # fmt: skip
    assert "<title>A &lt;title&gt;</title>" in document
    assert "<title>made-up: cat##s中[x]é</title>" in page(record)


def test_a_page_is_saved_whole_and_only_as_html(record, tmp_path):
    document = page(record)
    for name in ("a.html", "b.HTM"):
        save_page(document, tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == document
    for name in ("a.pdf", "none"):
        with pytest.raises(RequestError, match=re.escape("a page is saved as .html, .htm")):
            save_page(document, tmp_path / name)
    with pytest.raises(RequestError, match="can't write"):
        save_page(document, tmp_path / "missing" / "a.html")
    assert {path.name for path in tmp_path.iterdir()} == {"a.html", "b.HTM"}


def test_a_frame_holds_the_page_as_text_of_an_attribute(record):
    made = frame(page(record), height=400)
    assert re.findall(r"<[^ >]+", made) == ["<iframe", "</iframe>"[:-1]]
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', made)[1]) == page(record)
    assert 'sandbox="allow-scripts allow-downloads"' in made and "height: 400px" in made


@pytest.mark.slow
def test_a_notebook_shows_the_page_in_a_frame_that_reaches_nothing_around_it(browser, record, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<!doctype html><title>notebook</title>{record._repr_html_()}")
    tab = browser.new_page(offline=True)
    errors = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto((tmp_path / "notebook.html").as_uri())
    inside = tab.frames[1]
    inside.wait_for_selector("#chart[data-drawn]")
    assert inside.evaluate("origin") == "null"
    blocked = "() => { try { return String(parent.document.title) } catch (error) { return error.name } }"
    assert inside.evaluate(blocked) == "SecurityError"
    inside.click("[data-view=matrix]")
    inside.click("#more")
    with tab.expect_download() as download:
        inside.click("#save-svg")
    saved = download.value.path().read_text(encoding="utf-8")
    weights = [float(weight) for weight in re.findall(r'data-weight="([^"]*)"', saved)]
    assert weights == pytest.approx(record.map(0, 0).ravel().tolist(), abs=2e-5)
    inside.select_option("#layer", "1")
    assert inside.input_value("#layer") == "1"
    box = tab.locator("iframe").bounding_box()
    assert box["height"] >= 600 and box["width"] > 1000
    assert errors == []
    tab.close()


@pytest.mark.parametrize(("tokens", "most"), [(128, 1.5e6), pytest.param(512, 12e6, marks=pytest.mark.slow)])
def test_72_heads_take_at_most_so_many_bytes(minilm, long, tokens, most):
    record = minilm.attend(LONG.read_text(encoding="utf-8")[: long.tokens.offsets[tokens - 2][1]])
    assert record.weights.shape == (6, 12, tokens, tokens)
    assert len(page(record).encode("utf-8")) <= most


# --- modules ---------------------------------------------------------------------------------------------


MAINS = (MAIN, panels.MAIN, LIVE_MAIN, "sources")
FILES = sorted(path.stem for path in FOLDER.glob("*.js"))
START = re.compile(r"^const \$(\w+) = \(\(\) => \{$", re.MULTILINE)


def test_every_module_is_in_some_script_and_in_none_twice():
    orders = [START.findall(script(main)) for main in MAINS]
    assert sorted(set().union(*orders)) == FILES
    for order, main in zip(orders, MAINS, strict=True):
        assert len(set(order)) == len(order) and order[-1] == main


@pytest.mark.parametrize("name", FILES)
def test_a_module_uses_everything_that_it_imports(name):
    source = (FOLDER / f"{name}.js").read_text(encoding="utf-8")
    for names, _ in re.findall(r'import \{ ([^}]*) \} from "\./(\w+)\.js"', source):
        body = re.sub(r"^import .*$", "", source, flags=re.M)
        assert all(re.search(rf"\b{one}\b", body) for one in names.split(", "))


WAYS = ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "fetch(", "http:", "https:")


@pytest.mark.parametrize("main", MAINS)
def test_no_script_imports_ends_its_element_or_has_a_way_to_make_markup_or_requests(main):
    code = script(main).replace("http://www.w3.org/2000/svg", "")
    if main == LIVE_MAIN:
        code = code.replace("  return fetch(where, {", "")  # of its own server
    assert not re.search(r"^\s*(import|export)\b", code, re.MULTILINE)
    assert [word for word in ("</script", "<!--", *WAYS) if word.lower() in code.lower()] == []
