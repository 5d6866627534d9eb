"""What the thread that asks models tells the screen."""

from textual.message import Message

from attncli.analysis.telling import Usual
from attncli.live.explorer.answers import Answer
from attncli.live.explorer.look import Look


class Answered(Message):
    """A look was answered."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class Failed(Message):
    """Something could not be done; what is on the screen stays. look: where it was asked for, what."""

    def __init__(self, said: str, look: Look | None = None) -> None:
        super().__init__()
        self.said = said
        self.look = look


class Done(Message):
    """Something was done, such as a file saved."""

    def __init__(self, said: str) -> None:
        super().__init__()
        self.said = said


class Progress(Message):
    """What share of the answer there is."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share


class Known(Message):
    """What is usual of the heads."""

    def __init__(self, usual: Usual | None) -> None:
        super().__init__()
        self.usual = usual


class Noticed(Message):
    """Something that whoever asked should know of the answer."""

    def __init__(self, said: str) -> None:
        super().__init__()
        self.said = said
