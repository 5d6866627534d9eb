"""The panes of the explorer. Each draws its part of an answer into the available space and reports clicks.

Answers are computed in a thread, so that drawing needs no computation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, cast

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from attncli.analysis.difference import Difference, difference
from attncli.analysis.edges import Edge, Usual, edges, telling_head
from attncli.analysis.patterns import HeadSummary, row_shares, summarise
from attncli.base import choices
from attncli.live.explorer.findings import HeadFinding, change_findings, record_findings
from attncli.live.explorer.window import (
    FRAMES,
    MapWindow,
    SelectedCell,
    around,
    cell_lines,
    changes_window,
    mark,
    row_line,
    tokens_window,
    weights_window,
)
from attncli.live.explorer.writing import (
    WrittenFinding,
    count_shared,
    describe_rewriting,
    first_shown,
    next_lines,
    written_findings,
    written_line,
)
from attncli.live.session import Session, SessionRequest, Watch
from attncli.record import AttentionRecord
from attncli.record.display import describe_prediction, in_stretches, record_size
from attncli.record.grouping import axes_of
from attncli.record.selection import Grouping, Input, Request, heads_list
from attncli.report.canvas import Canvas
from attncli.report.heads import GLYPH_WIDTHS, describe_head, glyph_cell, glyph_legend, sink_note
from attncli.report.terminal import VALUE_WIDTH, cell_text, fold, head_grid, layout_of, two_digits

# --- the state of the screen ------------------------------------------------------------------------------------------


HELD = ("layer", "head", "query", "key", "special")  # the selection: changing it needs no new answer
ComparedWith = Literal["", "before", "whole"]  # nothing, the previous sentence, or the model with every head


@dataclass(frozen=True)
class ScreenState:
    """One state of the screen. Every change creates a new one.

    without: silenced heads, (layer, head). layer, head: the selected head; None until the first answer selects one.
    query, key: the tokens of the selected cell. against: the comparison. written: ids that the model wrote after the
    text. written_without: the heads that were silenced while it wrote; None if they changed in between. earlier: the
    ids that `written` replaces.
    """

    model: str
    text: Input
    mask: str | None = None
    measure: str = "weight"
    unit: choices.LiveUnit = "token"
    without: tuple[tuple[int, int], ...] = ()
    against: ComparedWith = ""
    layer: int | None = None
    head: int | None = None
    query: int | None = None
    key: int | None = None
    special: bool = True
    written: tuple[int, ...] = ()
    written_without: tuple[tuple[int, int], ...] | None = None
    earlier: tuple[int, ...] = ()

    def session_request(self, pad_to: int | None = None) -> SessionRequest:
        """Return the request to a session for this state. The selection has no effect on it."""
        grouping = Grouping(unit=self.unit, stretches=True)
        request = Request(measure=self.measure, pad_to=pad_to, predict=True, grouping=grouping)
        without = heads_list(self.without)
        return SessionRequest(self.model, self.text, request, (self.mask,), without, written=self.written)

    def selected(self) -> SelectedCell:
        """Return the selection, which must have a head."""
        assert self.layer is not None and self.head is not None
        return SelectedCell(self.layer, self.head, self.query, self.key, self.special)

    def finding(self, findings: Sequence[HeadFinding | WrittenFinding]) -> int | None:
        """Return the place of the selected head, or of the written token whose row is selected, in the findings."""
        for place, one in enumerate(findings):
            if all(getattr(one, name) == getattr(self, name) for name in one.identity):
                return place
        return None

    def restrict_to(self, record: AttentionRecord, first: tuple[int, int]) -> "ScreenState":
        """Return the state restricted to this record's heads and tokens. `first` replaces a missing head."""
        made = self
        if self.layer not in record.layers or self.head not in record.heads:
            made = replace(made, layer=first[0], head=first[1])
        if self.query is not None and self.query >= len(record.tokens):
            made = replace(made, query=None, key=None)
        if self.key is not None and self.key >= len(record.keys):
            made = replace(made, key=None)
        return made

    def with_text(self, text: Input) -> "ScreenState":
        """Return the state with another text, and without written tokens."""
        return replace(self, text=text, written=(), written_without=None, earlier=())


