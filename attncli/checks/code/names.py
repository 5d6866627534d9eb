"""Guess the roles of parameters and weights from the names that people give them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.printable import quoted, shorten
from attncli.checks.code.subject import Subject, Weight, is_required, is_variadic

LISTED = 150  # characters of the names that a message offers
INPUTS = ("query", "key", "value", "memory")
MASKS = ("mask", "padding", "lengths", "memory_padding")
NAMES = {
    "query": "q query queries x_q xq q_x query_states target tgt decoder_state x1",
    "key": "k key keys x_k xk k_x key_states",
    "value": "v value values x_v xv v_x value_states",
    "memory": "memory context ctx encoder_output encoder_outputs enc_output encoder_out encoder_hidden_states "
    "kv x_kv other x2 y z",
    "x": "x input inputs hidden_states hidden embeddings embedded embeds src tokens sequence seq xs h features",
    "mask": "mask masks attn_mask attention_mask att_mask src_mask tgt_mask m causal_mask valid_mask attn_bias",
    "padding": "key_padding_mask padding_mask pad_mask src_key_padding_mask src_padding_mask key_mask kv_mask pad",
    "memory_padding": "context_mask memory_mask encoder_attention_mask memory_key_padding_mask memory_padding_mask",
    "cache": "past_key_value past_key_values past_kv layer_past kv_cache cache past",
    "keeps": "use_cache",
    "lengths": "lengths lens valid_lens valid_len valid_length valid_lengths seq_lens seq_lengths key_lengths",
    "causal": "is_causal causal",
    "returns": "need_weights return_weights return_attention return_attn output_attentions return_attention_weights",
    "average": "average_attn_weights",
    "dropout": "dropout dropout_p p_dropout p drop attn_dropout attention_dropout drop_p dropout_rate proj_drop "
    "attn_drop resid_dropout dropout_prob attn_pdrop resid_pdrop embd_pdrop attention_probs_dropout_prob",
    "d_model": "d_model dim embed_dim embed_size embedding_dim emb_size emb_dim n_embd hidden_size hidden_dim hidden "
    "hid_dim units size d d_in d_out input_dim in_features in_dim input_size output_dim out_dim dim_model num_hiddens "
    "n_embed query_size key_size value_size dim_in dim_out emb query_dim context_dim kdim vdim width channels",
    "heads": "heads num_heads n_heads head_count h nhead n_head num_attention_heads head attn_heads head_num",
    "key_heads": "key_heads kv_heads num_kv_heads n_kv_heads num_key_value_heads n_kv_head groups num_groups",
    "head_dim": "d_k dk d_v dv head_dim head_size dim_head d_head dim_k dim_v key_dim value_dim",
    "length": "max_len max_length block_size context_length seq_len max_seq_len n_ctx max_position_embeddings T",
    "window": "window window_size sliding_window attention_window",
    "softcap": "softcap soft_cap logit_cap attn_logit_softcapping",
    "bias": "bias attention_bias qkv_bias use_bias",
    "config": "config cfg args conf configuration",
    "index": "layer_idx layer_id",
}
CALLED_WITH = ("x", *INPUTS, *MASKS, "causal", "returns", "average", "cache", "keeps")
ROLES = {name: role for role, names in NAMES.items() for name in names.split()}
CALL_ROLES = ROLES | {name: role for role in CALLED_WITH for name in NAMES[role].split()}
SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

PARTS = ("query", "key", "value", "output")
STEMS = {
    "query": "q query queries",
    "key": "k key keys",
    "value": "v value values val",
    "output": "o out output outputs final unifyheads unify combine combined concat merge last mix heads attnout",
    "fused": "qkv kqv cattn attn querykeyvalue in packed all",
    "pair": "kv keyvalue",
}
PART_OF = {stem: part for part, stems in STEMS.items() for stem in stems.split()}
NOISE = r"weights?|bias|kernel|linear|lin|projection|project|proj|layer|fc|net|matrix|mat|dense|to|w|b|c"
FRAME = re.compile(rf"^(?:{NOISE})|(?:{NOISE}|s)$")  # what names have around the part


class NeedsAdapterError(RequestError):
    """The code is called in a way, or has weights, that its names do not explain."""


class Options(NamedTuple):
    """The options of `check`.

    layout: of arrays, and means: of masks, where they are not to be found out. map: the role of a parameter, or the
    part that a weight is, by its name. give: arguments for the constructor, by name. nowhere: the output that a query
    may have that may see nothing.
    """

    layout: str | None = None
    means: choices.MaskMeans | None = None
    map: Mapping[str, str] = {}
    give: Mapping[str, Any] = {}
    nowhere: choices.Nowhere = "any"


class Roles(NamedTuple):
    """The parameters that are given something: name and role.

    A role is one of INPUTS and MASKS, "x" (query, key and value are one), "causal", "returns", "average", "cache" (keys
    and values of earlier calls) or "keeps" (return a cache). positional: the names of parameters that are given by
    position. needed: the roles of masks that can't be left out. required: the names of all parameters that can't.
    """

    places: tuple[tuple[str, str], ...]
    positional: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

    def has(self, *roles: str) -> bool:
        return any(role in roles for _, role in self.places)

    def without_memory(self) -> "Roles":
        """Drop a memory that may be left out."""
        return self._replace(places=tuple(one for one in self.places if one[1] != "memory" or one[0] in self.required))

    @property
    def masks(self) -> tuple[str, ...]:
        return tuple(role for _, role in self.places if role in MASKS)

    @property
    def crosses(self) -> bool:
        """Return whether keys may belong to another text than queries."""
        return self.has("key", "memory", "value")


def role_of(name: str, roles: Mapping[str, str] = ROLES) -> str | None:
    snake = SNAKE.sub("_", name).lower().strip("_")
    return roles.get(name) or roles.get(snake) or roles.get(snake.rstrip("0123456789").rstrip("_"))


def roles_of(parameters: Sequence[Parameter], mapped: Mapping[str, str]) -> Roles:
    """Guess the roles of a call's parameters. mapped: roles that the user gives, by name.

    Raises RequestError for a role that does not exist, NeedsAdapterError for a required parameter of unknown role.
    """
    every = dict.fromkeys([*CALLED_WITH, *STEMS])
    for name, given in mapped.items():
        if given not in every:
            raise RequestError(f"--map {quoted(f'{name}={given}')}: that is none of {', '.join(every)}")
    parameters = [one for one in parameters if not is_variadic(one)]
    if not parameters:  # *args, or a signature that Python can't see
        return Roles(tuple((name, name) for name in INPUTS[:3]), INPUTS[:3])
    names = [one.name for one in parameters]
    roles = {name: mapped.get(name) or role_of(name, CALL_ROLES) for name in names}
    required = [one.name for one in parameters if is_required(one)]
    if not any(role in ("x", "query") for role in roles.values()):
        unknown = [name for name in required or names[:1] if roles[name] is None]
        orders = {1: ("x",), 2: ("x", "memory"), 3: INPUTS[:3], 4: (*INPUTS[:3], "mask")}
        roles |= dict(zip(unknown, orders.get(len(unknown), ()), strict=False))
    elif list(roles.values()).count("x") > 1:
        roles |= dict.fromkeys([name for name, role in roles.items() if role == "x"][1:], "memory")
    if "query" in roles.values() and not {"key", "memory", "value"} & set(roles.values()):
        roles |= {name: "x" for name, role in roles.items() if role == "query"}
    if "x" in roles.values() and "key" in roles.values():
        roles |= {name: "query" for name, role in roles.items() if role == "x"}
    for name in required:
        if roles[name] not in CALLED_WITH:
            raise NeedsAdapterError(
                f"the role of the parameter {name!r} is unknown: give it by --map {name}=query (or key, value, x, "
                "memory, mask, padding, lengths)"
            )
    if {"memory", "memory_padding"} <= set(roles.values()):  # the other mask hides tokens of x, which are no keys then
        roles = {name: role for name, role in roles.items() if role not in ("mask", "padding") or name in required}
    return Roles(
        tuple((name, role) for name, role in roles.items() if role in CALLED_WITH),
        tuple(one.name for one in parameters if one.kind != one.KEYWORD_ONLY),
        tuple(role for name in required if (role := roles[name]) in MASKS),
        tuple(required),
    )


def adapter(subject: Subject) -> str:
    """Return an adapter of three lines to paste below the code. Each ... is to be filled in."""

    def arguments(parameters: Iterable[Parameter], roles: Mapping[str, str], known: Mapping[str, Any]) -> str:
        by_name = [(one, role_of(one.name, roles)) for one in parameters]
        wanted = [(one.name, role) for one, role in by_name if is_required(one) or role in given]
        return ", ".join(f"{name}={known.get(role or '', '...')}" for name, role in wanted)

    roles = [role_of(one.name, CALL_ROLES) for one in subject.parameters]
    is_function = subject.kind == "function"
    vectors: Sequence[str] = [role for role in INPUTS if role in roles] if "query" in roles or is_function else ["x"]
    vectors = INPUTS[:3] if is_function and len(vectors) < 3 else vectors
    given = (*vectors, "mask")
    head = f"{', '.join(vectors)}, mask=None"
    passed = arguments(subject.parameters, CALL_ROLES, {role: role for role in given})
    if is_function:
        return f"def adapter({head}):\n    # arrays are [batch, head, token, d]\n    return {subject.name}({passed})"
    values = {**ModuleSizes().by_role(), "dropout": 0.0, "d_model": "d_model", "heads": "heads"}
    made = arguments(subject.constructor, ROLES, values)
    return (
        f"class Adapter({subject.name}):\n    def __init__(self, d_model, heads): super().__init__({made})\n"
        f"    def forward(self, {head}): return super().forward({passed})"
    )


# --- constructors -----------------------------------------------------------------------------------------


class ModuleSizes(NamedTuple):
    """The sizes of a module that is made, all different, so that its parts can be told apart."""

    d_model: int = 32
    heads: int = 4
    key_heads: int = 2
    length: int = 64
    window: int = 3
    softcap: float = 1.5

    def by_role(self) -> dict[str, Any]:
        return {**self._asdict(), "head_dim": self.d_model // self.heads, "dropout": 0.1, "index": 0, "bias": True}


def arguments_for(subject: Subject, sizes: ModuleSizes, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments for the constructor: the given ones, the required ones, and the number of heads.

    Raises NeedsAdapterError if the role of a required one is unknown.
    """
    arguments: dict[str, Any] = {}
    values = sizes.by_role()
    in_config = {name for name in given if name.startswith("config.")}
    for one in subject.constructor:
        role = role_of(one.name)
        has_size = role in ("d_model", "heads") and type(one.default) is int and one.default > 1
        if one.name in given:
            arguments[one.name] = given[one.name]
        elif role == "config" and is_required(one):
            usual = {name: value for known, value in values.items() for name in NAMES[known].split()}
            own = {name.partition(".")[2]: given[name] for name in in_config}
            arguments[one.name] = {**usual, **own}
        elif role in values and (is_required(one) or has_size):
            arguments[one.name] = values[role]
        elif is_required(one):
            raise NeedsAdapterError(
                f"{subject.name} needs {one.name!r}, whose role is unknown: give it by --give {one.name}=VALUE"
            )
    others = sorted(set(given) - in_config - {one.name for one in subject.constructor})
    if others and not any(is_variadic(one) for one in subject.constructor):
        raise RequestError(f"--give {others[0]}: {subject.name}'s constructor has no such parameter")
    return arguments | {name: given[name] for name in others}


