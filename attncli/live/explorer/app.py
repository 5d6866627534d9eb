"""The explorer: type a sentence and see each head's attention to it, full screen in the terminal.

Keys change the state of the screen (`ScreenState`). A thread computes the answer to it, and the panes draw it.
"""

import asyncio
import re
import shlex
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rich.highlighter import Highlighter
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.events import Paste, Resize
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widgets import Footer, Input, Static

from attncli.analysis.patterns import row_shares
from attncli.base import choices
from attncli.base.errors import Notice, RequestError, no_notices
from attncli.base.files import PICTURES, check_suffix
from attncli.base.printable import HARMFUL, first_line, printable
from attncli.live.explorer.panes import (
    HELD,
    CellPane,
    FindingsPane,
    HeadsPane,
    MapPane,
    Pane,
    ScreenContent,
    ScreenState,
    StatusPane,
    TokensPane,
    WrittenPane,
    screen_content,
)
from attncli.live.explorer.writing import shared
from attncli.live.session import WRITES, Newest, Session, SupersededError, Watch, settle
from attncli.models.opening import Opening
from attncli.record import ModelInfo, save_records
from attncli.record.display import model_name
from attncli.record.record import SUFFIXES as RECORDS
from attncli.record.selection import Input as Texts
from attncli.record.selection import choose_head, heads_list, name_layers, select_one

# --- keys ----------------------------------------------------------------------------------------------


# The key, the action, its name in the footer (empty: only on the page of keys), and its description.
KEYS = (
    (
        "left,right,up,down",
        "move(-1,0),move(1,0),move(0,-1),move(0,1)",
        "move",
        "move in the pane with the bright frame: findings, heads and layers, or keys and queries",
    ),
    ("question_mark", "keys", "keys", "list the keys"),
    ("q,ctrl+c,ctrl+q", "quit", "quit", "quit"),
    ("n,p", "finding(1),finding(-1)", "findings", "the next or previous finding: a head that stands out, or changed"),
    ("tab", "next_pane", "", "the next pane"),
    ("x", "silence", "silence (toggle)", "silence the head and go to the head that changes most; again: restore it"),
    ("g", "write", "write on", "let a decoder write on from the end of the text; n and p go through what it wrote"),
    ("G", "rewrite", "", "write again from the selected written token, without the silenced heads"),
    ("i,slash", "type", "type", "type a sentence; Enter or Esc returns to the panes"),
    ("enter", "show_map", "", "go to the map of the selected head"),
    ("k,j", "query(-1),query(1)", "", "the previous token, the next token"),
    ("h,l", "key(-1),key(1)", "", "the previous key, the next key, with their weights"),
    ("o", "other_side", "", "select the row of the key's token"),
    ("escape", "let_go", "", "stop long work, or clear the selection"),
    ("m", "mask", "mask", "the next mask"),
    ("w", "words", "words", "words or pieces"),
    ("s", "special", "", "special tokens on or off"),
    ("v", "measure", "", "weights, or norms of weight times transformed value"),
    ("equals_sign", "compare", "compare", "compare with the previous sentence, or stop comparing"),
    ("u", "undo", "undo", "undo"),
    ("P", "pair", "", "enter a second text"),
    ("M", "model", "", "the next model"),
    ("S", "save", "save", "save a picture, a page or a record, by the file's suffix"),
    ("y", "copy", "copy", "copy the command for this view"),
    ("1,2,3,4,0", "alone(1),alone(2),alone(3),alone(4),alone(0)", "", "findings, heads, map or tokens only; all panes"),
    ("d", "theme", "", "light or dark"),
)
SHOWN = {"slash": "/", "equals_sign": "=", "question_mark": "?", "left": "←", "right": "→", "up": "↑", "down": "↓",
         "enter": "Enter", "tab": "Tab", "escape": "Esc", "ctrl+c": "Ctrl-C", "ctrl+q": "Ctrl-Q"}  # fmt: skip
ALWAYS = ("ctrl+c", "ctrl+q", "tab")  # while typing too
TOGETHER = {"left": "←→↑↓", "n": "n p"}  # keys with one name in the footer


def bindings() -> list[BindingType]:
    """Return every key with its action. For several keys with one action, the footer shows the first."""
    made: list[BindingType] = []
    for keys, actions, name, help in KEYS:
        names = keys.split(",")
        each = re.findall(r"\w+\([^)]*\)", actions) or [actions] * len(names)
        for number, (key, action) in enumerate(zip(names, each, strict=True)):
            first = number == 0 and bool(name)
            shown = TOGETHER.get(key) or SHOWN.get(key)
            made.append(Binding(key, action, name or help, show=first, key_display=shown, priority=key in ALWAYS))
    return made


def display_keys(keys: str) -> str:
    """Return keys as a user reads them."""
    return " ".join(SHOWN.get(key, key) for key in keys.split(","))


