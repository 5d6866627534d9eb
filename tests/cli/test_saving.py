"""Files by their suffix: a picture or a document, and never the other one's work."""

import json
from operator import itemgetter

import pytest
from matplotlib.figure import Figure

from attncli.cli.saving import save

DOCUMENT = {"heads": [{"layer": 0, "weight": 0.5}, {"layer": 1, "weight": 0.25}], "model": "x"}


def nothing():
    raise AssertionError("nobody asked for this")


def test_a_document_is_saved_and_no_figure_made(tmp_path):
    for suffix in (".json", ".CSV"):
        save(tmp_path / f"a{suffix}", lambda: DOCUMENT, itemgetter("heads"), nothing)
    assert json.loads((tmp_path / "a.json").read_text()) == DOCUMENT
    assert (tmp_path / "a.CSV").read_text().splitlines() == ["layer,weight", "0,0.5", "1,0.25"]


@pytest.mark.parametrize(("suffix", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_figure_is_drawn_and_no_document_made(tmp_path, suffix, begin):
    path = tmp_path / f"a{suffix}"
    save(path, nothing, nothing, lambda: Figure(figsize=(1, 1)))
    assert path.read_bytes().startswith(begin)
