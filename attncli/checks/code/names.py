"""The roles of parameters and weights, by their names: one table for each.

What the tables don't explain needs an adapter, which `adapter` writes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

from attncli.base.errors import RequestError
from attncli.checks.code.subject import Subject, is_number, is_required, is_variadic

INPUTS = ("query", "key", "value", "memory")
MASKS = ("mask", "padding", "lengths", "memory_padding")
NAMES = {
    "query": "q query queries x_q xq q_x query_states target tgt decoder_state latents x1",
    "key": "k key keys x_k xk k_x key_states",
    "value": "v value values x_v xv v_x value_states",
    "memory": "memory context ctx encoder_output encoder_outputs enc_output encoder_out encoder_hidden_states "
    "kv x_kv other x2 y z",
    "x": "x input inputs hidden_states hidden embeddings embedded embeds src tokens sequence seq xs h features",
    "mask": "mask masks attn_mask attention_mask att_mask src_mask tgt_mask m causal_mask valid_mask attn_bias "
    "allowed forbidden added keep keep_mask valid visible bool_mask token_mask",
    "padding": "key_padding_mask padding_mask pad_mask src_key_padding_mask src_padding_mask key_mask kv_mask pad",
    "memory_padding": "context_mask memory_mask encoder_attention_mask memory_key_padding_mask memory_padding_mask",
    "cache": "past_key_value past_key_values past_kv layer_past kv_cache cache past",
    "keeps": "use_cache",
    "lengths": "lengths lens valid_lens valid_len valid_length valid_lengths seq_lens seq_lengths key_lengths",
    "causal": "is_causal causal",
    "returns": "need_weights return_weights return_attention return_attn output_attentions return_attention_weights",
    "average": "average_attn_weights",
    "scale": "scale softmax_scale sm_scale",
    "dropout": "dropout dropout_p p_dropout p drop attn_dropout attention_dropout drop_p dropout_rate proj_drop "
    "attn_drop resid_dropout dropout_prob attn_pdrop resid_pdrop embd_pdrop attention_probs_dropout_prob",
    "d_model": "d_model k dim embed_dim embed_size embedding_dim emb_size emb_dim n_embd hidden_size hidden_dim hidden "
    "hid_dim units size d d_in d_out input_dim in_features in_dim input_size output_dim out_dim dim_model num_hiddens "
    "n_embed query_size key_size value_size dim_q dim_in dim_out emb query_dim context_dim kdim vdim width channels "
    "in_channels nx",
    "heads": "heads num_heads n_heads head_count h nhead n_head num_attention_heads head attn_heads head_num "
    "n_q_heads num_q_heads q_heads",
    "key_heads": "key_heads kv_heads num_kv_heads n_kv_heads num_key_value_heads n_kv_head groups num_groups",
    "head_dim": "d_k dk d_v dv head_dim head_size dim_head d_head dim_k dim_v key_dim value_dim",
    "length": "max_len max_length block_size context_length seq_len max_seq_len n_ctx max_position_embeddings T",
    "window": "window window_size sliding_window attention_window",
    "softcap": "softcap soft_cap logit_cap attn_logit_softcapping attn_logit_softcap logit_softcap logits_soft_cap "
    "attn_softcap score_cap",
    "bias": "bias attention_bias qkv_bias use_bias",
    "config": "config cfg args conf configuration",
    "index": "layer_idx layer_id",
    "base": "base theta rope_theta rope_base rotary_base",
}
DECLARED = ("allowed", "forbidden", "added")  # names of a mask that say what it means
CALLED_WITH = ("x", *INPUTS, *MASKS, "causal", "returns", "average", "scale", "cache", "keeps")
ROLES = {name: role for role, names in NAMES.items() for name in names.split()}
CALL_ROLES = ROLES | {name: role for role in CALLED_WITH for name in NAMES[role].split()}
POSITIONAL = {
    1: ("x",),
    2: ("x", "memory"),
    3: INPUTS[:3],
    4: (*INPUTS[:3], "mask"),
}  # by the number of parameters whose names show no role
POSITIONS = re.compile("freq|cos|sin|pos|rope|rotary", re.IGNORECASE)
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
    """The code is called in a way, or has weights, that its names do not explain. of_weights: it has such weights."""

    def __init__(self, message: str, of_weights: bool = False) -> None:
        super().__init__(message)
        self.of_weights = of_weights


class Roles(NamedTuple):
    """The roles of a call's parameters. places: the name and role of each parameter that gets an argument.

    A role is one of CALLED_WITH, or "flag" for another parameter that is True or False. positional: the names of
    parameters that can be passed by position. needed: the roles of required masks. required: the names of all required
    parameters. of_query: masks of the query, which hide no key of a memory.
    """

    places: tuple[tuple[str, str], ...]
    positional: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    of_query: tuple[tuple[str, str], ...] = ()

    def has(self, *roles: str) -> bool:
        return any(role in roles for _, role in self.places)

    def having(self, name: str, role: str) -> "Roles":
        return self._replace(places=(*self.places, (name, role)))

    def without_memory(self) -> "Roles":
        """Drop a memory that may be left out, with its mask. The query's mask then becomes the mask of the keys."""
        kept = [one for one in self.places if not one[1].startswith("memory") or one[0] in self.required]
        if not self.has("memory") or "memory" in dict(kept).values():
            return self
        return self._replace(places=(*kept, *self.of_query), of_query=())

    def declared(self, role: str) -> str | None:
        """Return the meaning that the name of a mask declares."""
        return next((name for name, its in self.places if its == role and name in DECLARED), None)

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


