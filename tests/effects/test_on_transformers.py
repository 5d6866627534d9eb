"""Ablation and cuts inside transformers' networks, beside the same done by hooks on their modules."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from by_hand import ByHand, Said
from small_networks import make_small

from attncli import load_model
from attncli.features.ablate import ablate
from attncli.features.cut import cut
from attncli.models.engine import Engine

TEXT, ANSWER = "the cat sat", "a cat on a mat"
REFERENCE = ["on the mat", "a cat in a cat"]
NEAR = 1e-5  # by which two programs may differ
DRAWS = 5  # of a resampled head

Measure = Callable[[Said], float]


class Sides(NamedTuple):
    """Our place in a network, and the same network with hooks; what they are asked.

    fed: what a decoder is fed; None for what it writes by itself.
    """

    model: Engine
    theirs: ByHand
    ids: list[int]
    fed: list[int] | None
    asking: dict[str, str | None]
    measure: Callable[[Said], Measure]

    def effect(self, **changed) -> float:
        """By hand: what is asked with these changes, less what it is without."""
        before = self.theirs.run(self.ids, self.fed)
        ask = self.measure(before)
        return ask(self.theirs.run(self.ids, self.fed, **changed)) - ask(before)


# --- what is asked --------------------------------------------------------------------------------------


def probability(place: int, label: int | None, before: Said) -> Measure:
    label = int(before.logits[place].argmax()) if label is None else label
    return lambda made: float(made.likely[place, label].exp())


def logit(place: int, label: int, before: Said) -> Measure:
    return lambda made: float(made.logits[place, label])


def log_probability(goal: list[int], before: Said) -> Measure:
    return lambda made: float(np.mean([float(made.likely[place, label]) for place, label in enumerate(goal)]))


def distance(before: Said) -> Measure:
    return lambda made: float(((made.last - before.last).norm(dim=-1) / before.last.norm(dim=-1)).mean())


def divergence(place: int, before: Said) -> Measure:
    of = before.likely if before.likely.dim() == 1 else before.likely[place]
    return lambda made: float((of.exp() * (of - (made.likely if made.likely.dim() == 1 else made.likely[place]))).sum())


def class_probability(label: int, before: Said) -> Measure:
    return lambda made: float(made.likely[label].exp())


def question_named(theirs: ByHand, question: str, ids: list[int], goal: list[int]):
    """Return a question by its name: the fields of `Asking`, and the same measure by hand."""
    vocabulary = theirs.tokenizer.get_vocab()
    name, number = next(
        (name, number)
        for name, number in sorted(vocabulary.items())
        if name.isalpha() and f"Ġ{name}" not in vocabulary and f"▁{name}" not in vocabulary
    )
    return {
        "next": ({}, partial(probability, -1, None)),
        "logit": ({"target": name, "ask": "logit"}, partial(logit, -1, number)),
        "at": ({"at": "2"}, partial(probability, 2, None)),
        "target at": ({"at": "2", "target": name}, partial(probability, 2, number)),
        "distance": ({"ask": "distance"}, distance),
        "divergence": ({"ask": "divergence"}, partial(divergence, -1)),
        "divergence at": ({"at": "2"}, partial(divergence, 2)),
        "written": ({"target": ANSWER}, partial(log_probability, goal)),
        "written at": ({"target": ANSWER, "at": "2"}, partial(probability, 2, goal[2] if goal else 0)),
        "own": ({}, partial(log_probability, goal)),
        "classes": ({}, partial(divergence, 0)),
        "class": ({"target": "LABEL_1"}, partial(class_probability, 1)),
    }[question]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """`made(name, head)` -> the model of a small checkpoint, made once."""
    found = {}

    def make(name, head=None):
        if (name, head) not in found:
            folder = make_small(tmp_path_factory.mktemp(name), name, head)
            dtype = "float32" if name == "gpt_oss" else "float64"  # whose experts transformers has in no other
            found[name, head] = load_model(str(folder), device="cpu", dtype=dtype, engine="transformers")
        return found[name, head]

    return make


@pytest.fixture
def sides(made):
    """`sides(name, part, question)`."""

    def make(name, part, question, head=None):
        model = made(name, head)
        theirs = ByHand(model.place.path, part, model.dtype)
        ids, fed, goal = theirs.tokenizer(TEXT).input_ids, None, []
        if theirs.paired:
            start = theirs.network.config.decoder_start_token_id
            goal = theirs.tokenizer(text_target=ANSWER).input_ids
            if question == "own":
                goal = theirs.written(ids)[1:]
            fed = [start, *goal[:-1]]
        asking, measure = question_named(theirs, question, ids, goal)
        if theirs.paired:
            asking = {"which": part, **({} if question == "own" else {"target": ANSWER}), **asking}
            if question in ("distance", "divergence"):
                del asking["target"]
                fed = None
        return Sides(model, theirs, ids, fed, asking, measure)

    return make


DECODERS = ["gpt2", "llama", "gemma3", "gemma2", "gemma2-uncapped", "gpt_oss", "opt"]
PARTS = [(name, part) for name in ("t5", "bart") for part in ("encoder", "decoder", "cross")]
PLACES = [*((name, "decoder") for name in DECODERS), ("esm", "encoder"), *PARTS]
QUICK = {("gpt2", "decoder"), ("llama", "decoder"), ("t5", "cross")}


def slow_unless(quick, cases):
    return [case if quick(case) else pytest.param(*case, marks=pytest.mark.slow) for case in cases]


def usual(name: str, part: str) -> str:
    """A question that is asked of a place."""
    return "written" if name in ("t5", "bart") else "distance" if name == "esm" else "next"


EVERY = [
    *(
        (name, "decoder", question)
        for name in DECODERS
        for question in ("next", "logit", "at", "distance", "divergence")
    ),
    *(("esm", "encoder", question) for question in ("distance", "divergence at", "target at")),
    *((*place, question) for place in PARTS for question in ("written", "written at", "own", "distance", "divergence")),
]


@pytest.mark.parametrize(("name", "part"), PLACES)
def test_attention_is_neither_uniform_nor_one_hot(sides, name, part):
    """Nor does a softcap of 2 leave it as it is without one."""
    one = sides(name, part, usual(name, part))
    maps = one.theirs.maps(one.ids, one.fed).numpy()
    assert maps.std() > 0.02 and 0.15 < maps.max(axis=-1).mean() < 0.95
    if name == "gemma2":
        other = sides("gemma2-uncapped", part, "next")
        assert np.abs(maps - other.theirs.maps(other.ids).numpy()).max() > 0.1


# --- ablation -------------------------------------------------------------------------------------------


def ablated(one: Sides, way: str, heads, references, size: int) -> float:
    """By hand: the effect of heads at once, whose outputs are replaced. references: outputs on other texts."""
    if way == "zero":
        return one.effect(changes=dict.fromkeys(heads, 0.0))
    if way == "mean":
        return one.effect(changes={(layer, head): references[layer, :, head].mean(dim=0) for layer, head in heads})
    found = []
    for draw in range(DRAWS):
        places = torch.randint(references.shape[1], (size,), generator=torch.Generator().manual_seed(draw))
        found.append(one.effect(changes={(layer, head): references[layer, places, head] for layer, head in heads}))
    return float(np.mean(found))


def check_ablation(one: Sides) -> None:
    """Two heads of two layers in another order than the model's: each, those of a layer, and all."""
    layers, heads = [1, 0], [1, 0]
    found = ablate(
        one.model, TEXT, way="zero,mean,resample", layer=layers, head=heads, reference=REFERENCE, **one.asking
    )
    references = torch.cat([one.theirs.outputs(one.theirs.tokenizer(text).input_ids) for text in REFERENCE], dim=1)
    before = one.theirs.run(one.ids, one.fed)
    size = len(one.theirs.seen[0])
    assert found.answer.value == pytest.approx(one.measure(before)(before), abs=NEAR)
    for place, way in enumerate(found.ways):
        of = partial(ablated, one, way, references=references, size=size)
        each = [[of([(layer, head)]) for head in heads] for layer in layers]
        np.testing.assert_allclose(found.effects[0, place], each, atol=NEAR)
        of_layers = [of([(layer, head) for head in heads]) for layer in layers]
        np.testing.assert_allclose(found.of_layers[0, place], of_layers, atol=NEAR)
        together = of([(layer, head) for layer in layers for head in heads])
        assert found.together[0, place] == pytest.approx(together, abs=NEAR)
    assert np.abs(found.effects).max() > 10 * NEAR


