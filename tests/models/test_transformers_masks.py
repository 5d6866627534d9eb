"""Models from elsewhere some of whose layers see a window only: every layer's mask is what transformers hides there."""

import numpy as np
import pytest
import torch
import transformers
from foreign_checkpoints import LAYERED, NETWORKS, TEXT, WINDOW
from foreign_models import attend
from nearness import same_weights

from attncli import load_record
from attncli.models.transformers_place import masks_of

LOCAL = {"gemma2": [True, False, True], "gpt_neo": [True, True, False], "modernbert": [False, True, True, False]}


def expected(family: str, length: int) -> np.ndarray:
    """Every layer's mask as the configuration has it, `[layer, query, key]`."""
    back = np.subtract.outer(range(length), range(length))
    ahead = np.full((length, length), family == "modernbert")
    whole = ahead | (back >= 0)
    return np.stack([whole & (abs(back) < WINDOW) if local else whole for local in LOCAL[family]])


@pytest.mark.parametrize("family", LAYERED)
def test_every_layer_has_the_mask_of_its_kind(foreign, family):
    record = attend(foreign(family))
    masks = expected(family, len(record.tokens))
    assert np.array_equal(record.masks, masks) and not masks.all(axis=0).all()
    assert np.allclose(record.weights.sum(axis=-1), 1, atol=1e-5)
    for layer, mask in enumerate(masks):
        assert not record.weights[layer][:, ~mask].any() and record.weights[layer][:, mask].any(axis=0).all()


@pytest.mark.parametrize("family", LAYERED)
def test_its_maps_are_those_of_transformers(foreign, family):
    model = foreign(family)
    path = model.place.path
    batch = transformers.AutoTokenizer.from_pretrained(path)(TEXT, return_tensors="pt")
    network = getattr(transformers, NETWORKS[family]).from_pretrained(path, attn_implementation="eager")
    with torch.inference_mode():
        theirs = network(**batch, output_attentions=True).attentions
    assert same_weights(attend(model).weights, torch.cat(theirs))


@pytest.mark.parametrize("family", LAYERED)
def test_some_layers_bring_their_own_masks(foreign, family, tmp_path):
    model = foreign(family)
    whole, some = attend(model), attend(model, layers="2,1", heads=0)
    assert np.array_equal(some.masks, whole.masks[[2, 1]])
    assert np.array_equal(some.masks, whole.select([2, 1]).masks)
    for record in (whole, some):
        record.save(tmp_path / "maps.safetensors")
        assert np.array_equal(load_record(tmp_path / "maps.safetensors").masks, record.masks)


def test_padding_is_hidden_in_windows_too(foreign):
    record = attend(foreign("modernbert"), pad_to=12)
    real = ~np.array(record.tokens.padding)
    masks = expected("modernbert", len(record.tokens)) & real
    assert np.array_equal(record.masks[:, real], masks[:, real])


def test_a_weight_that_is_rounded_to_nothing_is_not_hidden():
    """One layer's heads may all be so sure that a weight underflows; another's of the same kind is not."""
    sure, unsure = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    causal = [[True, False], [True, True]]
    assert [mask.tolist() for mask in masks_of([sure, unsure], ["a", "a"])] == [causal, causal]
    apart = masks_of([sure, unsure, sure], ["a", "b", "a"])
    assert [mask.tolist() for mask in apart] == [np.eye(2, dtype=bool).tolist(), causal, np.eye(2, dtype=bool).tolist()]
