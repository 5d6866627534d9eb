"""compare says yes to the same network, and no, naming the place, to any other."""

import copy
import json

import pytest
import torch
from checkpoints import EVERY, FAMILIES, compare, load_both
from hypothesis import given
from hypothesis import strategies as st
from planting import HANDED, plant, wrong_formulas
from slow import slow_except

from attncli import RequestError, load_model
from attncli.attention.mistakes import MISTAKES, RIGHT
from attncli.base import choices
from attncli.features.compare import beside
from attncli.features.compare.agreement import same_strongest
from attncli.features.compare.beside import NothingToCompare
from attncli.models import transformers_peer
from attncli.models.transformers_peer import load_reference

pytestmark = pytest.mark.usefixtures("exact")
TEXTS = (
    ("the cat sat on a mat", None, None),
    ("the cat sat", "it is too big", None),
    ("unbelievable!", None, 20),
    ("the dog ran", "far away", 30),
)
LAYERS = 4
MASKS = choices.names(choices.MaskName)
DTYPES = slow_except(["float32", "bfloat16", "float64", "float16"], ["float32"])


@pytest.fixture(scope="module")
def both(tiny):
    """`both("bert", "float64")` -> a small checkpoint in attncli, in transformers, and texts for it."""
    made = {}

    def make(family="bert", dtype="float64"):
        if (family, dtype) not in made:
            directory = tiny(family)
            model, reference = load_both(directory, dtype)
            made[family, dtype] = model, reference, [model.tokenizer.encode(*text) for text in TEXTS]
        return made[family, dtype]

    return make


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("family", EVERY)
def test_every_family_under_every_mask(both, family, mask):
    model, reference, texts = both(family)
    for other in (reference, None) if set(model.config.positions) == {None} else (reference,):
        found = compare(model, texts, mask, reference=other)
        assert found.same, found.verdict
        assert found.verdict.startswith("the same: weights within ")
        assert max(found.tolerance) < 1e-10
        assert [layer.layer for layer in found.layers] == list(range(LAYERS))
        assert all(layer.agreement == 1.0 for layer in found.layers)
        assert (found.texts, found.tokens) == (4, sum(map(len, texts)))
        assert (found.embeddings is None) == (other is None)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_dtype(both, family, dtype):
    model, reference, texts = both(family, dtype)
    for mask in MASKS:
        for other in (reference, None) if set(model.config.positions) == {None} else (reference,):
            found = compare(model, texts, mask, reference=other)
            assert found.same, found.verdict
            assert found.dtype == dtype and (found.hidden_mistakes is None) == (dtype not in ("bfloat16", "float16"))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_real_weights(minilm, dtype):
    model = minilm if dtype == "float32" else load_model("minilm", device="cpu", dtype=dtype)
    reference = load_reference(model.place.path, model.device, model.dtype)
    texts = [model.tokenizer.encode(*text) for text in TEXTS]
    for mask in MASKS:
        assert compare(model, texts, mask, reference=reference).same
        assert compare(model, texts, mask).same
    # What the tolerance must tell apart even in half precision: the mistake that people make most.
    for one in (reference, reference.in_float32):
        one.attention_mask = lambda tokens, mask: torch.ones(1, len(tokens), dtype=torch.long)
    assert compare(model, texts[:2], "padding", reference=reference).same  # there is no [PAD]
    assert not compare(model, texts[2:], "padding", reference=reference).same


# --- it can say no --------------------------------------------------------------------------------------


@given(layer=st.integers(0, LAYERS - 1), part=st.sampled_from(["query", "key", "value"]), row=st.integers(0, 31))
def test_a_changed_row_of_a_projection_is_named_with_its_layer(both, layer, part, row):
    model, reference, texts = both()
    wrong = copy.deepcopy(reference)
    projection = getattr(wrong.network.encoder.layer[layer].attention.self, part)
    with torch.no_grad():
        projection.weight[row] += 0.01
    found = compare(model, texts, reference=wrong)
    assert not found.same
    what = "hidden states" if part == "value" else "weights"
    assert found.verdict.startswith(f"NOT the same: layer {layer} {what} differ by ")
    assert found.embeddings == pytest.approx(0, abs=1e-10)
    assert all(before.hidden < 1e-10 for before in found.layers[:layer])


