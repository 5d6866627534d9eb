"""Run a program of the user's own, and show the attention of the PyTorch networks in it."""

import json
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import PAGE
from attncli.features import completion, options
from attncli.features.measure import measure
from attncli.features.options import OUTPUT, SELECTION, TEXT, argument, choice, option
from attncli.record import AttentionRecord
from attncli.record.parts import ModelDocument, RecordDocument
from attncli.record.record import SUFFIXES, check_record_count, document_text, save_records
from attncli.record.selection import Selection, select
from attncli.report import Column, Part, Report, Result, Table
from attncli.report.records import HeadMap, SmallMaps

if TYPE_CHECKING:
    from attncli.models.capture import Capture as Seen


@measure(saves=(*SUFFIXES, PAGE), saved_as="a record", passes_on=True)
def capture(
    program: Annotated[
        Sequence[str] | None, argument("SCRIPT", "The program and its own arguments.", kind=list[str] | None)
    ] = None,
    *,
    module: Annotated[
        bool, option(TEXT, "--module", help="SCRIPT is the name of a module, as after python -m.")
    ] = False,
    tokenizer: Annotated[
        str | None,
        option(
            TEXT,
            "--tokenizer",
            metavar="NAME",
            help="The model whose tokenizer made the ids.",
            complete=completion.model,
        ),
    ] = None,
    layer: Annotated[
        options.Numbers | None, options.layer("Layers, in the order in which they ran.", "all", kind=str | None)
    ] = None,
    head: Annotated[options.Numbers | None, options.head("Heads, from 0.", "all", kind=str | None)] = None,
    which: Annotated[
        choices.KindName | None, choice(SELECTION, choices.KindName, "--which", help="", show_default="the only one")
    ] = None,
    measure: Annotated[choices.MeasureName, choice(SELECTION, choices.MeasureName, "--measure", help="")] = "weight",
    call: Annotated[
        int | None,
        option(SELECTION, "--call", metavar="N", min=0, help="Show call N of modules that are called several times."),
    ] = None,
    top_k: Annotated[
        int,
        option(OUTPUT, "--top-k", rare=True, metavar="N", min=1, help="Name the N strongest keys.", only_shown=True),
    ] = 3,
) -> "ProgramMaps":
    """Run your program, and show the attention of its networks.

    The program runs unchanged, as under `python`, with the arguments after its name. Sees attention in torch.nn, in
    scaled_dot_product_attention, and attention written by hand. Then lists the modules that have attention, or with -l
    and -H shows a map. With --json the program prints to stderr. The exit code is the program's. This is no sandbox:
    run only what you trust.

    \b
    Examples:
      attncli capture train.py --epochs 1
      attncli capture -l 3 -H 1 --tokenizer bert-base classify.py "The cat sat."
      attncli capture -o maps.safetensors --module package.main
    """
    if not program:
        raise RequestError("no program given: try attncli capture my_script.py")
    if not module and not Path(program[0]).is_file():
        raise RequestError(
            f"there is no file {program[0]}: give the path of a script, or --module with a module's name"
        )
    return ProgramMaps(list(program), module, tokenizer, layer, head, which, measure, call, top_k)


class CaptureDocument(TypedDict):
    """`.csv`: a row per cell, as for `run`."""

    model: ModelDocument
    records: Annotated[list[RecordDocument], "one per text of the batch"]


@dataclass(frozen=True, repr=False)
class ProgramMaps(Result):
    """A program, and the part of its attention to show. The program runs when the result is shown or saved."""

    program: list[str]
    module: bool
    tokenizer: str | None
    layers: Selection | None
    heads: Selection | None
    which: str | None
    measure: str
    call: int | None
    top_k: int

    def __repr__(self) -> str:
        return f"<ProgramMaps of {' '.join(self.program)}>"

    def document(self) -> CaptureDocument:
        """Return what --json prints."""
        found: CaptureDocument = json.loads("".join(document_text(self._records()[0])))
        return found

    def reports(self) -> Iterator[Report]:
        """Run the program. List its modules, or show the maps that were chosen."""
        if self.measure != "weight" or any(one is not None for one in (self.layers, self.heads, self.call, self.which)):
            yield self.report()
            return
        seen, code = self._run(maps=False)
        rows = []
        for layer in dict.fromkeys(call.layer for call in seen.calls):
            calls = [call for call in seen.calls if call.layer == layer]
            sizes = list(dict.fromkeys("{} x {}".format(*call.shape[2:]) for call in calls))
            size = sizes[0] if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
            texts, heads = calls[0].shape[:2]
            rows.append(
                [str(layer), calls[0].name or "-", calls[0].kind, str(texts), str(heads), size, str(len(calls))]
            )
        names = Column("layer"), Column("module", "name"), Column("attention", "name")
        table = Table([*names, *map(Column, ("texts", "heads", "queries x keys", "calls"))], rows)
        title = [Path(self.program[0]).name, repr(seen)[1:-1]]
        yield Report(title, [table] if rows else [], dict, code=code)

    def report(self) -> Report:
        """Run the program, and show the maps that were chosen, or all."""
        from attncli.analysis.patterns import row_shares

        records, code = self._records()

        def save(path: Path) -> None:
            check_record_count(path, len(records))
            save_records(records, path)

        def save_page(path: Path) -> None:
            from attncli import page

            page.save_page(page.page(records, page.Start()), path)

        parts: list[Part] = []
        for record in map(row_shares, records):
            of_one = len(record.layers) == len(record.heads) == 1
            title = [str(record.choice), f"{len(record.tokens)} tokens"]
            parts.append((HeadMap if of_one else SmallMaps)(record, title, self.top_k))
        measure = [] if self.measure == "weight" else ["share of norm"]
        texts = [f"{len(records)} texts"] if len(records) > 1 else []
        return Report(
            [Path(self.program[0]).name, *measure, *texts, str(records[0].choice)],
            parts,
            lambda: json.loads("".join(document_text(records))),
            files={**dict.fromkeys(SUFFIXES, save), PAGE: save_page},
            records=lambda: records,
            code=code,
        )

    def _records(self) -> tuple[list[AttentionRecord], int]:
        """Run the program, and return its maps and its exit code."""
        seen, code = self._run(maps=True)
        count = len({one.layer for one in seen.calls})
        layers = None if self.layers is None or count == 0 else select(self.layers, count, "layer")
        records = seen.records(self.which, layers=layers, call=self.call)
        return [record.select(layers, self.heads) for record in records], code

    def _run(self, maps: bool) -> "tuple[Seen, int]":
        """Run the program, and return what was seen and its exit code. maps: whether maps are kept."""
        from attncli.models.capture import capture

        calls = None if self.call is None else [self.call]
        seen = capture(tokenizer=self.tokenizer, heads=None if maps else [], calls=calls, measure=self.measure)
        os.dup2(sys.stderr.fileno(), 2)  # for output that bypasses sys.stdout
        with seen:
            code = _run(self.program, self.module)
        return seen, code


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
    except Exception as error:  # noqa: BLE001  (any error of the program)
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
