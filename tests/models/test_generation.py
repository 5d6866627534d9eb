"""Writing with kept keys and values gives the numbers of one pass over the whole text; draws are from its shares."""

import json
import shutil
from functools import cache

import numpy as np
import pytest
import torch
from checkpoints import EACH_DECODER, edit_config, language_head, make_checkpoint

from attncli import RequestError, load_model
from attncli.models import generation
from attncli.models.block import Tap
from attncli.models.generation import Sampling, choose, end_tokens, write
from attncli.record import Request

TEXT = "the cat sat on the big cat, and it"  # longer than the windows of small checkpoints


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """`checkpoint("llama")` -> the directory of a small random decoder that no token ends, made once."""

    @cache
    def make(family):
        made = make_checkpoint(tmp_path_factory.mktemp(family), family, language_head(family))
        edit_config(made, eos_token_id=None)
        (made / "generation_config.json").unlink(missing_ok=True)
        return made

    return make


def written(model, text=TEXT, sampling=Sampling(max_tokens=12), taps=()):
    return list(write(model, model.tokenizer.encode(text), sampling, taps))


def whole_of(model, steps, text=TEXT):
    """The tokens of the text with all that was written after it."""
    return model.tokenizer.extend(model.tokenizer.encode(text), [step.token for step in steps])


def logits_of(model, tokens):
    """The logits of every token, from one pass."""
    [last] = model.last_hidden([tokens])
    with torch.inference_mode():
        [logits] = generation.next_output(model)([last], [tokens])
    return logits.double()


@pytest.mark.parametrize("family", EACH_DECODER)
def test_every_step_has_the_probabilities_of_one_pass(checkpoint, family, monkeypatch):
    model = load_model(str(checkpoint(family)), "cpu", dtype="float64")
    monkeypatch.setattr(generation, "LIKELY", model.config.vocab_size)
    steps = written(model)
    start, logits = len(model.tokenizer.encode(TEXT)), logits_of(model, whole_of(model, steps))
    assert len(steps) == 12
    for place, step in enumerate(steps):
        expected = logits[start - 1 + place].softmax(dim=-1)
        numbers, shares = zip(*step.likely, strict=True)
        found = torch.tensor(shares, dtype=torch.float64)
        torch.testing.assert_close(found, expected[list(numbers)], rtol=0, atol=1e-10)
        assert step.token == step.likely[0][0] == int(expected.argmax()) and not step.ends
        assert step.probability == step.likely[0][1]


class Maps(Tap):
    """Keeps the rows of all maps by the queries and keys that they are of."""

    def __init__(self, layers, heads, tokens):
        self.weights_kept = torch.full((layers, heads, tokens, tokens), torch.nan, dtype=torch.float64)

    def places(self, block):
        return range(len(block.numbers))

    def weights(self, part, weights):
        self.weights_kept[part.layer, list(part.numbers), part.queries] = 0.0
        self.weights_kept[part.layer, list(part.numbers), part.queries, part.keys] = weights[0].double()


@pytest.mark.parametrize("family", EACH_DECODER)
def test_rows_of_maps_step_by_step_are_those_of_one_map(checkpoint, family):
    model = load_model(str(checkpoint(family)), "cpu", dtype="float64")
    count = len(model.tokenizer.encode(TEXT)) + 10
    kept = Maps(model.layers, model.heads, count)
    steps = written(model, sampling=Sampling(11), taps=[kept])
    tokens = whole_of(model, steps[:-1])  # nothing was computed after the last one
    [taken] = model.take([tokens], Request())
    assert len(tokens) == count
    torch.testing.assert_close(kept.weights_kept, taken.weights.double(), rtol=0, atol=1e-12)


def test_silenced_heads_are_silent_while_writing(checkpoint):
    model = load_model(str(checkpoint("llama")), "cpu", dtype="float64")
    silent = model.without("0.1,2.3")
    steps = written(silent)
    logits = logits_of(silent, whole_of(silent, steps))
    start = len(model.tokenizer.encode(TEXT))
    assert [step.token for step in steps] == logits[start - 1 : -1].argmax(dim=-1).tolist()
    assert [step.token for step in steps] != [step.token for step in written(model)]


