"""Requests are refused before a model is loaded, and before anything is computed or printed."""

from pathlib import Path

import pytest
from cli.commands import commands

from attncli.base.errors import RequestError
from attncli.base.files import PICTURES, check_place, write_whole
from attncli.features import NAMES, find_measure
from attncli.models.opening import Opening

SAVING = {name: feature for name in NAMES if (feature := find_measure(name)).saves}
PLACES = {
    "missing/a": "No such file or directory",
    "file.txt/a": "Not a directory",
    "folder": "Is a directory",
}


@pytest.fixture
def nothing_opens(monkeypatch, tmp_path):
    """A folder in which to be, and no model that can be opened."""

    def opened(*_):
        raise AssertionError("a model was opened")

    for name in ("open", "open_for_answers"):
        monkeypatch.setattr(Opening, name, opened)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.txt").write_text("The cat sat.\n", encoding="utf-8")
    return tmp_path


def arguments_of(name: str) -> list[str]:
    return ["x" for one in commands()[name].params if one.param_type_name == "argument" and one.required]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", SAVING)
def test_a_file_that_cant_be_written(name, place, attncli, nothing_opens):
    feature = SAVING[name]
    for suffix in dict.fromkeys((feature.saves[0], feature.saves[-1])):
        path = Path(place).with_suffix(suffix)
        if place == "folder":
            path.mkdir(exist_ok=True)
        for json in [[], ["--json"]] if feature.json else [[]]:
            result = attncli(name, *arguments_of(name), *json, "-o", path)
            assert (result.code, result.out) == (2, "")
            assert result.err.splitlines() == [f"attncli: error: can't write {path}: {PLACES[place]}"]


@pytest.mark.parametrize("name", [name for name, feature in SAVING.items() if set(PICTURES) & set(feature.saves)])
@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--width", "wide"), "--width 'wide': write it as"),
        (("--font-size", "1000"), "--font-size 1000 is out of range"),
        (("--font", "No Such Font"), "No Such Font"),
        (("--title", "x" * 501), "--title has 501 characters"),
    ],
)
def test_a_picture_that_cant_be_printed(name, option, says, attncli, nothing_opens):
    json = ["--json"] if SAVING[name].json else []
    result = attncli(name, *arguments_of(name), *json, *option, "-o", "a.pdf")
    assert (result.code, result.out) == (2, "") and says in result.err
    assert not (nothing_opens / "a.pdf").exists()


def test_a_width_without_a_unit_is_in_inches_and_says_so(attncli, tmp_path):
    said = {}
    for width in ("4", "4in"):
        result = attncli("heatmap", "-H", "1", "--width", width, "-o", tmp_path / f"{width}.svg", "The cat sat.")
        said[width] = result.err, (tmp_path / f"{width}.svg").read_bytes()
    assert said["4"][1] == said["4in"][1] and said["4in"][0] == ""
    assert said["4"][0] == "attncli: --width 4 is in inches: 10.2cm\n"


def test_a_document_is_not_printed_where_its_file_is_refused(attncli, nothing_opens, monkeypatch):
    """Only the drawing shows that a picture has no room in its width."""
    monkeypatch.undo()
    monkeypatch.chdir(nothing_opens)
    for line in (["mask", "--json"], ["ablate", "--json"], ["explain", "--json"]):
        result = attncli(*line, "--width", "5mm", "-o", "a.pdf", "The cat sat.")
        assert (result.code, result.out) == (2, "") and "too narrow" in result.err


@pytest.mark.parametrize(
    "place", ["missing/a.json", "file.txt/a.json", "folder", "loop", "a.json", "link", "/dev/null"]
)
def test_a_place_is_refused_as_writing_there_would_be(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file.txt").touch()
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")
    Path("link").symlink_to("target.json")
    before = set(tmp_path.iterdir())
    says = []
    for attempt in (check_place, lambda path: write_whole(path, lambda file: file.write_text("x", encoding="utf-8"))):
        try:
            attempt(Path(place))
            says.append("")
        except RequestError as error:
            says.append(str(error))
        if attempt is check_place:
            assert set(tmp_path.iterdir()) == before
    assert says[0] == says[1]
