"""The scaled tolerance: no false alarm on right programs, and small mistakes are past it."""

from itertools import pairwise

import pytest
import torch
from checkpoints import compare, load_both, make_checkpoint
from torch import nn

from attncli import load_model
from attncli.checks.tolerance import STEPS, TOLERANCES, scaled_tolerance, vector_size, weight_size
from attncli.models import walk
from attncli.models.block import meet
from attncli.models.transformers_peer import load_reference

SENTENCE = "The trophy does not fit in the suitcase because it is too big."
FALSE_ALARMS = ("eurobert", "nomic_bert", "mpnet")  # with flat tolerances


def test_the_tolerance_grows_with_the_dtype_the_depth_and_the_size():
    assert scaled_tolerance(torch.float32, 6, 4.0) == STEPS * 2**-23 * 6 * 4
    assert scaled_tolerance(torch.float64, 6, 4.0) == STEPS * 2**-52 * 6 * 4


def test_the_size_of_vectors_is_their_largest_number_and_at_least_1():
    assert vector_size(torch.tensor([[3.0, -40.0], [0.0, 1.0]])) == 40.0
    assert vector_size(torch.tensor([0.01])) == 1.0
    assert vector_size(torch.tensor([2.0, float("nan"), float("inf")])) == 2.0
    assert vector_size(torch.tensor([float("nan")])) == 1.0


def test_the_size_of_weights_is_that_of_the_scores_behind_them():
    scores = torch.tensor([[0.0, 64.0], [1.0, 2.0]])
    assert weight_size(scores.softmax(dim=-1)) == pytest.approx(64 / 16)
    assert weight_size(scores.softmax(dim=-1).double()) == pytest.approx(64 / 16)
    assert weight_size(torch.tensor([[1.0, 0.0]])) == 1.0  # the 0 is hidden by a mask
    assert weight_size(torch.zeros(2, 2)) == 1.0


def ordinary(directory, family, seed, **shape):
    """A checkpoint whose projections keep the size of what they are given, as trained ones do."""
    import transformers

    make_checkpoint(directory, family, max_position_embeddings=90, **shape)
    network = transformers.AutoModel.from_pretrained(directory)
    torch.manual_seed(seed)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Linear):
                module.weight.normal_(std=module.in_features**-0.5)
    network.save_pretrained(directory)
    return directory


DEEP = {"num_hidden_layers": 12, "hidden_size": 192, "intermediate_size": 384}


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{}, DEEP], ids=["small", "deep"])
@pytest.mark.parametrize("family", [*FALSE_ALARMS, "bert", "modernbert", "deberta-v2", "gte"])
def test_rounding_alone_is_within_the_scaled_tolerance(tmp_path, family, shape):
    """Against transformers in float64, which is exact: ours and transformers' own float32."""
    for seed in range(2):
        directory = ordinary(tmp_path / str(seed), family, seed, **shape)
        model = load_model(str(directory), device="cpu", dtype="float32")
        exact, rounded = (load_reference(directory, model.device, one) for one in (torch.float64, torch.float32))
        tokens = [model.tokenizer.encode(SENTENCE), model.tokenizer.encode("it is", "too big")]
        for reference in (exact, rounded):
            found = compare(model, tokens, reference=reference)
            assert found.same, found.verdict


# --- it finds small mistakes ----------------------------------------------------------------------------


def scaled_by(monkeypatch, factor):
    monkeypatch.setattr(walk, "meet", lambda block, *more: meet(block._replace(scale=block.scale * factor), *more))


@pytest.mark.parametrize("family", ["bert", *FALSE_ALARMS])
def test_a_scale_that_is_a_ten_thousandth_too_large_is_found_in_float32(tiny, family, monkeypatch):
    directory = tiny(family, max_position_embeddings=90)
    model, reference = load_both(directory, "float32")
    tokens = [model.tokenizer.encode(SENTENCE)]
    assert compare(model, tokens, reference=reference).same
    scaled_by(monkeypatch, 1.0001)
    assert not compare(model, tokens, reference=reference).same


@pytest.mark.parametrize(
    ("what", "name", "change"),
    [
        ("epsilon", "encoder.layer.1.output.LayerNorm", lambda norm: setattr(norm, "eps", 1e-3)),
        ("bias", "encoder.layer.1.attention.self.query", lambda linear: linear.bias.zero_()),
        ("bias", "encoder.layer.2.intermediate.dense", lambda linear: linear.bias.zero_()),
        ("one number", "encoder.layer.0.output.dense", lambda linear: linear.weight[3, 5].add_(0.001)),
    ],
)
def test_a_small_mistake_in_a_module_is_found_in_float32(tiny, what, name, change):
    directory = tiny(max_position_embeddings=90)
    model, reference = load_both(directory, "float32")
    with torch.no_grad():
        change(reference.network.get_submodule(name))
    found = compare(model, [model.tokenizer.encode(SENTENCE)], reference=reference)
    layer = int(name.split(".")[2])
    assert found.verdict.startswith(f"NOT the same: layer {layer} "), found.verdict


def test_the_coarser_the_dtype_the_more_is_allowed():
    order = ("float64", "float32", "float16", "bfloat16")
    for finer, coarser in pairwise(order):
        assert all(less < more for less, more in zip(TOLERANCES[finer], TOLERANCES[coarser], strict=True))
