"""Features as a user has them: the program in this process, as the tests of the command line run it."""

from cli.conftest import attncli, checked_once, kept, once, read_once, refused

__all__ = ["attncli", "checked_once", "kept", "once", "read_once", "refused"]