# --- fields --------------------------------------------------------------------------------------------


HARMLESS = "\N{REPLACEMENT CHARACTER}"
LONGEST = 2**14  # characters of a pasted text, whatever the model reads
UNDONE = 200  # changes that can be undone


class Harmless(Highlighter):
    """Draw characters that could control the terminal as "�". The text itself stays unchanged."""

    def highlight(self, text: Text) -> None:
        text.plain = "\t".join(HARMFUL.sub(HARMLESS, part) for part in text.plain.split("\t"))


class HarmlessInput(Input):
    """Textual's input with harmless display, since Textual draws escape sequences unchanged."""

    def __init__(self, value: str, **more: Any) -> None:
        super().__init__(value, compact=True, highlighter=Harmless(), **more)

    def _on_paste(self, event: Paste) -> None:
        """Cut the first line of a pasted text to what the model reads. Textual then pastes it."""
        line = next(iter(event.text.splitlines()), "").rstrip()
        event.text = cast(Explorer, self.app).cut_text(line)


class TextField(HarmlessInput):
    """The field to type in."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape", "app.let_go", "back to the heads", key_display="Esc"),
        Binding("up", "app.finding(-1)", "previous finding", show=False),
        Binding("down", "app.finding(1)", "next finding", show=False),
    ]

    def on_focus(self) -> None:
        explorer = cast(Explorer, self.app)
        explorer.baseline = explorer.look

    def on_blur(self) -> None:
        """Make what was typed one step for undo."""
        explorer = cast(Explorer, self.app)
        if explorer.look.text != explorer.baseline.text:
            explorer.undone.append(explorer.baseline)


class KeysLine(Footer):
    """Textual's footer, without the keys of actions that the model has not.

    Textual keeps each of its earlier keys in memory unless its own `compact` changes.
    """

    def compose(self) -> ComposeResult:
        explorer = cast(Explorer, self.app)
        for key in super().compose():
            if getattr(key, "action", None) not in explorer.missing_actions:
                yield key

    async def recompose(self) -> None:
        await super().recompose()
        self.mutate_reactive(Footer.compact)


# --- dialogs -------------------------------------------------------------------------------------------


class LineDialog(ModalScreen[str | None]):
    """A dialog that asks for a line; its result is None if Esc was pressed."""

    BINDINGS = [Binding("escape", "dismiss(None)", "leave")]  # noqa: RUF012

    AUTO_FOCUS = "Input"

    def __init__(self, question: str, value: str) -> None:
        super().__init__()
        self.question = question
        self.value = value

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self.question, markup=False)
            yield HarmlessInput(self.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class KeysDialog(ModalScreen[None]):
    """The page of keys."""

    BINDINGS = [Binding("escape,question_mark,q,enter", "dismiss(None)", "leave")]  # noqa: RUF012

    AUTO_FOCUS = "VerticalScroll"

    def compose(self) -> ComposeResult:
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, style="bold")
        for keys, _, _, help in KEYS:
            table.add_row(display_keys(keys), help)
        with VerticalScroll():
            yield Static(table)


# --- saving --------------------------------------------------------------------------------------------


def save(session: Session, look: ScreenState, path: Path, pad_to: int | None, watch: Watch | None = None) -> None:
    """Save a picture of the selected head, a page of all heads, or their record.

    Raises RequestError for another suffix, an unwritable place, and as `Session.record` does.
    """
    from attncli.page import Start, document

    suffix = check_suffix(path, (*PICTURES, *document.SUFFIXES, *RECORDS), "a picture, a page or a record")
    asked = look.session_request(pad_to)
    if suffix in document.SUFFIXES:
        from attncli.models.engine import NEURONS

        selected = look.selected()
        record = row_shares(session.record(replace(asked, vectors=NEURONS), watch))
        start = Start("heads", look.query, special=look.special, head=(selected.layer, selected.head))
        document.save_page(document.page(record, start), path)
        return
    record = session.record(asked, watch)
    if suffix in PICTURES:
        record.figure(path, layers=look.layer, heads=look.head, special=look.special)
    else:
        save_records([record], path)


RUN_ONLY = ("--mask", "--measure", "--pad-to", "--pair")  # options that `generate` does not have


def command(look: ScreenState, opening: Opening, pad_to: int | None, before: Texts | None = None) -> str | None:
    """Return the command line that prints this head, or, as far as `diff` supports the comparison, its change; of a
    written text the one that writes it.

    None if the text could harm a terminal.
    """
    without = ",".join(filter(None, (opening.without, heads_list(look.without))))
    texts = [look.text.text]
    compared = look.against == "whole" and not opening.without
    if look.against == "before" and before is not None and before.pair == look.text.pair and not without:
        compared, texts = True, [before.text, look.text.text]
    words = ["attncli", "diff" if compared else "run", "-l", str(look.layer), "-H", str(look.head)]
    if look.written:
        words, texts = ["attncli", "generate", "--max-tokens", str(len(look.written))], [look.text.text]
    for option, given, usual in (
        ("-m", look.model, "minilm"),
        ("--mask", look.mask, None),
        ("--measure", look.measure, "weight"),
        ("--engine", opening.engine, "auto"),
        ("--device", opening.device, "auto"),
        ("--dtype", opening.dtype, "float32"),
        ("--without", without, ""),
        ("--pad-to", pad_to, None),
        ("--pair", look.text.pair, None),
    ):
        if given != usual and not (look.written and option in RUN_ONLY):
            words += [option, str(given)]
    if look.words and not look.written:
        words.append("--words")
    line = shlex.join([*words, *(["--"] if any(text.startswith("-") for text in texts) else []), *texts])
    return line if printable(line) == line else None


# --- the screen ----------------------------------------------------------------------------------------


class _Call(Message):
    """A call that a thread leaves to the screen. watch: that of the task, if Esc can stop it."""

    def __init__(self, call: Callable[[], None], watch: "Job | None" = None) -> None:
        super().__init__()
        self.call = call
        self.watch = watch


class Job(Watch):
    """The progress of a task that Esc can stop. Its answer is ignored after that, however late it comes."""

    def __init__(self, name: str, show: Callable[["Job"], None]) -> None:
        """name: what it does, "running minilm". show: called, by the task's thread, when the share has changed."""
        super().__init__(self.advance)
        self.name = name
        self.show = show
        self.share = 0.0
        self.began = time.monotonic()
        self.stopped = False

    def advance(self, share: float) -> None:
        """Store the completed share and show it."""
        self.share = share
        self.show(self)

    @property
    def long(self) -> bool:
        """True if the screen names it, so that Esc stops it."""
        return time.monotonic() - self.began > LONG

    def __str__(self) -> str:
        share = f"{self.share:.0%}, " if self.share else ""
        return f"{self.name}: {share}{time.monotonic() - self.began:.0f} s; Esc stops it"


