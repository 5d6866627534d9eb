"""attncli samples: the texts that come with the program."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attncli.cli import options, output
from attncli.features import completion

if TYPE_CHECKING:
    from attncli.text.samples import Sample


def samples(
    sample: Annotated[
        str | None,
        options.argument("NAME", "The text to print or copy. Without it: list, or copy, all.", completion.sample),
    ] = None,
    copy: Annotated[
        Path | None,
        options.option(
            options.OUTPUT,
            "--copy",
            metavar="DIR",
            help="Copy into this folder; other files are never overwritten.",
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """List, print or copy the texts that the examples name.

    Examples name them as sample_inputs/NAME: `attncli samples --copy sample_inputs` puts them there, with a README.md
    that says what to try with each and what to look for.

    \b
    Examples:
      attncli samples
      attncli samples coreference.txt
      attncli samples --copy sample_inputs
      attncli samples coreference.txt | attncli run -l 3 -H 1
    """
    from attncli.text.samples import README, copy_files, find_sample
    from attncli.text.samples import samples as every

    chosen = every() if sample is None else [find_sample(sample)]
    copies = []
    if copy is not None:
        names = [one.name for one in chosen] + ([README] if sample is None else [])
        copies = [str(path) for path in copy_files(names, copy)]
    if json:
        entries: list[dict[str, str]] = [{**asdict(one), "path": str(one.path)} for one in chosen]
        if sample is not None:
            entries[0]["text"] = chosen[0].text
        output.json_document({"samples": entries, **({} if copy is None else {"copied": copies})})
    elif copy is not None:
        for path in copies:
            output.data(path)
    elif sample is None:
        print_list(chosen)
        output.hint("one of them: attncli samples coreference.txt", "all of them: attncli samples --copy sample_inputs")
    else:
        output.text([chosen[0].text])


def print_list(every: "list[Sample]") -> None:
    """A line a text: its name, and what it is."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for sample in every:
        table.add_row(Text(sample.name, no_wrap=True), Text(sample.what))
    output.show(table)
