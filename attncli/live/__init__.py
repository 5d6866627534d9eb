"""Type a sentence, and see: the explorer in the terminal, and the page with a field to type in.

Both ask one `Session` for records, and draw them as `run` and `view` do. README.md says how the parts talk.
"""

from attncli.live.session import Asked, Session, check_models

__all__ = ["Asked", "Session", "check_models"]
