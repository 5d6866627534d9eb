"""Measure the time from a key to the screen: `python tests/explore_bench.py [MODEL]`, median and worst of 50.

Drawn is a screen whose panes show the answer, or the head, that the key asked for, and that Textual has painted. The
model is minilm, and for 512 tokens a network of BERT-base's shape with random weights.
"""

import asyncio
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from checkpoints import make_checkpoint
from measuring import processor

from attncli.live import Session
from attncli.live.explorer.app import Explorer
from attncli.live.explorer.panes import ScreenState
from attncli.models.opening import Opening
from attncli.record.selection import Input

TIMES = 50
TEXT = "The trophy does not fit in the suitcase because it is too big."
NOUNS = ["suitcase", "trophy", "cat", "dog", "house", "tree", "river", "mouse", "horse", "table", "chair", "letter"]


class Painted(Explorer):
    """Knows when it was last painted."""

    painted = 0.0

    def _display(self, screen, renderable):  # what Textual calls with what goes to the terminal
        super()._display(screen, renderable)
        self.painted = time.perf_counter()


async def until(app, holds):
    """Once that holds and has been painted since; in seconds from now."""
    began = time.perf_counter()
    while not holds():
        await asyncio.sleep(0.0005)
    held = time.perf_counter()
    while app.painted < held and time.perf_counter() - held < 1:
        await asyncio.sleep(0.0005)
    return max(app.painted, held) - began


def describe(name, seconds):
    median, worst = 1000 * statistics.median(seconds), 1000 * max(seconds)
    print(f"{name:<34} median {median:6.1f} ms, worst of {len(seconds)} {worst:6.1f}")


async def typing(app, pilot):
    """A sentence of 16 tokens, typed to its last letter: from that to its answer on the screen."""
    taken = []
    for number in range(TIMES + 5):
        noun = NOUNS[number % len(NOUNS)] + "s" * (number // len(NOUNS) % 2)
        text = f"The {noun} does not fit in the suitcase because it is too big."
        app.field.value = text[:-1]
        await until(app, lambda text=text: app.answer.state.text.text == text[:-1])
        await asyncio.sleep(0.02)
        began = time.perf_counter()
        app.field.value = text
        await until(app, lambda text=text: app.answer.state.text.text == text)
        taken.append(time.perf_counter() - began)
    describe("a new sentence of 16 tokens", taken[5:])


async def heads(app, name):
    taken = []
    for number in range(TIMES + 5):
        before = app.state
        began = time.perf_counter()
        app.move_head(1, 0) if number % 3 else app.move_head(0, 1)
        await until(app, lambda before=before: app.state != before)
        taken.append(time.perf_counter() - began)
        await asyncio.sleep(0.02)
    describe(name, taken[5:])


async def gaps(app, doing):
    """The longest time that the loop of the screen was held up while something went on, in seconds."""
    longest, task = 0.0, asyncio.ensure_future(doing)
    while not task.done():
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - began - 0.001)
    await task
    return longest


async def small():
    app = Painted(Session([Opening("minilm", "cpu")]), ScreenState("minilm", Input(TEXT)))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(app, lambda: app.answer is not None)
        await asyncio.sleep(1.5)
        app.action_type()
        await typing(app, pilot)
        app.leave_field()
        await heads(app, "another head, 16 tokens")


async def large(folder):
    session = Session([Opening(str(folder), "cpu")])
    words = random.Random(0).choices(NOUNS, k=510)
    app = Painted(session, ScreenState(str(folder), Input(" ".join(words))))
    async with app.run_test(size=(120, 40)) as pilot:
        opened = await gaps(app, until(app, lambda: app.answer is not None))
        print(f"BERT-base's shape, 512 tokens: the loop is held up {1000 * opened:.0f} ms at most while it opens")
        app.action_type()
        await pilot.pause()
        taken, longest = [], 0.0
        for number in range(20):
            began = time.perf_counter()
            letter = "abcdefghij"[number % 10]
            length = len(app.field.value)
            app.field.insert_text_at_cursor(letter)
            longest = max(longest, await gaps(app, until(app, lambda length=length: len(app.field.value) > length)))
            taken.append(time.perf_counter() - began)
            await asyncio.sleep(0.1)
        describe("a letter in the field, 512 tokens", taken)
        print(f"  the loop is held up {1000 * longest:.0f} ms at most meanwhile")
        app.leave_field()
        await until(app, lambda: app.worker.doing is None and app.worker.waiting is None)
        await heads(app, "another head, 512 tokens")


def main():
    print(f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    asyncio.run(small())
    if len(sys.argv) > 1:
        asyncio.run(large(Path(sys.argv[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        shape = {"num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768, "intermediate_size": 3072}
        made = make_checkpoint(Path(folder), "bert", max_position_embeddings=512, **shape)
        asyncio.run(large(made))


if __name__ == "__main__":
    main()