@pytest.mark.parametrize("part", ["query", "value", "output"])
def test_against_torch_only_the_changed_layer_differs(both, part, monkeypatch):
    model, _, texts = both()
    theirs = beside.torch_attention

    def wrong(attention):
        """torch's, with another number in a weight of layer 2's."""
        if attention is not model.network.layer(2).attention:
            return theirs(attention)
        changed = copy.deepcopy(attention)
        getattr(changed, part).weight.add_(0.1)
        return theirs(changed)

    monkeypatch.setattr(beside, "torch_attention", wrong)
    found = compare(model, texts)
    assert not found.same
    faulty = {fault.split(" differ")[0] for fault in found.faults()}
    assert faulty == {"layer 2 attention outputs"} | ({"layer 2 weights"} if part == "query" else set())


class Broken:
    """transformers, but in one text some rows of layer 1 have another number in their weights (0) or vectors (1)."""

    exact = has_padding_rows = True

    def __init__(self, right, text, what, bad, rows=(0,)):
        self.right, self.text, self.what, self.bad, self.rows = right, text, what, bad, list(rows)

    def run(self, tokens, mask):
        made = copy.deepcopy(self.right.run(tokens, mask))
        if tokens is self.text:
            part = made[self.what][1 + self.what]
            (part[1] if self.what == 0 else part)[self.rows, 3] = self.bad
        return made


@pytest.mark.parametrize("what", [0, 1])
def test_what_is_infinite_is_never_the_same(both, what):
    model, reference, texts = both()
    found = compare(model, texts, reference=Broken(reference, texts[1], what, float("inf")))
    assert len(found.faults()) == 1 and found.verdict.startswith("NOT the same: layer 1 ")
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert [layer[("weights", "hidden")[what]] is None for layer in document["layers"]] == [False, True, False, False]
    assert document["same"] is False


@pytest.mark.parametrize("what", [0, 1])
def test_what_is_no_number_in_ours_is_never_the_same(both, what, monkeypatch):
    model, reference, texts = both()
    take, states = model.take, model.hidden_states

    def broken(*arguments, **more):
        for one in take(*arguments, **more):
            weights = one.weights.clone()
            weights[1, 0, 0, 0] = float("nan")
            yield one._replace(weights=weights)

    def broken_states(*arguments):
        made = [one.clone() for one in states(*arguments)]
        made[2][0, 3] = float("nan")
        return made

    monkeypatch.setattr(model, *(("take", broken), ("hidden_states", broken_states))[what])
    found = compare(model, texts, reference=reference)
    assert found.faults() == [f"layer 1 {('weights', 'hidden states')[what]} are NaN"]


@pytest.mark.parametrize("what", [0, 1])
def test_where_transformers_gives_nan_nothing_is_compared(both, what):
    model, reference, texts = both()
    padded = texts[2]  # a row of [PAD] may be NaN
    assert compare(model, texts, reference=reference).same
    broken = Broken(reference, padded, what, float("nan"), rows=(0, 2, len(padded) - 1))
    with pytest.raises(NothingToCompare, match=r"NaN in 2 rows of real tokens \(mask padding, float64\): use another"):
        compare(model, texts, reference=broken)


# Ways of making a mistake that change nothing here: a BERT's attention to itself in float64 has no place for them, or
# they need several texts at once, and compare passes one at a time.
NOT_IN_BERT = {
    "-1e9 in half precision": 3,
    "fully masked rows uniform": 7,
    "no maximum subtracted": 1,
    "memory ignored": 1,
    "key heads in the wrong order": 1,
    "mask of another text": 2,
    "heads and texts mixed": 1,  # of two
}