def roles_of(parameters: Sequence[Parameter]) -> Roles:
    """Return the roles of a call's parameters. Raises NeedsAdapterError for a required one of unknown role."""
    parameters = [one for one in parameters if not is_variadic(one)]
    if not parameters:  # *args, or a signature that Python can't see
        return Roles(tuple((name, name) for name in INPUTS[:3]), INPUTS[:3])
    roles = {one.name: role_of(one.name, CALL_ROLES) for one in parameters}
    required = [one.name for one in parameters if is_required(one)]
    for one in parameters:
        if type(one.default) is bool and roles[one.name] in (None, *MASKS):  # mask=False asks for a causal one
            roles[one.name] = "flag" if roles[one.name] is None else "causal"
    if "query" in roles.values() and not {"key", "memory", "value"} & {*roles.values()}:  # tgt, and maybe src
        roles |= {name: {"query": "x", "x": "memory"}[role] for name, role in roles.items() if role in ("query", "x")}
    unknown = [name for name in required or list(roles)[:1] if roles[name] is None]
    if "x" not in roles.values() and "query" not in roles.values():
        roles |= dict(zip(unknown, POSITIONAL.get(len(unknown), ()), strict=False))
    elif len(inputs := [name for name, role in roles.items() if role == "x"]) > 1:
        roles |= dict.fromkeys(inputs[1:], "memory")
    if "key" in roles.values():
        roles |= {name: "query" for name, role in roles.items() if role == "x"}
    unknown = [name for name in required if roles[name] is None]
    if len(unknown) == 1 and "x" in roles.values() and not {"memory", "value"} & {*roles.values()}:
        roles |= {name: "memory" for name in unknown if not POSITIONS.search(name)}
    for name in required:
        if roles[name] not in CALLED_WITH:
            raise NeedsAdapterError(f"the role of the parameter {name!r} is unknown")
    of_query: dict[str, str] = {}
    if {"memory", "memory_padding"} <= {*roles.values()}:  # the other mask hides tokens of x, which are no keys then
        of_query = {name: role for name, role in roles.items() if role in ("mask", "padding") and name not in required}
    given = {name: role for name, role in roles.items() if role in (*CALLED_WITH, "flag") and name not in of_query}
    return Roles(
        tuple(given.items()),
        tuple(one.name for one in parameters if one.kind != one.KEYWORD_ONLY),
        tuple(given[name] for name in required if given[name] in MASKS),
        tuple(required),
        tuple(of_query.items()),
    )


def bind_weights(subject: Subject) -> None:
    """Bind the weights and the number of heads of a function such as f(X, Wq, Wk, Wv, Wo, h)."""
    roles = {one.name: (role_of(one.name), role_of(one.name, CALL_ROLES)) for one in subject.parameters[1:]}
    names = [name for name, (role, called) in roles.items() if role == "heads" or called not in CALLED_WITH]
    parts = {name: part_of(name) for name in names}
    if subject.kind != "function" or not ({"query", "key"} <= {*parts.values()} or "fused" in parts.values()):
        return
    sizes, shapes = ModuleSizes(), dict[str, tuple[int, ...]]()
    for name, part in parts.items():
        width = sizes.d_model * {"fused": 3, "pair": 2}.get(part or "", 1)
        if part is not None:
            shapes[name] = (width,) if re.match("b", name, re.IGNORECASE) else (sizes.d_model, width)
    held = {name: value for name in names if (value := sizes.by_role().get(role_of(name) or "")) is not None}
    subject.bind(shapes, {name: value for name, value in held.items() if name not in shapes})


