"""Taps where queries meet keys: what one keeps does not depend on the others, and changes have their effect."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import make_small
from torch import Tensor
from windows import corpus

from attncli import load_model
from attncli.attention import MASKS
from attncli.corpus.batch_sums import BatchSums, Memory
from attncli.corpus.sums import Counting
from attncli.effects.change import Changed, Put
from attncli.models.model import as_rows
from attncli.models.taps import Gates, GroupedMaps, KeptMaps, Lengths, Outputs, ProjectionInputs, QueriesAndKeys, Terms
from attncli.models.walk import walk
from attncli.record.grouping import axes_of
from attncli.record.selection import Grouping

TEXTS = ["the cat sat", "it, too", "un believ able cat on the cat", "a", "the big cat"]
KEEPERS = (
    "maps",
    "maps of one head",
    "grouped",
    "grouped norms",
    "vectors",
    "terms",
    "lengths",
    "head",
    "sums",
    "gates",
)
GATED = {(1, 2): [0.0, 1.0, 0.5, 2.0, -1.0], (3, 0): [0.0] * 5}
CHOSEN = st.permutations(range(4)).flatmap(
    lambda order: st.integers(1, len(order)).map(lambda count: list(order[:count]))
)


@pytest.fixture(scope="module", params=["bert", "mpnet", "deberta-v2"])
def model(tiny, request):
    loaded = load_model(str(tiny(request.param)), device="cpu", dtype="float64")
    loaded.need(loaded.config.layers)
    return loaded


class Kept:
    """A walk with these taps, in their order."""

    def __init__(self, model, names, layers, heads, mask, block_weights=10**6):
        windows = list(corpus(model, TEXTS))
        rows = as_rows([one.tokens for one in windows], model.config, mask, model.device)
        like = torch.empty(0, dtype=model.dtype)
        axes = [axes_of(Grouping(unit="word"), one.tokens) for one in windows]
        self.pairs = [(layer, head) for layer in layers for head in heads]
        self.by_name = {}
        for name in names:
            make = {
                "maps": partial(KeptMaps, rows.runs, layers, heads, like.new_empty),
                "maps of one head": partial(KeptMaps, rows.runs, [2], [3], like.new_empty),
                "grouped": partial(GroupedMaps, axes, layers, heads, like.new_zeros, False),
                "grouped norms": partial(GroupedMaps, axes, [2, 0], [3, 1], like.new_zeros, True),
                "vectors": partial(QueriesAndKeys, rows.runs, self.pairs, model.config.head_dim, like.new_empty),
                "terms": partial(Terms, rows.runs, self.pairs, like.new_zeros),
                "lengths": partial(Lengths, rows.runs, layers, heads, like.new_empty),
                "head": partial(ProjectionInputs, 2, 1),
                "sums": lambda: BatchSums(model, Counting(mask), Memory(block_weights, like, 2), windows, rows),
                "gates": partial(Gates, GATED),
            }[name]
            self.by_name[name] = make()
        with torch.inference_mode():
            self.states = list(walk(model.network, rows, list(self.by_name.values())))

    def found(self, name) -> list[Tensor]:
        one = self.by_name[name]
        if name == "sums":
            with torch.inference_mode():
                return [torch.from_numpy(one.totals)]
        if name == "head":
            return [part for text in sorted(one.kept) for part in one.kept[text]]
        if name == "terms":
            return [run[term] for run in one.kept for term in sorted(run)]
        return [] if name == "gates" else one.kept


@pytest.mark.slow
@given(
    names=st.permutations(KEEPERS).flatmap(lambda order: st.integers(1, len(order)).map(lambda few: order[:few])),
    layers=CHOSEN,
    heads=CHOSEN,
    mask=st.sampled_from(list(MASKS)),
    block_weights=st.sampled_from([1, 40, 300, 10**6]),
)
@settings(max_examples=30)
def test_what_is_kept_does_not_depend_on_what_else_is_kept(model, names, layers, heads, mask, block_weights):
    """Maps, vectors, norms and sums, in any order: each is what it is without the others."""
    together = Kept(model, names, layers, heads, mask, block_weights)
    changed = [name for name in names if name == "gates"]
    for name in names:
        alone = Kept(model, [*changed, name] if name != "gates" else changed, layers, heads, mask)
        for one, other in zip(together.found(name), alone.found(name), strict=True):
            torch.testing.assert_close(one, other)
        for one, other in zip(together.states, alone.states, strict=True):
            torch.testing.assert_close(one, other)


def test_a_gate_is_of_its_text(model):
    """A number for each text: of 1 it changes nothing, of 0 it silences the head for that text alone."""
    tokens = [model.tokenizer.encode(text) for text in TEXTS]
    plain = [one.weights for one in model.take(tokens)]
    gated = [one.weights for one in model.take(tokens, taps=[Gates({(0, 1): [1.0, 0.0, 1.0, 0.5, 1.0]})])]
    changed = [not torch.allclose(one, other) for one, other in zip(plain, gated, strict=True)]
    assert changed == [False, True, False, True, False]


def check_order(model, tokens, head):
    """Twice as much and then none is none; none and then one head's own output is that output."""
    layer, number = head
    double, none = Gates({head: 2.0}), Gates({head: 0.0})
    own = Outputs()
    with torch.inference_mode():
        model.last_hidden([tokens], None, [own])
    put = Changed([Put({head: own.kept[layer][0][number]})])

    def last(*taps):
        with torch.inference_mode():
            return model.last_hidden([tokens], None, taps)[0]

    close = partial(torch.testing.assert_close, atol=1e-6, rtol=1e-6)  # some networks of transformers round to float32
    close(last(double, none), last(none))
    close(last(none, put), last())
    close(last(put, none), last(none))
    close(last(double, double), last(Gates({head: 4.0})))
    close(last(put, double), last(double))
    assert (last() - last(none)).abs().max() > 1e-3


def test_changing_taps_apply_in_the_order_given(model):
    check_order(model, model.tokenizer.encode(TEXTS[0]), (1, 2))


# --- inside transformers' networks ------------------------------------------------------------------------

THEIRS = [("gpt2", "decoder"), ("llama", "decoder"), ("t5", "cross")]
READ = ["the cat sat", "a cat", "on the mat", "the cat sat"]  # two of a length


@pytest.fixture(scope="module", params=THEIRS, ids=str)
def theirs(tmp_path_factory, request):
    """A part of a network of transformers, and texts for it."""
    name, part = request.param
    folder = make_small(tmp_path_factory.mktemp(name), name)
    loaded = load_model(str(folder), device="cpu", dtype="float64", engine="transformers").of_part(part)
    target = "a cat" if loaded.paired else None
    return loaded, [loaded.ready(loaded.tokenizer.encode(text), target) for text in READ]


def test_inside_transformers_changing_taps_apply_in_the_order_given(theirs):
    model, texts = theirs
    check_order(model, texts[0], (0, 2))


def test_inside_transformers_a_gate_is_of_its_text(theirs):
    model, texts = theirs
    with torch.inference_mode():
        plain = model.last_hidden(texts)
        gated = model.last_hidden(texts, None, [Gates({(0, 1): [1.0, 0.0, 0.5, 1.0]})])
    changed = [not torch.allclose(one, other) for one, other in zip(plain, gated, strict=True)]
    assert changed == [False, True, True, False]
