"""Interactive views of typed text: the explorer in the terminal, and the page with a text field.

Both get records from a `Session`, and draw them as `run` and `view` do. README.md describes how the parts communicate.
"""

from attncli.live.session import Session, SessionRequest, check_models

__all__ = ["Session", "SessionRequest", "check_models"]