@pytest.mark.parametrize(
    ("name", "part", "question"), slow_unless(lambda case: case[:2] in QUICK and case[2] in ("next", "written"), EVERY)
)
def test_an_ablated_head_is_one_whose_output_hooks_replace(sides, name, part, question):
    """By 0, by its mean over other texts, and by what it gives on them."""
    check_ablation(sides(name, part, question))


@pytest.mark.slow
@pytest.mark.parametrize("question", ["classes", "class"])
@pytest.mark.parametrize(
    ("name", "part", "head"),
    [
        ("gpt2", "decoder", "GPT2ForSequenceClassification"),
        ("llama", "decoder", "LlamaForSequenceClassification"),
        ("opt", "decoder", "OPTForSequenceClassification"),
        ("esm", "encoder", "EsmForSequenceClassification"),
    ],
)
def test_classes_are_asked_of_transformers_own_head(sides, name, part, head, question):
    check_ablation(sides(name, part, question, head))


# --- cuts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep_rest", [False, True])
@pytest.mark.parametrize(("name", "part"), slow_unless(lambda case: case in QUICK, PLACES))
def test_cut_edges_are_those_that_hooks_cut(sides, name, part, keep_rest):
    """Cut in two heads, in all heads of two layers, and in each alone. One query then sees nothing."""
    one = sides(name, part, usual(name, part))
    layers, heads = [1, 0], [1, 0]
    given = {"keep_rest": keep_rest, "each_layer": True, **one.asking}
    found = cut(one.model, TEXT, edges=[("-1", "1"), ("2", "*")], layer=layers, head=heads, **given)
    for place, some in enumerate((layers, [1], [0])):
        hidden = {(layer, head): found.edges for layer in some for head in heads}
        expected = one.effect(hidden=hidden, keep_rest=keep_rest)
        assert found.effects[place] == pytest.approx(expected, abs=NEAR)
    assert np.abs(found.effects).max() > 10 * NEAR


