"""The README, and those of the rooms, say what the program does."""

import re
from pathlib import Path

import pytest
from PIL import Image
from readme import (
    BLOCK,
    DOCUMENTS,
    FENCED,
    FIELDS,
    GALLERY,
    LEARN,
    LEARN_ZH,
    PICTURE,
    ROOT,
    commands,
    draw_gallery,
    picture,
    scripts,
    session,
    tables,
    without_rounding,
)

TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in DOCUMENTS}


def blocks():
    """Yield every console block with the scripts before it in its document. Quick ones are in README.md."""
    for name, text in TEXTS.items():
        for block in BLOCK.finditer(text):
            before = scripts(text[: block.start()])
            first = commands(block[1])[0][:50]
            quick = (
                name == "README.md"
                and not before
                and not first.startswith(("attncli compare", "attncli generate", "attncli sources"))
            )
            yield pytest.param(block[1], before, marks=[] if quick else [pytest.mark.slow], id=f"{name}: {first}")


@pytest.mark.parametrize(("block", "before"), blocks())
def test_commands_print_what_stands_under_them(block, before, request):
    if "smollm2" in block or "attncli generate" in block or "attncli sources" in block:
        request.getfixturevalue("smollm2_file")
    printed, stated = without_rounding(session(commands(block), before)), without_rounding(block)
    assert printed == stated or differ_in_last_digits(printed, stated)


def differ_in_last_digits(printed, stated):
    """Say whether only numbers differ, by one in their last digit: processors round differently."""
    numbers = re.compile(r"\d+\.\d+")
    pairs = zip(numbers.findall(printed), numbers.findall(stated), strict=False)
    units = (abs(float(one) - float(other)) * 10 ** len(other.partition(".")[2]) for one, other in pairs)
    return numbers.sub("#", printed) == numbers.sub("#", stated) and max(units, default=0.0) < 1.01


def test_the_tables_of_fields_are_what_the_features_state():
    assert TEXTS["attncli/cli/README.md"].partition(FIELDS)[2] == tables()


def test_the_chinese_page_is_in_step_with_the_english_one():
    """Commands, listings and outputs are equal, and headings are in the same order."""
    english, chinese = (path.read_text(encoding="utf-8") for path in (LEARN, LEARN_ZH))
    assert FENCED.findall(chinese) == FENCED.findall(english)
    headings = [re.findall(r"^(#+) (.+)$", FENCED.sub("", text), re.MULTILINE) for text in (english, chinese)]
    for (level, title), (their_level, their_title) in zip(*headings, strict=True):
        assert level == their_level and re.findall(r"\b00\d", title) == re.findall(r"^00\d", their_title)
        assert title.startswith("Slip: ") == their_title.startswith("疏漏：")
    assert english.count("**Exercise.**") == chinese.count("**练习。**") == english.count("**Answer:**") == 5


def test_the_readme_is_read_in_one_sitting():
    assert len(TEXTS["README.md"].splitlines()) <= 120


def test_the_gallery_has_six_small_pictures_and_their_commands():
    names = [name for _, name in GALLERY.findall(TEXTS["README.md"])]
    assert len(names) == 6 and re.findall(r"\(.readme/(\w+\.png)\) `", TEXTS["README.md"]) == names
    for name in names:
        assert (ROOT / ".readme" / name).stat().st_size < 150_000


@pytest.mark.slow
def test_the_gallery_is_what_its_commands_draw(tmp_path):
    draw_gallery(tmp_path)
    for path in tmp_path.iterdir():
        with Image.open(path) as drawn, Image.open(ROOT / ".readme" / path.name) as kept:
            assert drawn.size == kept.size


@pytest.mark.slow
def test_the_picture_is_what_run_shows():
    assert PICTURE.read_text(encoding="utf-8") == picture()


@pytest.mark.parametrize("document", [*DOCUMENTS, LEARN_ZH], ids=[*TEXTS, LEARN_ZH.name])
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_python_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, of_any_network = re.findall(r"```python\n(.*?)```", TEXTS["README.md"], flags=re.DOTALL)
    scope: dict[str, object] = {}
    exec(of_any_network, scope)
    assert scope["seen"].record().weights.shape == (2, 2, 3, 3)
    _, of_models = re.findall(r"```python\n(.*?)```", TEXTS["attncli/features/README.md"], flags=re.DOTALL)
    exec(of_models, scope)
    assert scope["record"].weights.ndim == 4
    assert all(Path(name).exists() for name in ("attention.html", "maps.safetensors", "lines.svg"))
