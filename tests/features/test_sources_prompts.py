"""Sources on smollm2: the right document of invented ones, and the numbers of a plain transformers run."""

import json
import re
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from bench.sources import first_document

from attncli import load_model, sources

SAMPLE = Path(__file__).parents[2] / "sample_inputs" / "questions.jsonl"
QUESTIONS = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_hiding_a_document_finds_the_one_with_the_answer(smollm2):
    right = [
        first_document(sources(smollm2, one["prompt"], answer=one["answer"], draws=0), "effect") == one["part"]
        for one in QUESTIONS[::5]
    ]
    assert sum(right) >= 6  # 8 of these 8, when it was written


class Plain:
    """A question in transformers: the tokens of the prompt and the answer, by their offsets."""

    def __init__(self, network, tokenizer, question):
        documents = re.findall(r'<doc id="\d"> (.*?) </doc>', question["prompt"])
        prompt = re.sub(r'<doc id="\d"> (.*?) </doc>', r"\1", question["prompt"])
        text = f"{prompt} {question['answer']}"
        encoded = tokenizer.encode(text)
        self.network, self.ids = network, torch.tensor([encoded.ids])
        begins = [next((at for at in range(*span) if not text[at].isspace()), span[0]) for span in encoded.offsets]
        places = [prompt.index(one) for one in (*documents, "Question:")]  # white space after a document is part of it
        within = [
            {token for token, begin in enumerate(begins) if place <= begin < end} - {0}
            for place, end in pairwise(places)
        ]
        self.start = sum(begin < len(prompt) for begin in begins)  # of the answer
        self.parts = [*within, set(range(1, self.start)) - set.union(*within)]
        self.rows = range(self.start - 1, len(begins) - 1)

    def run(self, hidden=frozenset()):
        """Return the log-probabilities of the answer, and all maps, where some tokens are hidden."""
        count = self.ids.shape[1]
        mask = torch.full((1, 1, count, count), torch.finfo(torch.float32).min)
        for query in range(count):
            for key in range(query + 1):
                together = query in hidden and query < self.rows.start
                if key not in hidden or key == query or together:
                    mask[0, 0, query, key] = 0
        with torch.inference_mode():
            made = self.network(self.ids, attention_mask=mask, output_attentions=True)
        logs = made.logits[0].double().log_softmax(-1)
        found = [float(logs[row, self.ids[0, row + 1]]) for row in self.rows]
        return np.array(found), torch.stack(made.attentions)[:, 0].double().numpy()


@pytest.fixture(scope="module")
def both(smollm2_file, smollm2_by_transformers, exact):
    """The model and transformers' network, in float64: in float32 both round, and effects differ by up to 5e-5."""
    return load_model("smollm2", device="cpu", dtype="float64"), deepcopy(smollm2_by_transformers).double()


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 8, 17, 26, 33, 39])
def test_effects_and_shares_are_those_of_transformers(both, number):
    model, theirs = both
    question = QUESTIONS[number]
    found = sources(model, question["prompt"], answer=question["answer"], draws=0)
    plain = Plain(theirs, model.tokenizer.backend, question)
    assert [set(one.places) for one in found.parts] == plain.parts
    usual, maps = plain.run()
    assert found.value == pytest.approx(usual.mean(), abs=1e-9)
    rows = maps[:, :, plain.rows.start : plain.rows.stop]
    shares = np.array([rows[..., sorted(part)].sum() for part in plain.parts]) / rows[..., 1:].sum()
    np.testing.assert_allclose(found.shares[0], shares, rtol=0, atol=1e-9)
    effects = [(usual - plain.run(part)[0]).mean() for part in plain.parts]
    np.testing.assert_allclose(found.effects[0], effects, rtol=0, atol=1e-9)
