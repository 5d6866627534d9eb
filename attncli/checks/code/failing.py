"""Say in one line what goes wrong in somebody's code. Imports no torch."""

import traceback

from attncli.base.printable import printable, shorten

SAID = 160  # characters of an error's message
LONG = 60  # characters of the name of what is handed in
OR_ADAPTER = ", or an adapter: attncli check --help has one to paste"
NO_ROOM = "it takes more memory than it may have"


def in_a_line(error: BaseException, file: str) -> tuple[str, int | None]:
    """Return the error's message, and the last line of this file that it went through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if file and frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    return message_of(error), lines[-1] if lines else None


def in_words(error: BaseException, file: str) -> str:
    """Return the same as one text: "ValueError: it is odd (line 4)"."""
    message, line = in_a_line(error, file)
    return message if line is None else f"{message} (line {line})"


def message_of(error: BaseException) -> str:
    """Return its type and the first line of its message."""
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error).strip().partition("\n")[0]
    except BaseException:  # noqa: BLE001  (__str__ is somebody's code)
        text = ""
    if isinstance(error, MemoryError) or "can't allocate memory" in text:  # torch raises a RuntimeError
        return NO_ROOM
    if isinstance(error, SystemExit):
        return shorten(printable(f"it ends itself by sys.exit({'' if error.code is None else text})"), SAID)
    if type(error) is KeyError:
        text = f"no {text}"
    return shorten(printable(type(error).__name__ + (f": {text}" if text else "")), SAID)


def shown(what: str) -> str:
    """Return FILE.py:NAME so that it can be printed. Cut the beginning of a long one."""
    return printable(what if len(what) <= LONG else f"…{what[1 - LONG :]}")
