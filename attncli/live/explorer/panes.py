"""The panes of the screen: each draws its part of an answer into the room that it has, and tells what is pointed at."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from rich.style import Style
from rich.text import Text
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from attncli.render.captions.held import cell_lines, row_line
from attncli.render.captions.records import record_size
from attncli.render.terminal.difference import moved_cell
from attncli.render.terminal.glyphs import WIDTHS, glyph_cell, meaning
from attncli.render.terminal.one_head import about
from attncli.render.terminal.telling import named, sink_note
from attncli.render.terminal.window import MARKED, Window, changes_window, tokens_window, weights_window
from attncli.report.canvas import Canvas
from attncli.report.terminal import HEAD_WIDTH, fold, head_grid

if TYPE_CHECKING:
    from attncli.live.explorer.answers import Answer
    from attncli.live.explorer.look import Look

Cell = Callable[[int, int], Text]
HEAD = "head"  # in the meta of a style: which head stands there
SILENT = "×"


class Explorer(Protocol):
    """What a pane asks of the app that it is in."""

    answer: "Answer | None"
    look: "Look"

    def hold(self, **changes: Any) -> None:
        """Hold another layer, head, query or key."""

    def settings(self) -> list[str]:
        """Name what was asked for."""
        ...


class Pane(Widget):
    """A part of the screen, drawn anew when the look, the answer or its size changes.

    Its lines go to the screen as they are: what Textual would make of a text first takes longer than drawing it.
    """

    lines: Sequence[Text] = ()
    strips: Sequence[Strip] = ()

    def paint(self, answer: "Answer", look: "Look", canvas: Canvas) -> list[Text]:
        """Its lines; those that have no room are not seen."""
        raise NotImplementedError

    @property
    def explorer(self) -> Explorer:
        return cast(Explorer, self.app)

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.redraw())

    def on_resize(self) -> None:
        self.resized()

    def resized(self) -> None:
        """By name, not as a handler: Textual calls those of all classes."""
        self.redraw()

    def redraw(self) -> None:
        answer, look = self.explorer.answer, self.explorer.look
        if answer is None or look.head is None or self.size.width == 0:
            return
        canvas = Canvas(self.size.width, not self.app.no_color, True, self.size.height)
        self.show(self.paint(answer, look, canvas)[: self.size.height])

    def show(self, lines: Sequence[Text]) -> None:
        """These instead of what was there."""
        self.lines = lines
        console, style, width = self.app.console, self.rich_style, self.size.width
        self.strips = [Strip(line.render(console)).adjust_cell_length(width).apply_style(style) for line in lines]
        self.refresh()

    def render_line(self, y: int) -> Strip:
        return self.strips[y] if y < len(self.strips) else Strip.blank(self.size.width, self.rich_style)


class HeadsPane(Pane):
    """All heads as a grid of their patterns, or of how much of them moved; below, those that stand out."""

    cells: "tuple[Answer, bool, Cell] | None" = None  # what was last drawn, which another head leaves as it is

    def inner(self, answer: "Answer", canvas: Canvas) -> Cell:
        """What stands for each head, made once an answer."""
        if self.cells is None or self.cells[0] is not answer or self.cells[1] != canvas.colour:
            found = answer.found
            made = glyph_cell(answer.record, answer.summaries, canvas) if found is None else moved_cell(found, canvas)
            self.cells = answer, canvas.colour, made
        return self.cells[2]

    def paint(self, answer: "Answer", look: "Look", canvas: Canvas) -> list[Text]:
        record, found, inner = answer.record, answer.found, self.inner(answer, canvas)

        def cell(row: int, place: int) -> Text:
            layer, head = record.layers[row], record.heads[place]
            shown = Text(SILENT) if (layer, head) in look.without else inner(row, place)
            if (layer, head) == (look.layer, look.head):
                shown.stylize(MARKED)
            shown.stylize(Style.from_meta({HEAD: (layer, head)}))
            return shown

        labels = {one.label for one in answer.summaries.values()}
        below = meaning(labels, canvas) if found is None else [Text("moved: from 0, the same map, to 1")]
        widths = WIDTHS if found is None else (HEAD_WIDTH,)
        room = (canvas.height or 0) - len(below) - 1
        grid = head_grid(record.layers, record.heads, cell, canvas, widths, max(room, 1))
        rest = [] if found is not None else [*named(record, list(answer.telling), canvas), *sink_note(record, canvas)]
        return [*grid, *below, *rest]

    def on_click(self, event: events.Click) -> None:
        head = event.style.meta.get(HEAD)
        if head is not None:
            self.explorer.hold(layer=head[0], head=head[1])


class WindowPane(Pane):
    """A window onto the head that is held, under a line of its own."""

    window = Window([], [])
    titles = 1

    def on_click(self, event: events.Click) -> None:
        query, key = self.window.at(event.x, event.y - self.titles)
        if query is not None:
            self.explorer.hold(query=query, key=key)


class MapPane(WindowPane):
    """The map of the head that is held, or how it changed."""

    def paint(self, answer: "Answer", look: "Look", canvas: Canvas) -> list[Text]:
        held, record = look.held(), answer.record
        inner = Canvas(canvas.width, canvas.colour, canvas.unicode, max(1, (canvas.height or 2) - self.titles))
        what = f"layer {held.layer} head {held.head}"
        if answer.found is None:
            self.window = weights_window(record, held, inner)
            said = about(record, held.layer, held.head, True, answer.summaries[held.layer, held.head])
        else:
            first, second = (one.map(held.layer, held.head) for one in (answer.found.first, answer.found.second))
            self.window = changes_window(second.astype("float64") - first, record, held, inner)
            said = f"{answer.found.of(held.layer, held.head):.3f} moved; blue less, red more"
        title = Text(f"{what}  {said}", canvas.strong, no_wrap=True)
        return [title, *self.window.lines]


class TokensPane(WindowPane):
    """Every token with its strongest keys in the head that is held."""

    def paint(self, answer: "Answer", look: "Look", canvas: Canvas) -> list[Text]:
        inner = Canvas(canvas.width, canvas.colour, canvas.unicode, max(1, (canvas.height or 2) - self.titles))
        self.window = tokens_window(answer.record, look.held(), inner)
        return [Text("tokens and their strongest keys", canvas.strong), *self.window.lines]


class CellPane(Pane):
    """The numbers of what is held."""

    def paint(self, answer: "Answer", look: "Look", canvas: Canvas) -> list[Text]:
        assert look.layer is not None and look.head is not None
        record, head = answer.record, (look.layer, look.head)
        if look.query is None:
            said = [about(record, *head, summary=answer.summaries[head])]
        elif look.key is None:
            said = [row_line(record, head, look.query)]
        else:
            edge = answer.edge(*head, look.query, look.key)
            said = cell_lines(record, head, look.query, look.key, edge, answer.found)
        return [Text(line) for one in said for line in fold(one, canvas.width)]


class StatusPane(Pane):
    """Which model, mask and so on; what the model says of the text."""

    def paint(self, answer: "Answer", look: "Look", canvas: Canvas) -> list[Text]:
        return [Text(" · ".join([*self.explorer.settings(), record_size(answer.record), *answer.said]), canvas.strong)]

    told = ""

    def say(self, text: str) -> None:
        """Something else, until it is drawn anew."""
        self.told = " ".join(text.split())
        self.show([Text(line) for line in fold(self.told, max(self.size.width, 1))])

    def resized(self) -> None:
        if self.told:
            self.say(self.told)
        else:
            self.redraw()

    def redraw(self) -> None:
        self.told = ""
        self.remove_class("wrong")
        super().redraw()
