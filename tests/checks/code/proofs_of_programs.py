"""The attention that each small program has to compute, by torch's own kernel and the program's weights."""

import inspect
import sys
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

B, H, T, S, D = 2, 4, 5, 7, 24

# --- how programs are called ------------------------------------------------------------------------------


def by_title(table, default=None):
    """Turn {what: "title title"} into a function from a title to what."""
    titles = {title: what for what, titles in table.items() for title in titles.split()}
    return lambda title: titles.get(title, default)


LAYOUT = by_title(
    {
        "b t h d": "tokens_before_heads keys_third fused_kernel_of_tokens_before_heads with_einsum grouped_einsum",
        "(b h) t d": "batched batched_added valid_lengths",
        "t d": "one_matrix one_query_at_a_time",
    },
    "b h t d",
)
# The kind of mask: of pairs [query, key], or of padding [batch, key].
MASK = by_title(
    {
        "allowed": "with_torch_einsum tokens_before_heads online_softmax by_logsumexp fused_kernel flex as_dict "
        "DotProduct softmax_by_hand with_mask function arrays separate ListOfLinears MultiQuery HeadsDimThree NumpyAttention",
        "ones": "plain annotated scaled_on_both_sides MultiHeadAttention ValuesFirst HeadsThreeDim HeadByHead",
        "forbidden": "blocked Inherits RearrangeLayers",
        "added": "batched_added added with_einsum ProjAttention TokenFirst",
        "batched ones": "QLinear",
        "real": "two_masks padded EncoderSelfAttention fused head_by_head",
        "real bools": "DimHeadAttention Wraps einsums array_class rearranged",
        "padding": "key_padding InProjection MultiheadAttention",
        "broadcast": "broadcast_padding",
        "lengths": "valid_lengths FullyConnected",
    }
)
MASKS = {
    "allowed": lambda seen: seen,
    "ones": lambda seen: seen.long(),
    "forbidden": lambda seen: ~seen,
    "added": lambda seen: torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -torch.inf),
    "batched ones": lambda seen: seen.long()[None],
    "real": lambda real: real.long(),
    "real bools": lambda real: real,
    "padding": lambda real: ~real,
    "broadcast": lambda real: real[:, None, None].long(),
    "lengths": lambda real: real.sum(1),
}
OUTPUT = by_title(
    {
        0: "annotated DotProduct with_mask padded ProjAttention QLinear Wraps MultiheadAttention OneHeadOfMatrix",
        1: "weights_first",
        "output": "as_dict",
    }
)
CAUSAL = by_title(
    {
        True: "causal causal_matrices causal_function causal_arrays causal_loop causal_buffer causal_places CausalSelfAttention "
        "CausalOfContext CausalColumns HeadMatrices"
    },
    False,
)
# Query heads and key heads.
HEADS = by_title(
    {
        (4, 2): "grouped grouped_function grouped_arrays grouped_einsum GroupedQuery grouped_module grouped_loop",
        (4, 1): "MultiQuery",
        (3, 3): "make_attention",
        (1, 1): "SelfAttention OneHeadOfMatrix NumpyHead",
    },
    (H, H),
)
INPUTS = by_title(
    {
        "q k v": "MultiHeadAttention ListOfLinears LinearQ QLinear FullyConnected Projections InProjection separate "
        "MultiheadAttention RearrangeLayers",
        "v k q": "ValuesFirst",
        "x memory": "DimHeadAttention CrossAttention einsums array_class head_by_head rearranged",
        "one text": "OneHeadOfMatrix NumpyHead",
        "token first": "TokenFirst",
    },
    "x",
)
CROSSES = ("q k v", "v k q", "x memory")
CONSTRUCTOR = {
    "ListOfLinears": (H, D),
    "QLinear": (H, D),
    "FullyConnected": (D, D, D, D, H),
    "HeadsThreeDim": (D, D, H),
    "CausalOfContext": (D, D, 16, 0.1, H),
    "make_attention": (),
    "SelfAttention": (D, 8),
    "OneHeadOfMatrix": (D, 8),
    "NumpyHead": (D, 8),
    "DimHeadAttention": (D, H, 8),
    "Projections": (D, H, 5, 3),
}

# --- weights ----------------------------------------------------------------------------------------------


def read_layers(names, module):
    layers = [module.get_submodule(name) for name in names.split()]
    return [(layer.weight, layer.bias) for layer in layers]


def read_fused(order, module):
    fused, last = (getattr(module, name) for name in order.split(": ")[0].split())
    sizes = {"three": 3, "h": next(getattr(module, name) for name in HEAD_NAMES if hasattr(module, name))}
    order = order.split(": ")[1]
    weights = rearrange(fused.weight, f"({order}) m -> three (h d) m", **sizes)
    biases = [None] * 3 if fused.bias is None else rearrange(fused.bias, f"({order}) -> three (h d)", **sizes)
    return [*zip(weights, biases, strict=True), (last.weight, last.bias)]


HEAD_NAMES = ("num_heads", "heads", "n_head")


