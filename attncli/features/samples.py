"""List, print or copy the texts that come with the program (`attncli.text.samples`)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from attncli.features import completion
from attncli.features.feature import Feature
from attncli.features.options import OUTPUT, argument, option
from attncli.report import NextCommand, Part, Report
from attncli.text.samples import README, Sample, copy_files, find_sample, samples


@dataclass(eq=False)
class Samples(Feature):
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

    group = "The program itself"
    saves = ()

    sample: Annotated[
        str | None, argument("NAME", "The text to print or copy. Without it: list, or copy, all.", completion.sample)
    ] = None
    copy: Annotated[
        Path | None,
        option(OUTPUT, "--copy", metavar="DIR", help="Copy into this folder; other files are never overwritten."),
    ] = None

    def report(self) -> Report:
        chosen = samples() if self.sample is None else [find_sample(self.sample)]
        copies: list[str] | None = None
        if self.copy is not None:
            names = [one.name for one in chosen] + ([README] if self.sample is None else [])
            copies = [str(path) for path in copy_files(names, self.copy)]
        printed = None if self.sample is None else chosen[0].text
        if copies is not None:
            printed = "".join(f"{path}\n" for path in copies)

        def document() -> dict[str, Any]:
            entries: list[dict[str, str]] = [{**asdict(one), "path": str(one.path)} for one in chosen]
            if self.sample is not None:
                entries[0]["text"] = chosen[0].text
            return {"samples": entries, **({} if copies is None else {"copied": copies})}

        example = NextCommand("samples", {"sample": "coreference.txt"}) if printed is None else None
        return Report([], [_List(chosen)], document, verbatim=printed, next=example)


class _List(Part):
    """A line per text: its name, and a description."""

    def __init__(self, entries: Sequence[Sample]) -> None:
        self.entries = entries

    def terminal(self, canvas: Any) -> list[Any]:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2, 0, 0))
        for sample in self.entries:
            table.add_row(Text(sample.name, no_wrap=True), Text(sample.what))
        return [table]


# The fields of its document (`attncli.features.document`).
FIELDS = """
### samples

samples | [object] | | the texts that come with attncli, or the one named
samples.name | str | | its file name
samples.what | str | | a description
samples.command | str | | a command to try
samples.look_for | str | | what the command shows, in Markdown
samples.path | str | | where it is
samples.text | str? | | its content, if one is named
copied | [str]? | `[file]` | the copies, with `--copy`
"""
