"""How somebody's positional encoding is called, and how what it gives is read."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes.placing import rates
from attncli.base.errors import RequestError
from attncli.checks.theirs.calling.forms import BY_HEADS, PROJECTED, Layout
from attncli.checks.theirs.calling.roles import NAMES
from attncli.checks.theirs.subjects.subject import Answer, Call, Parameter


class Case(NamedTuple):
    """x `[which, batch, head, token, d]`, queries before keys; positions: int `[token]`."""

    x: Tensor
    positions: Tensor


def drawn(batch: int, heads: int, d: int, positions: Sequence[int], seed: int = 0) -> Case:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, batch, heads, len(positions), d, generator=generator, dtype=torch.float64)
    return Case(x, torch.tensor(list(positions)))


def table(half: Tensor, form: str) -> Tensor:
    """Of angles `[token, d / 2]`, in the form in which a rotation takes them."""
    kind, *axes = form.split()
    made = {
        "cat": lambda: torch.cat([half, half], dim=-1),
        "repeat": lambda: half.repeat_interleave(2, dim=-1),
        "half": lambda: half,
    }[kind]()
    return made[tuple(slice(None) if axis == "t" else None for axis in axes)] if axes else made


# Of cosines and sines: `[token, d]` or `[token, d / 2]`, with dimensions of 1 where a batch and heads stand.
TABLES = tuple(f"{kind}{axes}" for kind in ("cat", "repeat", "half") for axes in ("", " 1", " 1 1", " 1 t 1", " t 1"))
POSITIONS = ("positions", "positions of each text", "a position")
ROLES: dict[str, tuple[str, ...]] = {
    "length": ("length",),
    "d_model": ("d_model",),
    "positions": POSITIONS,
    "idx": (*POSITIONS, "ids"),
    "x": ("x", "ids"),
    "query": ("query",),
    "key": ("key",),
    "cos": ("cos",),
    "sin": ("sin",),
    "freqs_cis": ("turns",),
    "angles": ("angles",),
}
ROLE_OF = {
    name: role
    for role, names in {
        "x": NAMES["x"] + " token_embeddings ids input_ids",
        "d_model": NAMES["d_model"] + " depth output_dim n_dim " + NAMES["head_dim"],
        "length": NAMES["length"] + " n l t size num_tokens n_tokens seqlen max_sequence_length max_seq_length n_pos",
        "idx": "idx index indices",
        "positions": "positions position pos p position_ids pos_ids i token_positions input_pos "
        "time timesteps timestep steps m offsets",
        "query": "q query queries xq q_ query_states q_in",
        "key": "k key keys xk k_ key_states k_in",
        "cos": "cos cosine cosines cos_cached cos_table",
        "sin": "sin sine sines sin_cached sin_table",
        "freqs_cis": "freqs_cis cis freqs_complex",
        "angles": "freqs frequencies angles theta thetas",
    }.items()
    for name in names.split()
}
UNKNOWN = ("x", "length", *POSITIONS)
SAY = "--map NAME=x (or length, d_model, positions, query, key, cos, sin) says what a parameter is for"


class Way(NamedTuple):
    """How it is called: what every parameter is given, the layout of x (None: it takes none), what comes out.

    gives: "added" (x + positions), "alone" (positions), "turned" (x turned). tables: the form of cosines and sines.
    """

    given: tuple[tuple[str, str], ...]
    keywords: tuple[str, ...]
    layout: Layout | None
    gives: str
    d: int
    tables: str = ""

    def takes(self, *what: str) -> bool:
        return any(given in what for _, given in self.given)

    def fitting(self, case: Case) -> Case:
        """So much of it as can be given: one text without a dimension for texts, one head without one for heads."""
        x = case.x if self.takes("query") else case.x[:1]
        many = self.takes("ids", "positions of each text") if self.layout is None else self.layout.batch
        x = x if many else x[:, :1]
        return case._replace(x=x if self.layout is not None and self.layout.heads else x[:, :, :1])

    def calls(self, case: Case, dropout: bool) -> list[Call]:
        """One, or one a position."""
        cases = [Case(case.x, one[None]) for one in case.positions] if self.takes("a position") else [case]
        return [self.call(one, dropout) for one in cases]

    def call(self, case: Case, dropout: bool) -> Call:
        made = {name: self.value(what, case) for name, what in self.given}
        arguments = tuple(value for name, value in made.items() if name not in self.keywords)
        return Call(arguments, {name: made[name] for name in self.keywords}, "float64", dropout=dropout)

    def value(self, what: str, case: Case) -> Any:
        batch, tokens = case.x.shape[1], len(case.positions)
        half = case.positions[:, None] * rates(self.d)[::2]
        simple: dict[str, Callable[[], Any]] = {
            "length": lambda: tokens,
            "d_model": lambda: self.d,
            "positions": lambda: case.positions,
            "positions of each text": lambda: case.positions.expand(batch, -1),
            "a position": lambda: int(case.positions[0]),
            "ids": lambda: torch.zeros(batch, tokens, dtype=torch.int64),
            "cos": lambda: table(half.cos(), self.tables),
            "sin": lambda: table(half.sin(), self.tables),
            "angles": lambda: table(half, self.tables),
            "turns": lambda: torch.polar(torch.ones_like(half), half),
        }
        if what in simple:
            return simple[what]()
        x = case.x[1 if what == "key" else 0]
        return self.put(x)

    def put(self, x: Tensor) -> Tensor:
        """`[batch, head, token, d]` as theirs."""
        assert self.layout is not None
        return self.layout.put(x if self.gives == "turned" else x[:, 0])

    def read(self, answers: Sequence[Answer], case: Case) -> Tensor | None:
        """`[which, batch, head, token, d]`, or `[batch, token, d]` of what is added; None where it is neither."""
        outputs = [one for answer in answers for one in answer.outputs]
        if any(answer.error is not None for answer in answers) or not outputs:
            return None
        if self.gives == "turned":
            return self.read_turned(outputs, case)
        batch, tokens = case.x.shape[1], len(case.positions)
        if self.takes("a position"):
            flat = [one.flatten() for one in outputs]
            return torch.stack(flat)[None] if all(one.shape == (self.d,) for one in flat) else None
        return self.read_added(outputs, (batch, tokens, self.d))

    def read_turned(self, outputs: Sequence[Tensor], case: Case) -> Tensor | None:
        theirs = self.put(case.x[0]).shape
        fitting = [one for one in outputs if one.shape == theirs]
        if not len(fitting) == len(outputs) == len(case.x) or self.layout is None:
            return None
        return torch.stack([self.layout.take(one) for one in fitting])

    def read_added(self, outputs: Sequence[Tensor], ours: tuple[int, ...]) -> Tensor | None:
        (one, *others) = outputs
        if others:
            return None
        if self.layout is not None and self.gives == "added":
            return self.layout.take(one) if one.shape == self.layout.put(torch.empty(ours)).shape else None
        if one.dim() not in (2, 3):
            return None
        token_first = self.layout is not None and self.layout.name.startswith("token batch")
        if one.dim() == 3 and (token_first or one.shape[:2] == (ours[1], 1)):
            one = one.transpose(0, 1)
        fits = all(size in (1, full) for size, full in zip(one.shape[::-1], ours[::-1], strict=False))
        return one.expand(ours) if fits and one.shape[-1] == ours[-1] else None


def ways(parameters: Sequence[Parameter], said: Mapping[str, str], d: int, layout: str | None) -> Iterator[Way]:
    """The likeliest first. Raises RequestError where something was said that can't be."""
    for name, role in said.items():
        if role not in ROLES:
            raise RequestError(
                f"--map {name}={role}: the parameter of a positional encoding is one of {', '.join(ROLES)}"
            )
    known = {one.name for one in (*PROJECTED, *BY_HEADS)}
    if layout not in (None, *known):
        raise RequestError(f"--layout {layout!r} is none of: {', '.join(sorted(known))}")
    usual = [one for one in parameters if one.kind != "many"]
    needed = {role_of(one.name, said) for one in usual if one.required}
    taken = [
        one
        for one in usual
        if one.required or one.name in said or role_of(one.name, said) in {"d_model", "length"} - needed
    ]
    taken = taken if any(role_of(one.name, said) != "d_model" for one in taken) else [*usual[:1], *taken]
    taken = sorted(set(taken), key=usual.index)
    named = {one.name: role_of(one.name, said) for one in taken}
    if "x" in named.values() and "length" in named.values():
        named = {name: role for name, role in named.items() if role != "length" or required(taken, name)}
    if "key" in named.values() and "query" not in named.values():
        named |= {name: "query" for name, role in named.items() if role == "x"}
    if "query" in named.values() and "key" not in named.values():
        named |= {name: "x" for name, role in named.items() if role == "query"}
    keywords = tuple(
        one.name
        for place, one in enumerate(taken)
        if one.name in named and (one.kind == "keyword" or usual[place] != one)
    )
    options = [UNKNOWN if role is None else ROLES[role] for role in named.values()]
    for given in product(*options):
        for one in of_layouts(tuple(zip(named, given, strict=True)), keywords, d):
            if layout is None or one.layout is None or one.layout.name == layout:
                yield one


