"""Only the maps that are asked for exist while a network of transformers runs."""

import json

import pytest
from foreign_checkpoints import make_foreign
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attncli import load_model
from attncli.record import Request

LENGTH = 512


class Watch(TorchDispatchMode):
    """Keeps the sizes, in bytes, and the shapes of all tensors that are made."""

    def __init__(self):
        super().__init__()
        self.sizes, self.shapes = [], []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for part in result if isinstance(result, tuple | list) else [result]:
            if isinstance(part, Tensor):
                self.sizes.append(part.untyped_storage().nbytes())
                self.shapes.append(tuple(part.shape))
        return result


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """Three layers of four heads over two key heads, with room for LENGTH tokens."""
    directory = make_foreign(tmp_path_factory.mktemp("long") / "llama", "llama")
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_position_embeddings": LENGTH}))
    return load_model(str(directory), device="cpu", engine="transformers")


def watched(model, predict):
    tokens = model.tokenizer.encode("the cat sat on the mat " * LENGTH).take(range(LENGTH))
    watch = Watch()
    with watch:
        [record] = model.attend_tokens([tokens], Request("1", "2", predict=predict))
    return record, watch


@pytest.mark.slow
@pytest.mark.parametrize("predict", [True, False])
def test_one_head_of_a_decoder_allocates_one_heads_maps(llama, predict):
    """Predict, so that the walk goes on to the last layer; the logits are those of the last token."""
    record, watch = watched(llama, predict)
    one_map = 4 * LENGTH**2
    assert record.weights.nbytes == one_map and (record.prediction is not None) == predict
    assert one_map <= max(watch.sizes) < 2 * one_map
    assert (LENGTH, len(llama.network.lm_head.weight)) not in {shape[-2:] for shape in watch.shapes}