# --- answers -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScreenContent:
    """A record with all results that are displayed.

    record: weights, or norms as shares of their rows. telling: the strong edges of each head that stands out, in order.
    usual_texts: the number of texts, including this one, over which the usual weights are means. difference: the
    difference from the compared text or model. findings: the heads that stand out or changed, or the written tokens.
    said: lines on the model's prediction; for a text written again, on its first difference from the earlier one.
    written, earlier: the tokens that the model wrote, and those that they replace. known: for each query, the number of
    written tokens that it can see; negative before the end of the text.
    """

    state: ScreenState
    record: AttentionRecord
    summaries: Mapping[tuple[int, int], HeadSummary]
    telling: Sequence[Sequence[Edge]]
    usual_texts: int
    difference: Difference | None
    findings: Sequence[HeadFinding | WrittenFinding]
    said: Sequence[str]
    written: Sequence[str] = ()
    earlier: Sequence[str] = ()
    known: Sequence[int] = ()

    @property
    def first(self) -> tuple[int, int]:
        """The head that `run` names first."""
        return telling_head(self.record, self.telling)

    def kept(self, query: int | None) -> int | None:
        """Return the number of written tokens that a query sees; None if it predicted no written token."""
        known = -1 if query is None or not self.known else self.known[query]
        return known if 0 <= known < len(self.written) else None

    def edge(self, layer: int, head: int, query: int, key: int) -> Edge | None:
        """Return a cell's strong edge, or None."""
        cell = layer, head, query, key
        every = (edge for edges in self.telling for edge in edges)
        return next((one for one in every if (one.layer, one.head, one.query, one.key) == cell), None)


def screen_content(
    session: Session,
    state: ScreenState,
    before: Input | None,
    pad_to: int | None,
    in_samples: Usual | None,
    watch: Watch,
) -> ScreenContent:
    """Compute the answer for a state of the screen.

    before: the text to compare with "before". in_samples: the usual weights in the sample texts, if already known.
    Raises RequestError as `Session.record` and `difference` do, and SupersededError.
    """
    record = row_shares(session.record(state.session_request(pad_to), watch))
    found = None
    if state.against == "whole" and state.without:
        whole = session.record(replace(state, without=()).session_request(pad_to), watch)
        found = difference(whole, record)
    elif state.against == "before" and before is not None:
        found = difference(session.record(replace(state, text=before).session_request(pad_to), watch), record)
    watch.check()
    usual = session.baseline(record, in_samples)
    telling = edges(record, usual)
    watch.check()
    made = ScreenContent(state, record, summarise(record), telling, usual.texts, found, [], describe_prediction(record))
    if record.written is not None:
        findings: Sequence[HeadFinding | WrittenFinding] = written_findings(record, telling, state.without, found)
    elif found is not None:
        findings = change_findings(found, state.without)
    else:
        findings = record_findings(record, telling)
    made = replace(made, findings=findings)
    if not state.written:
        return made
    text = session.text(state.session_request())
    start = len(text) - len(state.written)
    groups = [] if in_stretches(record) else axes_of(Grouping(unit=state.unit), text.plain).queries.groups
    written, earlier, said = text.shown[start:], list[str](), list[str]()
    if state.earlier:
        earlier = session.text(replace(state, written=state.earlier).session_request()).shown[start:]
        said = [describe_rewriting(written, earlier, count_shared(state.written, state.earlier))]
    known = [group[-1] + 1 - start for group in groups]
    return replace(made, said=said, written=written, earlier=earlier, known=known)


# --- panes ---------------------------------------------------------------------------------------------


HeadCell = Callable[[int, int], Text]
HEAD = "head"  # the key of a head in a style's meta
SILENT = "×"
CHANGED_WIDTHS = (VALUE_WIDTH, 2, 1)  # columns of a head with its number, or with its colour only


class PaneHost(Protocol):
    """The interface of the app that a pane uses."""

    answer: "ScreenContent | None"
    state: "ScreenState"
    text_so_far: str | None  # while the model writes

    def hold(self, **changes: Any) -> None:
        """Select another layer, head, query or key."""

    def move_head(self, across: int, down: int) -> None:
        """Select another head or layer."""

    def move_cell(self, across: int, down: int) -> None:
        """Select another key or query."""

    def action_finding(self, step: int) -> None:
        """Select the next or previous finding."""

    def note_pane(self, name: str) -> None:
        """Remember the focused pane."""

    def settings(self) -> list[str]:
        """Return the settings in words."""
        ...


