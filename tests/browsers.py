"""A real browser for the tests: where it is, and a page in it, with what a user does and sees there.

A process has one Playwright, so the tests of a worker share one browser: the fixture `browser` in tests/conftest.py.
"""

import base64
import io
import os
import shutil
import xml.etree.ElementTree as ElementTree
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from PIL import Image

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SVG = "{http://www.w3.org/2000/svg}"
# A scroll that goes nowhere has the chart drawn once more; a drawing that lacks nothing counts itself.
SETTLE = """() => new Promise((done, fail) => {
  const chart = document.getElementById("chart");
  delete chart.dataset.drawn;
  chart.dispatchEvent(new Event("scroll"));
  const look = () => (chart.dataset.drawn ? done() : requestAnimationFrame(look));
  look();
  setTimeout(() => fail(new Error("nothing was drawn in 60 seconds")), 60_000);
})"""

# Until the page has heard of its new hash: the event may come later than what a test does next.
GO = """at => new Promise((done) => {
  const before = location.hash;
  addEventListener("hashchange", () => done(), { once: true });
  location.hash = at;
  if (location.hash === before) done();
})"""
TRAVEL = """steps => new Promise((done) => {
  addEventListener("hashchange", () => done(), { once: true });
  history.go(steps);
})"""

# The text of the file that a button saves, caught on its way: a browser stops pages that save many files.
CATCH = """(button, shiftKey) => new Promise((done) => {
  const [make, click] = [URL.createObjectURL, HTMLAnchorElement.prototype.click];
  HTMLAnchorElement.prototype.click = () => {
    [URL.createObjectURL, HTMLAnchorElement.prototype.click] = [make, click];
  };
  URL.createObjectURL = (blob) => (done(blob.text()), "#");
  button.dispatchEvent(new MouseEvent("click", { shiftKey, bubbles: true }));
})"""


@contextmanager
def chromium():
    """`running()` -> Chromium without a window: the one that runs, or another where it has died since.

    Where there is none the tests that need it are skipped, or, with ATTNCLI_NEED_BROWSER set, fail.
    """
    path = browser_path()
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        lacking("Playwright is not installed: pip install playwright")
    if path is None:
        lacking(f"none of {', '.join(BROWSERS)} is on PATH, and ATTNCLI_BROWSER names none")
    with sync_playwright() as playwright:
        started = None

        def answers():
            try:
                started.new_context().close()
            except Error:
                return False
            return True

        def running():
            nonlocal started
            if started is None or not answers():
                started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            return started

        yield running
        if started:
            started.close()