def adapter(subject: Subject, of_weights: bool) -> str:
    """Return an adapter of three lines to paste below the code. Each ... is to be filled in.

    of_weights: it names the layers again.
    """

    def arguments(parameters: Iterable[Parameter], roles: Mapping[str, str], known: Mapping[str, Any]) -> str:
        by_name = [(one, role_of(one.name, roles)) for one in parameters]
        wanted = [(one.name, role) for one, role in by_name if is_required(one) or role in given]
        return ", ".join(f"{name}={known.get(role or '', '...')}" for name, role in wanted)

    roles = {one.name: role_of(one.name, CALL_ROLES) for one in subject.parameters}
    masks = {role: name for name, role in roles.items() if role in (*MASKS, "cache")}
    is_function = subject.kind == "function"
    vectors = [role for role in INPUTS if role in roles.values()]
    vectors = vectors if "query" in vectors and (not is_function or len(vectors) > 2) else ["x"]
    vectors = [*INPUTS[:3]] if is_function and vectors == ["x"] else vectors
    given = {role: role for role in vectors} | masks
    head = ", ".join((*vectors, *(f"{name}=None" for name in masks.values())))
    passed = arguments(subject.parameters, CALL_ROLES, given)
    if is_function:
        return f"def adapter({head}):\n    # arrays are [batch, head, token, d]\n    return {subject.name}({passed})"
    values = {**ModuleSizes().by_role(), "dropout": 0.0, "d_model": "d_model", "heads": "heads"}
    made = arguments(subject.constructor, ROLES, values)
    parts = {part_of(name) for name in subject.weights}
    is_named = "fused" in parts or {"query", "key"} <= parts or {"query", "pair"} <= parts or not subject.weights
    layers = "; self.q, self.k, self.v, self.out = ...  # its layers; without self.out if it has no W_O"
    named = layers if of_weights or not is_named else ""
    return (
        f"class Adapter({subject.name}):\n    def __init__(self, d_model, heads): super().__init__({made}){named}\n"
        f"    def forward(self, {head}): return super().forward({passed})"
    )


class ModuleSizes(NamedTuple):
    """The sizes with which modules are made, all different, so that their parts can be told apart."""

    d_model: int = 80
    heads: int = 8
    key_heads: int = 2
    length: int = 64
    window: int = 3
    softcap: float = 1.5
    base: float = 10000.0

    def by_role(self) -> dict[str, Any]:
        return {**self._asdict(), "head_dim": self.d_model // self.heads, "dropout": 0.1, "index": 0, "bias": True}

    def arguments_for(self, subject: Subject) -> dict[str, Any]:
        """Return arguments for the constructor: the required ones, and the number of heads.

        Raises NeedsAdapterError if the role of a required one is unknown.
        """
        arguments, values = dict[str, Any](), self.by_role()
        if any(one.name.lower() == "dim_q" for one in subject.constructor):  # then dim_k and dim_v are of all heads too
            values["head_dim"] = self.d_model
        for one in subject.constructor:
            role = role_of(one.name)
            has_size = role in ("d_model", "heads", "window", "softcap") and is_number(one.default) and one.default > 1
            if role in values and (is_required(one) or has_size):
                arguments[one.name] = values[role]
            elif role == "config" and is_required(one):
                arguments[one.name] = {name: value for of, value in values.items() for name in NAMES[of].split()}
            elif is_required(one):
                raise NeedsAdapterError(f"{subject.name} needs {one.name!r}, whose role is unknown")
        return arguments


def part_of(name: str, certain: bool = False) -> str | None:
    """Return the part that a tensor belongs to, by its name; None if the name does not show it.

    "proj", "fc" or "dense" alone is the output projection. certain: then it is None.
    """
    layer = re.sub(r"\.(weight|bias)$", "", name)
    for word in reversed([re.sub(r"[^a-z]", "", word.lower()) for word in layer.split(".")]):
        bare = word
        while bare and bare not in PART_OF and (shorter := FRAME.sub("", bare, count=1)) != bare:
            bare = shorter
        if word and (not bare or bare in PART_OF):
            return PART_OF.get(bare, None if certain else "output")
    return None