def read_torchs(module):
    module = getattr(module, "attention", module)
    pairs = zip(module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3), strict=True)
    return [*pairs, (module.out_proj.weight, module.out_proj.bias)]


def read_matrices(names, module):
    """Read matrices that stand to the right of x, and the biases b_q, b_k, ... where there are such."""
    names = names.split()
    biases = [getattr(module, f"b_{name[-1]}", None) for name in names]
    return [
        (torch.as_tensor(getattr(module, name)).T, None if bias is None else torch.as_tensor(bias))
        for name, bias in zip(names, biases, strict=True)
    ]


def read_interleaved(module):
    order = torch.arange(D).view(-1, H).T.flatten()
    rows = [(layer.weight[order], layer.bias[order]) for layer in (module.lin_q, module.lin_k, module.lin_v)]
    return [*rows, (module.lin_out.weight[:, order], module.lin_out.bias)]


def read_heads(module):
    if hasattr(module, "queries"):
        lists = module.queries, module.keys, module.values
    else:
        lists = ([getattr(head, name) for head in module.heads] for name in ("query", "key", "value"))
    rows = [
        (
            torch.cat([one.weight for one in heads]),
            None if heads[0].bias is None else torch.cat([x.bias for x in heads]),
        )
        for heads in map(list, lists)
    ]
    return [*rows, (module.proj.weight, module.proj.bias)]


def read_three_dimensions(module):
    rows = [
        (rearrange(getattr(module, f"W_{x}"), "n m h -> (n h) m"), getattr(module, f"b_{x}").flatten()) for x in "QKV"
    ]
    return [*rows, (rearrange(module.W_O, "n h m -> m (n h)"), module.b_O)]


WEIGHTS = {
    "DimHeadAttention": lambda it: [
        (it.to_q.weight, None),
        *((x, None) for x in it.to_kv.weight.chunk(2)),
        (it.to_out[0].weight, it.to_out[0].bias),
    ],
    "CausalColumns": lambda it: [
        *zip(it.c_attn.weight.T.chunk(3), it.c_attn.bias.chunk(3), strict=True),
        (it.c_proj.weight.T, it.c_proj.bias),
    ],
    "MatricesBefore": lambda it: [
        (getattr(it, name), getattr(it, f"{name}_bias")[:, 0]) for name in ("query", "key", "value", "output")
    ],
    "NumpyHead": lambda it: [(torch.as_tensor(matrix), None) for matrix in (it.Wq, it.Wk, it.Wv)],
    "HeadMatrices": read_three_dimensions,
    "Interleaved": read_interleaved,
    **dict.fromkeys(("HeadByHead", "head_by_head"), read_heads),
    **dict.fromkeys(("InProjection", "Inherits", "Wraps", "MultiheadAttention", "fused"), read_torchs),
    **{
        title: partial(read_fused, order)
        for title, order in {
            "ThreeHeadsDim": "qkv proj: three h d",
            "make_attention": "qkv proj: three h d",
            "HeadsThreeDim": "qkv_proj o_proj: h three d",
            "HeadsDimThree": "to_qkv to_out: h d three",
            "CausalSelfAttention": "c_attn c_proj: three h d",
            "causal_buffer": "c_attn c_proj: three h d",
        }.items()
    },
    **{
        title: partial(read_matrices, names)
        for title, names in {
            "MatricesBehind": "W_Q W_K W_V W_O",
            "OneHeadOfMatrix": "W_query W_key W_value",
            "NumpyAttention": "W_q W_k W_v W_o",
            "array_class": "W_q W_k W_v W_o",
        }.items()
    },
    **{
        title: partial(read_layers, names)
        for title, names in {
            "MultiHeadAttention": "W_q W_k W_v W_o",
            "ProjAttention": "q_proj k_proj v_proj out_proj",
            "EncoderSelfAttention": "self.query self.key self.value dense",
            "CrossAttention": "wq wk wv wo",
            "ListOfLinears": "linears.0 linears.1 linears.2 linears.3",
            "LinearQ": "linear_q linear_k linear_v linear_o",
            "QLinear": "q_linear k_linear v_linear out",
            "FullyConnected": "fc_q fc_k fc_v fc_o",
            "Projections": "query_projection key_projection value_projection out_projection",
            "UnifyHeads": "toqueries tokeys tovalues unifyheads",
            "ValuesFirst": "queries keys values fc_out",
            "GroupedQuery": "wq wk wv wo",
            "MultiQuery": "Wq Wk Wv Wo",
            "CausalOfContext": "W_query W_key W_value out_proj",
            "SelfAttention": "W_query W_key W_value",
            "TokenFirst": "q k v o",
            "RearrangeLayers": "query.0 key.0 value.0 output.1",
            "separate": "W_q W_k W_v W_o",
            "einsums": "q_proj k_proj v_proj out_proj",
            "rearranged": "to_q to_k to_v to_out",
            "causal_places": "q_proj k_proj v_proj o_proj",
            "grouped_module": "q_proj k_proj v_proj o_proj",
            "grouped_loop": "wq wk wv wo",
        }.items()
    },
}

