"""Features as a user has them: the program in this process, or in one of its own."""

from cli.conftest import attncli, checked_once, kept, once, process, read_once, refused

__all__ = ["attncli", "checked_once", "kept", "once", "process", "read_once", "refused"]
