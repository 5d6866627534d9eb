"""The features, a file each: a measure, which is a function that returns a result.

It is the function in its file that is named as the command is: `attncli cut` is `cut.cut`. The command line, its help,
its completion and the Python functions of `attncli` are made of its signature.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attncli.features.measure import Measure

# The groups of `attncli --help`: each command with the first line of its help. Importing them all takes a second.
COMMANDS = {
    "Look": {
        "capture": "Run a program of your own, and show the attention of its networks.",
        "explore": "Type a sentence and see all its heads, full screen.",
        "find": "Find the heads that look from one token to another.",
        "generate": "Write on from a text, and show where each new token looked.",
        "heatmap": "Draw attention maps into a file, and print the file's name.",
        "run": "Show what the attention heads of a model do with a text.",
        "serve": "Serve the page of view with a field to type in.",
        "view": "Make a page of every head, in one file that needs no network.",
    },
    "Understand": {
        "align": "Translate dates with small networks, and show the alignment.",
        "check": "Check your own attention, and find the mistake.",
        "explain": "Explain one row of a map: every number in it.",
        "flow": "Follow attention down to the input tokens: rollout and flow.",
        "mask": "Show what masks do to the maps of a text, and check their laws.",
        "mechanisms": "Run one head with other scores and in other designs.",
    },
    "Does it matter": {
        "ablate": "Measure how an output changes without a head.",
        "cut": "Cut edges of attention, and measure how an output changes.",
        "patch": "Patch outputs of heads on text B into the run of text A.",
        "similar": "Find out which pairs of tokens make two texts similar.",
        "sources": "Find out which part of a prompt an answer rests on.",
        "trust": "Test whether attention explains an output.",
    },
    "Corpora and comparisons": {
        "diff": "Show where two sets of maps differ: which heads, which cells.",
        "kinds": "Label heads by what they do: induction, sinks, retrieval.",
        "probe": "Find the heads that know the syntactic head of a word.",
        "stats": "Describe every head over a corpus.",
    },
    "The program itself": {
        "compare": "Compare what attncli computes with transformers, or with torch.",
        "models": "List the models with a short name, or show one.",
        "samples": "List, print or copy the texts that the examples name.",
    },
}
NAMES = tuple(name for commands in COMMANDS.values() for name in commands)


def find_measure(name: str) -> "Measure":
    """Import the measure of a command."""
    measure: Measure = getattr(importlib.import_module(f"{__name__}.{name}"), name).measure
    return measure
