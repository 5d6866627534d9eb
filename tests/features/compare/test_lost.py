"""A NaN of transformers is its own fault, and is reported."""

import pytest
import torch

from attncli import load_model
from attncli.checks.passes import Lost, merge_lost, run_finite
from attncli.features.compare.agreement import compare
from attncli.features.compare.beside import Both
from attncli.features.compare.ways import by_every_way
from attncli.models.transformers_peer import load_reference
from attncli.record import Input


@pytest.mark.slow
def test_where_float64_gives_nan_transformers_is_at_fault_and_float32_is_taken(tiny):
    """ModernBERT hides with float64's lowest number, and takes softmax in float32.

    A row of nothing but [PAD] in a window is NaN then, which reaches real rows as 0 x NaN.
    """
    directory = tiny("modernbert", max_position_embeddings=64)
    model = load_model(str(directory), device="cpu", dtype="float64")
    reference = load_reference(directory, model.device, model.dtype)
    tokens = model.tokenizer.encode("the cat sat", None, 40)
    real = [place for place, padding in enumerate(tokens.padding) if not padding]
    states = reference.run(tokens, "padding")[1]
    assert states[-1][real].isnan().any(dim=-1).all()
    (weights, states), lost = run_finite(reference, tokens, "padding")
    assert lost.rows == len(real) and lost.in_float32 and lost.mask == "padding"
    first = next(layer for layer, one in enumerate(reference.run(tokens, "padding")[0]) if one[:, real].isnan().any())
    assert lost.layer in (first - 1, first)  # the vectors after a layer, or the weights of the next
    single = load_reference(directory, model.device, torch.float32).run(tokens, "padding")
    assert all(torch.equal(one, other) for one, other in zip(weights, single[0], strict=True))
    found = compare(model, [tokens], reference=reference)
    assert found.same and "transformers is at fault: from layer" in found.verdict
    ways = by_every_way(Both(model, reference, [Input("the cat sat")], [tokens], 40))
    assert all(way.same and way.difference is not None for way in ways), ways
    assert run_finite(reference, model.tokenizer.encode("the cat sat"), "padding")[1] is None


def test_rows_of_several_texts_are_told_together():
    some = [Lost("padding", 3, 4, True), Lost("causal", 0, 1, True), Lost("padding", 2, 5, True)]
    assert merge_lost(some) == (Lost("padding", 2, 9, True), Lost("causal", 0, 1, True))
    assert merge_lost([]) == ()