class Pane(Widget):
    """A part of the screen, redrawn when the state, the answer or its size changes.

    Its lines go to the screen directly, since Textual's processing of text takes longer than drawing it.
    """

    lines: Sequence[Text] = ()
    strips: Sequence[Strip] = ()

    def move(self, across: int, down: int) -> None:
        """Move the selection by an arrow key: to the right or down if 1, to the left or up if -1."""

    def paint(self, answer: "ScreenContent", state: "ScreenState", canvas: Canvas) -> list[Text]:
        """Return the lines. Lines beyond the pane's height are not visible."""
        raise NotImplementedError

    @property
    def explorer(self) -> PaneHost:
        return cast(PaneHost, self.app)

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.redraw())

    def on_resize(self) -> None:
        self.resized()

    def on_focus(self) -> None:
        if self.id is not None:
            self.explorer.note_pane(self.id)

    def resized(self) -> None:
        """Redraw. A separate method, since Textual calls the handlers of all base classes."""
        self.redraw()

    def redraw(self) -> None:
        answer, state = self.explorer.answer, self.explorer.state
        if self.size.width == 0:
            self.strips = []
        if answer is None or state.head is None or self.size.width == 0:
            return
        light = not self.app.current_theme.dark
        canvas = Canvas(self.size.width, not self.app.no_color, True, self.size.height, light=light)
        self.show(self.paint(answer, state, canvas)[: self.size.height])

    def show(self, lines: Sequence[Text]) -> None:
        """Replace the pane's lines."""
        self.lines = lines
        console, style, width = self.app.console, self.rich_style, self.size.width
        self.strips = [Strip(line.render(console)).adjust_cell_length(width).apply_style(style) for line in lines]
        self.refresh()

    def render_line(self, y: int) -> Strip:
        return self.strips[y] if y < len(self.strips) else Strip.blank(self.size.width, self.rich_style)


class FindingsPane(Pane):
    """The heads that stand out, or that changed, a line each. The border names the texts of the usual weights."""

    can_focus = True
    BORDER_TITLE = "findings"
    above = 0  # the number of the first finding on the screen

    def move(self, across: int, down: int) -> None:
        self.explorer.action_finding(across or down)

    def paint(self, answer: "ScreenContent", state: "ScreenState", canvas: Canvas) -> list[Text]:
        record, findings = answer.record, answer.findings
        every, count = len(record.layers) * len(record.heads), len(findings)
        written = record.written is not None
        strong = len(answer.telling)
        found = f"findings: {strong} of {every} heads"
        self.border_title = found
        if count > strong:
            self.border_title = fit_title(canvas, f"{found}, {count - strong} with a clear pattern", found)
        if written:
            self.border_title = f"written: {len(answer.written)} tokens"
        elif answer.difference is not None:
            self.border_title = f"findings: {count} of {every} heads changed"
        if answer.difference is not None:
            self.border_subtitle = f"largest change{'' if written else ', and weight moved'}"
        elif answer.usual_texts > 1:
            self.border_subtitle = f"usual: this text, {answer.usual_texts - 1} samples"
        else:
            self.border_subtitle = "usual: this text alone"
        if written and answer.difference is None:
            self.border_subtitle = f"({self.border_subtitle})"
        if not findings:
            none = (
                "no map changed"
                if answer.difference is not None
                else "no head stands out: no weight is far above usual"
            )
            return [Text(line) for line in fold(none, canvas.width)]
        number = state.finding(findings)
        shown = around(range(count), number, canvas.height or count)
        self.above = shown[0]
        lines = [Text(findings[one].heading(canvas.width, canvas.ellipsis), no_wrap=True) for one in shown]
        if number is not None:
            lines[number - self.above].stylize(mark(canvas))
        return [*lines, *sink_note(record, canvas)]

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        answer = self.explorer.answer
        if offset is not None and answer is not None and self.above + offset.y < len(answer.findings):
            self.explorer.hold(**answer.findings[self.above + offset.y].selection)


