"""Run a program of the user's own, and show the attention of the PyTorch networks in it."""

import json
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import PAGE
from attncli.features import completion, options
from attncli.features.feature import Feature
from attncli.features.options import OUTPUT, SELECTION, TEXT, argument, choice, option
from attncli.record import AttentionRecord
from attncli.record.record import SUFFIXES, check_record_count, document_text, save_records
from attncli.record.selection import select
from attncli.report import Column, Part, Report, Table

if TYPE_CHECKING:
    from attncli.models.capture import Capture as Seen


@dataclass(eq=False)
class Capture(Feature):
    """Run a program of your own, and show the attention of its networks.

    The program runs unchanged, as `python` runs it; what follows its name is its own. Attention in torch.nn, of
    scaled_dot_product_attention and written by hand is seen. Then the modules are listed, or with -l and -H a map is
    shown. With --json the program prints to stderr. The exit code is the program's. That is no sandbox: run only what
    you trust.

    \b
    Examples:
      attncli capture train.py --epochs 1
      attncli capture -l 3 -H 1 --tokenizer bert-base classify.py "The cat sat."
      attncli capture -o maps.safetensors --module package.main
    """

    group = "Look"
    saves = (*SUFFIXES, PAGE)
    saved_as = "a record"
    passes_on = True

    program: Annotated[list[str] | None, argument("SCRIPT", "The program and its own arguments.")] = None
    module: Annotated[bool, option(TEXT, "--module", help="SCRIPT is the name of a module, as after python -m.")] = (
        False
    )
    tokenizer: Annotated[
        str | None,
        option(
            TEXT, "--tokenizer", metavar="NAME", help="The model whose tokens the ids are.", complete=completion.model
        ),
    ] = None
    layer: Annotated[str | None, options.layer("Layers, in the order in which they ran.", "all")] = None
    head: Annotated[str | None, options.head("Heads, from 0.", "all")] = None
    which: Annotated[
        choices.KindName | None, choice(SELECTION, choices.KindName, "--which", help="", show_default="the only one")
    ] = None
    measure: Annotated[choices.MeasureName, choice(SELECTION, choices.MeasureName, "--measure", help="")] = "weight"
    call: Annotated[
        int | None,
        option(SELECTION, "--call", metavar="N", min=0, help="This call of modules that ran several times."),
    ] = None
    top_k: Annotated[
        int, option(OUTPUT, "--top-k", rare=True, metavar="N", min=1, help="Name the N strongest keys.", use="terminal")
    ] = 3

    def report(self) -> Report:
        [report] = self._reports()
        return report

    def reports(self) -> Iterator[Report]:
        """Yield the report. Raises SystemExit with the program's exit code afterwards, if that is not 0."""
        return self._reports()

    def _reports(self) -> Iterator[Report]:
        if not self.program:
            raise RequestError("which program? as in: attncli capture my_script.py")
        script = self.program[0]
        if not self.module and not Path(script).is_file():
            raise RequestError(
                f"there is no file {script}: give the path of a script, or --module with a module's name"
            )
        from attncli.models.capture import capture

        chosen = self.measure != "weight" or any(
            one is not None for one in (self.layer, self.head, self.call, self.which)
        )
        maps = self.path is not None or self.for_program or chosen
        calls = None if self.call is None else [self.call]
        seen = capture(tokenizer=self.tokenizer, heads=None if maps else [], calls=calls, measure=self.measure)
        with _output_of_program(to_stderr=self.for_program), seen:
            code = _run(self.program, self.module)
        name = Path(script).name
        if maps:
            count = len({one.layer for one in seen.calls})
            layers = None if self.layer is None or count == 0 else select(self.layer, count, "layer")
            records = seen.records(self.which, layers=layers, call=self.call)
            yield self._of_records(name, [record.select(layers, self.head) for record in records])
        else:
            yield Report([name, repr(seen)[1:-1]], [_table(seen)] if seen.calls else [], dict)
        if code:
            raise SystemExit(code)

    def _of_records(self, name: str, records: list[AttentionRecord]) -> Report:
        from attncli.analysis.patterns import row_shares
        from attncli.report.records import HeadMap, SmallMaps

        if self.path is not None and self.path.suffix.lower() in SUFFIXES:
            check_record_count(self.path, len(records))

        def save_page(path: Path) -> None:
            from attncli import page

            page.save_page(page.page(records, page.Start()), path)

        measure = [] if self.measure == "weight" else ["share of norm"]
        parts: list[Part] = []
        for record in map(row_shares, records):
            of_one = len(record.layers) == len(record.heads) == 1
            title = [str(record.choice), f"{len(record.tokens)} tokens"]
            parts.append((HeadMap if of_one else SmallMaps)(record, title, self.top_k))
        return Report(
            [name, *measure, *([f"{len(records)} texts"] if len(records) > 1 else []), str(records[0].choice)],
            parts,
            lambda: json.loads("".join(document_text(records))),
            files={**dict.fromkeys(SUFFIXES, lambda path: save_records(records, path)), PAGE: save_page},
        )


def _table(seen: "Seen") -> Table:
    """Return a row per module: its layer, path, kind, heads, size and calls."""
    rows = []
    for layer in dict.fromkeys(call.layer for call in seen.calls):
        calls = [call for call in seen.calls if call.layer == layer]
        sizes = list(dict.fromkeys("{} x {}".format(*call.shape[2:]) for call in calls))
        shown = sizes[0] if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        texts, heads = calls[0].shape[:2]
        rows.append([str(layer), calls[0].name or "-", calls[0].kind, str(texts), str(heads), shown, str(len(calls))])
    names = Column("layer"), Column("module", "name"), Column("attention", "name")
    return Table([*names, *map(Column, ("texts", "heads", "queries x keys", "calls"))], rows)


def _run(program: list[str], module: bool) -> int:
    """Run a script or a module as `python` does, and return its exit code. Print its error as `python` does."""
    script, before = program[0], (sys.argv, sys.path[0])
    sys.argv = program
    sys.path[0] = os.getcwd() if module else str(Path(script).resolve().parent)  # noqa: PTH109
    try:
        if module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if isinstance(error.code, int | None):
            return error.code or 0
        print(error.code, file=sys.stderr)  # noqa: T201  (as python does)
        return 1
    except Exception as error:  # noqa: BLE001  (of the program)
        import traceback

        trace = error.__traceback__
        ours = {__file__, runpy.__file__, "<frozen runpy>"}
        while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename in ours:
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
        return 1
    finally:
        sys.argv, sys.path[0] = before
    return 0


@contextmanager
def _output_of_program(to_stderr: bool) -> Iterator[None]:
    """Give a program stdout and stderr, also for what it writes past Python. to_stderr: stdout goes there."""
    os.dup2(sys.stderr.fileno(), 2)
    if not to_stderr:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


# The fields of its document (`attncli.features.document`).
FIELDS = """
### capture

model | model
records | [record] | | one per text of the batch
"""
