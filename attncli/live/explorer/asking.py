"""A screen that asks: what is wanted goes to a thread, and what that answers is drawn."""

import asyncio
import signal
import warnings
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from textual import on
from textual.app import App
from textual.message import Message
from textual.timer import Timer

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import first_line, printable
from attncli.live.explorer.answers import Answer, answer
from attncli.live.explorer.look import HELD, Look
from attncli.live.explorer.messages import Answered, Done, Failed, Known, Noticed, Progress
from attncli.live.explorer.panes import Pane, StatusPane
from attncli.live.newest import Newest, SupersededError, Watch
from attncli.live.session import Session, settle
from attncli.record import ModelInfo
from attncli.record.request import Input as Texts
from attncli.record.selection import select_one
from attncli.render.captions.records import model_name

IDLE = 0.4  # seconds without a wish, after which is found out what is usual of the heads


def same(look: Look, other: Look) -> bool:
    """Whether both ask for the same."""
    return replace(look, **{name: getattr(other, name) for name in HELD}) == other


class Asking(App[None]):
    """The screen of one session. What is looked at is `look`; `answer` is what was last answered, and drawn."""

    def __init__(
        self,
        session: Session,
        look: Look,
        pad_to: int | None = None,
        begin: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """begin: the layer and the head that are held first, as they are typed; by default the one that `run` names."""
        super().__init__()
        self.begin = begin
        self.session = session
        self.look = look
        self.pad_to = pad_to
        self.answer: Answer | None = None
        self.before: Texts | None = None
        self.baseline = look
        self.undone: list[Look] = []
        self.notices: list[str] = []
        self.alone = 0
        self.newest = Newest("attncli-explore")
        self.keeping = ThreadPoolExecutor(1, "attncli-keep")
        self.idle: Timer | None = None

    def on_mount(self) -> None:
        self.shown_before, warnings.showwarning = warnings.showwarning, self.show_warning
        self.listen_to_signals()
        self.set_focus(None)
        self.say(f"opening {self.look.model} ...")
        self.ask()

    def listen_to_signals(self) -> None:
        """TERM and HUP leave the terminal as it was, too."""
        for number in (getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)):
            with suppress(NotImplementedError, RuntimeError, ValueError):  # not here, or not in this thread
                asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)

    def on_unmount(self) -> None:
        warnings.showwarning = self.shown_before
        self.newest.close()
        self.keeping.shutdown(wait=False)  # what is being saved is saved before the process ends

    # --- asking, in a thread of its own -------------------------------------------------------------------

    def ask(self) -> None:
        """Have the look answered; whatever was asked before is not wanted any more. Nothing at the end."""
        if self.newest.closed:
            return
        self.notices.clear()
        look, before, over = self.look, self.before, self.session.usuals.get(self.usual_of(self.look))

        def work(watch: Watch) -> Answered:
            opened = (look.model, "") in self.session.engines
            made = answer(self.session, look, before, self.pad_to, over, watch)
            if not opened:
                settle()
            return Answered(made)

        self.newest.ask(self.telling(work, look), whose="look", watch=Watch(self.tell_share))
        if self.idle is not None:
            self.idle.stop()
        self.idle = self.set_timer(IDLE, self.ask_usual)

    def telling(self, work: Callable[[Watch], Message], look: Look | None = None) -> Callable[[Watch], None]:
        """The same work, of which the screen is told: by the message that it gives, or why it could not be done."""

        def done(watch: Watch) -> None:
            try:
                self.post_message(work(watch))
            except SupersededError:
                pass
            except (RequestError, OSError, MemoryError) as error:
                self.post_message(Failed(printable(str(error) or "not enough memory"), look))
            except Exception as error:  # noqa: BLE001  # nothing that a text does may end the program
                self.post_message(Failed(f"a mistake in attncli: {first_line(error)}", look))

        return done

    def tell_share(self, share: float) -> None:
        self.post_message(Progress(share))

    def keep(self, work: Callable[[Watch], Message]) -> None:
        """Have something done that nothing newer takes the place of."""
        self.keeping.submit(self.telling(work), Watch())

    def usual_of(self, look: Look) -> Hashable:
        return self.session.usual_kind(look.asked(self.pad_to))

    def ask_usual(self) -> None:
        """Find out what is usual, once for each model, mask and measure."""
        if self.newest.closed or self.answer is None:
            return
        if self.usual_of(self.look) not in self.session.usuals:
            asked = self.look.asked(self.pad_to)
            self.newest.ask(self.telling(lambda _: Known(self.session.usual(asked))), whose="usual")

    @on(Answered)
    def show_answer(self, message: Answered) -> None:
        first, known = self.answer is None, self.answer is not None and same(self.answer.look, message.answer.look)
        self.answer = message.answer
        self.look = self.look.possible(message.answer.record, message.answer.first)
        self.redraw(keep=known)
        if first:
            self.hold_first(message.answer.record.model)

    def hold_first(self, model: ModelInfo) -> None:
        """The head that was named when the program was started."""
        layer, head = self.begin
        try:
            if layer is not None:
                self.hold(layer=select_one(layer, model.layers, "layer"), head=0)
            if head is not None:
                self.hold(head=select_one(head, model.heads, "head"))
        except RequestError as error:
            self.say(str(error), wrong=True)

    @on(Failed)
    def show_error(self, message: Failed) -> None:
        if message.look is not None and self.answer is not None and same(message.look, self.look):
            held = {name: getattr(self.look, name) for name in HELD}
            self.look = replace(self.answer.look, **held).possible(self.answer.record, self.answer.first)
            self.redraw()
        self.say(message.said, wrong=True)

    @on(Known)
    def show_usual(self) -> None:
        self.ask()

    @on(Done)
    def show_done(self, message: Done) -> None:
        self.say(message.said)

    @on(Progress)
    def show_progress(self, message: Progress) -> None:
        if message.share > 0:
            self.say(f"{self.look.model}: {message.share:.0%}")

    def show_warning(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, Notice):
            self.post_message(Noticed(str(message)))

    @on(Noticed)
    def keep_notice(self, message: Noticed) -> None:
        self.notices.append(printable(message.said))

    # --- drawing ------------------------------------------------------------------------------------------

    def redraw(self, keep: bool = False) -> None:
        """Draw all panes anew; keep: but for what the status says, which is of something else."""
        for pane in self.screen_stack[0].query(Pane):
            if not (keep and isinstance(pane, StatusPane)):
                pane.redraw()

    def hold(self, **changes: Any) -> None:
        """Hold something else of the answer that is there."""
        self.look = replace(self.look, **changes)
        self.redraw()

    def say(self, text: str, wrong: bool = False) -> None:
        """A line in the place of the status, until something else is drawn."""
        status = self.screen_stack[0].query_one("#status", StatusPane)
        status.set_class(wrong, "wrong")
        status.say(text)

    def settings(self) -> list[str]:
        """Name the model, the mask that it used, and whatever else is not the default.

        The record names the mask: a network that looks back only has its own, whatever was asked for.
        """
        look = self.answer.look if self.answer is not None else self.look
        mask = self.answer.record.mask_name if self.answer is not None else look.mask
        against = {"": [], "before": ["compared with the sentence before"], "whole": ["compared with every head"]}
        return [
            model_name(look.model),
            f"mask {mask}",
            *(["norms"] if look.measure == "norm" else []),
            *(["words"] if look.words else []),
            *([f"without {', '.join(f'{layer}.{head}' for layer, head in look.without)}"] if look.without else []),
            *against[look.against],
            *self.notices[:1],
        ]
