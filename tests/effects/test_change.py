"""Changed attention beside the same change done by hooks to transformers' modules, for every family."""

import pytest
import torch
from checkpoints import EACH, load_both
from hooks import outputs_put
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli import load_model
from attncli.effects.change import Changed, Put, Reweigh, Unchanged, run_changes, silence, uniform
from attncli.models.taps import Gates

TEXT, PAIR = "the cat sat on it, un believ able", "the big cat"
HEADS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=5, unique=True)


@pytest.fixture(scope="module", params=EACH)
def both(request, tiny):
    """Ours in float64, and transformers' network of the same checkpoint."""
    return load_both(tiny(request.param))


def last(reference, tokens):
    """Return transformers' last vectors under the mask that the network was trained with."""
    return reference.run(tokens, "causal" if reference.config.causal else "padding")[1][-1]


def changed(text, changes):
    """Return the outputs of the last layer under each change, in order."""
    found = {}
    for numbers, [copies] in run_changes([text], changes):
        found.update(zip(numbers, copies, strict=True))
    return [found[number] for number in range(len(changes))]


@pytest.mark.usefixtures("exact")
@given(heads=HEADS, seed=st.integers(0, 9))
@settings(max_examples=4)
def test_heads_that_are_silenced_or_give_something_else(both, heads, seed):
    model, reference = both
    tokens = model.tokenizer.encode(TEXT)
    text = Unchanged.of(model, tokens)
    generator = torch.Generator().manual_seed(seed)
    size = model.config.head_dim
    vectors = {head: torch.randn(size, generator=generator, dtype=torch.float64) for head in heads}
    rows = {head: torch.randn(len(tokens), size, generator=generator, dtype=torch.float64) for head in heads}
    found = changed(text, [silence(heads), Put(vectors), Put(rows)])
    for one, outputs in zip(found, [dict.fromkeys(heads, 0.0), vectors, rows], strict=True):
        with outputs_put(reference.network, model, outputs):
            torch.testing.assert_close(one, last(reference, tokens), atol=1e-10, rtol=0)


@pytest.mark.parametrize("family", EACH)
def test_nothing_changed_is_what_it_was_to_the_last_bit(tiny, family):
    """Begun at any layer, as one copy or several, and with weights that are made as they were."""
    model = load_model(str(tiny(family)), device="cpu")
    tokens = model.tokenizer.encode(TEXT, PAIR, pad_to=36)
    for mask in ("padding", "causal", "none"):
        text = Unchanged.of(model, tokens, mask)
        for layer in range(model.config.layers):
            for count in (1, 5):
                for copy in text.copies(layer, [None] * count):
                    assert torch.equal(copy, text.last[0])
        [same] = changed(text, [Reweigh([(1, 0), (1, 3), (2, 2)], lambda heads, weights: weights)])
        torch.testing.assert_close(same, text.last[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_a_copy_has_its_own_change_and_no_other(tiny, mask):
    model = load_model(str(tiny("modernbert")), device="cpu", dtype="float64")
    text = Unchanged.of(model, model.tokenizer.encode(TEXT), mask)
    changes = [silence([(3, 1)]), silence([(0, 2), (3, 0)]), silence([(3, 1)]), silence([(0, 2)])]
    together = changed(text, changes)
    for change, found in zip(changes, together, strict=True):
        torch.testing.assert_close(found, changed(text, [change])[0])
    torch.testing.assert_close(together[0], together[2], atol=0, rtol=0)
    assert min(float((one - text.last[0]).abs().max()) for one in together) > 1e-3


def test_uniform_weights_are_equal_over_what_may_be_attended_to(tiny):
    model = load_model(str(tiny("modernbert")), device="cpu", dtype="float64")
    tokens = model.tokenizer.encode(TEXT, pad_to=36)
    text = Unchanged.of(model, tokens, "causal")
    seen = []

    def looked(heads, weights):
        seen.append((heads.allowed().expand_as(weights), made := uniform(heads, weights)))
        return made

    changed(text, [Reweigh([(1, 0), (1, 2)], looked)])
    [(allowed, made)] = seen
    assert not allowed.all()
    torch.testing.assert_close(made, allowed.double() / allowed.sum(-1, keepdim=True).clamp(min=1))


def test_a_gate_of_0_is_silence_and_of_1_is_nothing(minilm):
    tokens = minilm.tokenizer.encode("The cat sat on the mat.")
    text = Unchanged.of(minilm, tokens)
    gated = Unchanged.of(minilm, tokens, taps=[Gates({(2, 3): 0.0})])
    torch.testing.assert_close(gated.last[0], changed(text, [silence([(2, 3)])])[0], atol=1e-6, rtol=0)
    same = Unchanged.of(minilm, tokens, taps=[Gates({(2, 3): 1.0}), Changed([None])])
    assert torch.equal(same.last, text.last)
