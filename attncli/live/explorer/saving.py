"""A look as a file, by its suffix, and as the command that gives it."""

import shlex
from dataclasses import replace
from pathlib import Path

from attncli.analysis.shares import row_shares
from attncli.base.files import check_suffix
from attncli.base.printable import printable
from attncli.live.explorer.look import Look
from attncli.live.session import Session
from attncli.models.opening import Opening
from attncli.record import files, save_records
from attncli.record.named_heads import heads_list
from attncli.record.request import Input
from attncli.render.page import Start, document

PICTURES = (".png", ".svg", ".pdf", ".pgf", ".tex")
SUFFIXES = (*PICTURES, *document.SUFFIXES, *files.SUFFIXES)


def save(session: Session, look: Look, path: Path, pad_to: int | None) -> None:
    """A picture of the head that is held, a page of all heads, or their record.

    Raises RequestError for another suffix, an unwritable place, and as `Session.record` does.
    """
    suffix = check_suffix(path, SUFFIXES, "a picture, a page or a record")
    asked = look.asked(pad_to)
    if suffix in document.SUFFIXES:
        from attncli.models.tapped import NEURONS

        held = look.held()
        record = row_shares(session.record(replace(asked, vectors=NEURONS)))
        start = Start("heads", look.query, special=look.special, head=(held.layer, held.head))
        document.save_page(document.page(record, start), path)
        return
    record = session.record(asked)
    if suffix in PICTURES:
        record.figure(path, layers=look.layer, heads=look.head, special=look.special)
    else:
        save_records([record], path)


def command(look: Look, opening: Opening, pad_to: int | None, before: Input | None = None) -> str | None:
    """The command line that prints this head, or how much of it moved where it is compared, as far as `diff` can;
    None where a text could harm a terminal.
    """
    without = ",".join(filter(None, (opening.without, heads_list(look.without))))
    texts = [look.text.text]
    compared = look.against == "whole" and not opening.without
    if look.against == "before" and before is not None and before.pair == look.text.pair and not without:
        compared, texts = True, [before.text, look.text.text]
    words = ["attncli", "diff" if compared else "run", "-l", str(look.layer), "-H", str(look.head)]
    for option, given, usual in (
        ("-m", look.model, "minilm"),
        ("--mask", look.mask, None),
        ("--measure", look.measure, "weight"),
        ("--engine", opening.engine, "auto"),
        ("--device", opening.device, "auto"),
        ("--dtype", opening.dtype, "float32"),
        ("--without", without, ""),
        ("--pad-to", pad_to, None),
        ("--pair", look.text.pair, None),
    ):
        if given != usual:
            words += [option, str(given)]
    if look.words:
        words.append("--words")
    line = shlex.join([*words, *(["--"] if any(text.startswith("-") for text in texts) else []), *texts])
    return line if printable(line) == line else None
