"""Sequence to sequence, small and trained: dates as people write them -> ISO dates, to see attention as alignment.

Read in this order: `dates` (what is translated), `characters` (text <-> numbers), `recurrent` and `transformer` (the
networks, built from `attention/`), `checkpoint` (networks <-> files), `train`, `translate` (a text -> its date, with
the weights that led there). The trained weights lie in `weights/`, made by `attncli train-align`.

This room may import `attention/`, torch and safetensors; never rich, typer or matplotlib. Names are imported from the
modules, so that the list of kinds can be had without torch.
"""

from attncli.errors import RequestError

# The kinds of attention an aligner can have: four scores between a recurrent encoder and decoder, and the Transformer.
ATTENTIONS = ("additive", "dot", "general", "concat", "transformer")


def check_attention(attention: str) -> None:
    """Raises RequestError when there is no such kind of attention."""
    if attention not in ATTENTIONS:
        raise RequestError(f"there is no attention {attention!r} for aligning: choose from {', '.join(ATTENTIONS)}")
