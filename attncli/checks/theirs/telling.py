"""What is told of an answer, or of a mistake."""

from attncli.attention.mistakes import Mistake
from attncli.checks.code.subject import Answer, Description
from attncli.checks.theirs.found import Diagnosed
from attncli.checks.theirs.lines import guess


def why(answer: Answer | None) -> str:
    """Why an answer is none, in a few words: its error and where that comes from, or the shapes that it has."""
    if answer is None:
        return "it has no parameter that can be given anything"
    if answer.error is not None:
        return answer.error + ("" if answer.at is None else f" (line {answer.at})")
    if len(answer.outputs) > 1:
        return f"it gives {len(answer.outputs)} arrays: hand in a function that gives one of them"
    return f"it gives {' '.join(str(list(one.shape)) for one in answer.outputs) or 'no array'}"


def diagnosed(mistake: Mistake, description: Description) -> Diagnosed:
    """With the line where it may be, a guess."""
    return Diagnosed(mistake.name, mistake.says, mistake.remedy, *guess(description, mistake.step))