class HeadsPane(Pane):
    """All heads as a grid of their patterns, or of how much their weight moved."""

    can_focus = True
    BORDER_TITLE = "heads"
    # Cached: selecting a head does not change them.
    cells: "tuple[tuple[ScreenContent, int, bool, bool], HeadCell] | None" = None

    def head_cell(self, answer: "ScreenContent", wide: int, canvas: Canvas) -> HeadCell:
        """Return the function that draws the symbol of a head; make it once per answer and width."""
        same = answer, wide, canvas.colour, canvas.light
        if self.cells is None or self.cells[0][0] is not answer or self.cells[0][1:] != same[1:]:
            found = answer.difference
            heads = [(one.layer, one.head) for one in answer.findings]
            listed = {(layer, head) for layer, head in heads if layer is not None and head is not None}
            made = (
                glyph_cell(answer.record, answer.summaries, canvas, listed, wide)
                if found is None
                else moved_cell(found, wide, canvas)
            )
            self.cells = same, made
        return self.cells[1]

    def move(self, across: int, down: int) -> None:
        self.explorer.move_head(across, down)

    def paint(self, answer: "ScreenContent", state: "ScreenState", canvas: Canvas) -> list[Text]:
        record, found = answer.record, answer.difference
        labels = {one.label for one in answer.summaries.values()}
        if found is None:
            widths, below = GLYPH_WIDTHS, glyph_legend(labels, canvas, "finding" if answer.findings else "")
        else:
            widths = CHANGED_WIDTHS
            most = f"{found.moved.max():.2f}" if found.moved.max() >= 0.01 else f"{found.moved.max():.4f}"
            ends = "white 0, dark" if canvas.light else "dark 0, bright"
            below = [Text(line) for line in fold(f"weight moved: {ends} {most} (at most 1)", canvas.width)]
        room = max((canvas.height or 0) - len(below) - 1, 1)
        layout = layout_of(record.layers, len(record.heads), canvas.width, widths, room)
        wide = layout.cell
        head_cell = self.head_cell(answer, wide, canvas)

        def cell(row: int, place: int) -> Text:
            layer, head = record.layers[row], record.heads[place]
            shown = Text(SILENT) if (layer, head) in state.without else head_cell(row, place)
            if (layer, head) == (state.layer, state.head):
                if found is not None and wide in FRAMES and shown.plain != SILENT:
                    shown.plain = FRAMES[wide]
                shown.stylize(mark(canvas) if found is None else "bold underline")
            shown.stylize(Style.from_meta({HEAD: (layer, head)}))
            return shown

        grid = head_grid(record.layers, record.heads, cell, canvas, widths, room)
        if len(grid) <= room + 1:
            return [*grid, *below]
        assert state.layer is not None and state.head is not None
        rows, high = -(-len(record.layers) // layout.across), max((canvas.height or 0) - 1, 1)
        block = record.heads.index(state.head) // layout.heads * (rows + 1)  # the lines with the selected head
        first = max(0, min(record.layers.index(state.layer) % rows - high // 2, rows - high))
        return [grid[block], *grid[block + 1 : block + 1 + rows][first : first + high]]

    def on_click(self, event: events.Click) -> None:
        head = event.style.meta.get(HEAD)
        if head is not None:
            self.explorer.hold(layer=head[0], head=head[1])


def moved_cell(found: Difference, wide: int, canvas: Canvas) -> HeadCell:
    """Return the function that draws a cell of the grid of heads: the weight that moved in a head."""
    moved, most = found.moved.tolist(), found.moved.max() or 1.0

    def cell(row: int, place: int) -> Text:
        content, style = cell_text(moved[row][place] / most, wide, canvas)
        return Text(f"{two_digits(moved[row][place]):>{wide}}" if wide == VALUE_WIDTH else content, style)

    return cell


class WindowPane(Pane):
    """A window of the selected head's map."""

    can_focus = True
    window = MapWindow([], [])

    def move(self, across: int, down: int) -> None:
        self.explorer.move_cell(across, down)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        query, key = (None, None) if offset is None else self.window.at(offset.x, offset.y)
        if query is not None:
            self.explorer.hold(query=query, key=key)


def fit_title(canvas: Canvas, title: str, short: str) -> str:
    """Return a title of a pane, or a shorter one if the pane's border has no room for it."""
    return title if len(title) <= canvas.width - 4 else short


class MapPane(WindowPane):
    """The map of the selected head, or its change."""

    BORDER_TITLE = "map"

    def paint(self, answer: "ScreenContent", state: "ScreenState", canvas: Canvas) -> list[Text]:
        selected, record = state.selected(), answer.record
        if answer.difference is None:
            self.window = weights_window(record, selected, canvas)
            said = describe_head(
                record, selected.layer, selected.head, True, answer.summaries[selected.layer, selected.head]
            )
        else:
            first, second = (
                one.map(selected.layer, selected.head) for one in (answer.difference.first, answer.difference.second)
            )
            self.window = changes_window(second.astype("float64") - first, record, selected, canvas)
            said = f"{answer.difference.of(selected.layer, selected.head):.3f} moved; blue less, red more"
        short = f"head {selected.layer}.{selected.head}: {said.split(' of at most')[0]}"
        self.border_title = fit_title(canvas, f"layer {selected.layer} head {selected.head}: {said}", short)
        self.border_subtitle = "rows: queries, columns: keys"
        return self.window.lines


class TokensPane(WindowPane):
    """Every token with its strongest keys in the selected head."""

    BORDER_TITLE = "tokens and their strongest keys"

    def paint(self, answer: "ScreenContent", state: "ScreenState", canvas: Canvas) -> list[Text]:
        self.window = tokens_window(answer.record, state.selected(), canvas)
        return self.window.lines


class CellPane(Pane):
    """The numbers of the selected head, row or cell."""

    def paint(self, answer: "ScreenContent", state: "ScreenState", canvas: Canvas) -> list[Text]:
        assert state.layer is not None and state.head is not None
        record, head = answer.record, (state.layer, state.head)
        if state.query is None:
            said = [describe_head(record, *head, summary=answer.summaries[head])]
        elif state.key is None:
            said = [row_line(record, head, state.query)]
        else:
            edge = answer.edge(*head, state.query, state.key)
            said = cell_lines(record, head, state.query, state.key, edge, answer.difference)
        lines = [Text(line) for one in said for line in fold(one, canvas.width)]
        if record.written is None:
            return lines
        records = [record] if answer.difference is None else [record, answer.difference.first]
        return [*next_lines(records, state.query, canvas), *lines]


class WrittenPane(Pane):
    """The text that the model wrote, with the selected token marked.

    Above it is the text that it replaces, with the first difference marked.
    """

    def paint(self, answer: "ScreenContent", state: "ScreenState", canvas: Canvas) -> list[Text]:
        text = self.explorer.text_so_far
        if text is not None:
            return [written_line("writing", list(text), first_shown(text, len(text), canvas), canvas)]
        count = answer.kept(state.query)
        first = first_shown(answer.written, len(answer.written) if count is None else count, canvas)
        lines = [written_line("written", answer.written, first, canvas, count)]
        if answer.earlier:
            same = count_shared(answer.state.written, answer.state.earlier)
            lines = [written_line("earlier", answer.earlier, first, canvas, same), *lines]
        return lines


class StatusPane(Pane):
    """The model, the mask and other settings, and the model's prediction, which is whole where settings are cut."""

    def paint(self, answer: "ScreenContent", state: "ScreenState", canvas: Canvas) -> list[Text]:
        record, size = answer.record, record_size(answer.record)
        if record.part is not None and record.part.stretched:
            size = f"{len(record.tokens)} units of {record.part.tokens} tokens"
        said = "".join(f" · {one}" for one in answer.said)
        settings = canvas.within(" · ".join([*self.explorer.settings(), size]), max(canvas.width - cell_len(said), 0))
        return [Text(canvas.within(settings + said, canvas.width), canvas.strong)]

    message = ""

    def say(self, text: str) -> None:
        """Show a message until the pane is redrawn."""
        self.message = " ".join(text.split())
        self.show([Text(line) for line in fold(self.message, max(self.size.width, 1))])

    def resized(self) -> None:
        if self.message:
            self.say(self.message)
        else:
            self.redraw()

    def redraw(self) -> None:
        self.message = ""
        self.remove_class("wrong")
        super().redraw()
