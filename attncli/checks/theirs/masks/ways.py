"""How somebody's mask function is called, and how what it gives is read."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.base.errors import RequestError
from attncli.checks.theirs.subjects.subject import Call, Parameter

HEADS, D_MODEL = 2, 4


class Case(NamedTuple):
    """real: bool `[batch, key]`, False at [PAD]; queries: how many."""

    real: Tensor
    queries: int

    @property
    def sizes(self) -> dict[str, int]:
        batch, keys = self.real.shape
        return {
            "batch": batch,
            "head": HEADS,
            "batch·head": batch * HEADS,
            "head·batch": batch * HEADS,
            "query": self.queries,
            "key": keys,
            "1": 1,
        }


def ids(real: Tensor, pad: int) -> Tensor:
    """Of tokens: none of a real one is `pad`."""
    return torch.where(real, torch.arange(real.numel()).reshape(real.shape) % 7 + 4, pad)


# What a parameter is given, by what it is for.
GIVEN: dict[str, Callable[[Case, int], Any]] = {
    "length": lambda case, pad: case.queries,
    "key length": lambda case, pad: case.real.shape[1],
    "tokens": lambda case, pad: ids(case.real, pad),
    "query tokens": lambda case, pad: ids(torch.ones(len(case.real), case.queries, dtype=torch.bool), pad),
    "vectors": lambda case, pad: torch.ones(*case.real.shape, D_MODEL, dtype=torch.float64),
    "tokens, token first": lambda case, pad: ids(case.real, pad).T,
    "vectors, token first": lambda case, pad: torch.ones(*case.real.T.shape, D_MODEL, dtype=torch.float64),
    "pad": lambda case, pad: pad,
    "real as 1": lambda case, pad: case.real.long(),
    "real as True": lambda case, pad: case.real.clone(),
    "[PAD] as True": lambda case, pad: ~case.real,
    "lengths": lambda case, pad: case.real.sum(1),
    "query index": lambda case, pad: torch.arange(case.queries)[:, None],
    "key index": lambda case, pad: torch.arange(case.real.shape[1])[None],
    "batch": lambda case, pad: len(case.real),
    "heads": lambda case, pad: HEADS,
    "device": lambda case, pad: torch.device("cpu"),
    "dtype": lambda case, pad: torch.float32,
}
TOKENS = ("tokens", "vectors", "tokens, token first", "vectors, token first")
PADDING = ("real as 1", "real as True", "[PAD] as True")
# What may be said of a parameter, and the ways to give it.
ROLES: dict[str, tuple[str, ...]] = {
    "length": ("length",),
    "key_length": ("key length",),
    "tokens": TOKENS,
    "query_tokens": ("query tokens",),
    "pad": ("pad",),
    "real": PADDING[:2],
    "padding": PADDING,
    "lengths": ("lengths",),
    "query_index": ("query index",),
    "key_index": ("key index",),
    "batch": ("batch",),
    "heads": ("heads",),
    "device": ("device",),
    "dtype": ("dtype",),
}
NAMES = {
    "length": "n size sz length len seq_len seq_length sequence_length query_len q_len tgt_len target_len "
    "target_length num_queries queries t l s dim size_q n_tokens num_tokens context_length context_len block_size "
    "seqlen sq lq tq",
    "key_length": "key_len k_len src_len source_len source_length kv_len num_keys keys memory_len size_k key_length "
    "max_len maxlen max_length max_seq_len sk lk tk total",
    "tokens": "tokens ids input_ids x seq seqs sequence sequences src source inputs input token_ids text texts inp enc "
    "key_tokens memory k key seq_k encoder_input tokens_k",
    "query_tokens": "tgt trg tar target targets decoder_input query_tokens seq_q q query tokens_q y",
    "pad": "pad pad_id pad_idx pad_token_id padding_idx pad_token pad_index padding_id padding_token pad_value "
    "padding_value pad_token_idx ignore_index src_pad_idx trg_pad_idx tgt_pad_idx",
    "real": "attention_mask real valid is_real valid_mask input_mask token_mask",
    "padding": "mask padding_mask pad_mask key_padding_mask padding key_mask pads",
    "lengths": "lengths lens valid_lens valid_len valid_length valid_lengths seq_lens seq_lengths key_lengths",
    "query_index": "q_idx q_index query_idx query_index qi q_i",
    "key_index": "kv_idx k_idx key_idx kv_index key_index ki kj k_j",
    "batch": "batch batch_size bs b bsz",
    "heads": "heads num_heads n_heads h nhead n_head",
    "device": "device",
    "dtype": "dtype",
}
ROLE_OF = {name: role for role, names in NAMES.items() for name in names.split()}
UNKNOWN = ("length", *TOKENS, *PADDING, "lengths", "pad", "key length", "query tokens")
SAY = "--map NAME=length (or key_length, tokens, query_tokens, pad, padding, lengths) says what a parameter is for"


class Way(NamedTuple):
    """How it is called: for every parameter by its name what it is given; the id of [PAD].

    alike: whether it is given as many queries as keys, though it might be given others.
    """

    given: tuple[tuple[str, str], ...]
    keywords: tuple[str, ...]
    pad: int
    alike: bool = False

    def takes(self, *what: str) -> bool:
        return any(given in what for _, given in self.given)

    @property
    def crosses(self) -> bool:
        return self.may_cross and not self.alike

    @property
    def may_cross(self) -> bool:
        """Whether there may be as many queries as one likes beside the keys."""
        return self.has_two_lengths or (self.takes("length") and self.takes(*TOKENS, *PADDING))

    @property
    def has_two_lengths(self) -> bool:
        return self.takes("query tokens", "query index") or (self.takes("length") and self.takes("key length"))

    @property
    def tells_padding(self) -> bool:
        return self.takes("pad", "lengths", *PADDING)

    def call(self, case: Case) -> Call:
        made = {name: GIVEN[what](case, self.pad) for name, what in self.given}
        arguments = tuple(value for name, value in made.items() if name not in self.keywords)
        return Call(arguments, {name: made[name] for name in self.keywords if name in made}, "float64")


def ways(parameters: Sequence[Parameter], said: Mapping[str, str]) -> Iterator[Way]:
    """The likeliest first. Raises RequestError where something was said that a parameter can't be."""
    for name, role in said.items():
        if role not in ROLES:
            raise RequestError(f"--map {name}={role}: the parameter of a mask function is one of {', '.join(ROLES)}")
    taken = [one for one in parameters if one.kind != "many" and (one.required or role_of(one.name, said) is not None)]
    named = {one.name: role_of(one.name, said) for one in taken}
    if list(named.values()).count("length") > 1:
        second = [name for name, role in named.items() if role == "length"][1]
        named[second] = "key_length"
    if "query_tokens" in named.values() and "tokens" not in named.values():
        named |= {name: "tokens" for name, role in named.items() if role == "query_tokens"}
    if "key_length" in named.values() and len(named) == 1:
        named = dict.fromkeys(named, "length")
    options = [UNKNOWN if role is None else ROLES[role] for role in named.values()]
    keywords = tuple(one.name for place, one in enumerate(taken) if one.kind == "keyword" or parameters[place] != one)
    for alike, given in product((False, True), product(*options)):
        one = Way(tuple(zip(named, given, strict=True)), keywords, 3, alike)
        knows = one.takes("pad") or not one.takes(*TOKENS)
        if one.may_cross or not alike:
            yield from (one._replace(pad=pad) for pad in ((3,) if knows else (0, 1)))


