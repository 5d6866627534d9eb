"""The explorer: type a sentence, and see what every head does with it."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual import on
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Footer, Input

from attncli.live.explorer.actions import Actions
from attncli.live.explorer.fields import Field
from attncli.live.explorer.keys import bindings
from attncli.live.explorer.panes import CellPane, HeadsPane, MapPane, StatusPane, TokensPane

MIDDLE, WIDE = 72, 132  # columns, from which on all panes are seen, and beside each other


class TextField(Field):
    """The field to type in."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape", "app.let_go", "back to the heads", key_display="Esc"),
        Binding("up", "app.layer(-1)", "layer before", show=False),
        Binding("down", "app.layer(1)", "next layer", show=False),
    ]

    def on_focus(self) -> None:
        self.app.begin_typing()  # type: ignore[attr-defined]

    def on_blur(self) -> None:
        self.app.end_typing()  # type: ignore[attr-defined]


class Explorer(Actions):
    """All of it: the panes, where they are, and the field."""

    BINDINGS = bindings()
    CSS_PATH = Path(__file__).with_name("explorer.tcss")
    TITLE = "attncli explore"
    AUTO_FOCUS = None

    def compose(self) -> ComposeResult:
        yield TextField(self.look.text.text, placeholder="a sentence", id="text")
        yield StatusPane(id="status")
        with Horizontal(id="main"):
            with Vertical(id="left"):
                yield HeadsPane()
                yield TokensPane(id="tokens-below")
            yield MapPane()
            yield TokensPane(id="tokens-beside")
        yield CellPane(id="cell")
        yield Footer(show_command_palette=False)

    # --- typing -------------------------------------------------------------------------------------------

    def begin_typing(self) -> None:
        self.baseline = self.look

    def end_typing(self) -> None:
        if self.look.text != self.baseline.text:
            self.undone.append(self.baseline)

    @on(Input.Changed, "#text")
    def typed(self, event: Input.Changed) -> None:
        text = self.look.text._replace(text=event.value)
        if text == self.look.text:
            return
        if text != self.baseline.text:
            self.before = self.baseline.text
        self.look = replace(self.look, text=text)
        self.ask()

    @on(Input.Submitted, "#text")
    def leave_field(self) -> None:
        self.set_focus(None)

    def on_resize(self) -> None:
        self.arrange()

    def arrange(self) -> None:
        """Which panes are seen, and where: all where there is room, else one."""
        wide, middle = self.size.width >= WIDE, self.size.width >= MIDDLE
        alone = self.alone or (0 if middle else 1)
        screen = self.screen_stack[0]
        below, beside = screen.query_one("#tokens-below"), screen.query_one("#tokens-beside")
        screen.query_one(HeadsPane).display = alone in (0, 1)
        screen.query_one(MapPane).display = alone in (0, 2)
        below.display = alone == 0 and not wide
        beside.display = alone == 3 or (alone == 0 and wide)
        screen.query_one("#left").display = alone in (0, 1)
        screen.set_class(alone != 0, "alone")
        screen.set_class(wide, "wide")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        yield from self.own_commands()
