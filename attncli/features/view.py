"""Make a page of every head of a text: one HTML file that opens anywhere."""

import json
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.progress import counted
from attncli.features import options
from attncli.features.inputs import SAVED, RecordFeature, RecordSource, Texts, notify, notify_about
from attncli.features.options import OUTPUT, choice, option
from attncli.record import AttentionRecord
from attncli.record.display import in_stretches, title_of_record
from attncli.record.record import document_text
from attncli.record.selection import Grouping
from attncli.report import NextCommand, Report

COPIES = 4  # of the maps, that making a page of them makes (4 layers x 12 heads x 1,024 tokens, incompressible)


@dataclass(eq=False)
class View(RecordFeature):
    """Make a page of every head, in one file that needs no network.

    All layers and heads are in it unless -l and -H keep a part. Four views: lines between tokens (heads), all heads as
    thumbnails (model), one head as a heat map (matrix), q and k element by element (neuron). It opens on the head that
    `run` names first. Several masks make a switch.

    \b
    Examples:
      attncli view -o view.html "The cat sat on the mat."
      attncli view --mask none,causal,padding --pad-to 12 "The cat sat."
      attncli view "Where did the bear hide?" --pair "In a cave." --segments AB
      attncli run -o maps.npz "A cat sat." && attncli view --from maps.npz
    """

    group = "Look"
    saves = (".html", ".htm")
    saved_as = "a page"
    json = False
    output = "attention.html"

    masks: options.MasksOption = None
    vectors: Annotated[
        str | None,
        options.vectors(
            "Heads with q and k: 4.7, or 4.0-3, or 4.all; all; none. Without it all up to 128 tokens, then a few."
        ),
    ] = None
    start: Annotated[choices.PageView, choice(OUTPUT, choices.PageView, "--view")] = "heads"
    query: options.Query = None
    segments: options.Segments = "all"
    no_special: options.NoSpecial = False
    tokens: options.SomeTokens = None
    words: options.Words = False
    threshold: Annotated[
        float, option(OUTPUT, "--threshold", rare=True, metavar="X", help="Draw no weight below X.")
    ] = 0.0
    title: Annotated[
        str | None,
        option(OUTPUT, "--title", rare=True, metavar="TEXT", help="The page's title.", show_default="model and text"),
    ] = None
    open_it: Annotated[bool, option(OUTPUT, "--open", help="Open the page in the browser.")] = False

    def report(self) -> Report:
        from attncli.analysis.edges import with_usual
        from attncli.page import Start, document, save_page
        from attncli.page.document import vectors_size

        start = Start(self.start, self.query, self.segments, not self.no_special, self.words, self.threshold)
        source = self.source(grouping=Grouping(self.tokens, stretches=True), vectors=self.vectors)
        if isinstance(source, Texts):
            from attncli.models.engine import NEURONS, under_masks

            names = [None] if self.masks is None else choices.several("mask", self.masks, choices.MaskName)
            texts = under_masks(source.engine, source.inputs, source.request, names, NEURONS, COPIES)
            every = list(counted(texts, len(source), "texts"))
            usual = [source.asking(mask=name).usual() for name in names]
            found = [
                record if in_stretches(record) else with_usual(record, over)
                for by_mask in every
                for record, over in zip(by_mask, usual, strict=True)
            ]
        else:
            found = self._with_masks(list(source.records()))
        records = list(map(notify_about, found))
        if any(map(in_stretches, records)):
            self.refuse("on stretches of a long text, which have no q and k: give --tokens", "vectors")
        first = records[0]
        page = document.page(records, start, self.title, advice=_advice(source, first))
        title = title_of_record(first, str(first.choice))

        def save(path: Path) -> None:
            """Save the page and say how large it is; open it in the browser where that was asked for."""
            save_page(page, path)
            vectors = "without q and k"
            kept = [record.vectors for record in records if record.vectors is not None]
            if kept:
                heads = f"{len(kept[0].heads)} head{'s' if len(kept[0].heads) > 1 else ''}"
                vectors = f"of which q and k of {heads} {vectors_size(page) / 1e6:.1f} MB (--vectors)"
            notify(f"{path} takes {len(page) / 1e6:.1f} MB, {vectors}")
            if self.open_it and not webbrowser.open(path.resolve().as_uri()):
                notify(f"no browser could be opened: open {path} yourself")

        return Report(
            title,
            [],
            lambda: json.loads("".join(document_text(records))),
            files=dict.fromkeys(self.saves, save),
            next=None if self.open_it else NextCommand("view", {"open_it": True}),
        )

    def _with_masks(self, records: list[AttentionRecord]) -> list[AttentionRecord]:
        """Return the records with one of these masks. Raises RequestError where the file has not all of them."""
        there = list(dict.fromkeys(record.mask_name for record in records))
        wanted = there if self.masks is None else choices.several("mask", self.masks, choices.MaskName)
        if not set(wanted) <= set(there):
            raise RequestError(f"{self.saved} was made with --mask {', '.join(there)}: --mask can't change that")
        if set(wanted) == set(there):
            self.refuse(f"{SAVED}: mask {', '.join(there)}", "masks")
        return [record for record in records if record.mask_name in wanted]


def _advice(source: RecordSource, record: AttentionRecord) -> str:
    """Return the page's sentence on heads without q and k: how to make a page that has them."""
    from attncli.page import advice

    if not isinstance(source, Texts):
        return advice.of_saved(record)
    return advice.VIEW if record.measure == "weight" else advice.NORMS
