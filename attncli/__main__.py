"""Where the program starts: `attncli` and `python -m attncli`."""

import sys


def main() -> None:
    """The program; see `attncli.cli.app.main`. Importing it takes long enough to be interrupted."""
    try:
        from attncli.cli.app import main as program

        program()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
