"""The explorer: type a sentence and see each head's attention to it, full screen in the terminal.

Keys change the state of the screen (`ScreenState`). A thread computes what this state shows (the answer), and the panes
draw it.
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
from typing import TYPE_CHECKING, Any, cast

from rich.cells import cell_len
from rich.highlighter import Highlighter
from rich.table import Table
from rich.terminal_theme import TerminalTheme
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
from textual.widgets._footer import FooterKey

from attncli.analysis.patterns import row_shares
from attncli.base import choices
from attncli.base.errors import Notice, RequestError, no_notices
from attncli.base.files import PICTURES, check_suffix
from attncli.base.printable import HARMFUL, first_line, printable, shorten
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
from attncli.live.explorer.writing import count_shared
from attncli.live.session import WRITES, Session, SupersededError, Watch, Worker, freeze_objects
from attncli.models.opening import Opening
from attncli.record import save_records
from attncli.record.display import model_name
from attncli.record.record import SUFFIXES as RECORDS
from attncli.record.selection import Input as Texts
from attncli.record.selection import all_name_layers, choose_head, heads_list, select_one
from attncli.report.canvas import Canvas, is_light_terminal
from attncli.report.terminal import ground

if TYPE_CHECKING:
    from attncli.effects.answer import TokenSources

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
    (
        "n,p",
        "finding(1),finding(-1)",
        "findings",
        "the next or previous finding: a head that stands out or that changed",
    ),
    ("tab", "next_pane", "", "the next pane"),
    ("x", "silence", "silence", "silence the head and go to the head that changes most; again: restore it"),
    ("g", "write", "write on", "let a decoder write on from the end of the text; n and p go through what it wrote"),
    ("G", "rewrite", "", "write again from the selected written token, without the silenced heads"),
    ("i,slash", "type", "type", "type a sentence; Enter or Esc returns to the panes"),
    ("enter", "show_map", "", "go to the map of the selected head"),
    ("k,j", "query(-1),query(1)", "", "the previous token, the next token"),
    ("h,l", "key(-1),key(1)", "", "the previous key, the next key, with their weights"),
    ("o", "other_side", "", "select the row of the key's token"),
    ("escape", "let_go", "", "stop long work, or clear the selection"),
    ("m", "mask", "mask", "the next mask"),
    ("w", "unit", "units", "the next unit: tokens, words, lines, sentences"),
    ("s", "sources", "sources", "what the selected token of a decoder rests on: the sentences or words before it"),
    ("t", "special", "", "special tokens on or off"),
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
KEY_NAMES = {"slash": "/", "equals_sign": "=", "question_mark": "?", "left": "←", "right": "→", "up": "↑", "down": "↓",
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
            shown = TOGETHER.get(key) or KEY_NAMES.get(key)
            made.append(Binding(key, action, name or help, show=first, key_display=shown, priority=key in ALWAYS))
    return made


# --- fields --------------------------------------------------------------------------------------------


HARMLESS = "\N{REPLACEMENT CHARACTER}"
LONGEST = 2**14  # characters of a text, at most
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
        Binding("escape", "app.let_go", "back to the panes", key_display="Esc"),
        Binding("up", "app.finding(-1)", "previous finding", show=False),
        Binding("down", "app.finding(1)", "next finding", show=False),
    ]

    def on_focus(self) -> None:
        explorer = cast(Explorer, self.app)
        explorer.before_typing = explorer.state

    def on_blur(self) -> None:
        """Make what was typed one step for undo."""
        explorer = cast(Explorer, self.app)
        if explorer.state.text != explorer.before_typing.text:
            explorer.undone.append(explorer.before_typing)


class KeysLine(Footer):
    """Textual's footer with as many keys as fit, without the actions that the model does not support.

    Textual's footer keeps its replaced keys in memory until its attribute `compact` changes.
    """

    def compose(self) -> ComposeResult:
        explorer = cast(Explorer, self.app)
        room = explorer.size.width
        for key in super().compose():
            if isinstance(key, FooterKey) and key.action not in explorer.missing_actions:
                room -= cell_len(f" {key.key_display} {key.description} ")
                if room < 0:
                    return
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
            table.add_row(" ".join(KEY_NAMES.get(key, key) for key in keys.split(",")), help)
        with VerticalScroll():
            yield Static(table)


class SourcesDialog(ModalScreen[None]):
    """The sources of a token: the text before it, shaded by effect, and a line per unit."""

    BINDINGS = [Binding("escape,s,q,enter", "dismiss(None)", "leave")]  # noqa: RUF012

    AUTO_FOCUS = "VerticalScroll"

    def __init__(self, found: "TokenSources") -> None:
        super().__init__()
        self.found = found

    def compose(self) -> ComposeResult:
        found, canvas = self.found, Canvas(80, not self.app.no_color, True, light=not self.app.current_theme.dark)
        token = printable(found.text.shown[found.place])
        largest = max(float(found.effects.max()), 0.0) or 1.0
        names = [printable(name) for name in found.names]
        text = Text()
        for name, effect in zip(names, found.effects.tolist(), strict=True):
            text.append(name, ground(effect / largest, canvas) if effect > 0 else "")
            text.append(" ")
        text.append(token, "bold underline")
        table = Table.grid(padding=(0, 2))
        for justify in ("left", "right", "right", "right"):
            table.add_column(justify=justify)  # type: ignore[arg-type]
        table.add_row("before it", "effect", "share", "length", style="bold")
        for number in (-found.effects).argsort():
            cells = (found.effects[number], found.shares[number], found.lengths[number])
            table.add_row(Text(shorten(names[number], 40)), *(f"{cell:.2f}" for cell in cells))
        about = (
            f"effect: by how many nats {token} is less likely if these words are hidden from all other tokens. share: "
            "their share of the attention of the row that predicts it, without the first token. length: the share that "
            "uniform attention would give them."
        )
        with VerticalScroll():
            yield Static(text)
            yield Static("")
            yield Static(table)
            yield Static(Text("\n".join(["", *found.notes, about])))


# --- saving --------------------------------------------------------------------------------------------


def save(session: Session, state: ScreenState, path: Path, pad_to: int | None, watch: Watch | None = None) -> None:
    """Save a picture of the selected head, a page of all heads, or their record.

    Raises RequestError for an unknown suffix, an unwritable place, and as `Session.record` does.
    """
    from attncli.page import Start, document

    suffix = check_suffix(path, (*PICTURES, *document.SUFFIXES, *RECORDS), "a picture, a page or a record")
    asked = state.session_request(pad_to)
    if suffix in document.SUFFIXES:
        from attncli.models.engine import NEURONS

        selected = state.selected()
        record = row_shares(session.record(replace(asked, vectors=NEURONS), watch))
        start = Start("heads", state.query, special=state.special, head=(selected.layer, selected.head))
        document.save_page(document.page(record, start), path)
        return
    record = session.record(asked, watch)
    if suffix in PICTURES:
        record.figure(path, layers=state.layer, heads=state.head, special=state.special)
    else:
        save_records([record], path)


RUN_ONLY = ("--mask", "--measure", "--pad-to", "--pair", "--unit")  # options that `generate` does not have


def command(state: ScreenState, opening: Opening, pad_to: int | None, before: Texts | None = None) -> str | None:
    """Return the command line that prints this head, or its change if `diff` supports the comparison.

    For a written text, return the command that writes it. None if the text could harm a terminal.
    """
    without = ",".join(filter(None, (opening.without, heads_list(state.without))))
    texts = [state.text.text]
    compared = state.against == "whole" and not opening.without
    if state.against == "before" and before is not None and before.pair == state.text.pair and not without:
        compared, texts = True, [before.text, state.text.text]
    words = ["attncli", "diff" if compared else "run", "-l", str(state.layer), "-H", str(state.head)]
    if state.written:
        words, texts = ["attncli", "generate", "--max-tokens", str(len(state.written))], [state.text.text]
    for option, given, usual in (
        ("-m", state.model, "minilm"),
        ("--mask", state.mask, None),
        ("--measure", state.measure, "weight"),
        ("--engine", opening.engine, "auto"),
        ("--device", opening.device, "auto"),
        ("--dtype", opening.dtype, "float32"),
        ("--without", without, ""),
        ("--pad-to", pad_to, None),
        ("--pair", state.text.pair, None),
        ("--unit", state.unit, "token"),
    ):
        if given != usual and not (state.written and option in RUN_ONLY):
            words += [option, str(given)]
    line = shlex.join([*words, *(["--"] if any(text.startswith("-") for text in texts) else []), *texts])
    return line if printable(line) == line else None


# --- the screen ----------------------------------------------------------------------------------------


class _Call(Message):
    """A function that a thread passes to the screen. watch: the watch of its task, if Esc can stop it."""

    def __init__(self, call: Callable[[], None], watch: "Job | None" = None) -> None:
        super().__init__()
        self.call = call
        self.watch = watch


class Job(Watch):
    """The progress of a task that Esc can stop. An answer that arrives after Esc is ignored."""

    def __init__(self, name: str, show: Callable[["Job"], None]) -> None:
        """name: the task in words, such as "running minilm". show: called by the task's thread as the share changes."""
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
        """True once the task has run so long that the screen names it and Esc stops it."""
        return time.monotonic() - self.began > LONG

    def __str__(self) -> str:
        share = f"{self.share:.0%}, " if self.share else ""
        return f"{self.name}: {share}{time.monotonic() - self.began:.0f} s; Esc stops it"


