"""What stands before the screen for a moment: a line to type, and the page of keys."""

from collections.abc import Sequence

from rich.table import Table
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static

from attncli.live.explorer.fields import Field


class Line(ModalScreen[str | None]):
    """Asks for a line; None where Esc was pressed."""

    BINDINGS = [Binding("escape", "dismiss(None)", "leave")]  # noqa: RUF012
    CSS = "Line { align: center middle; } Line > Vertical { width: 80%; max-width: 90; height: auto; padding: 1 2; \
background: $panel; }"

    AUTO_FOCUS = "Input"

    def __init__(self, question: str, value: str) -> None:
        super().__init__()
        self.question = question
        self.value = value

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(self.question, markup=False)
            yield Field(self.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class Keys(ModalScreen[None]):
    """The page of keys."""

    BINDINGS = [Binding("escape,question_mark,q,enter", "dismiss(None)", "leave")]  # noqa: RUF012
    CSS = "Keys { align: center middle; } Keys > VerticalScroll { width: 92%; max-width: 90; height: auto; \
max-height: 95%; padding: 0 1; background: $panel; }"

    AUTO_FOCUS = "VerticalScroll"

    def __init__(self, rows: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.rows = rows

    def compose(self) -> ComposeResult:
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, style="bold")
        for row in self.rows:
            table.add_row(*row)
        with VerticalScroll():
            yield Static(table)
