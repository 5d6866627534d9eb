"""Attention that is composed of conventions, with a mistake or without: a program for each combination."""

import re

# The first choice of each is the simplest, to which a failing style is reduced.
CHOICES = {
    "kind": ("function", "module"),
    "inputs": ("x", "q k v", "v k q", "memory"),  # of a module
    "names": (
        "q_proj k_proj v_proj out_proj",
        "W_q W_k W_v W_o",
        "query key value dense",
        "to_q to_k to_v to_out",
        "linear_q linear_k linear_v linear_o",
        "toqueries tokeys tovalues unifyheads",
    ),
    "fused": (None, "three h d", "h three d", "h d three"),  # the order of the rows in one matrix for three
    "matrices": (False, True),  # x @ W
    "bias": (False, True),
    "turns": (False, True),  # heads take turns in the vectors
    "tokens first": (False, True),  # before the heads in a function, before the batch in a module
    "core": ("matmul", "einsum", "sdpa"),
    "filled": ("scores", "bias"),  # where masks are put
    "float32": (False, True),  # the softmax
    "scale": ("number", "tensor", "query"),
    "causal": (False, True),
    "key_heads": (4, 2, 1),
    "position": (None, "rotary", "alibi", "window", "softcap"),
    "mask": (False, True),
    "padding": (False, True),
    "means": ("allowed", "forbidden", "added"),
    "said": (False, True),  # whether the mask's name says what it means
    "least": ('float("-inf")', "-1e9", "torch.finfo(q.dtype).min"),
    "dropout": (False, True),
    "weights": (False, True),  # whether they are returned too
    "on demand": (False, True),  # whether they are returned only if a flag asks for them
}
ALWAYS = ("no scale", "temperature", "keys as values", "softmax over queries", "softmax over heads", "in place")


def is_module(style):
    return style["kind"] == "module"


# The mistakes, and the styles in which each changes something.
MISTAKES = {
    **dict.fromkeys(ALWAYS, lambda style: True),
    "scale by d_model": is_module,
    "joined without transpose": is_module,
    "values not projected": lambda style: is_module(style) and style["key_heads"] == 4 and not style["fused"],
    "output bias forgotten": lambda style: is_module(style) and style["bias"],
    "memory ignored": lambda style: is_module(style) and style["inputs"] != "x",
    "key heads repeated": lambda style: style["key_heads"] == 2,
    "looks ahead": lambda style: style["causal"],
    "mask never used": lambda style: style["mask"],
    "padding never used": lambda style: style["padding"],
    "padding of the first text": lambda style: style["padding"],
    "padding of the query": lambda style: style["padding"],
    "one mask or the other": lambda style: style["mask"] and style["padding"],
    "mask after softmax": lambda style: style["mask"] and style["core"] != "sdpa",
    "mask inverted": lambda style: style["mask"] and style["said"] and style["means"] != "added",
    "dropout left on": lambda style: style["dropout"],
    "mask that hides little": lambda style: style["mask"] and style["means"] != "added",
    "mask only with weights": lambda style: style["mask"] and style["on demand"],
    "scale only with weights": lambda style: style["on demand"],
    "softcap unused": lambda style: style["position"] == "softcap",
    "rotary unused": lambda style: style["position"] == "rotary",
    "window off by one": lambda style: style["position"] == "window",
    "slopes reversed": lambda style: style["position"] == "alibi",
    "rotary on values": lambda style: style["position"] == "rotary",
    # A mask in a bias is added after the cap in any case.
    "softcap after the mask": lambda style: (
        style["position"] == "softcap" and style["causal"] and style["filled"] == "scores"
    ),
}

HEAD = """import torch
import torch.nn.functional as F
from torch import nn


def turn(x):
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2])[:, None] * 10000.0 ** (-torch.arange(half) / half)
    cos, sin = torch.cat((angle, angle), -1).cos().to(x.dtype), torch.cat((angle, angle), -1).sin().to(x.dtype)
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


"""


def consistent(style):
    """Change what does not go together in a style."""
    style = dict(style)
    if not is_module(style):
        style |= {"inputs": "x", "fused": None, "bias": False, "turns": False}
        if style["position"] in ("window", "softcap"):  # `check` learns their size from a constructor
            style["position"] = None
    if style["inputs"] != "x" or style["key_heads"] != 4:
        style |= {"fused": None, "turns": False}
    if style["matrices"]:
        style |= {"fused": None, "bias": False}
    if style["fused"] not in (None, "three h d"):
        style["turns"] = False
    if style["inputs"] != "x" or not is_module(style):  # positions and the future are those of one text
        style |= {"position": None if style["position"] != "softcap" else "softcap"}
        style["causal"] = style["causal"] and not is_module(style)
    if style["position"] in ("alibi", "window", "rotary"):
        style["causal"] = True
    if style["on demand"]:
        style["weights"] = True
    if style["position"] == "softcap" or style["weights"] or style["float32"]:
        style["core"] = "matmul" if style["core"] == "sdpa" else style["core"]
    if style["core"] == "sdpa":
        style["filled"] = "bias"
    if not (style["mask"] or style["padding"]):
        style |= {"means": "allowed", "said": False}
    return style