class WritingJob(Job):
    """The progress of a model that writes on. state: the state from which it began. ids, text: what it wrote so far."""

    def __init__(self, state: ScreenState, show: Callable[[Job], None]) -> None:
        super().__init__(f"writing with {state.model}", show)
        self.state = state
        self.ids = state.written
        self.text = ""

    def note(self, ids: tuple[int, ...], text: str) -> None:
        """Store what was written so far."""
        self.ids, self.text = ids, text


IDLE = 0.4  # seconds after the last answer until the usual weights are computed
LONG = 0.5  # seconds after which the screen names a running task


def need_same_content(state: ScreenState, other: ScreenState) -> bool:
    """Return True if both states need the same answer."""
    return replace(state, **{name: getattr(other, name) for name in HELD}) == other


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


def darken_theme(theme: TerminalTheme) -> TerminalTheme:
    """Return a theme whose colours, other than greys, can be read as text on a light background."""
    colours = [theme.ansi_colors[number] for number in range(16)]
    dark = [colour if len(set(colour)) == 1 else tuple(int(0.64 * part) for part in colour) for colour in colours]
    return TerminalTheme(theme.background_color, theme.foreground_color, dark[:8], dark[8:])  # type: ignore[arg-type]


class MainScreen(Screen[None]):
    """The screen with the panes. They are arranged before Textual lays it out, so that each is drawn once."""

    def on_resize(self, event: Resize) -> None:
        cast(Explorer, self.app).arrange(event.size)
        self.refresh_bindings()  # the footer shows the keys that fit


