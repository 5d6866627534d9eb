"""What is said of patches: which outputs were put where, what of the way they lead, and beside what."""

from attncli.analysis.patches import Patch
from attncli.base.printable import visible
from attncli.record.selection import name_of, number_list

SHARE = "share: (patched - first) / (second - first); 0 is the first text's output, 1 the second's"
CONTROL = "control: the same with what heads give at tokens drawn from other texts, mean of 5 draws"
PARTS = {
    "head": "each head's output",
    "layer": "the outputs of each layer's heads",
    "token": "the outputs of each layer's heads at each token",
}


def both(found: Patch) -> str:
    """What is asked, and what it is for both texts."""
    return f"{found.answer.about}: {found.answer.value:.4g} for the first text, {found.other:.4g} for the second"


def put_where(found: Patch) -> str:
    """What was put into the first text's run."""
    whose = "" if len(found.heads) == found.model.heads else f" (heads {number_list(found.heads)})"
    return f"{PARTS[found.by]}{whose}, from the second text's run into the first's, each by itself"


def part_name(found: Patch, row: int, column: int) -> str:
    """What was patched at a place of `effects`."""
    layer = found.layers[row]
    if found.by == "head":
        return f"{layer}.{found.heads[column]}"
    return f"layer {layer}" if found.by == "layer" else f"layer {layer}, {token_pair(found, column)}"


def token_pair(found: Patch, place: int) -> str:
    """A token, and what stands in its place in the second text, where that is another."""
    one, other = (visible(name_of(place, tokens)) for tokens in (found.tokens, found.other_tokens))
    return one if found.tokens.text[place] == found.other_tokens.text[place] else f"{one} <- {other}"
