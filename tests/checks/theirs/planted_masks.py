"""Mistakes with what may not be seen: masks, [PAD], the future."""

from checks.theirs.planted import Planted

FILLED = {
    "separate": '        if mask is not None:\n            scores = scores.masked_fill(~mask, float("-inf"))\n',
    "einsums": (
        "        if padding_mask is not None:\n"
        "            scores = scores.masked_fill(~padding_mask[:, None, None, :], -torch.inf)\n"
    ),
    "function": ("    if mask is not None:\n        scores = scores.masked_fill(torch.logical_not(mask), -math.inf)\n"),
    "arrays": "    if mask is not None:\n        scores = np.where(mask, scores, -np.inf)\n",
    "head_by_head": (
        "            if mask is not None:\n"
        '                scores = scores.masked_fill(mask[:, None, :] == 0, float("-inf"))\n'
    ),
}
ALLOWED = ("--mask-means", "allowed")

MASKED = (
    Planted(
        "mask after softmax",
        "separate",
        FILLED["separate"] + "        weights = torch.softmax(scores, dim=-1)\n",
        "        weights = torch.softmax(scores, dim=-1)\n"
        "        if mask is not None:\n            weights = weights * mask\n",
    ),
    Planted(
        "mask after softmax",
        "einsums",
        FILLED["einsums"] + "        weights = scores.softmax(dim=-1)\n",
        "        weights = scores.softmax(dim=-1)\n"
        "        if padding_mask is not None:\n"
        "            weights = weights.masked_fill(~padding_mask[:, None, None, :], 0.0)\n",
    ),
    Planted(
        "mask after softmax",
        "function",
        FILLED["function"] + "    weights = scores.softmax(dim=-1)\n",
        "    weights = scores.softmax(dim=-1)\n    if mask is not None:\n        weights = weights * mask\n",
    ),
    Planted(
        "mask after softmax",
        "arrays",
        FILLED["arrays"] + "    weights = softmax(scores, axis=-1)\n",
        "    weights = softmax(scores, axis=-1)\n"
        "    if mask is not None:\n        weights = np.where(mask, weights, 0)\n",
    ),
    Planted(
        "mask after softmax",
        "head_by_head",
        FILLED["head_by_head"] + "            weights = F.softmax(scores, dim=-1)\n",
        "            weights = F.softmax(scores, dim=-1)\n"
        "            if mask is not None:\n                weights = weights * mask[:, None, :]\n",
    ),
    Planted("mask multiplied", "separate", 'scores.masked_fill(~mask, float("-inf"))', "scores * mask"),
    Planted(
        "mask multiplied",
        "einsums",
        "scores.masked_fill(~padding_mask[:, None, None, :], -torch.inf)",
        "scores * padding_mask[:, None, None, :]",
    ),
    Planted(
        "mask multiplied",
        "fused",
        "            hidden = mask[:, None, None, :] == 0\n"
        '            scores = scores + torch.zeros_like(scores).masked_fill(hidden, float("-inf"))\n',
        "            scores = scores * mask[:, None, None, :].to(scores.dtype)\n",
    ),
    Planted("mask multiplied", "function", "masked_fill(torch.logical_not(mask), -math.inf)", "mul(mask)"),
    Planted("mask multiplied", "arrays", "np.where(mask, scores, -np.inf)", "scores * mask"),
    Planted("mask never used", "separate", FILLED["separate"], ""),
    Planted(
        "mask never used",
        "einsums",
        "            scores = scores.masked_fill(~padding_mask[:, None, None, :], -torch.inf)\n",
        "            scores.masked_fill(~padding_mask[:, None, None, :], -torch.inf)\n",
    ),
    Planted("mask never used", "function", FILLED["function"], ""),
    Planted("mask never used", "arrays", FILLED["arrays"], ""),
    Planted(
        "mask never used",
        "rearranged",
        "            dots = dots.masked_fill(",
        "            masked = dots.masked_fill(",
    ),
    Planted("mask inverted", "separate", "masked_fill(~mask,", "masked_fill(mask,", ALLOWED),
    Planted("mask inverted", "einsums", "~padding_mask[:", "padding_mask[:", ALLOWED),
    Planted("mask inverted", "fused", "mask[:, None, None, :] == 0", "mask[:, None, None, :] == 1", ALLOWED),
    Planted("mask inverted", "function", "torch.logical_not(mask)", "mask", ALLOWED),
    Planted("mask inverted", "arrays", "np.where(mask, scores, -np.inf)", "np.where(mask, -np.inf, scores)", ALLOWED),
    Planted(
        "-1e9 in half precision",
        "separate",
        'scores.masked_fill(~mask, float("-inf"))',
        "scores.masked_fill(~mask, -1e9)",
        ("--nowhere", "zero-or-nan"),
    ),
    Planted(
        "-1e9 in half precision",
        "einsums",
        "scores.masked_fill(~padding_mask[:, None, None, :], -torch.inf)",
        "scores + (~padding_mask[:, None, None, :]).to(scores.dtype) * scores.new_tensor(-1e9)",
        ("--nowhere", "zero-or-nan"),
    ),
    Planted(
        "-1e9 in half precision",
        "fused",
        'torch.zeros_like(scores).masked_fill(hidden, float("-inf"))',
        "torch.zeros_like(scores).masked_fill(hidden, -1e9)",
        ("--nowhere", "zero-or-nan"),
    ),
    Planted(
        "-1e9 in half precision",
        "function",
        "scores.masked_fill(torch.logical_not(mask), -math.inf)",
        "torch.where(mask, scores, torch.full_like(scores, -1e9))",
        ("--nowhere", "zero-or-nan"),
    ),
    Planted(
        "-1e9 in half precision",
        "arrays",
        "np.where(mask, scores, -np.inf)",
        "scores + (1 - mask.astype(scores.dtype)) * -1e9",
        ("--nowhere", "zero-or-nan"),
    ),
    Planted(
        "fully masked rows uniform",
        "separate",
        '(~mask, float("-inf"))',
        "(~mask, torch.finfo(scores.dtype).min)",
        ("--nowhere", "zero-or-nan"),
    ),
    Planted(
        "fully masked rows uniform",
        "einsums",
        ":], -torch.inf)",
        ":], -10000.0)",
        ("--nowhere", "zero-or-nan"),
    ),
    Planted(
        "fully masked rows uniform",
        "function",
        "-math.inf)",
        "torch.finfo(q.dtype).min)",
        ("--nowhere", "zero-or-nan"),
    ),
    Planted(
        "fully masked rows uniform",
        "arrays",
        "np.where(mask, scores, -np.inf)",
        "np.where(mask, scores, np.finfo(scores.dtype).min)",
        ("--nowhere", "zero-or-nan"),
    ),
    Planted(
        "fully masked rows uniform",
        "rearranged",
        '"b j -> b 1 1 j"), -torch.inf)',
        '"b j -> b 1 1 j"), -torch.finfo(dots.dtype).max)',
        ("--nowhere", "zero-or-nan"),
    ),
    Planted("[PAD] hidden as query", "einsums", "padding_mask[:, None, None, :]", "padding_mask[:, None, :, None]"),
    Planted("[PAD] hidden as query", "fused", "mask[:, None, None, :]", "mask[:, None, :, None]"),
    Planted("[PAD] hidden as query", "padded", "padding_mask[:, None, None, :]", "padding_mask[:, None, :, None]"),
    Planted("[PAD] hidden as query", "head_by_head", "mask[:, None, :] == 0", "mask[:, :, None] == 0"),
    Planted("[PAD] hidden as query", "rearranged", '"b j -> b 1 1 j"', '"b i -> b 1 i 1"'),
)

