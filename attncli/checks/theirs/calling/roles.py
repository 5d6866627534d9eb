"""What the parameters of somebody's attention are for, by the names that people give them, and by their places."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attncli.base.errors import RequestError
from attncli.checks.code.failing import OR_ADAPTER
from attncli.checks.code.subject import Parameter

INPUTS = ("query", "key", "value", "memory")
MASKS = ("mask", "padding", "lengths", "memory_padding")
NAMES = {
    "query": "q query queries x_q xq q_x q_in query_states target tgt decoder_state from_tensor x1",
    "key": "k key keys x_k xk k_x k_in key_states",
    "value": "v value values val x_v xv v_x v_in value_states",
    "memory": "memory mem context ctx cond encoder_output encoder_outputs enc_output enc_outputs encoder_out enc_out "
    "encoder_hidden_states enc kv x_kv kv_x key_value key_value_states y z other source cross to_tensor x2 encoded",
    "x": "x input inputs hidden_states hidden embeddings embedding embedded emb embeds src tokens sequence seq xs h "
    "input_embeddings token_embeddings tensor data feats features inp",
    "mask": "mask masks attn_mask attention_mask att_mask src_mask tgt_mask m causal_mask masking valid_mask "
    "attn_bias look_ahead_mask combined_mask allowed forbidden additive_mask mask_",
    "padding": "key_padding_mask padding_mask pad_mask src_key_padding_mask src_padding_mask key_mask kv_mask pad",
    "memory_padding": "context_mask memory_mask encoder_attention_mask memory_key_padding_mask memory_padding_mask "
    "enc_mask cross_mask context_padding_mask",
    "cache": "past_key_value past_key_values past_kv layer_past kv_cache cache past",
    "keeps": "use_cache",
    "lengths": "lengths lens valid_lens valid_len valid_length valid_lengths seq_lens seq_lengths key_lengths",
    "causal": "is_causal causal use_causal_mask autoregressive",
    "returns": "need_weights return_weights return_attention return_attn output_attentions return_attention_weights "
    "return_attn_weights return_maps with_weights",
    "average": "average_attn_weights average_weights",
    "dropout": "dropout dropout_p p_dropout p drop attn_dropout attention_dropout drop_p dropout_rate proj_drop "
    "attn_drop resid_dropout dropout_prob attn_pdrop resid_pdrop embd_pdrop attention_probs_dropout_prob "
    "hidden_dropout_prob",
    "d_model": "d_model dmodel model_dim dim embed_dim embed_size embedding_dim embedding_size emb_size emb_dim "
    "n_embd hidden_size hidden_dim hidden d_hidden units size d d_in d_out input_dim in_features in_dim "
    "d_input input_size output_size output_dim out_dim d_emb dim_model num_hiddens query_size key_size value_size "
    "model_size n_embed d_embed n_state c "
    "in_channels channels features width dim_in dim_out emb e kdim vdim d_query d_memory "
    "context_dim memory_dim query_dim",
    "heads": "heads num_heads n_heads head_count h nhead n_head nheads num_attention_heads head attention_heads "
    "num_head no_of_heads heads_num head_num attn_heads",
    "key_heads": "key_heads kv_heads num_kv_heads n_kv_heads num_key_value_heads n_kv_head groups num_groups "
    "num_kv_groups",
    "head_dim": "d_k dk d_v dv head_dim head_size dim_head d_head dim_k dim_v d_q dim_q d_key d_value dim_key "
    "dim_value key_dim value_dim d_qk",
    "hidden": "d_ff dff ff_dim ffn_dim d_ffn dim_feedforward hidden_features mlp_dim intermediate_size ffn_hidden "
    "ff_hidden ffn_num_hiddens feed_forward_dim d_inner mlp_hidden ff_size ff",
    "length": "max_len max_length maxlen block_size context_length context_len seq_len seq_length max_seq_len n_ctx "
    "sequence_length max_position_embeddings max_positions length num_positions max_tokens n_positions T",
    "window": "window window_size sliding_window attention_window local_window local_attention",
    "softcap": "softcap soft_cap logit_cap logits_soft_cap attn_logit_softcapping attn_logit_softcap cap",
    "batch_first": "batch_first",
    "config": "config cfg args conf hparams configuration params opt options c_",
    "bias": "bias qkv_bias use_bias",
    "index": "layer_idx layer_id layer_index layer_number layer_num",
}
KNOWN = ("x", *INPUTS, *MASKS, "causal", "returns", "average", "cache", "keeps")
ROLES = {name: role for role, names in NAMES.items() for name in names.split()}
IN_CALLS = ROLES | {name: role for role in KNOWN for name in NAMES[role].split()}  # "hidden" is a size elsewhere
SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Roles(NamedTuple):
    """What is given: the name of a parameter and its role. by_place: those parameters that are given without a name.
    needed: those roles of masks that can't be left out; required: the names of all parameters that can't.

    Roles are those of INPUTS and MASKS, "x" (query, key and value are one), "causal", "returns", "average", "cache"
    (the keys and values of the calls before) and "keeps" (whether it gives a cache).
    """

    places: tuple[tuple[str, str], ...]
    by_place: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

    def has(self, *roles: str) -> bool:
        return any(role in roles for _, role in self.places)

    def by_itself(self) -> "Roles":
        """Without a memory that may be left out."""
        return self._replace(places=tuple(one for one in self.places if one[1] != "memory" or one[0] in self.required))

    @property
    def masks(self) -> tuple[str, ...]:
        return tuple(role for _, role in self.places if role in MASKS)

    @property
    def crosses(self) -> bool:
        """Whether keys can be of another text than queries."""
        return self.has("key", "memory", "value")


def role_of(name: str, roles: Mapping[str, str] = ROLES) -> str | None:
    """By its name alone. roles: by names, `IN_CALLS` of what is given to a function or forward."""
    snake = SNAKE.sub("_", name).lower().strip("_")
    return roles.get(name) or roles.get(snake) or roles.get(snake.rstrip("0123456789").rstrip("_"))


def roles_of(call: Sequence[Parameter], given: dict[str, str]) -> Roles:
    """Of a function or forward. given: what the user said of parameters, by name.

    Raises RequestError when what a parameter is for can't be told.
    """
    inputs = [one for one in call if one.kind != "many"]
    if not inputs:  # *args, or what Python can't look into
        return Roles((("query", "query"), ("key", "key"), ("value", "value")), ("query", "key", "value"))
    named: dict[str, str | None] = {one.name: given.get(one.name) or role_of(one.name, IN_CALLS) for one in inputs}
    required = [one.name for one in inputs if one.required]
    if not any(role in ("x", "query") for role in named.values()):
        by_place(required or [inputs[0].name], named)
    elif list(named.values()).count("x") > 1:
        named |= dict.fromkeys([name for name, role in named.items() if role == "x"][1:], "memory")
    if "query" in named.values() and not {"key", "memory", "value"} & set(named.values()):
        named |= {name: "x" for name, role in named.items() if role == "query"}
    if "x" in named.values() and "key" in named.values():
        named |= {name: "query" for name, role in named.items() if role == "x"}
    for one in inputs:
        if one.required and named[one.name] not in KNOWN:
            raise RequestError(
                f"what the parameter {one.name!r} is for can't be told: --map {one.name}=query (or key, value, x, "
                f"memory, mask, padding, lengths) says so{OR_ADAPTER}"
            )
    if {"memory", "memory_padding"} <= set(named.values()):  # the other mask is of x, whose tokens are no keys then
        named = {name: role for name, role in named.items() if role not in ("mask", "padding") or name in required}
    places = tuple((name, role) for name, role in named.items() if role in KNOWN)
    needed = tuple(role for one in inputs if one.required and (role := named[one.name]) in MASKS)
    return Roles(places, tuple(one.name for one in inputs if one.kind == "positional"), needed, tuple(required))


def by_place(required: list[str], named: dict[str, Any]) -> None:
    """query, key, value, mask; x, mask; x: where names say nothing."""
    unknown = [name for name in required if named[name] is None]
    orders = {1: ("x",), 2: ("x", "memory"), 3: ("query", "key", "value"), 4: ("query", "key", "value", "mask")}
    named |= dict(zip(unknown, orders.get(len(unknown), ()), strict=False))
