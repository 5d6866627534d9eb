"""attncli samples: the texts that come with the program."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.cli import options, output

if TYPE_CHECKING:
    from attncli.text.samples import Sample


def complete_sample(incomplete: str) -> list[str]:
    """The texts' names."""
    from attncli.text.samples import samples as every

    return [sample.name for sample in every() if sample.name.startswith(incomplete)]


def samples(
    sample: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The text to print or copy. Without it: list, or copy, all.",
            show_default=False,
            autocompletion=complete_sample,
        ),
    ] = None,
    copy: Annotated[
        Path | None,
        typer.Option("--copy", metavar="DIR", help="Copy into this folder; another file there is never overwritten."),
    ] = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """List the texts that the examples name, print one of them, or copy them into a folder.

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
    if copy is not None:
        names = [one.name for one in chosen] + ([README] if sample is None else [])
        copies = [str(path) for path in copy_files(names, copy)]
        if json:
            output.json_document({"copied": copies})
        else:
            for path in copies:
                output.data(path)
    elif json:
        entries = [entry(one) for one in chosen]
        output.json_document({"samples": entries} if sample is None else {**entries[0], "text": chosen[0].text})
    elif sample is None:
        print_list(chosen)
    else:
        output.text([chosen[0].text])


def entry(sample: "Sample") -> dict[str, str]:
    """Everything that is known of a text."""
    return {
        "name": sample.name,
        "what": sample.what,
        "command": sample.command,
        "look_for": sample.look_for,
        "path": str(sample.path),
    }


def print_list(every: "list[Sample]") -> None:
    """A line a text: its name, and what it is."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for sample in every:
        table.add_row(Text(sample.name, no_wrap=True), Text(sample.what))
    output.show(table)
