"""The result of a check: a verdict, its checks, and a diagnosis with a line of the source."""

import ast
import linecache
import re
import textwrap
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from attncli.attention.mistakes import Mistake
from attncli.base.arrays import finite
from attncli.base.printable import printable
from attncli.checks.code.subject import Subject

FEW = 3  # checks that a verdict names
LONGEST = 100  # characters of a line that is shown


class Finding(NamedTuple):
    """One check. holds: None if it was impossible; `note` says why. difference: the largest absolute difference."""

    name: str
    holds: bool | None
    difference: float | None = None
    note: str = ""

    def document(self) -> dict[str, Any]:
        return {**self._asdict(), "difference": finite(self.difference)}


class Diagnosis(NamedTuple):
    """A mistake that explains the numbers. line, text: probably its line, the only one with the operation."""

    mistake: str
    says: str
    remedy: str
    line: int | None = None
    text: str = ""

    def __str__(self) -> str:
        where = f"probably line {self.line}, `{self.text}`: " if self.line else ""
        return f"{where}{self.remedy}"


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    conventions: what the code chose where several ways are right. smallest: the smallest input on which it differs, if
    no mistake explains it. unchecked: parameters that were never given. zeroed: weights of unknown meaning, which were
    set to 0. maps: the maps of one head with the weights of
    a real layer, as `transplant` returns them.
    """

    name: str
    checks: tuple[Finding, ...]
    conventions: tuple[str, ...] = ()
    diagnosis: tuple[Diagnosis, ...] = ()
    smallest: str = ""
    unchecked: tuple[str, ...] = ()
    zeroed: tuple[str, ...] = ()
    maps: dict[str, Any] | None = None

    def __repr__(self) -> str:
        """Return <Result: right: MyAttention computes attention>."""
        return printable(f"<Result: {self.verdict}>")

    @property
    def right(self) -> bool:
        """Return whether some check holds and none fails."""
        holds = [check.holds for check in self.checks]
        return False not in holds and True in holds

    @property
    def verdict(self) -> str:
        failed = [check for check in self.checks if check.holds is False]
        wrong = [f"{one.name}: {one.note}" if one.note and len(failed) == 1 else one.name for one in failed]
        zeroed = f" with {', '.join(self.zeroed)} set to 0" if self.zeroed else ""
        if not wrong:
            under = f". Conventions: {'; '.join(self.conventions)}" if self.conventions else ""
            missed = f", but never called with {', '.join(self.unchecked)}" if self.unchecked else ""
            return f"right{zeroed}{missed}: {self.name} computes attention{under}"
        if not self.diagnosis:
            names = "; ".join(wrong[:FEW]) + ("; ..." if len(wrong) > FEW else "")
            count = f"{len(wrong)} of {len(self.checks)} checks ({names})"
            return f"wrong{zeroed}: {self.name} fails {count}, and no known mistake explains it"
        return f"wrong{zeroed}: {self.name} computes attention {', and '.join(one.says for one in self.diagnosis)}"

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
            "zeroed": list(self.zeroed),
            "maps": self.maps,
            "verdict": self.verdict,
            "right": self.right,
        }

    def __str__(self) -> str:
        """Return the verdict, the remedies, and the smallest input."""
        return "\n".join([self.verdict, *map(str, self.diagnosis), *filter(None, [self.smallest])])


# --- the line of a mistake --------------------------------------------------------------------------------

MAKES_LAYER = re.compile(r"nn\.(Linear|Lazy|Dropout|Conv)|Linear\(|Dense\(")
# Patterns of a mistake's line, by its step, the most reliable first.
PATTERNS: dict[str, tuple[str, ...]] = {
    "score": (r"@[^)]*(transpose|\.mT|\.T\b|swapaxes|permute)", r"(matmul|bmm|einsum|tensordot)\("),
    "swap": (r"\bk\w*\s*[@,]\s*q",),
    "scale": (r"sqrt", r"\*\*\s*\(?-?\s*(?:0?\.5|1\s*/\s*2)", r"[^/]/\s*[\w.]*d"),
    "temperature": (r"[*/]=?\s*\(?\d",),
    "normalise": (r"softmax", r"\bsum\(", r"exp\("),
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
    "turn values": (r"(?:rope|rot|emb)\w*\(",),
    "turn": (r"sin|conj|polar|freqs_cis|rotate",),
    "dropout": (r"dropout",),
    "cache": (r"\bk(eys?)?\w*\b.*(cat|concat\w*)\(",),
    "cap": (r"tanh",),
    "repeat": (r"repeat",),
    "flag": (r"\bif\b.*(need|return|output|use_cache|average)\w*",),
}


def diagnosis_of(mistake: Mistake, subject: Subject) -> Diagnosis:
    """Return the diagnosis of a mistake, with its line if only one line of the source matches a pattern of its step.

    Lines that create a layer are ignored.
    """
    source, lines = textwrap.dedent(subject.source), dict[int, str]()
    softmaxes = re.findall(r"def (\w*softmax\w*)\(", "".join(linecache.getlines(subject.file)))
    with suppress(SyntaxError):
        nodes = ast.walk(ast.parse(source))
        for function in (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            body = function.body[1:] if ast.get_docstring(function) is not None else function.body
            for number in sorted({n for node in body for n in range(node.lineno, (node.end_lineno or 0) + 1)}):
                code = source.splitlines()[number - 1].partition("#")[0].strip()
                if code and not MAKES_LAYER.search(code):
                    lines[number - 1] = code
    for pattern in PATTERNS.get(mistake.step, ()):
        found = [(number, code) for number, code in lines.items() if re.search(pattern, code)]
        if len(found) == 1:
            [(number, code)] = found
            if any(f"{name}(" in code for name in softmaxes):  # the mistake may be in that function
                break
            line = subject.first + number
            return Diagnosis(mistake.name, mistake.says, mistake.remedy, line, printable(code)[:LONGEST])
    return Diagnosis(mistake.name, mistake.says, mistake.remedy)