def test_the_formula_in_the_place_of_our_attention_is_the_same(both, monkeypatch):
    model, reference, texts = both()
    for mask, seen in HANDED:
        with monkeypatch.context() as patch:
            plant(patch, model.network, RIGHT, seen)
            found = compare(model, texts, mask, reference=reference)
            assert found.same, found.verdict


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_no_known_mistake_is_the_same(both, mistake, monkeypatch):
    """Show each mistake, however it is made, with some mask or some way of passing it to the formula."""
    model, reference, texts = both()
    formulas, passed = wrong_formulas(mistake), 0
    for wrong in formulas:
        same = []
        for mask, seen in HANDED:
            with monkeypatch.context() as patch:
                plant(patch, model.network, wrong, seen)
                same.append(compare(model, texts[1:3], mask, reference=reference).same)
        passed += all(same)
    assert formulas and passed == NOT_IN_BERT.get(mistake.name, 0)


# --- how it counts --------------------------------------------------------------------------------------


def test_several_texts_are_their_worst_and_queries_are_pooled(both):
    model, reference, texts = both()
    wrong = copy.deepcopy(reference)
    with torch.no_grad():
        wrong.network.encoder.layer[1].attention.self.query.weight += 0.02
    together = compare(model, texts, reference=wrong)
    single = [compare(model, [text], reference=wrong) for text in texts]
    for number, layer in enumerate(together.layers):
        assert layer.weights == max(one.layers[number].weights for one in single)
        assert layer.hidden == max(one.layers[number].hidden for one in single)
        shares = [one.layers[number].agreement * one.tokens for one in single]
        assert layer.agreement == pytest.approx(sum(shares) / together.tokens)
    assert together.layers[3].agreement < 1


def allowed(layer):
    return [layer.weights_allowed, layer.hidden_allowed]


def test_chosen_layers_are_those_of_all(both):
    model, reference, texts = both()
    wrong = copy.deepcopy(reference)
    with torch.no_grad():
        wrong.network.encoder.layer[2].attention.self.query.weight += 0.02
    for other in (wrong, None):
        everything = compare(model, texts, reference=other)
        for one, number in zip(compare(model, texts, layers="-1,1", reference=other).layers, (3, 1), strict=True):
            other_one = everything.layers[number]
            assert allowed(one) == pytest.approx(allowed(other_one))
            for name in ("layer", "weights", "hidden", "agreement"):
                assert getattr(one, name) == pytest.approx(getattr(other_one, name), abs=1e-12)
    assert compare(model, texts, layers="0-1", reference=wrong).same
    assert not compare(model, texts, layers=2, reference=wrong).same


def test_in_float64_the_rows_of_pad_count(both):
    model, reference, texts = both()
    padded = texts[2]
    assert padded.padding[-1]
    found = compare(model, [padded], reference=Broken(reference, padded, 1, 0.0, rows=[-1]))
    assert found.queries == found.tokens == 20
    assert found.verdict.startswith("NOT the same: layer 1 hidden states")


def test_torch_has_no_scores_that_depend_on_positions(both):
    model, _, texts = both("mpnet")
    with pytest.raises(RequestError, match=r"does not support the scores of mpnet.* --against"):
        compare(model, texts)


def test_what_transformers_takes_in_float32_has_its_tolerance(both, monkeypatch):
    model, reference, texts = both("modernbert")
    double = compare(model, texts, reference=reference)
    monkeypatch.setattr(transformers_peer, "PARTLY_SINGLE", ("modernbert",))
    single = compare(model, texts, reference=reference)
    for one, other in zip(single.layers, double.layers, strict=True):
        assert allowed(one) == pytest.approx([2**29 * number for number in allowed(other)])


def test_keys_that_are_equally_strong_are_both_the_strongest():
    ours = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.4, 0.6], [1.0, 0.0, 0.0]])
    theirs = torch.tensor([[0.4999999, 0.5000001, 0.0], [0.0, 0.6, 0.4], [1.0, 0.0, 0.0]])
    assert same_strongest(ours, theirs) == 2
    assert same_strongest(ours, torch.full_like(ours, float("nan"))) == 0
