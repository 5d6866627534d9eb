"""The result of a check: a verdict, its checks, and a diagnosis with a line of the source."""

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from attncli.attention.mistakes import Mistake
from attncli.base.arrays import finite
from attncli.base.printable import printable
from attncli.checks.code.subject import Subject

FEW = 3  # checks that a verdict names
LONGEST = 100  # characters of a line that is shown


class Finding(NamedTuple):
    """A check. holds: None if it could not be made; `note` explains why. difference: the largest absolute one."""

    name: str
    holds: bool | None
    difference: float | None = None
    note: str = ""

    def document(self) -> dict[str, Any]:
        return {**self._asdict(), "difference": finite(self.difference)}


class Diagnosis(NamedTuple):
    """A mistake that explains the numbers. line, text: the only line of the source that has its operation, a guess."""

    mistake: str
    says: str
    remedy: str
    line: int | None = None
    text: str = ""

    def __str__(self) -> str:
        where = f"line {self.line} has `{self.text}` (a guess, by what it does): " if self.line else ""
        return f"{where}{self.remedy}"


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    conventions: ways in which it is right that are not the only ones. smallest: the smallest input on which it
    differs, if no mistake explains it. unchecked: parameters that were never given. hint: the option with which it
    would be right. maps: one head of a layer whose weights were put into it, as `transplant` makes them.
    """

    name: str
    checks: tuple[Finding, ...]
    conventions: tuple[str, ...] = ()
    diagnosis: tuple[Diagnosis, ...] = ()
    smallest: str = ""
    unchecked: tuple[str, ...] = ()
    hint: str = ""
    maps: dict[str, Any] | None = None

    def __repr__(self) -> str:
        """Return <Result: right: MyAttention is attention>."""
        return printable(f"<Result: {self.verdict}>")

    @property
    def right(self) -> bool:
        """Return whether some check holds and none fails."""
        holds = [check.holds for check in self.checks]
        return False not in holds and True in holds

    @property
    def verdict(self) -> str:
        wrong = [check.name for check in self.checks if check.holds is False]
        if not wrong:
            under = f", {'; '.join(self.conventions)}" if self.conventions else ""
            missed = f"; not checked: {', '.join(self.unchecked)}" if self.unchecked else ""
            return f"right: {self.name} is attention{under}{missed}"
        if not self.diagnosis:
            names = ", ".join(wrong[:FEW]) + (", ..." if len(wrong) > FEW else "")
            count = f"{len(wrong)} of {len(self.checks)} checks ({names})"
            return f"wrong: {self.name} differs in {count}, and no known mistake explains it"
        return f"wrong: {self.name} is attention {', and '.join(one.says for one in self.diagnosis)}"

    def document(self) -> dict[str, Any]:
        """Return the document that --json prints."""
        return {
            "name": self.name,
            "kind": "attention",
            "checks": [check.document() for check in self.checks],
            "conventions": list(self.conventions),
            "diagnosis": [one._asdict() for one in self.diagnosis],
            "smallest": self.smallest or None,
            "unchecked": list(self.unchecked),
            "hint": self.hint or None,
            "maps": self.maps,
            "verdict": self.verdict,
            "right": self.right,
        }

    def __str__(self) -> str:
        """Return the verdict, the remedies, and the smallest input."""
        return "\n".join([self.verdict, *map(str, self.diagnosis), *filter(None, [self.smallest, self.hint])])


MAKES_LAYER = re.compile(r"nn\.(Linear|Lazy|Dropout|Conv)|Linear\(|Dense\(")

# --- the line of a mistake --------------------------------------------------------------------------------

# For the step of a mistake: the operation that its line has, the surest pattern first.
PATTERNS: dict[str, tuple[str, ...]] = {
    "score": (r"@[^)]*(transpose|\.mT|\.T\b|swapaxes|permute)", r"(matmul|bmm|einsum|tensordot)\("),
    "swap": (r"\bk\w*\s*[@,]\s*q",),
    "scale": (r"sqrt", r"\*\*\s*-?\(?0?\.5", r"/\s*[\w.]*d"),
    "temperature": (r"[*/]=?\s*\(?\d",),
    "normalise": (r"softmax", r"exp\("),
    "exp": (r"exp\(",),
    "hide": (r"masked_fill|\bwhere\(", r"-?1e\d|inf\b|finfo", r"mask.*[*+]|[*+].*mask"),
    "meaning": (r"mask\b.*[!=]=|~\s*\w*mask|mask\.logical_not", r"masked_fill|\bwhere\(|1(\.0)? - \w*mask"),
    "causal": (r"tri[ul]", r"[^-][<>]=?"),
    "window": (r"[<>]=?.*window|window.*[<>]=?",),
    "direction": (r"tri[ul]|[^-][<>]=?|masked_fill|\bwhere\(",),
    "padding": (r"unsqueeze|None\s*,|\[:, ?None",),
    "split": (r"(view|reshape|unflatten|rearrange)\(",),
    "join": (r"(view|reshape|flatten|rearrange)\(",),
    "share": (r"repeat|expand|tile|\bkron\b",),
    "weigh": (r"(weights|attn|att|probs?|scores|alpha|a|w|p)\b\s*@|(matmul|bmm|einsum)\(",),
    "value": (r"\bv(alues?)?\b.*=",),
    "key": (r"\bk(eys?)?\b[^=]*=(?!.*(memory|context))", r"(memory|context)\s*=\s*x\s*$"),
    "output": (r"return",),
    "projections": (r"\.weight\b|F\.linear|\blinear\(|@\s*self\.",),
    "turn": (r"sin|conj|polar|freqs_cis|rotate",),
    "dropout": (r"dropout",),
    "cap": (r"tanh",),
}


def diagnosis_of(mistake: Mistake, subject: Subject) -> Diagnosis:
    """Add the only line of the source, if there is one, that matches a pattern of the step."""
    lines = list(code_lines(subject.source))
    for pattern in PATTERNS.get(mistake.step, ()):
        found = [(number, text) for number, text in lines if re.search(pattern, text)]
        if len(found) == 1:
            [(number, text)] = found
            text = printable(text.strip())[:LONGEST]
            return Diagnosis(mistake.name, mistake.says, mistake.remedy, subject.first + number, text)
    return Diagnosis(mistake.name, mistake.says, mistake.remedy)


def code_lines(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of code of all functions, with their numbers from 0; those of a constructor come last."""
    source = textwrap.dedent(source)
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    functions.sort(key=lambda node: (node.name == "__init__", node.lineno))
    lines = source.splitlines()
    for function in functions:
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        numbers = {number for node in body for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        codes = [(number - 1, lines[number - 1].partition("#")[0]) for number in sorted(numbers)]
        yield from ((number, code) for number, code in codes if code.strip() and not MAKES_LAYER.search(code))