class WritingJob(Job):
    """The progress of a model that writes on. look: the state from which it began. ids, text: what it wrote so far."""

    def __init__(self, look: ScreenState, show: Callable[[Job], None]) -> None:
        super().__init__(f"writing with {look.model}", show)
        self.look = look
        self.ids = look.written
        self.text = ""

    def note(self, ids: tuple[int, ...], text: str) -> None:
        """Store what was written so far."""
        self.ids, self.text = ids, text


IDLE = 0.4  # seconds without a request until the usual weights are computed
LONG = 0.5  # seconds after which running work is named


def need_same_content(look: ScreenState, other: ScreenState) -> bool:
    """Return True if both states need the same answer."""
    return replace(look, **{name: getattr(other, name) for name in HELD}) == other


DARK, LIGHT = "textual-dark", "textual-light"
NOTHING_YET = "there is no head to select yet"
NOTHING_WRITTEN = "nothing is written yet: g writes on"
MIDDLE, WIDE = 72, 132  # columns: minimum widths for panes beside each other, and for all four of them
LOW, HIGH = 14, 44  # lines: below LOW a narrow screen has one pane; from HIGH on tokens have room below the map
PANES = ("findings", "heads", "map", "tokens")
LINES = 3  # lines of the text, the status and the keys
CELL = 2  # lines of the selected cell's numbers
FRAME = 2  # lines of a pane's border
LEGEND = 3  # lines below the grid of heads, at most


class MainScreen(Screen[None]):
    """The screen with the panes. They are arranged before Textual lays it out, so that each is drawn once."""

    def on_resize(self, event: Resize) -> None:
        cast(Explorer, self.app).arrange(event.size)