CAUSAL = (
    Planted(
        "causal off by one",
        "causal_buffer",
        "torch.tril(torch.ones(block_size, block_size))",
        "torch.tril(torch.ones(block_size, block_size), diagonal=1)",
    ),
    Planted("causal off by one", "causal_function", ".tril()", ".tril(1)"),
    Planted("causal off by one", "causal_arrays", "k=1)", "k=2)"),
    Planted("causal off by one", "causal_loop", "slice(0, i + 1)", "slice(0, i + 2)"),
    Planted("causal off by one", "causal_places", "> places[:, None]", "> places[:, None] + 1"),
    Planted(
        "causal hides itself",
        "causal_buffer",
        "torch.tril(torch.ones(block_size, block_size))",
        "torch.tril(torch.ones(block_size, block_size), diagonal=-1)",
    ),
    Planted("causal hides itself", "causal_function", ".tril()", ".tril(-1)"),
    Planted("causal hides itself", "causal_arrays", ", k=1)", ")"),
    Planted("causal hides itself", "causal_loop", "slice(0, i + 1)", "slice(0, i)"),
    Planted("causal hides itself", "causal_places", "> places[:, None]", ">= places[:, None]"),
    Planted("causal the wrong way", "causal_buffer", "torch.tril(", "torch.triu("),
    Planted("causal the wrong way", "causal_function", ".tril()", ".triu()"),
    Planted(
        "causal the wrong way",
        "causal_arrays",
        "np.where(future, -np.inf, scores)",
        "np.where(future, scores, -np.inf)",
    ),
    Planted("causal the wrong way", "causal_loop", "slice(0, i + 1)", "slice(i, None)"),
    Planted("causal the wrong way", "causal_places", "hidden = places[None, :] >", "hidden = places[None, :] <"),
)

MASKS = MASKED + CAUSAL
