"""List, print or copy the texts that come with the program (`attncli.text.samples`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict

from attncli.base.typed import NotRequired
from attncli.features import completion
from attncli.features.measure import measure
from attncli.features.options import OUTPUT, argument, option
from attncli.report import NextCommand, Report, Result, TextLine
from attncli.text.samples import README, Sample, copy_files, find_sample
from attncli.text.samples import samples as all_samples


@measure(saves=())
def samples(
    sample: Annotated[
        str | None, argument("NAME", "The text to print or copy. Without it: list, or copy, all.", completion.sample)
    ] = None,
    *,
    copy: Annotated[
        Path | None,
        option(OUTPUT, "--copy", metavar="DIR", help="Copy into this folder; never overwrites other files."),
    ] = None,
) -> "SampleTexts":
    """List, print or copy the texts that the examples name.

    Examples name them as sample_inputs/NAME. `attncli samples --copy sample_inputs` puts them there, with a README.md
    that says what to try with each and what to look for.

    \b
    Examples:
      attncli samples
      attncli samples coreference.txt
      attncli samples --copy sample_inputs
      attncli samples coreference.txt | attncli run -l 3 -H 1
    """
    chosen = all_samples() if sample is None else [find_sample(sample)]
    if copy is None:
        return SampleTexts(chosen, sample is not None)
    names = [one.name for one in chosen] + ([README] if sample is None else [])
    return SampleTexts(chosen, sample is not None, copy_files(names, copy))


class _SampleEntry(TypedDict):
    """The texts that come with attncli, or the one named."""

    name: Annotated[str, "its file name"]
    what: Annotated[str, "a description"]
    command: Annotated[str, "a command to try"]
    look_for: Annotated[str, "what the command shows, in Markdown"]
    path: Annotated[str, "where it is"]
    text: NotRequired[Annotated[str, "its content, if one is named"]]


class SamplesDocument(TypedDict):
    samples: list[_SampleEntry]
    copied: NotRequired[Annotated[list[str], "the copies, with `--copy`", "`[file]`"]]


@dataclass(frozen=True, repr=False)
class SampleTexts(Result):
    """Texts that come with the program.

    samples: all of them, or the one that was named. named: whether one was. copies: the files that were written; None
    without --copy.
    """

    samples: Sequence[Sample]
    named: bool
    copies: Sequence[Path] | None = None

    def __repr__(self) -> str:
        """<SampleTexts: coreference.txt, pair.txt>"""
        return f"<SampleTexts: {', '.join(one.name for one in self.samples)}>"

    def document(self) -> SamplesDocument:
        """Return what --json prints."""
        document: SamplesDocument = {
            "samples": [
                {
                    "name": one.name,
                    "what": one.what,
                    "command": one.command,
                    "look_for": one.look_for,
                    "path": str(one.path),
                }
                for one in self.samples
            ]
        }
        if self.named:
            document["samples"][0]["text"] = self.samples[0].text
        if self.copies is not None:
            document["copied"] = list(map(str, self.copies))
        return document

    def report(self) -> Report:
        """Show a line per text, the text that was named, or the names of the copies."""
        if self.copies is not None:
            return Report([], [], self.document, verbatim="".join(f"{path}\n" for path in self.copies))
        if self.named:
            return Report([], [], self.document, verbatim=self.samples[0].text)
        width = max(len(one.name) for one in self.samples)
        lines = [TextLine(f"{one.name:<{width}}  {one.what}") for one in self.samples]
        return Report([], lines, self.document, next=NextCommand("samples", {"sample": "coreference.txt"}))
