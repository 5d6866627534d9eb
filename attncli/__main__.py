"""Start and end the program: `attncli` and `python -m attncli`."""

import atexit
import os
import signal
import sys
from contextlib import suppress

INTERRUPTED = 130
COMPILER_FOLDER = "TORCHINDUCTOR_CACHE_DIR"  # torch sets it when its compiler is imported


def main() -> None:
    """Run the program and exit; see `attncli.cli.app.main`.

    The exit skips the interpreter's teardown: with torch, that takes 0.3 seconds, and after an interruption it would
    wait for other libraries' threads. All files are complete by then.
    """
    code = INTERRUPTED
    try:  # noqa: SIM105  (`suppress` itself could be interrupted)
        code = run()
    except KeyboardInterrupt:  # another one, while the first was handled
        pass
    leave(code)


def leave(code: int) -> None:
    """Exit, ignoring Ctrl-C while temporary files are removed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if making := sys.modules.get("attncli.base.files"):
        making.remove_all()
    os._exit(code)


def run() -> int:
    """Run the program and return its exit code."""
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
    with suppress(
        Exception, SystemExit
    ):  # `program` has reported errors of stdout; libraries remove their temporary files
        atexit._run_exitfuncs()
        sys.stdout.flush()
    if given is None and COMPILER_FOLDER in os.environ:
        with suppress(OSError):  # it is not empty, so it is in use
            os.rmdir(os.environ[COMPILER_FOLDER])  # noqa: PTH106
    return code


if __name__ == "__main__":
    main()
