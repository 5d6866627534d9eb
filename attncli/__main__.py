"""Where the program starts and ends: `attncli` and `python -m attncli`."""

import os
import sys


def main() -> None:
    """The program; see `attncli.cli.app.main`.

    It ends without taking the interpreter down piece by piece: with torch in it that takes a third of a second,
    and after an interruption it would wait for other libraries' threads. All files are whole by then.
    """
    try:
        from attncli.cli.app import main as program  # long enough to be interrupted

        program()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