class Explorer(App[None]):
    """The screen of one session. `state` is its current state, and `answer` the displayed answer."""

    BINDINGS = bindings()
    CSS_PATH = Path(__file__).with_name("explorer.tcss")
    TITLE = "attncli explore"
    AUTO_FOCUS = None
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        session: Session,
        state: ScreenState,
        pad_to: int | None = None,
        begin: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """begin: the layer and head to select first, as typed; by default the head that `run` names first."""
        super().__init__()
        self.begin = begin
        self.session = session
        self.given = state.text.text
        self.state = state = replace(state, text=state.text._replace(text=state.text.text[:LONGEST]))
        self.pad_to = pad_to
        self.answer: ScreenContent | None = None
        self.before: Texts | None = None
        self.before_typing = state  # the state when the text field got the focus
        self.undone: deque[ScreenState] = deque(maxlen=UNDONE)
        self.notices: list[str] = []
        self.was_cut = ""  # the notice about a text that was just cut
        self.about_text = ""  # the notice about the text in the field
        self.alone = 0
        self.pane = PANES[0]  # the focused pane
        self.other = "map"  # the last focused pane except the findings
        self.follow = begin == (None, None)  # True if the next answer selects its first finding
        self.effect: tuple[tuple[int, int], tuple[int, int]] | None = None  # the selected head, and the silenced one
        self.work: Job | None = None
        self.saving: Job | None = None
        self.named = False  # True if the status line names work
        self.unsettled = False  # True if a model was opened since the last `freeze_objects`
        self.arranged = self.room
        self.worker = Worker("attncli-explore")
        self.background = ThreadPoolExecutor(1, "attncli-background")
        self.theme = LIGHT if is_light_terminal() else DARK
        self.ansi_theme_light = darken_theme(self.ansi_theme_light)
        self.idle: Timer | None = None

    def get_default_screen(self) -> MainScreen:
        return MainScreen(id="_default")

    def on_mount(self) -> None:
        """Make TERM and HUP restore the terminal too, and open the model."""
        self.shown_before, warnings.showwarning = warnings.showwarning, self.show_warning
        for number in (getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)):
            with suppress(NotImplementedError, RuntimeError, ValueError):  # unsupported here, or not the main thread
                asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
        self.panes[self.pane].focus()
        self.say(f"opening {self.state.model} ...")
        self.set_interval(LONG, self.show_work)
        self.call_after_refresh(self.ask)  # importing torch, in a thread, would delay the first screen

    def on_unmount(self) -> None:
        warnings.showwarning = self.shown_before
        self.worker.close()
        self.background.shutdown(wait=False)  # saving finishes before the process ends

    # --- requests, in a thread -------------------------------------------------------------------

    def ask(self) -> None:
        """Request an answer for the current state and cancel earlier requests. Do nothing after closing."""
        if self.worker.closed:
            return
        self.notices = [self.about_text] if self.about_text else []
        state, before, in_samples = self.state, self.before, self.session.usuals.get(self.usual_of(self.state))
        opened = (state.model, "") in self.session.engines
        self.work = Job(f"{'running' if opened else 'opening'} {state.model}", self.tell_share)

        def answer(watch: Watch) -> Callable[[], None]:
            made = screen_content(self.session, state, before, self.pad_to, in_samples, watch)
            self.unsettled = self.unsettled or not opened
            return lambda: self.show_answer(made)

        self.worker.ask(self.then(answer, state), whose="state", watch=self.work)
        if self.idle is not None:
            self.idle.stop()

    def then(
        self, work: Callable[[Watch], Callable[[], None]], state: ScreenState | None = None
    ) -> Callable[[Watch], None]:
        """Return a function that does the work in a thread. The screen calls the work's result, or shows its error."""

        def done(watch: Watch) -> None:
            stoppable = watch if isinstance(watch, Job) else None
            try:
                self.post_message(_Call(work(watch), stoppable))
            except SupersededError:
                pass
            except (RequestError, OSError, MemoryError) as error:
                self.fail(printable(str(error) or "not enough memory"), state, stoppable)
            except Exception as error:  # noqa: BLE001  # no text may end the program
                self.fail(f"a bug in attncli: {first_line(error)}", state, stoppable)

        return done

    def fail(self, error: str, state: ScreenState | None, watch: Job | None = None) -> None:
        """Let the screen show an error. state: the requested state, if any."""
        self.post_message(_Call(lambda: self.show_error(error, state), watch))

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

    def return_to_answer(self) -> None:
        """Return to the state of the last answer, if there is one, with the selection unchanged."""
        if self.answer is not None:
            held = {name: getattr(self.state, name) for name in HELD}
            self.state = replace(self.answer.state, **held).restrict_to(self.answer.record, self.answer.first)
            self.follow = False
            self.redraw()

    def usual_of(self, state: ScreenState) -> Hashable:
        return self.session.usual_kind(state.session_request(self.pad_to))

    def ask_usual(self) -> None:
        """Compute the usual weights after the first maps, once for each `Session.usual_kind`.

        Call `freeze_objects` only then, because it would delay the first drawing.
        """
        if self.worker.closed or self.answer is None or self.work is not None:
            return
        if self.usual_of(self.state) not in self.session.usuals:
            state = self.state
            work = self.work = Job("computing usual weights", self.tell_share)

            def usual(watch: Watch) -> Callable[[], None]:
                self.session.usual(state.session_request(self.pad_to), watch)
                if self.unsettled:
                    self.unsettled = False
                    freeze_objects()
                return lambda: self.ask() if self.work is work else None

            self.worker.ask(self.then(usual, state), whose="state", watch=self.work)

    def show_answer(self, answer: ScreenContent) -> None:
        before = self.answer
        first, known = before is None, before is not None and need_same_content(before.state, answer.state)
        same_grid = before is not None and before.record.layers == answer.record.layers
        self.answer = answer
        self.state = self.state.restrict_to(answer.record, answer.first)
        if need_same_content(answer.state, self.state):
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
            model, (layer, head) = answer.record.model, self.begin
            try:
                if layer is None and head is not None and all_name_layers(head):
                    layer, head = map(str, choose_head("all", head, model.layers, model.heads))
                if layer is not None:
                    self.hold(layer=select_one(layer, model.layers, "layer"), head=0)
                if head is not None:
                    self.hold(head=select_one(head, model.heads, "head"))
            except RequestError as error:
                self.say(str(error), wrong=True)
            self.ask_usual()
            self.set_timer(IDLE, lambda: self.wake(answer.state.model))
        elif self.work is None:
            self.idle = self.set_timer(IDLE, self.ask_usual)

    def cut_given(self) -> None:
        """Cut the text of the command line, now that the model is open, unless the user has typed another one."""
        if self.answer is None or self.state.text != self.answer.state.text:
            return
        text = self.state.text._replace(text=self.cut_text(self.given))
        if self.was_cut:
            self.state = self.state.with_text(text)
            self.answer = replace(self.answer, state=self.answer.state.with_text(text))
            self.about_text, self.was_cut = self.was_cut, ""
            self.notices = [self.about_text]
            self.show_text()

    @property
    def missing_actions(self) -> tuple[str, ...]:
        """The actions that are not offered: an encoder writes nothing."""
        return ("write", "rewrite", "sources") if self.answer is None or self.answer.record.kind == "encoder" else ()

    def wake(self, model: str) -> None:
        """Import torch and load the model in it, in the background, unless the explorer is being closed."""
        with suppress(RuntimeError):
            self.background.submit(self.session.wake, model)

    def select_finding(self, answer: ScreenContent, before: ScreenContent | None) -> None:
        """Select a finding if `follow` is True: at the start, after silencing a head, and after writing.

        Select the first finding. In a written text, keep the selected token, or select the first new one.
        before: the last answer.
        """
        if not self.follow or not answer.findings:
            return
        finding = answer.findings[0]
        if answer.record.written is not None:
            finding = answer.findings[self.state.finding(answer.findings) or 0]
            ids = () if before is None else before.state.written
            if answer.state.written != ids:
                new = count_shared(ids, answer.state.written)
                rows = [-1 if one.query is None else answer.known[one.query] for one in answer.findings]
                finding = next((one for one, row in zip(answer.findings, rows, strict=True) if row >= new), finding)
        self.state = replace(self.state, **finding.selection)
        if self.effect is not None and self.state.layer is not None and self.state.head is not None:
            self.effect = (self.state.layer, self.state.head), self.effect[1]

    def show_error(self, error: str, state: ScreenState | None) -> None:
        """Show an error, and return to the state of the last answer if the current state has no answer."""
        if state is not None and need_same_content(state, self.state):
            self.work = None
            self.return_to_answer()
        self.say(error, wrong=True)

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
        """The text that the model has written so far, while it writes."""
        return self.work.text if isinstance(self.work, WritingJob) else None

    @property
    def room(self) -> tuple[int, int]:
        """The numbers of lines for the written text and the text that it replaces, and for the selected cell."""
        if self.answer is None:
            return int(self.text_so_far is not None), CELL
        lines = 1 if self.text_so_far is not None else bool(self.answer.written) + bool(self.answer.earlier)
        likely = 0 if self.answer.record.written is None else 1 + (self.answer.difference is not None)
        return lines, CELL + likely

    def hold(self, **changes: Any) -> None:
        """Change the selection within the current answer."""
        self.follow = False
        self.state = replace(self.state, **changes)
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
        state = self.answer.state if self.answer is not None else self.state
        mask = self.answer.record.mask_name if self.answer is not None else state.mask
        against = {
            "": [],
            "before": ["compared with the previous sentence"],
            "whole": ["compared with all heads"],
        }
        return [
            model_name(state.model),
            f"mask {mask}",
            *(["norms"] if state.measure == "norm" else []),
            *([f"{state.unit}s"] if state.unit != "token" else []),
            *([f"without {', '.join(f'{layer}.{head}' for layer, head in state.without)}"] if state.without else []),
            *against[state.against],
            *self.notices[:1],
        ]

    # --- the selection, which needs no model ---------------------------------------------------------------

    def action_move(self, across: int, down: int) -> None:
        """Move the selection of the focused pane."""
        if self.answer is not None:
            self.panes[self.pane].move(across, down)

    def move_head(self, across: int, down: int) -> None:
        if self.answer is not None and self.state.layer is not None:
            layers, heads = self.answer.record.layers, self.answer.record.heads
            layer = step_through(layers, self.state.layer, down) if down else self.state.layer
            self.hold(layer=layer, head=step_through(heads, self.state.head, across) if across else self.state.head)

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
            self.say("no map changed" if self.answer.difference is not None else "no head stands out")
            return
        here = self.state.finding(findings)
        number = 0 if here is None else (here + step) % len(findings)
        self.hold(**findings[number].selection)

    def action_query(self, step: int) -> None:
        if self.answer is not None and self.state.head is not None:
            queries, _ = self.state.selected().sides(self.answer.record)
            self.hold(query=step_through(queries, self.state.query, step))

    def action_key(self, step: int) -> None:
        if self.answer is not None and self.state.head is not None:
            queries, keys = self.state.selected().sides(self.answer.record)
            query = queries[0] if self.state.query is None else self.state.query
            self.hold(query=query, key=step_through(keys, self.state.key, step))

    def action_other_side(self) -> None:
        if self.answer is not None and self.state.key is not None and self.answer.record.key_tokens is None:
            self.hold(query=self.state.key, key=self.state.query)

    def action_let_go(self) -> None:
        """Stop the work that `show_work` names, and return to the last answer. Without work, clear the selection."""
        running = self.work or self.saving
        if running is None or not running.long:
            if self.focused is self.field:
                self.leave_field()
            else:
                self.hold(query=None, key=None)
            return
        running.stopped = True
        running.cancelled.set()
        if running is self.work:
            self.worker.stop()
            self.work = None
            self.return_to_answer()
        else:
            self.saving = None
        if isinstance(running, WritingJob) and running.ids != running.state.written:
            self.show_written(running)  # what it wrote so far stays
        self.say(f"stopped {running.name}")
        self.show_text()

    def action_special(self) -> None:
        self.hold(special=not self.state.special, query=None, key=None)

    # --- changes that need a new answer ---------------------------------------------------------------------

    def change(self, state: ScreenState) -> None:
        """Change the state and request its answer. Undo returns to the previous state."""
        self.undone.append(self.state)
        self.state = state
        self.ask()

    def action_mask(self) -> None:
        used = self.state.mask or (self.answer.record.mask_name if self.answer is not None else "padding")
        self.change(replace(self.state, mask=step_through(choices.names(choices.MaskName), used, 1)))

    def action_measure(self) -> None:
        self.change(
            replace(self.state, measure=step_through(choices.names(choices.MeasureName), self.state.measure, 1))
        )

    def action_unit(self) -> None:
        unit = step_through(choices.names(choices.LiveUnit), self.state.unit, 1)
        self.change(replace(self.state, unit=unit, query=None, key=None))

    def action_silence(self) -> None:
        if self.state.layer is None or self.state.head is None:
            self.say(NOTHING_YET)
            return
        head = self.state.layer, self.state.head
        if self.effect is not None and self.effect[0] == head:  # pressed again: restore the head silenced before
            head = self.effect[1]
        restored = head in self.state.without
        without = tuple(sorted({*self.state.without} ^ {head}))
        silenced = replace(self.state, without=without, against="whole" if without else "")
        self.change(replace(silenced, layer=head[0], head=head[1]) if restored else silenced)
        self.follow, self.effect = not restored, None if restored else (head, head)

    def action_compare(self) -> None:
        if self.state.against:
            self.change(replace(self.state, against=""))
        elif self.state.written and self.state.without:
            self.change(replace(self.state, against="whole"))
        elif self.state.written:
            self.say("a written text is compared with the same text with all heads active: silence a head first (x)")
        elif self.before is None:
            self.say("there is no previous sentence: type another one (i)")
        else:
            self.change(replace(self.state, against="before"))

    def action_write(self) -> None:
        """Write on from the end of the text."""
        self.write(self.state)

    def action_rewrite(self) -> None:
        """Write again from the selected written token."""
        kept = None if self.answer is None else self.answer.kept(self.state.query)
        if kept is None:
            self.say("select a written token: n and p go through them" if self.state.written else NOTHING_WRITTEN)
            return
        self.write(replace(self.state, written=self.state.written[:kept], earlier=self.state.written))

    def write(self, state: ScreenState) -> None:
        """Write on from a state. Esc stops it, and what it wrote so far stays."""
        if self.worker.closed:
            return
        work = self.work = WritingJob(state, self.tell_share)

        def written(watch: Watch) -> Callable[[], None]:
            def tell(ids: tuple[int, ...], text: str) -> None:
                work.note(ids, text)
                self.post_message(_Call(self.show_progress, work))

            self.session.write(state.session_request(), WRITES, watch, tell)
            return lambda: self.show_written(work) if self.work is work else None

        self.worker.ask(self.then(written, self.state), whose="state", watch=work)
        self.show_progress()

    def show_progress(self) -> None:
        """Show what the model has written so far."""
        if self.arranged != self.room:
            self.arrange()
        self.screen_stack[0].query_one("#written", WrittenPane).redraw()

    def show_written(self, work: WritingJob) -> None:
        """Request the maps of the text with what was written."""
        state = work.state
        same_heads = not state.written or state.written_without == state.without
        self.change(
            replace(
                self.state,
                written=work.ids,
                written_without=state.without if same_heads else None,
                earlier=state.earlier,
                against="whole" if state.without and self.state.against else "",
            )
        )
        self.follow = True

    def action_sources(self) -> None:
        """Measure what the selected token rests on, and show it."""
        if self.answer is None or self.state.query is None or self.worker.closed:
            self.say("select a token first: ↑ and ↓ in the map or in the tokens")
            return
        place, asked = self.state.query, self.state.session_request(self.pad_to)
        if self.state.unit != "token":
            self.say("only tokens have sources: press w until the units are tokens")
            return
        work = self.work = Job("measuring sources", self.tell_share)

        def measured(watch: Watch) -> Callable[[], None]:
            found = self.session.sources(asked, place, watch)

            def show() -> None:
                self.work = None
                self.redraw()
                self.push_screen(SourcesDialog(found))

            return lambda: show() if self.work is work else None

        self.worker.ask(self.then(measured, self.state), whose="state", watch=work)
        self.say(f"{work} ...")

    def action_undo(self) -> None:
        if not self.undone:
            self.say("there is nothing to undo")
            return
        self.state, self.about_text = self.undone.pop(), ""
        self.show_text()
        self.ask()

    def show_text(self) -> None:
        """Put the current text into the field without a new request."""
        with self.prevent(self.field.Changed):
            self.field.value = self.state.text.text

    def action_model(self) -> None:
        models = self.session.models
        if len(models) == 1:
            self.say("there is only one model: attncli explore -m A,B opens two")
        else:
            state = replace(self.state.with_text(self.state.text), model=step_through(models, self.state.model, 1))
            self.change(replace(state, without=(), against="", query=None, key=None))
            self.say(f"{self.work} ...")

    def action_pair(self) -> None:
        def set_pair(pair: str | None) -> None:
            if pair is not None:
                self.change(self.state.with_text(self.state.text._replace(pair=pair or None)))

        self.push_screen(LineDialog("second text (empty for none)", self.state.text.pair or ""), set_pair)

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
            path, state = Path(name).expanduser(), self.state

            def keep(watch: Watch) -> Callable[[], None]:
                try:
                    save(self.session, state, path, self.pad_to, watch)
                finally:
                    self.saving = None if self.saving is watch else self.saving
                return lambda: self.say(f"saved {path}")

            self.saving = Job(f"saving {path}", self.tell_share)
            self.say(f"saving {path} ...")
            self.background.submit(self.then(keep), self.saving)  # newer requests do not cancel it

        question = "save as: .png .svg .pdf (the head), .html (all heads), .safetensors .npz .json .csv (the record)"
        self.push_screen(LineDialog(question, f"attention-{self.state.layer}.{self.state.head}.png"), save_as)

    def action_copy(self) -> None:
        if self.state.written and (self.state.written_without != self.state.without or self.state.text.pair):
            self.say("no command writes this text: S saves it")
            return
        line = command(self.state, self.session.by_name[self.state.model], self.pad_to, self.before)
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
        yield TextField(self.state.text.text, placeholder="a sentence", id="text")
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
        text = self.state.text._replace(text=event.value)
        if text == self.state.text:
            return
        if text != self.before_typing.text:
            self.before = self.before_typing.text
        self.state = self.state.with_text(text)
        self.about_text, self.was_cut = self.was_cut, ""
        self.ask()

    def cut_text(self, text: str) -> str:
        """Cut a text to LONGEST characters, and to what the model reads, if the model is open."""
        kept, engine = text[:LONGEST], self.session.engines.get((self.state.model, ""))
        if engine is not None:
            with no_notices(), suppress(RequestError):
                tokens = engine.tokenizer.encode(kept)
                if len(tokens) == engine.tokenizer.max_tokens:
                    kept = kept[: max(end for _, end in tokens.offsets)] or kept  # if offsets are unknown
        if len(kept) < len(text):
            reader = "the field" if len(kept) == LONGEST else self.state.model
            self.was_cut = f"the first {len(kept):,} of {len(text):,} characters: {reader} takes no more"
        return kept

    @on(Input.Submitted, "#text")
    def leave_field(self) -> None:
        self.panes[self.pane].focus()

    def arrange(self, size: Size | None = None) -> None:
        """Show the panes that fit: all of them, or the findings with others, or the focused one alone.

        size: the new size of the screen, before Textual applies it.
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
