"""A random search: attention in a random style is never called wrong, and never right with a mistake in it.

python tests/checks/code/test_random_attention.py 500 7    500 programs from seed 7; each error as its smallest program
"""

import importlib.util
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import pytest

import attncli

# The first choice of each is the simplest, to which a failing style is reduced.
CHOICES = {
    "kind": ("function", "module"),
    "inputs": ("x", "q k v", "memory"),  # of a module
    "fused": (False, True),
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
    "said": (False, True),  # whether `check` is told what masks mean
    "least": ('float("-inf")', "-1e9", "torch.finfo(q.dtype).min"),
    "dropout": (False, True),
    "weights": (False, True),  # whether they are returned too
}
ALWAYS = ("no scale", "temperature", "keys as values", "softmax over queries", "softmax over heads", "in place")


def is_module(style):
    return style["kind"] == "module"


# When a mistake is one.
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
    "window off by one": lambda style: style["position"] == "window",
    "slopes reversed": lambda style: style["position"] == "alibi",
    "rotary on values": lambda style: style["position"] == "rotary",
    "softcap after the mask": lambda style: style["position"] == "softcap" and style["causal"],
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
        style |= {"inputs": "x", "fused": False, "bias": False, "turns": False}
    if style["inputs"] != "x" or style["key_heads"] != 4:
        style |= {"fused": False, "turns": False}
    if style["inputs"] != "x" or not is_module(style):  # positions and the future are those of one text
        style |= {"position": None if style["position"] != "softcap" else "softcap"}
        style["causal"] = style["causal"] and not is_module(style)
    if style["position"] in ("alibi", "window", "rotary"):
        style["causal"] = True
    if style["position"] == "softcap" or style["weights"] or style["float32"]:
        style["core"] = "matmul" if style["core"] == "sdpa" else style["core"]
    if style["core"] == "sdpa":
        style["filled"] = "bias"
    if not (style["mask"] or style["padding"]):
        style |= {"means": "allowed", "said": False}
    return style


