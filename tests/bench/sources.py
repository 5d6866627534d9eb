"""Measure how often the document that holds an answer comes first, by effect and by share of attention.

    python tests/bench/sources.py [-m smollm2]

The 40 prompts of sample_inputs/questions.jsonl have 4 documents each, of which one holds the answer. Seconds are those
of the processor, on one thread, compared with a plain pass over the same tokens. Then 5 prompts of about 600 tokens in
5 parts, which are 28 of these documents and a question, with random spans and without.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

import attncli
from attncli.analysis.significance import LEVEL, wilson
from attncli.checks.machine import one_thread
from attncli.effects.asking import RANDOM_SPANS
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


def long_prompt(questions: list[dict[str, str]]) -> str:
    """Return the documents of these questions as 5 parts, and the first question."""
    documents = [text for one in questions for text in re.findall(r'<doc id="\d"> (.*?) </doc>', one["prompt"])]
    parts = [" ".join(some) for some in np.array_split(documents, 5)]
    tagged = [f'<doc id="{number}"> {text} </doc>' for number, text in enumerate(parts, 1)]
    return "\n".join([*tagged, questions[0]["prompt"].splitlines()[-1]])


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
    times: list[tuple[float, float]] = []
    tokens = []

    def measure(prompt: str, answer: str, draws: int, sentences: bool = False) -> AnswerSources:
        begun = clock(model.device)
        found = attncli.sources(model, prompt, answer=answer, draws=draws, sentences=sentences)
        taken = clock(model.device) - begun
        rows = prompt_tokens(model, f"{PartedText.tagged(prompt).text} {answer}")
        assert len(rows) == found.tokens
        begun = clock(model.device)
        with torch.inference_mode():
            model.last_hidden([rows])
        times.append((taken, clock(model.device) - begun))
        tokens.append(len(rows))
        return found

    def print_times(what: str) -> None:
        taken, plain = np.mean(times, axis=0)
        print(f"{min(tokens)} to {max(tokens)} tokens, {what}: {taken:.2f} s, a plain pass {plain:.2f} s", end="")
        print(f" ({taken / plain:.1f} plain passes)")
        times.clear()
        tokens.clear()

    with one_thread():
        for one in questions:
            found = measure(one["prompt"], one["answer"], draws=0)
            for order, names in firsts.items():
                names.append(first_document(found, order))
    print(f"first by        right of {len(right)}  95 % interval  first: {', '.join(DOCUMENTS)}")
    for order, names in {**firsts, "chance": right}.items():
        hits = sum(map(str.__eq__, names, right)) if order != "chance" else len(right) // len(DOCUMENTS)
        low, high = wilson(hits, len(right), LEVEL)
        counts = Counter(names)
        spread = " ".join(f"{counts[name]:5}" for name in DOCUMENTS)
        print(f"{order:14}{hits:6} {hits / len(right):6.1%}{low:9.1%} - {high:.1%}     {spread}")
    print_times("no random spans")
    with one_thread():
        for draws, sentences in ((0, False), (RANDOM_SPANS, False), (RANDOM_SPANS, True)):
            for start in range(0, 35, 7):
                measure(long_prompt(questions[start : start + 7]), questions[start]["answer"], draws, sentences)
            print_times(f"at most {draws} random spans a part{', and sentences' * sentences}")


if __name__ == "__main__":
    main()
