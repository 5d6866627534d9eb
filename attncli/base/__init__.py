"""Tools that every package uses, and the version."""

__version__ = "0.3.0"