def test_a_network_of_transformers_writes_the_same(checkpoint):
    path = str(checkpoint("mistral"))
    ours, theirs = (load_model(path, "cpu", dtype="float64", engine=engine) for engine in ("attncli", "transformers"))
    for one, other in zip(written(ours), written(theirs), strict=True):
        assert one.token == other.token and one.probability == pytest.approx(other.probability, abs=1e-6)


# --- the choice -----------------------------------------------------------------------------------------

LOGITS = torch.tensor([1.0, 3.0, -2.0, 2.0, 2.5, -40.0], dtype=torch.float64)
DRAWS = 1_000


@pytest.mark.parametrize(
    ("temperature", "top_p", "kept"),
    [
        (1.0, 1.0, [0, 1, 2, 3, 4, 5]),
        (0.5, 1.0, [0, 1, 2, 3, 4, 5]),
        # The shares are 0.473, 0.287 and 0.174 in the order 1, 4, 3; the token that reaches top_p is kept.
        (1.0, 0.3, [1]),
        (1.0, 0.75, [1, 4]),
        (1.0, 0.77, [1, 3, 4]),
        (4.0, 0.5, [1, 4]),  # after the temperature: 0.281, 0.248, 0.219
    ],
)
def test_draws_have_the_distribution_that_was_asked_for(temperature, top_p, kept):
    shares = np.zeros(len(LOGITS))
    shares[kept] = np.exp(LOGITS.numpy()[kept] / temperature)
    expected = DRAWS * shares / shares.sum()
    sampling, draw = Sampling(sample=True, temperature=temperature, top_p=top_p), torch.Generator().manual_seed(7)
    found = np.bincount([choose(LOGITS, sampling, draw) for _ in range(DRAWS)], minlength=len(LOGITS))
    assert found[expected == 0].sum() == 0
    often = expected > 5
    squares = ((found - expected)[often] ** 2 / expected[often]).sum()
    assert squares < 25, (found, expected)  # of at most 5 degrees of freedom: 1 in 7,000


def test_a_seed_is_a_text_and_probabilities_are_the_model_s_own(checkpoint):
    model = load_model(str(checkpoint("gpt2")), "cpu")
    first, again, other = (
        written(model, sampling=Sampling(12, sample=True, temperature=3.0, seed=seed)) for seed in (1, 1, 2)
    )
    assert first == again and [step.token for step in first] != [step.token for step in other]
    start, logits = len(model.tokenizer.encode(TEXT)), logits_of(model, whole_of(model, first))
    for place, step in enumerate(first):
        share = float(logits[start - 1 + place].softmax(dim=-1)[step.token])
        assert step.probability == pytest.approx(share, abs=1e-5)  # before the temperature
    assert any(step.token != step.likely[0][0] for step in first)


# --- the end --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_the_end_token_ends_a_text(checkpoint, file, as_list, tmp_path):
    path = shutil.copytree(checkpoint("llama"), tmp_path / "llama")
    tokens = [step.token for step in written(load_model(str(path), "cpu"))]
    end = tokens[4]
    stated = {"eos_token_id": [end, 99_999] if as_list else end}
    if file == "config.json":
        edit_config(path, **stated)
    else:
        edit_config(path, eos_token_id=next(number for number in range(3, 99) if number not in tokens))
        (path / file).write_text(json.dumps(stated))
    model = load_model(str(path), "cpu")
    assert end_tokens(model.place) == {end, *([99_999] if as_list else [])}
    steps = written(model)
    stop = tokens.index(end) + 1
    assert [step.token for step in steps] == tokens[:stop]
    assert [step.ends for step in steps] == [False] * (stop - 1) + [True]


def test_writing_stops_at_the_last_position(checkpoint):
    model = load_model(str(checkpoint("gpt2")), "cpu")
    room = model.tokenizer.max_tokens - len(model.tokenizer.encode(TEXT))
    assert 0 < room < 40 and len(written(model, sampling=Sampling(100))) == room
    filling = " ".join(["the"] * 39)
    full = model.tokenizer.encode(filling)
    assert len(full) == model.tokenizer.max_tokens
    with pytest.raises(RequestError, match=r"fills all positions of .*: shorten it"):
        written(model, filling)


def test_what_predicts_no_next_token_writes_nothing(tiny):
    for path in (tiny("bert"), tiny("llama")):  # an encoder; a decoder without a head
        with pytest.raises(RequestError, match=r"writes no text: .*Use a decoder, such as -m smollm2"):
            written(load_model(str(path), "cpu"))
