"""What later papers claim of parts that they added or took away, each claim measured on a real head and its input."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.analysis.patterns import entropy
from attncli.attention import (
    FeedForward,
    GatedFeedForward,
    QueryKeyNorm,
    RMSNorm,
    Rotary,
    TransformerEncoderLayer,
    dot,
    masked_softmax,
    scaled_dot,
    window_mask,
)
from attncli.checks.claims import NEAR, SAME, Claim, relative
from attncli.checks.designs import group_sizes, with_shared_keys
from attncli.checks.looks import HeadInLayer
from attncli.models.head import OneHead

SHIFT = 100  # tokens by which a text is moved
GROWN = 10.0  # times as long as they are
LAYERS = 4  # of random weights
TINY = 1e-12  # what norms add to a square


def check_papers(head: OneHead, in_layer: HeadInLayer, seed: int = 0) -> list[Claim]:
    """All claims, on one head, what goes into it, and the other heads of its layer, where there are any.

    Claims on the layer's input are left out where it is not known. There are none where the keys are of another text.
    """
    if head.record.key_tokens is not None:
        return []
    of_input = (
        [
            layer_norm_is_rms_norm_of_what_is_centred(head),
            gated_with_values_of_1_is_plain(head, seed),
            pre_norm_grows(head, seed),
        ]
        if head.x is not None
        else []
    )
    return [
        *([rotary_knows_differences_only(in_layer)] if in_layer.query.shape[-1] > 1 else []),
        wide_windows_are_none(in_layer),
        *([sharing_keys_moves_the_map(in_layer)] if len(in_layer.key) > 1 else []),
        qk_norm_bounds_scores(in_layer),
        *of_input,
    ]


def rotary_knows_differences_only(head: HeadInLayer) -> Claim:
    """Rotary scores of all heads are the same for the text further along; not if only the keys were."""
    rotary = Rotary(head.query.shape[-1] // 2 * 2)

    def scores(of_query: int, of_key: int) -> Tensor:
        places = torch.arange(len(head.mask), device=head.query.device)
        angles = (rotary.angles(places + first, torch.float64) for first in (of_query, of_key))
        turned = (rotary.turn(x.double(), one) for x, one in zip((head.query, head.key), angles, strict=True))
        return dot(*turned)

    own = scores(0, 0)
    both, keys = relative(scores(SHIFT, SHIFT), own), relative(scores(0, SHIFT), own)
    return Claim(
        "rotary",
        f"rotary scores depend on the difference of positions only: of a text that is moved on by {SHIFT} tokens",
        {"deviation": both, "if only its keys are": keys},
        both < SAME < keys,
    )


def wide_windows_are_none(head: HeadInLayer) -> Claim:
    """What moves in windows that are narrower and narrower, from one that is as wide as the text."""
    most = int(head.real.sum()) - 1
    reaches = sorted({most, most // 2, most // 4, 1, 0} - {-1}, reverse=True)
    tokens = len(head.mask)
    moved = [head.look(head.score, window_mask(reach, tokens)).moved for reach in reaches]
    return Claim(
        "window",
        "a window as wide as the text is no window, and the narrower the more weight must move",
        {f"reach {reach}": one for reach, one in zip(reaches, moved, strict=True)},
        moved[0] < SAME and all(wide <= narrow for wide, narrow in pairwise(moved)),
    )


def sharing_keys_moves_the_map(head: HeadInLayer) -> Claim:
    """With the mean of the keys of more and more heads in place of its own."""
    moved = {size: with_shared_keys(head, size).moved for size in group_sizes(head)}
    found = list(moved.values())
    return Claim(
        "shared keys",
        "the more heads share keys, the more of this head's weight moves: moved, with the mean of its group's keys",
        {f"heads {size}": one for size, one in moved.items()},
        found[0] < SAME and all(few < many for few, many in pairwise(found)),
    )


def qk_norm_bounds_scores(head: HeadInLayer) -> Claim:
    """Without gains scores are at most √d_k, and those of longer queries the same."""
    query, key = head.query[head.number].double(), head.key[head.number].double()
    d_k = query.shape[-1]
    normed = QueryKeyNorm(d_k, lambda d_k: nn.LayerNorm(d_k, eps=TINY, bias=False)).to(query)
    figures = {}
    largest: dict[str, list[float]] = {"own": [], "QK norm": []}
    entropies: dict[str, list[float]] = {"own": [], "QK norm": []}
    with torch.inference_mode():
        for name, score in (("own", scaled_dot), ("QK norm", normed)):
            for times, said in ((1.0, "as it is"), (GROWN, f"queries x {GROWN:g}")):
                scores = score(times * query, key)
                weights = masked_softmax(scores, head.mask).cpu().numpy()[head.counted]
                largest[name].append(scores.abs().max().item())
                entropies[name].append(float(entropy(weights).mean()))
                figures[f"{name}: largest score, {said}"] = largest[name][-1]
                figures[f"{name}: entropy, {said}"] = entropies[name][-1]
    return Claim(
        "QK norm",
        f"QK norm keeps scores within √d_k = {d_k**0.5:.2f}, so that longer queries don't saturate softmax",
        figures,
        max(largest["QK norm"]) <= d_k**0.5 + SAME
        and abs(entropies["QK norm"][0] - entropies["QK norm"][1]) < SAME
        and entropies["own"][0] > entropies["own"][1],
    )


def layer_norm_is_rms_norm_of_what_is_centred(head: OneHead) -> Claim:
    """On the layer's input, without gains and biases."""
    x = torch.from_numpy(head.x).double()
    norm = RMSNorm(x.shape[-1], eps=TINY).double()
    expected = F.layer_norm(x, x.shape[-1:], eps=TINY)
    with torch.inference_mode():
        centred, plain = relative(norm(x - x.mean(dim=-1, keepdim=True)), expected), relative(norm(x), expected)
    return Claim(
        "RMSNorm",
        "LayerNorm is RMSNorm of x with its mean taken away: of this layer's input",
        {"deviation": centred, "if the mean is left": plain},
        centred < SAME < plain,
    )