def of_layouts(given: tuple[tuple[str, str], ...], keywords: tuple[str, ...], d: int) -> Iterator[Way]:
    first = Way(given, keywords, None, "alone", d)
    with_tables = first.takes("cos", "sin", "angles")
    turns = with_tables or first.takes("turns", "query")
    if first.takes("x") and not turns:
        yield from (first._replace(layout=one, gives=gives) for gives in ("added", "alone") for one in PROJECTED)
    if first.takes("x", "query"):
        forms = TABLES if with_tables else ("",)
        yield from (first._replace(layout=one, gives="turned", tables=form) for one in BY_HEADS for form in forms)
    elif not turns:
        yield first


def meant(source: str) -> str | None:
    """What its own words say comes first of texts and tokens: "batch", "token", "head" or None."""
    texts, tokens, heads = (
        r"(?:batch\w*|bsz?|B|N)",
        r"(?:tokens?|seq\w*|len\w*|time|T|L|t)",
        r"(?:heads?|num_heads|n_heads|H|h)",
    )
    orders = {
        "batch head token": rf"{texts}, *{heads}, *{tokens}",
        "batch token": rf"{texts}, *{tokens}",
        "token batch": rf"{tokens}, *{texts}",
    }
    found = {name: re.search(rf"[\[(] *{order}\b", source) for name, order in orders.items()}
    return next((name for name, match in found.items() if match), None)


def required(parameters: Sequence[Parameter], name: str) -> bool:
    return any(one.name == name and one.required for one in parameters)


def role_of(name: str, said: Mapping[str, str]) -> str | None:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")
    return said.get(name) or ROLE_OF.get(name) or ROLE_OF.get(snake)