def core_of(style, mistake):
    """Write the lines from q, k and v, [batch, head, token, d], to `out`."""

    def pick(right, **wrong):
        return wrong.get((mistake or "").replace(" ", "_"), right)

    seen = {"allowed": "~{}", "forbidden": "{}", "added": "{}"}[style["means"]]
    filled, means = style["filled"], style["means"]
    root = pick("q.shape[-1] ** 0.5", scale_by_d_model="(q.shape[-1] * q.shape[1]) ** 0.5", no_scale="1.0")
    root = {"tensor": f"torch.tensor({root})"}.get(style["scale"], root) + pick("", temperature=" / 1.1")
    yield pick("", in_place="q.mul_(2.0)")
    if style["key_heads"] != 4:
        yield "groups = q.shape[1] // k.shape[1]"
        yield pick(
            "k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)",
            key_heads_repeated="k, v = k.repeat(1, groups, 1, 1), v.repeat(1, groups, 1, 1)",
        )
    if style["position"] == "rotary":
        yield "q, k = turn(q), turn(k)"
        yield pick("", rotary_on_values="v = turn(v)")
    yield "rows, columns = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])"
    yield "bias = torch.zeros(q.shape[0], 1, q.shape[-2], k.shape[-2], dtype=q.dtype)"
    if style["core"] != "sdpa":
        yield f"q = q / ({root})" if style["scale"] == "query" else ""
        product = {"matmul": "q @ k.transpose(-2, -1)", "einsum": 'torch.einsum("bhid,bhjd->bhij", q, k)'}
        yield f"scores = {product[style['core']]}" + (f" / ({root})" if style["scale"] != "query" else "")
    softcap = "scores = 2.0 * torch.tanh(scores / 2.0)" if style["position"] == "softcap" else ""
    yield pick(softcap, softcap_after_the_mask="")
    if style["position"] == "alibi":
        slopes = pick(
            "2.0 ** -torch.arange(1, q.shape[1] + 1)", slopes_reversed="2.0 ** -torch.arange(q.shape[1], 0, -1)"
        )
        yield f"slopes = ({slopes} * (8 / q.shape[1])).to(q.dtype)".replace(
            "-torch", "-(8 / q.shape[1] * torch"
        ).replace(" * (8 / q.shape[1])).to", ")).to")
        yield f"{filled} = {filled} + slopes[:, None, None] * (columns - rows)"
    if style["causal"]:
        yield f"{filled} = {filled}.masked_fill(columns > rows{pick('', looks_ahead=' + 1')}, float('-inf'))"
    if style["position"] == "window":
        yield f"{filled} = {filled}.masked_fill(columns {pick('<=', window_off_by_one='<')} rows - 3, float('-inf'))"
    if style["mask"] and mistake not in ("mask never used", "mask after softmax"):
        yield "if mask is not None:"
        inverted = {"~{}": "{}", "{}": "~{}"}[seen]
        hidden = (inverted if mistake == "mask inverted" else seen).format("mask")
        added = f"{filled} = {filled} + mask"
        yield "    " + (added if means == "added" else f"{filled} = {filled}.masked_fill({hidden}, {style['least']})")
    if style["padding"] and mistake != "padding never used":
        yield pick("if", one_mask_or_the_other="elif") + " key_padding_mask is not None:"
        index = pick(
            ":, None, None", padding_of_the_first_text=":1, None, None", padding_of_the_query=":, None, :, None"
        )
        padding = f"key_padding_mask[{index}]"
        if means == "added":
            yield f"    {filled} = {filled} + {padding}"
        else:
            yield f"    {filled} = {filled}.masked_fill({seen.format(padding)}, {style['least']})"
    yield pick("", softcap_after_the_mask="scores = 2.0 * torch.tanh(scores / 2.0)")
    training = pick("self.training" if is_module(style) else "False", dropout_left_on="True")
    if style["core"] == "sdpa" and not mistake.startswith("softmax") if mistake else style["core"] == "sdpa":
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
    masks = "".join(f", {name}=None" for name, key in (("mask", "mask"), ("key_padding_mask", "padding")) if style[key])
    core = [line for line in core_of(style, mistake) if line]
    result = "return out, weights" if style["weights"] else "return out"
    if not is_module(style):
        swap = ["q, k, v = (x.transpose(1, 2) for x in (q, k, v))"] * style["tokens first"]
        back = ["out = out.transpose(1, 2)"] * style["tokens first"]
        lines = [f"def attention(q, k, v{masks}):", *(f"    {one}" for one in (*swap, *core, *back, result))]
        return HEAD + "\n".join(lines) + "\n"
    bias = f"bias={style['bias']}"
    if style["fused"]:
        layers = [f"self.qkv = nn.Linear(d_model, 3 * d_model, {bias})"]
        project = ["q, k, v = self.qkv(x).chunk(3, -1)"]
        if mistake == "values not projected":
            project = ["q, k, v = (*self.qkv(x).chunk(3, -1)[:2], x)"]
    else:
        width = "d_model" if style["key_heads"] == 4 else f"d_model // num_heads * min({style['key_heads']}, num_heads)"
        layers = [f"self.q_proj = nn.Linear(d_model, d_model, {bias})"]
        layers += [f"self.{name}_proj = nn.Linear(d_model, {width}, {bias})" for name in "kv"]
        query, key, value = {"x": "xxx", "memory": ("x", "memory", "memory")}.get(
            style["inputs"], ("query", "key", "value")
        )
        key, value = (query, query) if mistake == "memory ignored" else (key, value)
        values = value if mistake == "values not projected" else f"self.v_proj({value})"
        project = [f"q, k, v = self.q_proj({query}), self.k_proj({key}), {values}"]
    given = {"x": ["x"], "memory": ["x", "memory"], "q k v": ["query", "key", "value"]}[style["inputs"]]
    size = "(-1, self.num_heads)).permute(0, 3, 1, 2)" if style["turns"] else "(-1, self.size)).transpose(1, 2)"
    joined = {True: "out.permute(0, 2, 3, 1).flatten(2)", False: "out.transpose(1, 2).flatten(2)"}[style["turns"]]
    if mistake == "joined without transpose":
        joined = "out.reshape(out.shape[0], out.shape[2], -1)"
    first = "self.out_proj(out)" if mistake != "output bias forgotten" else "out @ self.out_proj.weight.T"
    swap = [f"{name} = {name}.transpose(0, 1)" for name in given] * style["tokens first"]
    body = [
        *swap,
        *project,
        f"q, k, v = (y.unflatten(-1, {size} for y in (q, k, v))",
        *core,
        f"out = {joined}",
        f"out = {first}",
        *["out = out.transpose(0, 1)"] * style["tokens first"],
        result,
    ]
    lines = [
        "class Attention(nn.Module):",
        "    def __init__(self, d_model, num_heads):",
        "        super().__init__()",
        "        self.num_heads, self.size = num_heads, d_model // num_heads",
        *(f"        {layer}" for layer in layers),
        f"        self.out_proj = nn.Linear(d_model, d_model, {bias})",
        "",
        f"    def forward(self, {', '.join(given)}{masks}):",
        *(f"        {line}" for line in body),
    ]
    return HEAD + "\n".join(lines) + "\n"


