"""Draw the attention maps of a record as a picture: as matrices of colour, or as lines between tokens."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from attncli.base import choices
from attncli.base.files import PICTURES
from attncli.features import options
from attncli.features.inputs import SavedRecords, notify, notify_about, record_source
from attncli.features.measure import measure, no_effect
from attncli.features.options import OUTPUT, SELECTION, choice, option
from attncli.record import AttentionRecord
from attncli.record.display import SIGNED, WEIGHTS_NAME, is_long, title_of_record
from attncli.record.record import document_text
from attncli.record.selection import Grouping
from attncli.report import NextCommand, Report, Result
from attncli.report.records import RecordPicture

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.report.figure.record import Appearance, What

COPIES = 3  # copies of the maps that drawing makes (4 layers x 12 heads x 1,024 tokens as a matrix)


@measure(options.RecordOptions, saves=PICTURES, saved_as="a picture", json=False, output="attention.png")
def heatmap(
    model: options.ModelOrSaved = None,
    text: options.Text = None,
    *,
    mask: options.MaskOption = None,
    style: Annotated[choices.Style, choice(OUTPUT, choices.Style, "--style", help="Draw maps as ")] = "matrix",
    mean: Annotated[bool, option(SELECTION, "--mean", help="Draw the mean over the heads chosen.")] = False,
    query: options.Query = None,
    segments: options.Segments = "all",
    no_special: options.NoSpecial = False,
    tokens: options.SomeTokens = None,
    words: options.Words = False,
    terms: options.TermsOption = False,
    vmax: Annotated[
        float | None,
        option(
            OUTPUT,
            "--vmax",
            rare=True,
            metavar="X",
            help="The weight drawn in full colour.",
            show_default="the largest drawn",
        ),
    ] = None,
    scale: Annotated[
        choices.Scale | None,
        choice(
            OUTPUT,
            choices.Scale,
            "--scale",
            rare=True,
            help="Full colour: at each map's largest weight, at 1, or at 1 by the square root: ",
        ),
    ] = None,
    cmap: Annotated[
        str | None,
        option(
            OUTPUT,
            "--cmap",
            rare=True,
            metavar="NAME",
            help="A colour map of matplotlib, or violets.",
            show_default=WEIGHTS_NAME,
        ),
    ] = None,
    **given: "Unpack[options.RecordOptions]",
) -> "DrawnRecord":
    """Draw attention maps into a file, and print the file's name.

    By default, draws the heads of the last layer. In the style matrix, several heads form a grid with one colour scale.
    In the style lines, the heads of a layer share a panel. --width makes a picture for print, with no letter too small.

    \b
    Examples:
      attncli heatmap -H 3.1,1.8,4.7 -o out.png "The cat sat on the mat."
      attncli heatmap -l 0 --mean --no-special -o mean.svg "The cat sat."
      attncli heatmap --style lines -l 2 -H 3,5 --width 8cm -o it.pdf "A cat sat."
      attncli run -o all.npz "A cat sat." && attncli heatmap --from all.npz
    """
    from attncli.record.display import with_terms
    from attncli.report.figure.record import Appearance, What, left_out

    drawn, unit = None if style == "matrix" else style, given.get("unit")
    if terms:
        why = "with --terms, which draws the scores of one head between tokens, as matrices"
        no_effect(why, words=words, unit=unit, measure=given.get("measure"), mean=mean, style=drawn, scale=scale)
    if style == "lines":
        no_effect("with --style lines, which have the colours of their heads", cmap=cmap, scale=scale)
    if scale is not None:
        no_effect("with --scale, which sets the weight of the full colour", vmax=vmax)
    look = Appearance(style, vmax, scale, cmap or (SIGNED if terms else WEIGHTS_NAME))
    what = What(mean, not no_special, words or unit == "word", segments, query, terms)
    grouping = Grouping(tokens, "word" if words else "token", stretches=not terms)
    more = {"vectors": "all"} if terms else {}
    source = record_source(model, text, mask, "-1", grouping, more=more, **given)
    otherwise = "give one as TEXT, or one line (sed -n 1p FILE | attncli heatmap -f -)"
    if isinstance(source, SavedRecords):
        otherwise = "save the one to draw in a separate file (attncli run -o one.safetensors TEXT)"
    record = notify_about(source.single_record(otherwise, COPIES))
    if len(record.each_head) == len(record.layers):
        no_effect("on one head of a layer, which is its own mean", mean=mean)
    if terms:
        with_terms(record)
    note = left_out(record, what)
    if note:
        notify(note)
    return DrawnRecord(record, what, look, mask)


@dataclass(frozen=True, repr=False)
class DrawnRecord(Result):
    """A record to draw. what, look: the part that is drawn, and its appearance. mask: as requested."""

    record: AttentionRecord
    what: "What"
    look: "Appearance"
    mask: str | None = None

    def __repr__(self) -> str:
        return f"<DrawnRecord: {' · '.join(title_of_record(self.record, str(self.record.choice)))}>"

    def document(self) -> Mapping[str, Any]:
        """Return the record as `run --json` has it."""
        found: dict[str, Any] = json.loads("".join(document_text([self.record])))
        return found

    def report(self) -> Report:
        """Show the picture."""
        record = self.record
        if self.what.terms:
            [(layer, number)] = record.each_head
            head = {"layer": layer, "head": number}
            following = NextCommand("explain", {"terms": None, "output_path": None, **head})
        elif is_long(record):
            following = NextCommand("heatmap", {"unit": "sentence"})
        elif self.look.style == "matrix":
            lines = {"style": "lines", "output_path": "lines.svg", "cmap": None}
            following = NextCommand("heatmap", lines)
        else:
            every = {"layer": None, "head": None, "mask": None, "masks": self.mask}
            following = NextCommand("view", every)
        title = title_of_record(record, str(record.choice))
        picture = RecordPicture(record, self.what, self.look)
        return Report(title, [picture], self.document, records=lambda: [record], next=following)