def role_of(name: str, said: Mapping[str, str]) -> str | None:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")
    return said.get(name) or ROLE_OF.get(snake) or ROLE_OF.get(snake.rstrip("0123456789").rstrip("_"))


# --- what it gives --------------------------------------------------------------------------------------

HEADS_FIRST = "head·batch query key"
SHAPES = (
    "query key",
    "batch key",
    "1 query key",
    "1 key",
    "batch query key",
    "batch 1 key",
    "batch query 1",
    "1 1 key",
    "batch·head query key",
    HEADS_FIRST,
    "1 1 query key",
    "batch 1 query key",
    "batch 1 1 key",
    "batch head query key",
    "batch head 1 key",
    "batch 1 query 1",
    "1 1 1 key",
)


def shapes_of(mask: Tensor, case: Case) -> Iterator[str]:
    """Which dimensions it may have; lengths tell most of them from each other."""
    sizes = case.sizes
    yield from (one for one in SHAPES if [sizes[name] for name in one.split()] == list(mask.shape))


def as_ours(mask: Tensor, shape: str, case: Case) -> Tensor | None:
    """`[batch, query, key]`; None where it has other dimensions, or where heads differ."""
    sizes = case.sizes
    if [sizes[name] for name in shape.split()] != list(mask.shape):
        return None
    if "batch·head" in shape:
        mask, shape = mask.unflatten(0, (-1, HEADS)), shape.replace("batch·head", "batch head")
    if shape == HEADS_FIRST:
        mask, shape = mask.unflatten(0, (HEADS, -1)).transpose(0, 1), "batch head query key"
    if "head" in shape:
        if not torch.equal(mask, mask[:, :1].expand_as(mask)):
            return None
        mask, shape = mask[:, 0], shape.replace("head ", "")
    full = [sizes[name] if name in shape.split() else 1 for name in ("batch", "query", "key")]
    return mask.reshape(full).expand(sizes["batch"], sizes["query"], sizes["key"])


def meanings(masks: Sequence[Tensor], declared: str | None) -> tuple[str, ...]:
    """What its numbers may stand for, of one form: "allowed", "forbidden", "added"; nothing where it is no mask."""
    numbers = torch.cat([mask.double().flatten() for mask in masks])
    if declared is not None:
        return (declared,)
    if bool(((numbers == 0) | (numbers == 1)).all()):
        return "allowed", "forbidden"
    others = numbers[(numbers != 0) & ~numbers.isnan()]
    return ("added",) if len(others.unique()) == 1 else ()


def allowed(mask: Tensor, means: str) -> Tensor:
    """bool, True = may attend."""
    if means == "allowed":
        return mask != 0
    return mask == 0 if means == "forbidden" else (mask == 0) | mask.isnan()


def meant(source: str) -> str | None:
    """What True stands for, as far as its own words say: "allowed", "forbidden" or None."""
    said = re.search(r"(?:True|1s?|[Oo]nes?)\b(?: where| means| =| is| at| for|:| if|->)+ ?([^.;\n]{0,40})", source)
    if said is None:
        return None
    if re.search(r"\bnot\b|forbid|hid|mask(ed)?\b|block|ignor|future|\[?PAD", said[1]):
        return "forbidden"
    return "allowed" if re.search(r"\bmay\b|\bcan\b|allow|visib|attend|look|see|keep|kept|real", said[1]) else None