def style_of(**chosen):
    """Return the simplest style except for what is chosen."""
    return consistent({name: values[0] for name, values in CHOICES.items()} | chosen)


def core_of(style, mistake):
    """Write the lines from q, k and v, [batch, head, token, d], to `out`."""

    def pick(right, **wrong):
        return wrong.get((mistake or "").replace(" ", "_"), right)

    seen = {"allowed": "~{}", "forbidden": "{}", "added": "{}"}[style["means"]]
    filled, means = style["filled"], style["means"]
    root = pick("q.shape[-1] ** 0.5", scale_by_d_model="(q.shape[-1] * q.shape[1]) ** 0.5", no_scale="1.0")
    root = f"({root} if need_weights else 1.0)" if mistake == "scale only with weights" else root
    root = {"tensor": f"torch.tensor({root})"}.get(style["scale"], root) + pick("", temperature=" / 1.1")
    yield pick("", in_place="q.mul_(2.0)")
    if style["key_heads"] != 4:
        yield "groups = q.shape[1] // k.shape[1]"
        yield pick(
            "k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)",
            key_heads_repeated="k, v = k.repeat(1, groups, 1, 1), v.repeat(1, groups, 1, 1)",
        )
    if style["position"] == "rotary":
        yield pick("q, k = turn(q), turn(k)", rotary_unused="turned = turn(q), turn(k)")
        yield pick("", rotary_on_values="v = turn(v)")
    yield "rows, columns = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])"
    yield "bias = torch.zeros(q.shape[0], 1, q.shape[-2], k.shape[-2], dtype=q.dtype)"
    if style["core"] != "sdpa":
        yield f"q = q / ({root})" if style["scale"] == "query" else ""
        product = {"matmul": "q @ k.transpose(-2, -1)", "einsum": 'torch.einsum("bhid,bhjd->bhij", q, k)'}
        yield f"scores = {product[style['core']]}" + (f" / ({root})" if style["scale"] != "query" else "")
    softcap = "scores = self.softcap * torch.tanh(scores / self.softcap)" if style["position"] == "softcap" else ""
    yield pick(softcap, softcap_after_the_mask="", softcap_unused="")
    if style["position"] == "alibi":
        heads = pick("torch.arange(1, q.shape[1] + 1)", slopes_reversed="torch.arange(q.shape[1], 0, -1)")
        yield f"slopes = (2.0 ** (-8 / q.shape[1] * {heads})).to(q.dtype)"
        yield f"{filled} = {filled} + slopes[:, None, None] * (columns - rows)"
    if style["causal"]:
        yield f"{filled} = {filled}.masked_fill(columns > rows{pick('', looks_ahead=' + 1')}, float('-inf'))"
    if style["position"] == "window":
        far = f"columns {pick('<=', window_off_by_one='<')} rows - self.sliding_window"
        yield f"{filled} = {filled}.masked_fill({far}, float('-inf'))"
    if style["mask"] and mistake not in ("mask never used", "mask after softmax"):
        yield pick("if mask is not None:", mask_only_with_weights="if mask is not None and need_weights:")
        least = pick(style["least"], mask_that_hides_little="-10.0")
        inverted = {"~{}": "{}", "{}": "~{}"}[seen]
        hidden = (inverted if mistake == "mask inverted" else seen).format("mask")
        added = f"{filled} = {filled} + mask"
        yield "    " + (added if means == "added" else f"{filled} = {filled}.masked_fill({hidden}, {least})")
    if style["padding"] and mistake != "padding never used":
        yield pick("if", one_mask_or_the_other="elif") + " key_padding_mask is not None:"
        first, query = ":1, None, None", ":, None, :, None"
        index = pick(":, None, None", padding_of_the_first_text=first, padding_of_the_query=query)
        padding = f"key_padding_mask[{index}]"
        if means == "added":
            yield f"    {filled} = {filled} + {padding}"
        else:
            yield f"    {filled} = {filled}.masked_fill({seen.format(padding)}, {style['least']})"
    yield pick("", softcap_after_the_mask="scores = self.softcap * torch.tanh(scores / self.softcap)")
    training = pick("self.training" if is_module(style) else "False", dropout_left_on="True")
    if style["core"] == "sdpa" and not (mistake or "").startswith("softmax"):
        rate = f"0.1 if {training} else 0.0" if style["dropout"] else "0.0"
        value = pick("v", keys_as_values="k")
        yield f"out = F.scaled_dot_product_attention(q, k, {value}, bias, {rate}, scale=1.0 / float({root}))"
        return
    if style["core"] == "sdpa":
        yield f"scores = q @ k.transpose(-2, -1) / ({root})"
    yield "scores = scores + bias" if filled == "bias" else ""
    dim = pick("-1", softmax_over_queries="-2", softmax_over_heads="1")
    yield f"weights = scores.softmax({dim}{', dtype=torch.float32).to(q.dtype' if style['float32'] else ''})"
    if mistake == "mask after softmax":
        hidden = "mask < 0" if means == "added" else seen.format("mask")
        yield from ("if mask is not None:", f"    weights = weights.masked_fill({hidden}, 0.0)")
    yield f"weights = F.dropout(weights, 0.1, {training})" if style["dropout"] else ""
    yield f"out = weights @ {pick('v', keys_as_values='k')}"


