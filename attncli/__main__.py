"""Start and end the program: `attncli` and `python -m attncli`."""

import atexit
import os
import signal
import sys
from contextlib import suppress

INTERRUPTED = 130
COMPILER_FOLDER = "TORCHINDUCTOR_CACHE_DIR"  # what torch calls it, once it has made it: when its compiler is imported


def main() -> None:
    """The program; see `attncli.cli.app.main`.

    It ends without taking the interpreter down piece by piece: with torch in it that takes a third of a second,
    and after an interruption it would wait for other libraries' threads. All files are whole by then.
    """
    code = INTERRUPTED
    try:  # noqa: SIM105  (what `suppress` does takes a moment itself)
        code = run()
    except KeyboardInterrupt:  # another one, while the first was answered
        pass
    leave(code)


def leave(code: int) -> None:
    """Ignore Ctrl-C, which may come while temporary files are removed, and exit."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if making := sys.modules.get("attncli.base.files"):
        making.remove_all()
    os._exit(code)


def run() -> int:
    """The exit code."""
    given = os.environ.get(COMPILER_FOLDER)
    try:
        from attncli.cli import signals, streams

        streams.prepare()
        signals.prepare()
        from attncli.cli.app import main as program  # long enough to be interrupted

        program()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    with suppress(Exception, SystemExit):  # `program` has told of stdout; libraries remove what they made for a while
        atexit._run_exitfuncs()
        sys.stdout.flush()
    if given is None and COMPILER_FOLDER in os.environ:
        with suppress(OSError):  # somebody else keeps something there: nothing is compiled here
            os.rmdir(os.environ[COMPILER_FOLDER])  # noqa: PTH106
    return code


if __name__ == "__main__":
    main()