@pytest.mark.parametrize("keep_rest", [False, True])
@pytest.mark.parametrize(("name", "part"), slow_unless(lambda case: case in {("gpt2", "decoder")}, PLACES))
def test_each_edge_by_itself_is_that_edge_cut(sides, name, part, keep_rest):
    """Those that can matter are those that change anything by hand; NaN is where eager gives no weight."""
    one = sides(name, part, usual(name, part))
    for layers in ([0], [1, 0]):
        found = cut(one.model, TEXT, layer=layers, head=[1, 0], keep_rest=keep_rest, **one.asking)
        maps = one.theirs.maps(one.ids, one.fed).numpy()
        there = maps[layers].sum(axis=(0, 1)) > 0
        assert np.array_equal(~np.isnan(found.effects), there)
        expected = np.full(there.shape, np.nan)
        for query, key in np.argwhere(there).tolist():
            hidden = {(layer, head): [(query, key)] for layer in layers for head in (1, 0)}
            expected[query, key] = one.effect(hidden=hidden, keep_rest=keep_rest)
        np.testing.assert_allclose(found.effects, expected, atol=NEAR)
        assert not found.can_matter[~there].any()
        assert np.array_equal(found.can_matter[there], expected[there] != 0)
        np.testing.assert_allclose(found.weights, maps[layers][:, [1, 0]].mean(axis=(0, 1)), atol=NEAR)
        assert np.nanmax(np.abs(found.effects)) > 10 * NEAR
