"""Measure the time from a key to the drawing: python tests/serve_browser_bench.py [--threads N] [--rounds N]

The page of `attncli serve` with minilm's published weights in Chromium without a window, a text of 16 tokens whose last
letter is typed anew each time. For every view: milliseconds from the key's event in the page to the frame in which the
text that it makes is drawn, median and worst of 50 after a warm-up, and of them how long the answer took to come.
"""

import argparse
import statistics
import subprocess
import sys

from browsers import SETTLE, browser_path
from measuring import processor
from playwright.sync_api import Page, ViewportSize, sync_playwright
from shell import environment

VIEWS = ("heads", "model", "matrix", "neuron")
TEXT = "The trophy does not fit in the suitcase because it is very big "  # and a letter
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ROUNDS = 50
WARM = 8
WINDOW = ViewportSize(width=1280, height=800)
# One letter, and the time until the drawing of its text: the title is written as the text is shown, and drawings that
# lack nothing are counted, so it is the first one after that whose text has q and k where they are looked at.
TYPE = """([text, neuron]) => new Promise((done, fail) => {
  const [field, chart] = [document.getElementById("typed"), document.getElementById("chart")];
  const title = document.title;
  field.value = text;
  const begun = performance.now();
  let came = 0;
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
  const watch = new MutationObserver(() => { came ||= performance.now(); delete chart.dataset.drawn; look(); });
  watch.observe(document.querySelector("title"), { childList: true });
  const look = () => {
    if (!chart.dataset.drawn) { requestAnimationFrame(look); return; }
    watch.disconnect();
    done([performance.now() - begun, came - begun]);
  };
  setTimeout(() => fail(new Error("nothing was drawn")), 10_000);
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=0, help="of torch; 0: as many as it takes by itself")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    env = environment() | ({"OMP_NUM_THREADS": str(asked.threads)} if asked.threads else {})
    if not asked.threads:
        env.pop("OMP_NUM_THREADS", None)
    command = [sys.executable, "-m", "attncli", "serve", "-q", "-m", "minilm", "The cat sat on the mat."]
    print(f"{processor()}, {asked.threads or 'usual'} threads, median and worst of {asked.rounds}, ms")
    print(f"{'view':>8} {'key to drawn':>15} {'answer came':>15}")
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server,
        sync_playwright() as playwright,
    ):
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport=WINDOW)
            page.goto(address)
            page.evaluate(SETTLE)
            for view in VIEWS:
                measure(page, view, asked.rounds)
            browser.close()
        finally:
            server.terminate()


def measure(page: Page, view: str, rounds: int) -> None:
    page.click(f"[data-view={view}]")
    page.wait_for_timeout(500)
    times = []
    for number in range(rounds + WARM):
        letter = LETTERS[number % 26] + LETTERS[number // 26] + LETTERS[VIEWS.index(view)]
        times.append(page.evaluate(TYPE, [TEXT + letter, view == "neuron"]))
        page.wait_for_timeout(30)
    drawn, came = zip(*times[WARM:], strict=True)
    columns = [f"{statistics.median(one):6.1f} {max(one):8.1f}" for one in (drawn, came)]
    print(f"{view:>8} {columns[0]} {columns[1]}")


if __name__ == "__main__":
    main()
