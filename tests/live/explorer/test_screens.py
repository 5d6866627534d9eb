"""The main screens as they state, on a record whose numbers are the same on every processor."""

import asyncio

import numpy as np
import pytest
import textual
from exploring import Exploring, session_of
from slow import slow_except

from attncli.live import Session
from attncli.live.explorer.app import Explorer
from attncli.live.explorer.panes import ScreenState
from attncli.record.making import record_of
from attncli.record.selection import Input

MADE_WITH = "8.2."
WORDS = ["the", "trophy", "does", "not", "fit", "in", "the", "suitcase", "because", "it", "is", "too", "big", "."]


@pytest.fixture
def own_loop():
    """A loop for what brings none, where a browser's runs in this thread."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()
    asyncio.set_event_loop(None)
    asyncio._set_running_loop(running)


class HandSession(Session):
    """A session whose model gives weights made by hand, so that no rounding is seen."""

    def compute_records(self, request, watch):
        count = len(WORDS)
        layer, head, query, key = np.indices((4, 8, count, count))
        apart = abs(key - query + head - 3 + 2 * len(request.text.text.split()) - 28)
        weights = 2.0 ** -np.minimum(apart, 6) + (key == 0) * (layer + 1) / 4
        allowed = np.tril(np.ones((count, count), dtype=bool)) if request.masks[0] == "causal" else True
        weights = np.where(allowed, weights, 0)
        made = record_of(weights / weights.sum(-1, keepdims=True), WORDS)
        return [made]

    def usual(self, request, watch=None):
        self.usuals[self.usual_kind(request)] = None


SCREENS = {
    "all": ((100, 30), []),
    "narrow": ((44, 20), []),
    "narrow heads": ((44, 20), ["tab"]),
    "wide": ((150, 34), ["escape", "j", "j", "l", "l"]),
    "cell": ((100, 30), ["tab", "right", "j", "j", "j", "l", "l"]),
    "light": ((100, 30), ["d"]),
    "keys": ((100, 34), ["question_mark"]),
    "compared": ((100, 30), ["i", *"x", "enter", "="]),
    "special tokens": ((80, 24), ["t", "4"]),
}


@pytest.mark.skipif(
    not textual.__version__.startswith(MADE_WITH), reason="another Textual draws its own parts otherwise"
)
@pytest.mark.usefixtures("own_loop")
@pytest.mark.parametrize("name", slow_except(SCREENS, ["all", "narrow", "cell", "compared"]))
def test_a_screen_looks_as_it_did(snap_compare, name):
    size, keys = SCREENS[name]
    session = HandSession(session_of(hand=None).openings)

    async def before(pilot):
        it = Exploring(pilot.app, pilot)
        await it.settled()
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.05)
        await it.settled()
        await pilot.pause(0.1)

    app = Explorer(session, ScreenState("hand", Input(" ".join(WORDS[:-1]) + ".")))
    assert snap_compare(app, terminal_size=size, run_before=before)
