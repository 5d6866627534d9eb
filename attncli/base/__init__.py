"""Parts that every room uses. The version of the package stands here."""

__version__ = "0.3.0"
