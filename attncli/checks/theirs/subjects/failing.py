"""What goes wrong in somebody's code, in a line."""

import traceback

from attncli.base.printable import printable, shorten

SAID = 160  # characters of what an error says
LONG = 60  # characters of what is handed in
OR_ADAPTER = ", or an adapter: attncli check --help has one to paste"
NO_ROOM = "it takes more memory than it may have"


def in_a_line(error: BaseException, file: str) -> tuple[str, int | None]:
    """What an error says, and the last line of this file that it went through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if file and frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    return said_by(error), lines[-1] if lines else None


def said_by(error: BaseException) -> str:
    try:
        said = str(error.msg if isinstance(error, SyntaxError) else error).strip().partition("\n")[0]
    except BaseException:  # noqa: BLE001  (it is somebody's __str__)
        said = ""
    if isinstance(error, MemoryError) or "can't allocate memory" in said:  # torch's error is a RuntimeError
        return NO_ROOM
    if isinstance(error, SystemExit):
        return shorten(printable(f"it ends itself by sys.exit({'' if error.code is None else said})"), SAID)
    if type(error) is KeyError:
        said = f"no {said}"
    return shorten(printable(type(error).__name__ + (f": {said}" if said else "")), SAID)


def shown(what: str) -> str:
    """A file and a name, of which the end counts."""
    return printable(what if len(what) <= LONG else f"…{what[1 - LONG :]}")


def in_words(error: BaseException, file: str) -> str:
    """ValueError: it is odd (line 4)"""
    said, line = in_a_line(error, file)
    return said if line is None else f"{said} (line {line})"
