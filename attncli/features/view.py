"""Make a page of every head of a text: one HTML file that opens anywhere."""

import json
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.progress import counted
from attncli.features import options
from attncli.features.inputs import SAVED, Texts, notify, notify_about, record_source
from attncli.features.measure import measure, no_effect
from attncli.features.options import OUTPUT, choice, option
from attncli.record import AttentionRecord
from attncli.record.display import in_stretches, title_of_record
from attncli.record.record import document_text
from attncli.record.selection import Grouping
from attncli.report import NextCommand, Report, Result

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.page import Start

COPIES = 4  # copies of the maps that making a page makes (4 layers x 12 heads x 1,024 tokens, incompressible)
SAVES = (".html", ".htm")


@measure(options.RecordOptions, saves=SAVES, saved_as="a page", json=False, output="attention.html")
def view(
    model: options.ModelOrSaved = None,
    text: options.Text = None,
    *,
    masks: options.MasksOption = None,
    vectors: Annotated[
        str | None,
        options.vectors(
            "Heads with q and k: 4.7, 4.0-3, 4.all, all or none. By default all up to 128 tokens, then a few."
        ),
    ] = None,
    start: Annotated[choices.PageView, choice(OUTPUT, choices.PageView, "--view")] = "heads",
    query: options.Query = None,
    segments: options.Segments = "all",
    no_special: options.NoSpecial = False,
    tokens: options.SomeTokens = None,
    words: options.Words = False,
    threshold: Annotated[
        float, option(OUTPUT, "--threshold", rare=True, metavar="X", help="Draw no weight below X.")
    ] = 0.0,
    title: Annotated[
        str | None,
        option(OUTPUT, "--title", rare=True, metavar="TEXT", help="The page's title.", show_default="model and text"),
    ] = None,
    kinds: Annotated[Path | None, options.kinds()] = None,
    open_it: Annotated[bool, option(OUTPUT, "--open", help="Open the page in the browser.")] = False,
    **given: "Unpack[options.RecordOptions]",
) -> "TextPage":
    """Make a page of every head, in one file that works offline.

    The page has all layers and heads unless -l and -H choose some. Four views: lines between tokens (heads), all heads
    as thumbnails (model), one head as a heat map (matrix), q and k element by element (neuron). It opens on the head
    that `run` names first. With several masks, it can switch between them.

    \b
    Examples:
      attncli view -o view.html "The cat sat on the mat."
      attncli view --mask none,causal,padding --pad-to 12 "The cat sat."
      attncli view "Where did the bear hide?" --pair "In a cave." --segments AB
      attncli run -o maps.npz "A cat sat." && attncli view --from maps.npz
    """
    from attncli.analysis.edges import with_usual
    from attncli.analysis.kinds import load_kinds, with_kinds
    from attncli.page import Start, advice

    if given.get("unit") is not None:
        no_effect("with --unit, which already merges tokens", words=words)
    if given.get("unit") == "word":  # the page has words and their pieces
        words = given.pop("unit") == "word"
    look = Start(start, query, segments, not no_special, words, threshold)
    grouping = Grouping(tokens, stretches=True)
    source = record_source(model, text, grouping=grouping, more={"vectors": vectors}, **given)
    if isinstance(source, Texts):
        from attncli.models.engine import NEURONS, under_masks

        names = [None] if masks is None else choices.several("mask", masks, choices.MaskName)
        texts = under_masks(source.engine, source.inputs, source.request, names, NEURONS, COPIES)
        every = list(counted(texts, len(source), "texts"))
        usual = [source.asking(mask=name).usual() for name in names]
        found = [
            record if in_stretches(record) else with_usual(record, over)
            for by_mask in every
            for record, over in zip(by_mask, usual, strict=True)
        ]
        how = advice.VIEW if found[0].measure == "weight" else advice.NORMS
    else:
        held = list(source.records())
        there = list(dict.fromkeys(record.mask_name for record in held))
        wanted = there if masks is None else choices.several("mask", masks, choices.MaskName)
        if not set(wanted) <= set(there):
            saved = given.get("saved") or "the record"
            raise RequestError(f"{saved} was made with --mask {', '.join(there)}, which can't be changed: omit --mask")
        if set(wanted) == set(there):
            no_effect(f"{SAVED}: mask {', '.join(there)}", masks=masks)
        no_effect("on a saved record", vectors=vectors)
        found = [record for record in held if record.mask_name in wanted]
        how = advice.of_saved(found[0])
    if kinds is not None:
        known = load_kinds(kinds)
        found = [with_kinds(record, known) for record in found]
    records = list(map(notify_about, found))
    if any(map(in_stretches, records)):
        no_effect("on stretches of several tokens, which have no q and k: choose tokens with --tokens", vectors=vectors)
    return TextPage(records, look, title, how, open_it)


@dataclass(frozen=True, repr=False)
class TextPage(Result):
    """Records as a page.

    start: its initial state. advice: how to make one with q and k. open_it: open it in the browser.
    """

    records: Sequence[AttentionRecord]
    start: "Start"
    title: str | None
    advice: str
    open_it: bool = False

    def __repr__(self) -> str:
        return f"<TextPage: {' · '.join(self.report().title)}>"

    def document(self) -> Mapping[str, Any]:
        """Return the records as `run --json` has them."""
        found: dict[str, Any] = json.loads("".join(document_text(self.records)))
        return found

    def report(self) -> Report:
        """Return the title of the page, and the way to save it."""
        first = self.records[0]
        following = None if self.open_it else NextCommand("view", {"open_it": True})
        files = dict.fromkeys(SAVES, self._save)
        title = title_of_record(first, str(first.choice))
        return Report(title, [], self.document, files=files, records=lambda: self.records, next=following)

    def _save(self, path: Path) -> None:
        """Save the page and report its size; open it in the browser if requested."""
        from attncli.page import document

        page = document.page(self.records, self.start, self.title, advice=self.advice)
        document.save_page(page, path)
        vectors = "without q and k"
        kept = [record.vectors for record in self.records if record.vectors is not None]
        if kept:
            heads = f"{len(kept[0].heads)} head{'s' if len(kept[0].heads) > 1 else ''}"
            vectors = f"including q and k of {heads} {document.vectors_size(page) / 1e6:.1f} MB (--vectors)"
        notify(f"{path} takes {len(page) / 1e6:.1f} MB, {vectors}")
        if self.open_it and not webbrowser.open(path.resolve().as_uri()):
            notify(f"no browser could be opened: open {path} yourself")
