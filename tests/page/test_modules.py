"""The modules of JavaScript as one script: each once, after what it imports, and nothing that a page may not hold."""

import re

import pytest

from attncli.page.document import FOLDER, LIVE_MAIN, MAIN, script
from attncli.report import page as panels

MAINS = (MAIN, panels.MAIN, LIVE_MAIN)
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


@pytest.mark.parametrize("main", MAINS)
def test_no_import_or_export_is_left(main):
    assert not re.search(r"^\s*(import|export)\b", script(main), re.MULTILINE)


@pytest.mark.parametrize("main", MAINS)
def test_nothing_in_the_script_ends_its_element(main):
    assert "</script" not in script(main).lower()
    assert "<!--" not in script(main)


WAYS = ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "fetch(", "http:", "https:")


@pytest.mark.parametrize("word", WAYS)
def test_no_script_has_a_way_to_make_markup_or_requests(word):
    scripts = {main: script(main).replace("http://www.w3.org/2000/svg", "") for main in MAINS}
    scripts[LIVE_MAIN] = scripts[LIVE_MAIN].replace("  return fetch(where, {", "")  # of its own server
    assert all(word not in one for one in scripts.values())