def verdict(style, mistake, folder):
    """Return "right", "wrong" or "refused", and what `check` says."""
    path = Path(folder) / f"random_{abs(hash((tuple(style.items()), mistake)))}.py"
    path.write_text(program(style, mistake))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    options = {"means": style["means"]} if style["said"] else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = attncli.check(module.Attention if is_module(style) else module.attention, **options)
    except attncli.RequestError as error:
        return "refused", str(error)
    return "right" if found.right else "wrong", str(found)


# Errors of the checker that are known, each with its reason. They are drawn, and not asserted.
KNOWN = {}


def is_known(style, mistake):
    return any(condition(style, mistake) for condition in KNOWN.values())


def draw(chooser):
    """Draw a style, and a mistake that is one in this style, or None in half of all draws."""
    style = consistent({name: chooser.choice(values) for name, values in CHOICES.items()})
    mistakes = [name for name, applies in MISTAKES.items() if applies(style)]
    return style, chooser.choice([None, chooser.choice(mistakes)])


def search(count, seed, folder):
    """Yield the errors of the checker among `count` draws. Then assert that it refused at most a quarter."""
    chooser, verdicts = random.Random(seed), Counter()
    for _ in range(count):
        style, mistake = draw(chooser)
        if is_known(style, mistake):
            continue
        said, why = verdict(style, mistake, folder)
        verdicts[said] += 1
        if said == ("right" if mistake else "wrong"):
            yield style, mistake, why
    print(f"seed {seed}: {dict(verdicts)}")
    assert verdicts["refused"] <= count / 4, verdicts


def smallest(style, mistake, folder):
    """Reduce a style on which the checker errs."""
    for name, (simplest, *_) in CHOICES.items():
        other = consistent(style | {name: simplest})
        if (mistake is None or MISTAKES[mistake](other)) and verdict(other, mistake, folder)[0] == (
            "right" if mistake else "wrong"
        ):
            style = other
    return style


@pytest.mark.parametrize(
    ("count", "seed"), [(30, 36), *(pytest.param(100, seed, marks=pytest.mark.slow) for seed in range(3))]
)
def test_no_random_attention_gets_the_wrong_verdict(count, seed, tmp_path):
    errors = [(mistake, why, program(style, mistake)) for style, mistake, why in search(count, seed, tmp_path)]
    assert not errors, "\n\n".join(map(str, errors[0]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for style, mistake, _ in search(int(sys.argv[1]), int(sys.argv[2]), place):
            style = smallest(style, mistake, place)
            odd = {name: value for name, value in style.items() if value != CHOICES[name][0]}
            print(f"\n# {mistake or 'right'}: {odd}\n# {verdict(style, mistake, place)}\n{program(style, mistake)}")
