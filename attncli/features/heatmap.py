"""Draw the attention maps of a record as a picture: as matrices of colour, or as lines between tokens."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from attncli.base import choices
from attncli.base.files import PICTURES
from attncli.features import options
from attncli.features.inputs import RecordFeature, notify, notify_about
from attncli.features.options import OUTPUT, SELECTION, choice, option
from attncli.record import AttentionRecord
from attncli.record.display import SIGNED, WEIGHTS_NAME, title_of_record
from attncli.record.record import document_text
from attncli.record.selection import Grouping
from attncli.report import NextCommand, Part, Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from attncli.report.figure.record import Appearance, What
    from attncli.report.paper import Paper

COPIES = 3  # of the maps, that drawing them makes (4 layers x 12 heads x 1,024 tokens as a matrix)


@dataclass(eq=False)
class Heatmap(RecordFeature):
    """Draw attention maps into a file, and print the file's name.

    Without a selection: the heads of the last layer. As a matrix, several heads are a grid with one colour scale; as
    lines, the heads of a layer share a panel. With --width it is for print: no letter is too small.

    \b
    Examples:
      attncli heatmap -H 3.1,1.8,4.7 -o out.png "The cat sat on the mat."
      attncli heatmap -l 0 --mean --no-special -o mean.svg "The cat sat."
      attncli heatmap --style lines -l 2 -H 3,5 --width 8cm -o it.pdf "A cat sat."
      attncli run -o all.npz "A cat sat." && attncli heatmap --from all.npz
    """

    group = "Look"
    saves = PICTURES
    saved_as = "a picture"
    json = False
    output = "attention.png"

    mask: options.MaskOption = None
    style: Annotated[choices.Style, choice(OUTPUT, choices.Style, "--style", help="Drawn as ")] = "matrix"
    mean: Annotated[bool, option(SELECTION, "--mean", help="Draw the mean over the heads chosen.")] = False
    query: options.Query = None
    segments: options.Segments = "all"
    no_special: options.NoSpecial = False
    tokens: options.SomeTokens = None
    words: options.Words = False
    terms: options.TermsOption = False
    vmax: Annotated[
        float | None,
        option(
            OUTPUT,
            "--vmax",
            rare=True,
            metavar="X",
            help="The weight of the full colour.",
            show_default="the largest drawn",
        ),
    ] = None
    scale: Annotated[
        choices.Scale | None,
        choice(
            OUTPUT,
            choices.Scale,
            "--scale",
            rare=True,
            help="A page's scales: to each map's largest, to 1, its square root: ",
        ),
    ] = None
    cmap: Annotated[
        str, option(OUTPUT, "--cmap", rare=True, metavar="NAME", help="A colour map of matplotlib, or violets.")
    ] = WEIGHTS_NAME

    def report(self) -> Report:
        from attncli.record.display import with_terms
        from attncli.report.figure.record import Appearance, What, left_out

        self._check()
        cmap = SIGNED if self.terms and not self.is_set("cmap") else self.cmap
        look = Appearance(self.style, self.vmax, self.scale, cmap)
        what = What(self.mean, not self.no_special, self.words, self.segments, self.query, self.terms)
        grouping = Grouping(self.tokens, self.words, stretches=not self.terms)
        source = self.source(self.mask, "-1", grouping, vectors="all" if self.terms else None)
        otherwise = "save the one to draw by itself (attncli run -o one.safetensors TEXT)"
        if self.saved is None:
            otherwise = "give the one to draw as TEXT, or its line (sed -n 1p FILE | attncli heatmap -f -)"
        record = notify_about(source.single_record(otherwise, COPIES))
        if len(record.each_head) == len(record.layers):
            self.refuse("on one head of a layer, which is its own mean", "mean")
        if self.terms:
            with_terms(record)
        note = left_out(record, what)
        if note:
            notify(note)
        title = title_of_record(record, str(record.choice))
        return Report(
            title,
            [RecordPicture(record, what, look)],
            lambda: json.loads("".join(document_text([record]))),
            next=self._next(record),
        )

    def _check(self) -> None:
        """Raises RequestError for options that have no effect together."""
        if self.terms:
            why = "with --terms, which draws weights between pieces of one head, as matrices"
            self.refuse(why, "words", "measure", "mean", "style", "scale")
        if self.style == "lines":
            self.refuse("with --style lines, which are drawn in the colours of their heads", "cmap", "scale")
        if self.scale is not None:
            self.refuse("with --scale, which says what has the full colour", "vmax")

    def _next(self, record: AttentionRecord) -> NextCommand:
        if self.terms:
            [(layer, number)] = record.each_head
            head = {"layer": layer, "head": number}
            return NextCommand("explain", {"terms": None, "output_path": None, **head})
        if self.style == "matrix":
            lines = {"style": "lines", "output_path": "lines.svg", "cmap": None}
            return NextCommand("heatmap", lines)
        every = {"layer": None, "head": None, "mask": None, "masks": self.mask}
        return NextCommand("view", every)


@dataclass(frozen=True)
class RecordPicture(Part):
    """The picture of a record; what, look: the part that is drawn, and its appearance, by default all maps."""

    record: AttentionRecord
    what: "What | None" = None
    look: "Appearance | None" = None

    def figure(self, title: "Sequence[str]", paper: "Paper") -> "Figure":
        from attncli.report.figure.record import Appearance, What, heatmap

        return heatmap(self.record, self.what or What(), self.look or Appearance(), paper)
