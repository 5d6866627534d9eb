"""Where in the source a step of attention may be: a guess, by the operation that it is made with."""

import ast
import re
import textwrap
from collections.abc import Iterator

from attncli.base.printable import printable
from attncli.checks.code.subject import Description

LONGEST = 100
# By step: what its line has, the surest first.
PATTERNS: dict[str, tuple[str, ...]] = {
    "score": (
        r"@[^)]*(transpose|\.mT|\.T\b|swapaxes|permute)",
        r"(matmul|bmm|einsum|tensordot)\(",
        r"\bdot\(|@",
        r"scores?\b.*=",
    ),
    "scale": (
        r"sqrt",
        r"\*\*\s*-?\(?0?\.5",
        r"scale|temperature|\btau\b",
        r"/\s*[\w.]*d",
        r"@[^)]*(transpose|\.mT|\.T\b|swapaxes)",
        r"(matmul|bmm|einsum)\(",
    ),
    "normalise": (r"softmax", r"exp\("),
    "hide": (
        r"masked_fill|torch\.where|np\.where|\bwhere\(",
        r"-?1e\d|inf\b|finfo",
        r"mask.*[*+]|[*+].*mask",
        r"attn_mask",
        r"\[.*mask.*\]\s*=",
        r"mask",
    ),
    "causal": (r"tri[ul]", r"[^-][<>]=?", r"arange", r"causal", r"masked_fill|where\("),
    "padding": (r"unsqueeze|None\s*,|\[:, ?None", r"mask|pad"),
    "split": (r"(view|reshape|unflatten|rearrange)\(", r"transpose|permute|swapaxes|chunk|split"),
    "join": (r"(view|reshape|flatten|rearrange)\(", r"cat\(|concat|hstack", r"transpose|permute|swapaxes"),
    "share": (r"repeat|expand|tile|\bkron\b",),
    "weigh": (r"(weights|attn|att|probs?|scores|alpha|a|w|p)\b\s*@|(matmul|bmm|einsum)\(",),
    "dropout": (r"dropout",),
    "value": (r"\bv(alues?)?\b.*=", r"value"),
    "key": (r"\bk(eys?)?\b.*=", r"key"),
    "output": (r"return",),
    "projections": (r"\.weight\b|F\.linear|\blinear\(|@\s*self\.", r"self\.\w*[qkvo]\w*\("),
    "combine": (r"[&|]|logical_(and|or)|maximum|minimum", r"\*.*mask|mask.*\*|\+.*mask", r"return"),
    "means": (r"[!=]=|\b(eq|ne)\(|~|logical_not|\b1(\.0)? - ", r"\* *-|[^-][<>]", r"return"),
    "number": (r"inf\b|finfo|\de\d|\* *-?\d|-\d{2,}", r"masked_fill|where\(|full", r"return"),
    "length": (r"[^-][<>]=?", r":.*len", r"arange"),
    "position": (
        r"\b(return|x\w*\s*=|\w*(embed|hidden)\w*\s*=)[^=]*[+*]|\+=|add_\(",
        r"return",
        r"sin|cos|position",
    ),
    "count": (r"\.flip\(|size\(|shape\[|arange\(|range\(|linspace", r"position|\[:"),
    "rates": (r"10_?000|1e4|log\(|\bbase\b|theta|deg|\bpi\b", r"\*\*|pow|exp\(", r"sin|cos|arange"),
    "waves": (r"\bsin\b|\bcos\b|sin\(|cos\(",),
    "turn": (r"(sin|conj|polar|freqs_cis|rotate)", r"cat\(|stack\(", r"return"),
    "around_attention": (r"norm.*\+|\+.*(att|sublayer)|=.*\+",),
    "norm": (r"norm",),
    "function": (r"relu|gelu|silu|activation",),
    "feed_forward": (r"\.weight|F\.linear", r"linear|fc|ff"),
    "meeting": (r"cross|memory",),
    "masks": (r"cross.*mask|memory.*mask|mask",),
}


def guess(description: Description, step: str) -> tuple[int | None, str]:
    """The number of a line of the file and its text; None and '' where nothing looks like it."""
    lines = list(code_lines(description.source))
    for pattern in PATTERNS.get(step, ()):
        found = [(number, text) for number, text in lines if re.search(pattern, text)]
        if len(found) == 1:
            number, text = found[0]
            return description.first + number, printable(text.strip())[:LONGEST]
    return None, ""


def code_lines(source: str) -> Iterator[tuple[int, str]]:
    """Of the functions that are run, the lines of code, each with its number from 0; a constructor's come last."""
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    functions.sort(key=lambda node: (node.name == "__init__", node.lineno))
    lines = textwrap.dedent(source).splitlines()
    for function in functions:
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        seen = {number for node in body for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        yield from (
            (number - 1, lines[number - 1].partition("#")[0]) for number in sorted(seen) if lines[number - 1].strip()
        )