class Explorer(App[None]):
    """The screen of one session. `look` is its state, and `answer` the last answer, which is displayed."""

    BINDINGS = bindings()
    CSS_PATH = Path(__file__).with_name("explorer.tcss")
    TITLE = "attncli explore"
    AUTO_FOCUS = None
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        session: Session,
        look: ScreenState,
        pad_to: int | None = None,
        begin: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """begin: the layer and head to select first, as typed; by default the head that `run` names first."""
        super().__init__()
        self.begin = begin
        self.session = session
        self.given = look.text.text
        self.look = look = replace(look, text=look.text._replace(text=look.text.text[:LONGEST]))
        self.pad_to = pad_to
        self.answer: ScreenContent | None = None
        self.before: Texts | None = None
        self.baseline = look
        self.undone: deque[ScreenState] = deque(maxlen=UNDONE)
        self.notices: list[str] = []
        self.was_cut = ""  # what to say of a text that has just been cut
        self.about_text = ""  # that of the text in the field
        self.alone = 0
        self.pane = PANES[0]  # the focused one
        self.other = "map"  # the last focused one except the findings
        self.follow = begin == (None, None)  # True if the next answer selects its first finding
        self.effect: tuple[tuple[int, int], tuple[int, int]] | None = None  # the selected head, and the silenced one
        self.work: Job | None = None
        self.saving: Job | None = None
        self.named = False  # True if the status line names work
        self.unsettled = False  # True if a model was opened since the last `settle`
        self.arranged = self.room
        self.newest = Newest("attncli-explore")
        self.keeping = ThreadPoolExecutor(1, "attncli-keep")
        self.idle: Timer | None = None

    def get_default_screen(self) -> MainScreen:
        return MainScreen(id="_default")

    def on_mount(self) -> None:
        """Restore the terminal also after TERM and HUP, and open the model."""
        self.shown_before, warnings.showwarning = warnings.showwarning, self.show_warning
        for number in (getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)):
            with suppress(NotImplementedError, RuntimeError, ValueError):  # unsupported here, or not the main thread
                asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
        self.panes[self.pane].focus()
        self.say(f"opening {self.look.model} ...")
        self.set_interval(LONG, self.show_work)
        self.call_after_refresh(self.ask)  # importing torch, in a thread, would delay the first screen

    def on_unmount(self) -> None:
        warnings.showwarning = self.shown_before
        self.newest.close()
        self.keeping.shutdown(wait=False)  # saving finishes before the process ends

    # --- requests, in a thread -------------------------------------------------------------------

    def ask(self) -> None:
        """Request an answer for the current state and cancel earlier requests. Do nothing after closing."""
        if self.newest.closed:
            return
        self.notices = [self.about_text] if self.about_text else []
        look, before, over = self.look, self.before, self.session.usuals.get(self.usual_of(self.look))
        opened = (look.model, "") in self.session.engines
        self.work = Job(f"{'running' if opened else 'opening'} {look.model}", self.tell_share)

        def answer(watch: Watch) -> Callable[[], None]:
            made = screen_content(self.session, look, before, self.pad_to, over, watch)
            self.unsettled = self.unsettled or not opened
            return lambda: self.show_answer(made)

        self.newest.ask(self.then(answer, look), whose="look", watch=self.work)
        if self.idle is not None:
            self.idle.stop()

    def then(
        self, work: Callable[[Watch], Callable[[], None]], look: ScreenState | None = None
    ) -> Callable[[Watch], None]:
        """Return a function that does the work in a thread. The screen calls what it returns, or shows its failure."""

        def done(watch: Watch) -> None:
            stoppable = watch if isinstance(watch, Job) else None
            try:
                self.post_message(_Call(work(watch), stoppable))
            except SupersededError:
                pass
            except (RequestError, OSError, MemoryError) as error:
                self.fail(printable(str(error) or "not enough memory"), look, stoppable)
            except Exception as error:  # noqa: BLE001  # no text may end the program
                self.fail(f"a mistake in attncli: {first_line(error)}", look, stoppable)

        return done

    def fail(self, said: str, look: ScreenState | None, watch: Job | None = None) -> None:
        """Let the screen show an error. look: the requested state, if any."""
        self.post_message(_Call(lambda: self.show_error(said, look), watch))

    @on(_Call)
    def do(self, message: _Call) -> None:
        has_ended = not self.screen_stack
        if not has_ended and (message.watch is None or not message.watch.stopped):
            message.call()

    # --- long work -------------------------------------------------------------------------------

    def tell_share(self, work: Job) -> None:
        if work.long:
            self.post_message(_Call(lambda: self.name_work(work), work))

    def name_work(self, work: Job) -> None:
        self.named = True
        self.say(str(work))

    def show_work(self) -> None:
        """Name the running work, how far it is and how long it has taken."""
        running = self.work or self.saving
        if running is not None and running.long:
            self.name_work(running)

    def stop_work(self) -> bool:
        """Stop the work that `show_work` names, and return to the last answer. Return False if there is none."""
        running = self.work or self.saving
        if running is None or not running.long:
            return False
        running.stopped = True
        running.dropped.set()
        if running is self.work:
            self.newest.stop()
            self.work = None
            self.return_to_answer()
        else:
            self.saving = None
        if isinstance(running, WritingJob) and running.ids != running.look.written:
            self.show_written(running)  # what it wrote so far stays
        self.say(f"stopped {running.name}")
        return True

    def return_to_answer(self) -> None:
        """Return to the state of the last answer, if there is one, with the selection unchanged."""
        if self.answer is not None:
            held = {name: getattr(self.look, name) for name in HELD}
            self.look = replace(self.answer.look, **held).restrict_to(self.answer.record, self.answer.first)
            self.follow = False
            self.redraw()

    def usual_of(self, look: ScreenState) -> Hashable:
        return self.session.usual_kind(look.session_request(self.pad_to))

    def ask_usual(self) -> None:
        """Compute the usual weights once for each model, mask and measure, after the first maps.

        `settle` also waits for them, since it delays drawing.
        """
        if self.newest.closed or self.answer is None or self.work is not None:
            return
        if self.usual_of(self.look) not in self.session.usuals:
            look = self.look
            work = self.work = Job("computing usual weights", self.tell_share)

            def usual(watch: Watch) -> Callable[[], None]:
                self.session.usual(look.session_request(self.pad_to), watch)
                if self.unsettled:
                    self.unsettled = False
                    settle()
                return lambda: self.ask() if self.work is work else None

            self.newest.ask(self.then(usual, look), whose="look", watch=self.work)

    def show_answer(self, answer: ScreenContent) -> None:
        before = self.answer
        first, known = before is None, before is not None and need_same_content(before.look, answer.look)
        same_grid = before is not None and before.record.layers == answer.record.layers
        self.answer = answer
        self.look = self.look.restrict_to(answer.record, answer.first)
        if need_same_content(answer.look, self.look):
            self.work = None
            self.select_finding(answer, before)
        if not same_grid:
            self.arrange()
        if before is None or before.record.kind != answer.record.kind:
            self.refresh_bindings()
        if first:
            self.cut_given()
        self.redraw(keep=known and not self.named)
        self.named = False
        if first:
            self.hold_first(answer.record.model)
            self.ask_usual()
            self.set_timer(IDLE, lambda: self.wake(answer.look.model))
        elif self.work is None:
            self.idle = self.set_timer(IDLE, self.ask_usual)

    def cut_given(self) -> None:
        """Cut the text of the command line, now that the model is open, unless another one is typed already."""
        if self.answer is None or self.look.text != self.answer.look.text:
            return
        text = self.look.text._replace(text=self.cut_text(self.given))
        if self.was_cut:
            self.look = self.look.with_text(text)
            self.answer = replace(self.answer, look=self.answer.look.with_text(text))
            self.about_text, self.was_cut = self.was_cut, ""
            self.notices = [self.about_text]
            self.show_text()

    @property
    def missing_actions(self) -> tuple[str, ...]:
        """The actions that are not offered: an encoder writes nothing."""
        return ("write", "rewrite") if self.answer is None or self.answer.record.kind == "encoder" else ()

    def wake(self, model: str) -> None:
        """Import torch and open the model in it in the background, unless the explorer is being closed."""
        with suppress(RuntimeError):
            self.keeping.submit(self.session.wake, model)

    def select_finding(self, answer: ScreenContent, before: ScreenContent | None) -> None:
        """Select a finding at the start, until a key selects something else, and after silencing a head and writing.

        It is the first one. Of written tokens it is the first new one, or the one whose row is selected already.
        before: the last answer.
        """
        if not self.follow or not answer.findings:
            return
        finding = answer.findings[0]
        if answer.record.written is not None:
            finding = answer.findings[self.look.finding(answer.findings) or 0]
            ids = () if before is None else before.look.written
            if answer.look.written != ids:
                new = shared(ids, answer.look.written)
                rows = [-1 if one.query is None else answer.known[one.query] for one in answer.findings]
                finding = next((one for one, row in zip(answer.findings, rows, strict=True) if row >= new), finding)
        self.look = replace(self.look, **finding.selection)
        if self.effect is not None and self.look.layer is not None and self.look.head is not None:
            self.effect = (self.look.layer, self.look.head), self.effect[1]

    def hold_first(self, model: ModelInfo) -> None:
        """Select the head that was named on the command line."""
        layer, head = self.begin
        try:
            if layer is None and head is not None and name_layers(head):
                layer, head = map(str, choose_head("all", head, model.layers, model.heads))
            if layer is not None:
                self.hold(layer=select_one(layer, model.layers, "layer"), head=0)
            if head is not None:
                self.hold(head=select_one(head, model.heads, "head"))
        except RequestError as error:
            self.say(str(error), wrong=True)

    def show_error(self, said: str, look: ScreenState | None) -> None:
        """Show an error, and return to the state of the last answer if the current one has none."""
        if look is not None and need_same_content(look, self.look):
            self.work = None
            self.return_to_answer()
        self.say(said, wrong=True)

    def show_warning(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, Notice):
            self.post_message(_Call(lambda: self.notices.append(printable(str(message)))))

    # --- drawing ------------------------------------------------------------------------------------------

    def redraw(self, keep: bool = False) -> None:
        """Redraw all panes. keep: leave the status line unchanged."""
        if self.arranged != self.room:
            self.arrange()
        for pane in self.screen_stack[0].query(Pane):
            if not (keep and isinstance(pane, StatusPane)):
                pane.redraw()

    @property
    def text_so_far(self) -> str | None:
        """Return what the model has written while it writes on."""
        return self.work.text if isinstance(self.work, WritingJob) else None

    @property
    def room(self) -> tuple[int, int]:
        """Return the lines of the written text with what it replaces, and those of the selected cell's numbers."""
        if self.answer is None:
            return int(self.text_so_far is not None), CELL
        lines = 1 if self.text_so_far is not None else bool(self.answer.written) + bool(self.answer.earlier)
        likely = 0 if self.answer.record.written is None else 1 + (self.answer.found is not None)
        return lines, CELL + likely

    def hold(self, **changes: Any) -> None:
        """Change the selection within the current answer."""
        self.follow = False
        self.look = replace(self.look, **changes)
        self.redraw()

    def say(self, text: str, wrong: bool = False) -> None:
        """Show a message as the status until the next redraw."""
        status = self.screen_stack[0].query_one("#status", StatusPane)
        status.set_class(wrong, "wrong")
        status.say(text)

    def settings(self) -> list[str]:
        """Return the model, the mask that it used, and all settings that are not the default.

        The mask's name comes from the record, since causal networks always use their own.
        """
        look = self.answer.look if self.answer is not None else self.look
        mask = self.answer.record.mask_name if self.answer is not None else look.mask
        against = {"": [], "before": ["compared with the previous sentence"], "whole": ["compared with every head"]}
        return [
            model_name(look.model),
            f"mask {mask}",
            *(["norms"] if look.measure == "norm" else []),
            *(["words"] if look.words else []),
            *([f"without {', '.join(f'{layer}.{head}' for layer, head in look.without)}"] if look.without else []),
            *against[look.against],
            *self.notices[:1],
        ]

    # --- the selection, which needs no model ---------------------------------------------------------------

    def action_move(self, across: int, down: int) -> None:
        """Move the selection of the focused pane."""
        if self.answer is not None:
            self.panes[self.pane].move(across, down)

    def move_head(self, across: int, down: int) -> None:
        if self.answer is not None and self.look.layer is not None:
            layers, heads = self.answer.record.layers, self.answer.record.heads
            layer = step_through(layers, self.look.layer, down) if down else self.look.layer
            self.hold(layer=layer, head=step_through(heads, self.look.head, across) if across else self.look.head)

    def move_cell(self, across: int, down: int) -> None:
        if across:
            self.action_key(across)
        if down:
            self.action_query(down)

    def action_finding(self, step: int) -> None:
        """Select the next or previous finding: its head and its cell."""
        if self.answer is None:
            return
        findings = self.answer.findings
        if not findings:
            self.say("no map changed" if self.answer.found is not None else "no head stands out")
            return
        here = self.look.finding(findings)
        number = 0 if here is None else (here + step) % len(findings)
        self.hold(**findings[number].selection)

    def action_query(self, step: int) -> None:
        if self.answer is not None and self.look.head is not None:
            queries, _ = self.look.selected().sides(self.answer.record)
            self.hold(query=step_through(queries, self.look.query, step))

    def action_key(self, step: int) -> None:
        if self.answer is not None and self.look.head is not None:
            queries, keys = self.look.selected().sides(self.answer.record)
            query = queries[0] if self.look.query is None else self.look.query
            self.hold(query=query, key=step_through(keys, self.look.key, step))

    def action_other_side(self) -> None:
        if self.answer is not None and self.look.key is not None and self.answer.record.key_tokens is None:
            self.hold(query=self.look.key, key=self.look.query)

    def action_let_go(self) -> None:
        if self.stop_work():
            self.show_text()
        elif self.focused is self.field:
            self.leave_field()
        else:
            self.hold(query=None, key=None)

    def action_special(self) -> None:
        self.hold(special=not self.look.special, query=None, key=None)

    # --- changes that need a new answer ---------------------------------------------------------------------

    def change(self, look: ScreenState) -> None:
        """Change the state and request its answer. Undo returns to the previous state."""
        self.undone.append(self.look)
        self.look = look
        self.ask()

    def action_mask(self) -> None:
        used = self.look.mask or (self.answer.record.mask_name if self.answer is not None else "padding")
        self.change(replace(self.look, mask=step_through(choices.names(choices.MaskName), used, 1)))

    def action_measure(self) -> None:
        self.change(replace(self.look, measure=step_through(choices.names(choices.MeasureName), self.look.measure, 1)))

    def action_words(self) -> None:
        self.change(replace(self.look, words=not self.look.words, query=None, key=None))

    def action_silence(self) -> None:
        if self.look.layer is None or self.look.head is None:
            self.say(NOTHING_YET)
            return
        head = self.look.layer, self.look.head
        if self.effect is not None and self.effect[0] == head:  # pressed again: restore the head silenced before
            head = self.effect[1]
        silenced = self.look.toggle_silenced(*head)
        restored = head in self.look.without
        self.change(replace(silenced, layer=head[0], head=head[1]) if restored else silenced)
        self.follow, self.effect = not restored, None if restored else (head, head)

    def action_compare(self) -> None:
        if self.look.against:
            self.change(replace(self.look, against=""))
        elif self.look.written and self.look.without:
            self.change(replace(self.look, against="whole"))
        elif self.look.written:
            self.say("a written text is compared with every head: silence one (x)")
        elif self.before is None:
            self.say("there is no previous sentence: type another one (i)")
        else:
            self.change(replace(self.look, against="before"))

    def action_write(self) -> None:
        """Write on from the end of the text."""
        self.write(self.look)

    def action_rewrite(self) -> None:
        """Write again from the selected written token."""
        kept = None if self.answer is None else self.answer.kept(self.look.query)
        if kept is None:
            self.say("select a written token: n and p go through them" if self.look.written else NOTHING_WRITTEN)
            return
        self.write(replace(self.look, written=self.look.written[:kept], earlier=self.look.written))

    def write(self, look: ScreenState) -> None:
        """Write on from a state. Esc stops it, and what it wrote so far stays."""
        if self.newest.closed:
            return
        work = self.work = WritingJob(look, self.tell_share)

        def written(watch: Watch) -> Callable[[], None]:
            def tell(ids: tuple[int, ...], text: str) -> None:
                work.note(ids, text)
                self.post_message(_Call(self.show_progress, work))

            self.session.write(look.session_request(), WRITES, watch, tell)
            return lambda: self.show_written(work) if self.work is work else None

        self.newest.ask(self.then(written, self.look), whose="look", watch=work)
        self.show_progress()

    def show_progress(self) -> None:
        """Show what the model has written so far."""
        if self.arranged != self.room:
            self.arrange()
        self.screen_stack[0].query_one("#written", WrittenPane).redraw()

    def show_written(self, work: WritingJob) -> None:
        """Request the maps of the text with what was written."""
        look = work.look
        alike = not look.written or look.written_without == look.without
        self.change(
            replace(
                self.look,
                written=work.ids,
                written_without=look.without if alike else None,
                earlier=look.earlier,
                against="whole" if look.without and self.look.against else "",
            )
        )
        self.follow = True

    def action_undo(self) -> None:
        if not self.undone:
            self.say("there is nothing to undo")
            return
        self.look, self.about_text = self.undone.pop(), ""
        self.show_text()
        self.ask()

    def show_text(self) -> None:
        """Put the current text into the field without a new request."""
        with self.prevent(self.field.Changed):
            self.field.value = self.look.text.text

    def action_model(self) -> None:
        models = self.session.models
        if len(models) == 1:
            self.say("there is only one model: attncli explore -m A,B opens two")
        else:
            look = replace(self.look.with_text(self.look.text), model=step_through(models, self.look.model, 1))
            self.change(replace(look, without=(), against="", query=None, key=None))
            self.say(f"{self.work} ...")

    def action_pair(self) -> None:
        def set_pair(pair: str | None) -> None:
            if pair is not None:
                self.change(self.look.with_text(self.look.text._replace(pair=pair or None)))

        self.push_screen(LineDialog("second text (empty for none)", self.look.text.pair or ""), set_pair)

    @property
    def field(self) -> Input:
        """Return the text field."""
        return self.screen_stack[0].query_one("#text", Input)

    def action_type(self) -> None:
        self.field.focus()

    # --- saving -------------------------------------------------------------------------------------

    def action_save(self) -> None:
        def save_as(name: str | None) -> None:
            if not name:
                return
            path, look = Path(name).expanduser(), self.look

            def keep(watch: Watch) -> Callable[[], None]:
                try:
                    save(self.session, look, path, self.pad_to, watch)
                finally:
                    self.saving = None if self.saving is watch else self.saving
                return lambda: self.say(f"saved {path}")

            self.saving = Job(f"saving {path}", self.tell_share)
            self.say(f"saving {path} ...")
            self.keeping.submit(self.then(keep), self.saving)  # newer requests do not cancel it

        question = "save as: .png .svg .pdf (the head), .html (all heads), .safetensors .npz .json .csv (the record)"
        self.push_screen(LineDialog(question, f"attention-{self.look.layer}.{self.look.head}.png"), save_as)

    def action_copy(self) -> None:
        if self.look.written and (self.look.written_without != self.look.without or self.look.text.pair):
            self.say("no command writes this text: S saves it")
            return
        line = command(self.look, self.session.by_name[self.look.model], self.pad_to, self.before)
        if line is None:
            self.say("the text has characters that could control a terminal, so the command is not copied")
        else:
            self.copy_to_clipboard(line)
            self.say(line)

    # --- the screen ---------------------------------------------------------------------------------------

    @property
    def panes(self) -> dict[str, Pane]:
        """Return the panes that Tab goes through."""
        return {name: self.screen_stack[0].query_one(f"#{name}", Pane) for name in PANES}

    def action_alone(self, number: int) -> None:
        self.alone = number
        self.focus_pane(PANES[number - 1] if number else self.pane)

    def action_next_pane(self) -> None:
        if self.focused is not self.field:
            self.focus_pane(step_through(PANES, self.pane, 1))
        else:
            self.leave_field()

    def action_show_map(self) -> None:
        self.focus_pane("map")

    def focus_pane(self, name: str) -> None:
        """Show the pane and focus it."""
        if self.alone:
            self.alone = PANES.index(name) + 1
        self.note_pane(name)
        self.panes[name].focus()

    def note_pane(self, name: str) -> None:
        """Remember the focused pane, and arrange the panes for it."""
        self.pane = name
        self.other = name if name != "findings" else self.other
        self.arrange()

    def action_theme(self) -> None:
        self.theme = LIGHT if self.current_theme.dark else DARK

    def action_keys(self) -> None:
        self.push_screen(KeysDialog())

    def compose(self) -> ComposeResult:
        yield TextField(self.look.text.text, placeholder="a sentence", id="text")
        yield WrittenPane(id="written")
        yield StatusPane(id="status")
        with Container(id="main"):
            with Vertical(id="left"):
                yield FindingsPane(id="findings")
                yield HeadsPane(id="heads")
            with Container(id="right"):
                yield MapPane(id="map")
                yield TokensPane(id="tokens")
        yield CellPane(id="cell")
        yield KeysLine()

    # --- typing -------------------------------------------------------------------------------------------

    @on(Input.Changed, "#text")
    def typed(self, event: Input.Changed) -> None:
        text = self.look.text._replace(text=event.value)
        if text == self.look.text:
            return
        if text != self.baseline.text:
            self.before = self.baseline.text
        self.look = self.look.with_text(text)
        self.about_text, self.was_cut = self.was_cut, ""
        self.ask()

    def cut_text(self, text: str) -> str:
        """Return the part of a text that the model reads, as far as it is open, and at most LONGEST characters."""
        kept, engine = text[:LONGEST], self.session.engines.get((self.look.model, ""))
        if engine is not None:
            with no_notices(), suppress(RequestError):
                tokens = engine.tokenizer.encode(kept)
                if len(tokens) == engine.tokenizer.max_tokens:
                    kept = kept[: max(end for _, end in tokens.offsets)] or kept  # no offsets are known
        if len(kept) < len(text):
            reader = "the field" if len(kept) == LONGEST else self.look.model
            self.was_cut = f"the first {len(kept):,} of {len(text):,} characters: {reader} takes no more"
        return kept

    @on(Input.Submitted, "#text")
    def leave_field(self) -> None:
        self.panes[self.pane].focus()

    def arrange(self, size: Size | None = None) -> None:
        """Show the panes that have room: all of them, or the findings with others, or the focused one alone.

        size: that of the screen, if it is only about to be.
        """
        width, height = size or self.size
        height -= LINES + sum(self.room)
        wide, narrow, tall = width >= WIDE, width < MIDDLE, height >= HIGH
        if self.alone:
            shown = {PANES[self.alone - 1]}
        elif narrow:
            shown = {self.pane} if height < LOW else {"findings", self.other}
        else:
            shown = {"findings", "heads", "map", "tokens"} - ({"map", "tokens"} if not (wide or tall) else set())
            shown.add("tokens" if self.other == "tokens" else "map")
        for name, pane in self.panes.items():
            pane.display = name in shown
        screen = self.screen_stack[0]
        left, right = shown & {"findings", "heads"}, shown & {"map", "tokens"}
        self.arranged = self.room
        written, cell = screen.query_one("#written"), screen.query_one("#cell")
        written.display, written.styles.height, cell.styles.height = self.room[0] > 0, *self.room
        screen.query_one("#left").display, screen.query_one("#right").display = bool(left), bool(right)
        screen.set_class(not right, "left-alone")
        screen.set_class(wide, "wide")
        screen.set_class(narrow, "narrow")
        lines = FRAME + 1 + LEGEND + (len(self.answer.record.layers) if self.answer is not None else 6)
        heads = screen.query_one("#heads")
        heads.styles.height = "1fr" if "findings" not in shown else min(lines, max(height * 3 // 5, FRAME + 1))


def step_through(these: Any, here: Any, step: int) -> Any:
    """Return the item `step` places after `here`, wrapping around; the first or last if `here` is not an item."""
    if here not in these:
        return these[0 if step > 0 else -1]
    return these[(list(these).index(here) + step) % len(these)]