def program(style, mistake=None):
    """Write the attention of a style, with a mistake or without."""
    text = _program(style, mistake)
    return re.sub(r"\bmask\b", style["means"], text) if style["said"] else text


def _program(style, mistake):
    masks = "".join(f", {name}=None" for name, key in (("mask", "mask"), ("key_padding_mask", "padding")) if style[key])
    masks += ", need_weights=False" if style["on demand"] else ""
    core = [line for line in core_of(style, mistake) if line]
    result = "return out, weights" if style["weights"] else "return out"
    result = "return (out, weights) if need_weights else (out, None)" if style["on demand"] else result
    if not is_module(style):
        swap = ["q, k, v = (x.transpose(1, 2) for x in (q, k, v))"] * style["tokens first"]
        back = ["out = out.transpose(1, 2)"] * style["tokens first"]
        lines = [f"def attention(q, k, v{masks}):", *(f"    {one}" for one in (*swap, *core, *back, result))]
        return HEAD + "\n".join(lines) + "\n"
    names = style["names"].split()
    shared = f"d_model // num_heads * min({style['key_heads']}, num_heads)"
    widths = ["d_model", *["d_model" if style["key_heads"] == 4 else shared] * 2, "d_model"]
    if style["matrices"]:
        layer, apply = "nn.Parameter(torch.randn(d_model, {}) / d_model**0.5)", "{1} @ self.{0}"
    else:
        layer, apply = f"nn.Linear(d_model, {{}}, bias={style['bias']})", "self.{0}({1})"
    layers = [f"self.{name} = {layer.format(width)}" for name, width in zip(names, widths, strict=True)]
    given = {"x": ["x"], "memory": ["x", "memory"]}.get(style["inputs"], ["query", "key", "value"])
    query, key, value = (given * 3)[:3] if len(given) != 2 else ("x", "memory", "memory")
    key, value = (query, query) if mistake == "memory ignored" else (key, value)
    three = [apply.format(name, of) for name, of in zip(names, (query, key, value), strict=False)]
    three[2] = value if mistake == "values not projected" else three[2]
    project = [f"q, k, v = {', '.join(three)}"]
    if style["inputs"] == "v k q":
        given = given[::-1]
    if style["fused"]:
        layers = [f"self.qkv = {layer.format('3 * d_model')}", layers[3]]
        sizes, place = {
            "three h d": ("3, self.num_heads, self.size", -3),
            "h three d": ("self.num_heads, 3, self.size", -2),
            "h d three": ("self.num_heads, self.size, 3", -1),
        }[style["fused"]]
        project = [f"q, k, v = (y.flatten(2) for y in self.qkv(x).unflatten(-1, ({sizes})).unbind({place}))"]
    size = "(-1, self.num_heads)).permute(0, 3, 1, 2)" if style["turns"] else "(-1, self.size)).transpose(1, 2)"
    joined = {True: "out.permute(0, 2, 3, 1).flatten(2)", False: "out.transpose(1, 2).flatten(2)"}[style["turns"]]
    if mistake == "joined without transpose":
        joined = "out.reshape(out.shape[0], out.shape[2], -1)"
    last = apply.format(names[3], "out") if mistake != "output bias forgotten" else f"out @ self.{names[3]}.weight.T"
    swap = [f"{name} = {name}.transpose(0, 1)" for name in given] * style["tokens first"]
    body = [
        *swap,
        *project,
        f"q, k, v = (y.unflatten(-1, {size} for y in (q, k, v))",
        *core,
        f"out = {joined}",
        f"out = {last}",
        *["out = out.transpose(0, 1)"] * style["tokens first"],
        result,
    ]
    parameter = {"window": ", sliding_window=3", "softcap": ", softcap=2.0"}.get(style["position"], "")
    kept = [f"self.{name} = {name}" for name in [parameter[2:].partition("=")[0]] if name]
    lines = [
        "class Attention(nn.Module):",
        f"    def __init__(self, d_model, num_heads{parameter}):",
        "        super().__init__()",
        "        self.num_heads, self.size = num_heads, d_model // num_heads",
        *(f"        {layer}" for layer in (*layers, *kept)),
        "",
        f"    def forward(self, {', '.join(given)}{masks}):",
        *(f"        {line}" for line in body),
    ]
    return HEAD + "\n".join(lines) + "\n"