def gated_with_values_of_1_is_plain(head: OneHead, seed: int) -> Claim:
    """f(x W) ⊗ (x V + c), on the layer's input, with W drawn, and V = 0, c = 1, or V drawn too."""
    x = torch.from_numpy(head.x).double()
    size = x.shape[-1]
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(seed)
        plain, gated = FeedForward(size, size, F.gelu).double(), GatedFeedForward(size, size, F.gelu).double()
        gated.down = plain.down
        gated.up.weight[:size], gated.up.bias[:size] = plain.up.weight, plain.up.bias
        drawn = relative(gated(x), plain(x))
        gated.up.weight[size:], gated.up.bias[size:] = 0.0, 1.0
        deviation = relative(gated(x), plain(x))
    return Claim(
        "GLU",
        "a gated feed-forward network (GLU) whose values are all 1 is the plain one: of this layer's input",
        {"deviation": deviation, "if values depend on x": drawn},
        deviation < SAME < drawn,
    )


def pre_norm_grows(head: OneHead, seed: int) -> Claim:
    """Mean square of vectors after layers of random weights, on this layer's input brought to 1   (Xiong et al. 2020,
    lemma 2: it grows with every layer of pre-norm).
    """
    x = torch.from_numpy(head.x)
    size = x.shape[-1]
    start = RMSNorm(size, eps=TINY)(x)[None]
    figures = {}
    for name, norm_first in (("pre-norm", True), ("post-norm", False)):
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(seed)
            y = start
            for number in range(1, LAYERS + 1):
                y = TransformerEncoderLayer(size, 1, size, norm_first)(y).output
                figures[f"{name}: layer {number}"] = y.square().mean().item()
    pre, post = list(figures.values())[:LAYERS], list(figures.values())[LAYERS:]
    return Claim(
        "pre-norm",
        "with pre-norm vectors grow from layer to layer, with post-norm they don't: mean square, random layers",
        figures,
        all(one < more for one, more in pairwise([1.0, *pre])) and all(abs(one - 1) < NEAR for one in post),
    )
