"""Measure how often the document that holds an answer comes first, by effect and by share of attention.

    python tests/bench/sources.py [-m smollm2]

The 40 prompts of sample_inputs/questions.jsonl have 4 documents each, of which one holds the answer. Seconds are those
of the processor, on one thread, compared with a plain pass over the same tokens.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch

import attncli
from attncli.analysis.luck import LEVEL, wilson
from attncli.checks.machine import one_thread
from attncli.features.sources import AnswerSources
from attncli.models.generation import prompt_tokens
from attncli.text.units import PartedText

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.long_texts import clock
from measuring import processor

QUESTIONS = Path(__file__).resolve().parents[2] / "sample_inputs" / "questions.jsonl"
DOCUMENTS = [f"doc {number}" for number in range(1, 5)]
ORDERS: dict[str, Callable[..., float]] = {
    "effect": lambda part: part["effect"],
    "share": lambda part: part["share"],
    "share / length": lambda part: part["share"] / part["length_share"],
}


def first_document(found: AnswerSources, order: str) -> str:
    """Return the name of the document that one of ORDERS puts first; the question and what follows is no document."""
    return max((part for part in found.document()["parts"] if part["part"] in DOCUMENTS), key=ORDERS[order])["part"]


def main() -> None:
    """Measure, and print a table."""
    asked = argparse.ArgumentParser(description="Measure how often effects and shares find the right document.")
    asked.add_argument("-m", "--model", default="smollm2")
    options = asked.parse_args()
    model = attncli.load_model(options.model, device="cpu")
    questions = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    right = [one["part"] for one in questions]
    print(f"{options.model}, float32, {model.device}, 1 thread; {processor()}")
    print(", ".join(f"{name} {version(name)}" for name in ("attncli", "torch", "transformers")))
    firsts: dict[str, list[str]] = {order: [] for order in ORDERS}
    taken = plain = 0.0
    tokens = []
    with one_thread():
        for one in questions:
            begun = clock(model.device)
            found = attncli.sources(model, one["prompt"], answer=one["answer"], draws=0)
            taken += clock(model.device) - begun
            for order, names in firsts.items():
                names.append(first_document(found, order))
            text = f"{PartedText.tagged(one['prompt']).text} {one['answer']}"
            rows = prompt_tokens(model, text)
            begun = clock(model.device)
            with torch.inference_mode():
                model.last_hidden([rows])
            plain += clock(model.device) - begun
            tokens.append(len(rows))
            assert len(rows) == found.tokens
    print(f"first by        right of {len(right)}  95 % interval  first: {', '.join(DOCUMENTS)}")
    for order, names in {**firsts, "chance": right}.items():
        hits = sum(map(str.__eq__, names, right)) if order != "chance" else len(right) // len(DOCUMENTS)
        low, high = wilson(hits, len(right), LEVEL)
        counts = Counter(names)
        spread = " ".join(f"{counts[name]:5}" for name in DOCUMENTS)
        print(f"{order:14}{hits:6} {hits / len(right):6.1%}{low:9.1%} - {high:.1%}     {spread}")
    count = len(questions)
    print(f"{min(tokens)} to {max(tokens)} tokens: {taken / count:.2f} s, a plain pass {plain / count:.2f} s", end="")
    print(f" ({taken / plain:.1f} plain passes)")


if __name__ == "__main__":
    main()
