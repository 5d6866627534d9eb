"""The explorer with keys pressed by a test: on a screen of any size, without a terminal."""

import asyncio
import functools
import inspect
import time
from concurrent.futures import ThreadPoolExecutor

import textual._wait
import textual.screen

from attncli.live import Session
from attncli.live.explorer.app import Explorer
from attncli.live.explorer.panes import Pane, ScreenState, StatusPane
from attncli.models.opening import Opening
from attncli.record.selection import Input

TEXT = "The trophy does not fit in the suitcase because it is too big."
PATIENCE = 60  # seconds for an answer: only what hangs takes so long
# After each key Textual waits until the process has been idle for 1/50 of a second, since a screen is drawn every 1/60.
# Where it is drawn more often, a shorter wait is enough.
textual.screen.UPDATE_PERIOD = 1 / 500
textual._wait.SLEEP_GRANULARITY, textual._wait.SLEEP_IDLE = 1 / 250, 1 / 5000


def session_of(**models):
    """A session with these models open, by their names."""
    made = Session([Opening(name, "cpu") for name in models])
    made.engines.update({(name, ""): model for name, model in models.items()})
    return made


class Exploring:
    """An explorer, and what a test does with it."""

    def __init__(self, app, pilot):
        self.app, self.pilot = app, pilot

    async def settled(self):
        """Once what is looked at was answered, or could not be."""

        async def is_answered():
            worker, answer = self.app.worker, self.app.answer
            if worker.waiting is not None or worker.doing is not None or answer is None:
                return False
            await self.pilot.pause()  # for the message of the last one
            return request_of(self.app.answer.state) == request_of(self.app.state)

        await self.until(is_answered)

    async def until(self, holds):
        """Wait until `await holds()` is true."""
        end = time.monotonic() + PATIENCE
        await self.pilot.pause()
        while not await holds():
            assert time.monotonic() < end, f"no answer: {self.app.state}, {self.said}"
            await asyncio.sleep(0.005)
            await self.pilot.pause()

    async def press(self, *keys):
        for key in keys:
            await self.pilot.press(key)
            await self.settled()

    async def write(self, text):
        """Type it, in place of what stands there."""
        await self.pilot.press("i", "ctrl+a", "ctrl+k")
        await self.pilot.press(*("space" if one == " " else one for one in text), "enter")
        await self.settled()

    async def answer_line(self, text):
        """Fill the line that is asked for."""
        await self.pilot.pause()
        self.app.screen.query_one("Input").value = text
        await self.pilot.press("enter")
        await self.pilot.pause()
        await self.settled()

    @property
    def state(self):
        return self.app.state

    @property
    def answer(self):
        return self.app.answer

    @property
    def said(self):
        """The line of the status."""
        return plain(self.app.screen_stack[0].query_one("#status", StatusPane))

    def pane(self, kind):
        """The pane of this kind that is seen, as text."""
        [found] = [one for one in self.app.screen_stack[0].query(kind) if one.display]
        return plain(found)

    def pane_of_cell(self):
        """The numbers of what is held."""
        return self.pane("#cell")


def request_of(state):
    return state.session_request(None), state.against


def plain(pane: Pane) -> str:
    """The title, the lines and what stands below them."""
    frame = [str(one) for one in (pane.border_title, pane.border_subtitle) if one]
    return "\n".join([*frame[:1], *(line.plain for line in pane.lines), *frame[1:]])


def explore(session, script, state=None, size=(100, 30), **options):
    """Run `await script(exploring)` on a screen of this size, in a thread and a loop of its own."""
    state = state or ScreenState(session.models[0], Input(TEXT))

    async def run():
        app = Explorer(session, state, **options)
        async with app.run_test(size=size) as pilot:
            exploring = Exploring(app, pilot)
            await exploring.settled()
            await script(exploring)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, run()).result()


def explored(state=None, **options):
    """Make a test of `async def test(it, ...)`: it runs on a screen of the fixture `session`.

    state: the first state, or a function that makes it of the session. options: as for `explore`; a parameter of the
    test with such a name comes before them.
    """

    def made(script):
        parameters = [*inspect.signature(script).parameters][1:]

        @functools.wraps(script)
        def test(session, **fixtures):
            there = fixtures | {"session": session}
            given = {name: there[name] for name in ("size", "begin") if name in parameters}
            wanted = {name: there[name] for name in parameters}
            first = state(session) if callable(state) else state
            explore(session, functools.partial(script, **wanted), first, **{**options, **given})

        names = dict.fromkeys(["session", *parameters])
        test.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        )
        return test

    return made