def browser_path():
    """Return the path of the browser, or None if there is none."""
    return os.environ.get("ATTNCLI_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)


def lacking(why):
    (pytest.fail if os.environ.get("ATTNCLI_NEED_BROWSER") else pytest.skip)(f"no browser: {why}")


def image(data):
    """The pixels of a picture file, int `[y, x, colour]`."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), dtype=int)


def number(text):
    try:
        return float(text)
    except ValueError:
        return text


def without_isolates(text):
    """A text without the marks that keep the direction of a token to itself."""
    return text.replace("\u2068", "").replace("\u2069", "")


def middle(mark):
    """The middle of a shape."""
    return mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2


INSIDE = {None: 3, "middle": 0, "end": -3}


class Opened:
    """A page in the browser, and what a user does and sees there. `tab` is Playwright's page."""

    def __init__(self, tab, address):
        self.tab, self.address = tab, address
        self.errors, self.requests = [], []
        self.listeners = {
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": lambda message: self.errors.append(message.text) if message.type == "error" else None,
            "request": lambda request: self.requests.append(request),
        }
        for event, listener in self.listeners.items():
            tab.on(event, listener)

    def close(self):
        """Leave the tab to another page, with the pointer out of it and nothing in its storage."""
        for event, listener in self.listeners.items():
            self.tab.remove_listener(event, listener)
        self.tab.mouse.move(0, 0)
        self.tab.goto("about:blank")

    def open(self, at=""):
        """Go to the page anew, at this hash."""
        self.tab.goto("about:blank")
        self.tab.goto(self.address + at)
        self.settle()

    def go(self, at=""):
        """Go to another hash of the page that is open."""
        self.tab.evaluate(GO, at)
        self.settle()

    def travel(self, steps):
        """Go back (-1) or forward (1) in the history."""
        self.tab.evaluate(TRAVEL, steps)
        self.settle()

    def reload(self):
        self.tab.reload()
        self.settle()

    def settle(self):
        """Wait until what the state says is drawn, and nothing is missing."""
        self.tab.evaluate(SETTLE)

    # --- what a user does -----------------------------------------------------------------------------------

    def press(self, *keys):
        for key in keys:
            self.tab.keyboard.press(key)
        self.settle()

    def click(self, selector, **how):
        with self.revealed(selector):
            self.tab.click(selector, **how)
        self.settle()

    def choose(self, menu, value):
        """Choose from a menu, by its id and an option's value."""
        with self.revealed(f"#{menu}"):
            self.tab.select_option(f"#{menu}", str(value))
        self.settle()

    def hold(self, token):
        """Click a token in the text above the drawing."""
        self.click(f'#sentence [data-token="{token}"]')

    @contextmanager
    def revealed(self, selector):
        """Open the toolbar's menu if the control is in it, and close it afterwards."""
        inside = self.tab.query_selector(f"#rest {selector}") and self.tab.is_hidden("#rest")
        if inside:
            self.tab.click("#more")
        yield
        if inside:
            self.tab.eval_on_selector("#rest", "menu => menu.hidePopover()")

    def filter(self, name, on):
        with self.revealed(f"#{name}"):
            self.tab.set_checked(f"#{name}", on)
        self.settle()

    def threshold(self, place):
        """Move the slider to one of its 100 places, and return the threshold that it then shows."""
        with self.revealed("#threshold"):
            self.tab.fill("#threshold", str(place))
        self.settle()
        return float(self.text("least"))

    def point(self, x, y, click=False):
        """Move the pointer to a place of the drawing (not of the window), and click there."""
        self.tab.mouse.move(*self.in_window(x, y))
        if click:
            self.tab.mouse.click(*self.in_window(x, y))
        self.settle()

    def scroll(self, left=0, top=0):
        """Scroll the drawing, so that this is its first corner that is seen."""
        self.tab.eval_on_selector("#chart", "(chart, [left, top]) => chart.scrollTo(left, top)", [left, top])
        self.settle()

    def scrolled(self):
        """The corner of the drawing that is seen, [left, top]."""
        return self.tab.eval_on_selector("#chart", "chart => [chart.scrollLeft, chart.scrollTop]")

    def in_window(self, x, y):
        left, top = self.tab.evaluate(
            "() => { const chart = document.getElementById('chart'), box = chart.getBoundingClientRect();"
            " return [box.left - chart.scrollLeft, box.top - chart.scrollTop]; }"
        )
        return left + x, top + y

    # --- what a user sees -----------------------------------------------------------------------------------

    @property
    def hash(self):
        """The state in the address, as a dict of texts."""
        return dict(parse_qsl(urlsplit(self.tab.url).fragment, keep_blank_values=True))

    def saved(self, kind):
        """Return the file that the button "svg" or "png" saves: its name and its bytes."""
        with self.tab.expect_download() as download, self.revealed(f"#save-{kind}"):
            self.tab.click(f"#save-{kind}")
        return download.value.suggested_filename, download.value.path().read_bytes()

    def svg(self, whole=False):
        """Parse what is visible, or the whole drawing, as saved in an SVG; the pointer stays where it is."""
        return ElementTree.fromstring(self.tab.eval_on_selector("#save-svg", CATCH, not whole))

    def marks(self, shape, whole=False):
        """The shapes ("line", "rect") of that SVG that stand for a number, as dicts; numbers are floats."""
        return [
            {name.removeprefix("data-"): number(value) for name, value in element.attrib.items()}
            for element in self.svg(whole).iter(SVG + shape)
            if any(name.startswith("data-") for name in element.attrib)
        ]

    def labels(self):
        """The texts of the saved SVG, with where they stand: `[(text, x, y)]`; x is 3 pixels inside."""
        found = []
        for element in self.svg().iter(SVG + "text"):
            inside = INSIDE[element.get("text-anchor")] * (-1 if element.get("direction") == "rtl" else 1)
            found.append((element.text or "", float(element.get("x")) + inside, float(element.get("y"))))
        return found

    def texts(self):
        return [text for text, _, _ in self.labels()]

    def place(self, text, nth=0):
        """Return the position of the nth label with this text in the drawing."""
        return [(x, y - 4) for label, x, y in self.labels() if label == text][nth]

    def pixels(self):
        """The canvas, uint8 `[y, x, colour]`."""
        address = self.tab.evaluate("document.getElementById('canvas').toDataURL()")
        return image(base64.b64decode(address.partition(",")[2]))

    def text(self, name):
        """Return the text of an element, by its id."""
        return without_isolates(self.tab.inner_text(f"#{name}") or self.tab.text_content(f"#{name}"))

    def tip(self):
        return None if self.tab.is_hidden("#tip") else self.text("tip")

    def table(self):
        """The side panel's rows: `[(token, its number, weight)]`."""
        if self.tab.is_hidden("#values"):
            return None
        read = "row => [row.querySelector('bdi').textContent, row.cells[0].lastChild.data, row.cells[1].textContent]"
        rows = self.tab.eval_on_selector_all("#values tbody tr", f"rows => rows.map({read})")
        return [(name, int(place), float(weight.lstrip("< "))) for name, place, weight in rows]

    def sentence(self):
        """Return the tokens of the text above the drawing."""
        return self.tab.eval_on_selector_all("#sentence button", "all => all.map(one => one.textContent)")

    def held(self):
        """Return the token that is marked in the text above the drawing; None if none is."""
        tokens = self.tab.eval_on_selector_all(
            "#sentence [aria-pressed=true]", "all => all.map(one => one.dataset.token)"
        )
        return int(tokens[0]) if tokens else None

    def options(self, menu):
        """A menu's options: `[(value, label)]`."""
        found = self.tab.eval_on_selector_all(f"#{menu} option", "all => all.map(one => [one.value, one.label])")
        return [[value, without_isolates(label).strip()] for value, label in found]