# --- weights ----------------------------------------------------------------------------------------------


def part_of(name: str, mapped: Mapping[str, str]) -> str | None:
    """Return the part that a tensor belongs to, by its name; None if the name does not show it."""
    layer = re.sub(r"\.(weight|bias)$", "", name)
    for known in (name, layer, layer.rpartition(".")[2]):
        if known in mapped:
            return mapped[known]
    for word in reversed([re.sub(r"[^a-z]", "", word.lower()) for word in layer.split(".")]):
        bare = word
        while bare and bare not in PART_OF and (shorter := FRAME.sub("", bare, count=1)) != bare:
            bare = shorter
        if word and (not bare or bare in PART_OF):
            return PART_OF.get(bare, "output")  # "proj", "fc", "dense" alone are the last
    return None


def refuse_unknown(mapped: Mapping[str, str], parameters: Iterable[str], weights: Mapping[str, Weight]) -> None:
    """Raise RequestError for a name that no parameter, weight or layer has."""
    layers = [re.sub(r"\.(weight|bias)$", "", name) for name in weights]
    offered = list(dict.fromkeys([*parameters, *layers]))
    for name in mapped:
        if name not in {*offered, *weights, *(layer.rpartition(".")[2] for layer in layers)}:
            names = shorten(", ".join(offered) or "nothing", LISTED)
            raise RequestError(f"--map {quoted(name)}: nothing has this name; there is {names}")
