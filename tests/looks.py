"""Every view of the page at four sizes and two themes, as screenshots and contact sheets: python tests/looks.py DIR

    python tests/looks.py looks                        all of them, in Chromium
    python tests/looks.py looks --only long,masked     of these pages

The pages are what `attncli` makes with minilm's published weights. In DIR are the pages, a picture of each
view of each at each size in each theme, and a sheet-PAGE.png with all pictures of a page, to be looked at.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from browsers import SETTLE, browser_path
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, ViewportSize, sync_playwright

SAMPLES = Path(__file__).parent.parent / "sample_inputs"
SIZES = ((390, 780), (820, 1180), (1280, 800), (1600, 1000))  # a telephone, a tablet, two screens
THEMES = ("light", "dark")
VIEWS = ("heads", "model", "matrix", "neuron")
HELD = "&token=3"  # what a view shows of a token that is held, where it shows anything
HIGH, LABEL, GAP = 320, 14, 4  # pixels of a sheet: a picture's height, its name's, between two

# The pages: what `attncli` is called with, and the hashes at which a page is looked at.
OF_VIEWS = {view: f"#view={view}" for view in VIEWS} | {"held": f"#view=heads{HELD}", "row": f"#view=matrix{HELD}"}
PAGES = {
    "short": (("view", "The animal didn't cross the street because it was too tired."), OF_VIEWS),
    "pair": (("view", "Where did the bear hide?", "--pair", "In a cave.", "--segments", "AB"), OF_VIEWS),
    "masked": (("view", "--mask", "causal,padding", "--pad-to", "14", "The cat sat on the mat."), OF_VIEWS),
    "scripts": (("view", "-f", str(SAMPLES / "scripts.txt")), {name: f"{at}&text=1" for name, at in OF_VIEWS.items()}),
    "long": (("view", "-f", str(SAMPLES / "long.txt")), OF_VIEWS),
    "diff": (
        ("diff", "The cat sat on the mat.", "The dog sat on the mat."),
        {"diff": "#layer=5", "cell": "#token=3&partner=2"},
    ),
    "ablate": (("ablate", "--way", "zero,mean", "The cat sat on the mat."), {"ablate": "#token=5"}),
    "similar": (("similar", "The cat sat on the mat.", "A cat is sitting on a rug."), {"similar": ""}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default=",".join(PAGES), help=f"some of {','.join(PAGES)}")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name in asked.only.split(","):
        arguments, places = PAGES[name]
        page = asked.folder / f"{name}.html"
        subprocess.run(
            [sys.executable, "-m", "attncli", *arguments, "-q", "-o", page], check=True, stdout=subprocess.PIPE
        )
        print(sheet(list(of_chromium(page, places)), asked.folder / f"sheet-{name}.png"))


def of_chromium(page: Path, places: dict[str, str]) -> Iterator[Path]:
    """A picture of each place of a page at each size and in each theme."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox", "--disable-gpu"])
        for place, at in places.items():
            for width, height in SIZES:
                for theme in THEMES:
                    yield shot(browser, page, at, ViewportSize(width=width, height=height), theme, place)
        browser.close()


def shot(browser: Browser, page: Path, at: str, size: ViewportSize, theme: str, place: str) -> Path:
    context = browser.new_context(offline=True, viewport=size, has_touch=size["width"] < 1000)
    context.new_page().emulate_media(color_scheme="dark" if theme == "dark" else "light")
    [tab] = context.pages
    tab.goto(page.resolve().as_uri() + at)
    if tab.query_selector("#chart"):  # else it is a page without a script, which is there at once
        tab.evaluate(SETTLE)
    into = picture_of(page, place, size["width"], theme)
    tab.screenshot(path=into)
    context.close()
    return into


def picture_of(page: Path, place: str, width: int, theme: str) -> Path:
    return page.with_name(f"{page.stem}-{place}-{width}-{theme}.png")


def sheet(pictures: list[Path], into: Path) -> Path:
    """All pictures of a page, small, each place in a row of its own, each under its name."""
    each = len(SIZES) * len(THEMES)
    rows = [[thumb(path) for path in pictures[first : first + each]] for first in range(0, len(pictures), each)]
    wide = max(sum(picture.width + GAP for picture in row) for row in rows)
    made = Image.new("RGB", (wide, len(rows) * (HIGH + LABEL)), "#888888")
    pen = ImageDraw.Draw(made)
    for number, row in enumerate(rows):
        x, y = 0, number * (HIGH + LABEL)
        for path, picture in zip(pictures[number * each :], row, strict=False):
            pen.text((x, y), path.stem.removeprefix(f"{into.stem.removeprefix('sheet-')}-"), fill="black")
            made.paste(picture, (x, y + LABEL))
            x += picture.width + GAP
    made.save(into)
    return into


def thumb(path: Path) -> Image.Image:
    with Image.open(path) as whole:
        return whole.convert("RGB").resize((whole.width * HIGH // whole.height, HIGH))


if __name__ == "__main__":
    main()