# --- what comes out, and what has to ----------------------------------------------------------------------


class Setting(NamedTuple):
    """keys: how many there are, if keys may be of another text. hidden: the first query, or text, may see nothing."""

    keys: int = T
    masked: bool = False
    hidden: bool = False
    size: float = 1.0
    dtype: torch.dtype = torch.float64


def outputs(case, folder, setting):
    """Return what a program gives, and what torch gives."""
    title, thing = case.part or case.title, case.load(folder)
    crosses = INPUTS(title) in CROSSES if title in WEIGHTS else not CAUSAL(title)
    setting = setting if crosses else setting._replace(keys=T)
    mask, seen = masks(title, setting)
    if title in WEIGHTS:
        thing = make(thing, title)
        thing = thing.to(setting.dtype) if isinstance(thing, nn.Module) else thing
        given, expected = of_module(thing, title, setting, seen)
    else:
        thing = thing() if inspect.isclass(thing) else thing
        given, expected = of_function(title, setting, seen)
    names = list(inspect.signature(getattr(thing, "forward", thing)).parameters)
    named = {} if mask is None else {"key_padding_mask" if title == "MultiheadAttention" else names[len(given)]: mask}
    if "numpy" in case.file:
        given, named = [x.numpy() for x in given], {name: x.numpy() for name, x in named.items()}
    out = getattr(thing, "forward", thing)(*given, **named)
    return torch.as_tensor(out if OUTPUT(title) is None else out[OUTPUT(title)]), expected


def masks(title, setting):
    """Return the mask of the program, and that of torch."""
    if CAUSAL(title) or not setting.masked:
        return None, torch.ones(T, T, dtype=torch.bool).tril() if CAUSAL(title) else None
    kind, keys = MASK(title), setting.keys
    if kind in ("real", "real bools", "padding", "broadcast", "lengths"):
        real = torch.arange(keys) < torch.tensor([[0 if setting.hidden else 3], [keys]])
        rows = real.repeat_interleave(HEADS(title)[0], 0) if LAYOUT(title) == "(b h) t d" else real
        return MASKS[kind](rows), real[:, None, None, :]
    seen = torch.rand(T, keys, generator=torch.manual_seed(1)) > 0.5
    seen[:, 0] = True
    seen[0] &= not setting.hidden
    return MASKS[kind](seen), seen


def random(*shape, seed):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.manual_seed(seed))


def of_function(title, setting, seen):
    heads, key_heads = HEADS(title)
    shapes = (heads, T, 6), (key_heads, setting.keys, 6), (key_heads, setting.keys, 5 if setting.keys == S else 6)
    q, k, v = (random(B, *shape, seed=place).to(setting.dtype) for place, shape in enumerate(shapes))
    q, k = q * setting.size, k * setting.size
    expected = F.scaled_dot_product_attention(q, k, v, seen, enable_gqa=heads != key_heads)
    if LAYOUT(title) == "t d":
        return [x[0, 0] for x in (q, k, v)], expected[0, 0]
    *given, expected = (rearrange(x, f"b h t d -> {LAYOUT(title)}") for x in (q, k, v, expected))
    return given, expected


def make(thing, title):
    torch.manual_seed(3)
    if title == "CausalSelfAttention":
        made = thing(sys.modules[thing.__module__].GPTConfig(n_head=H, n_embd=D))
    else:
        options = {"batch_first": True} if title == "MultiheadAttention" else {}
        made = thing if isinstance(thing, nn.Module) else thing(*CONSTRUCTOR.get(title, (D, H)), **options)
    if isinstance(made, nn.Module):
        for parameter in made.double().eval().parameters():
            nn.init.normal_(parameter, std=0.3)
    elif title == "NumpyAttention":
        made.b_o = random(D, seed=3).numpy()
    return made


def of_module(module, title, setting, seen):
    heads, key_heads = HEADS(title)
    x = memory = setting.size * random(B, T, D, seed=4).to(setting.dtype)
    if INPUTS(title) in CROSSES:
        memory = setting.size * random(B, setting.keys, D, seed=5).to(setting.dtype)
    *three, last = [*WEIGHTS[title](module), None][:4]
    q, k, v = (F.linear(y, *one) for y, one in zip((x, memory, memory), three, strict=True))
    q, k, v = (y.unflatten(-1, (n, -1)).transpose(1, 2) for y, n in ((q, heads), (k, key_heads), (v, key_heads)))
    out = F.scaled_dot_product_attention(q, k, v, seen, enable_gqa=heads != key_heads).transpose(1, 2).flatten(2)
    out = out if last is None else F.linear(out, *last)
    match INPUTS(title):
        case "q k v":
            return (x, memory, memory), out
        case "v k q":
            return (memory, memory, x), out
        case "x memory":
            return (x, memory), out
        case "one text":
            return (x[0],), out[0]
        case "token first":
            return (x.transpose(0, 1),), out.transpose(0, 1)
    return (x,), out
