"""One file per feature. Each has a measure, which is a function that returns a result.

The measure is named like its file and its command: `attncli cut` is `cut.cut`. The command line, its help, its
completion and the Python functions of `attncli` are made from its signature.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attncli.features.measure import Measure

# The groups of `attncli --help`, and each command with the first line of its help. They are repeated here because
# importing all commands takes a second.
COMMANDS = {
    "Most used": {
        "run": "Show what the attention heads of a model do to a text.",
        "find": "Find the heads that look from one token to another.",
        "heatmap": "Draw attention maps into a file, and print the file's name.",
        "view": "Make a page of every head, in one file that works offline.",
        "generate": "Continue a text, and show where each new token looked.",
        "cut": "Cut edges of attention, and measure how an output changes.",
        "sources": "Find out which part of a prompt an answer rests on.",
        "check": "Check your own attention, and find the mistake.",
    },
    "See more": {
        "capture": "Run your program, and show the attention of its networks.",
        "diff": "Show where two sets of maps differ: which heads, which cells.",
        "explain": "Explain one row of a map: every number in it.",
        "explore": "Type a sentence and see all its heads, full screen.",
        "flow": "Follow attention down to the input tokens: rollout and flow.",
        "serve": "Serve view's page, with a text box.",
    },
    "Does it matter": {
        "ablate": "Measure how an output changes without a head.",
        "patch": "Patch head outputs from text B into the run of text A.",
        "similar": "Find out which pairs of tokens make two texts similar.",
        "trust": "Test whether attention explains an output.",
    },
    "Over many texts": {
        "kinds": "Label heads by what they do: induction, sinks, retrieval.",
        "probe": "Find the heads that attend to a word's syntactic head.",
        "stats": "Describe every head over a corpus.",
    },
    "Learn": {
        "align": "Translate dates with small networks, and show the alignment.",
        "mask": "Show what masks do to a text's maps, and check that they work.",
        "mechanisms": "Run one head with other scores and in other designs.",
    },
    "The program itself": {
        "compare": "Compare attncli's numbers with those of transformers or torch.",
        "models": "List the models with a short name, or show one.",
        "samples": "List, print or copy the texts that the examples name.",
    },
}
NAMES = tuple(name for commands in COMMANDS.values() for name in commands)


def find_measure(name: str) -> "Measure":
    """Import the measure of a command."""
    measure: Measure = getattr(importlib.import_module(f"{__name__}.{name}"), name).measure
    return measure
