"""A converted file gives the network that it was made from: its configuration, its tensors, its logits."""

import gguf
import numpy as np
import pytest
import torch
import transformers
from gguf_files import NETWORKS, Q, finish, write_file

from attncli import RequestError
from attncli.models.gguf.conversion import convert
from attncli.models.gguf.file import GGUFFile

IDS = torch.tensor([[1, 40, 7, 99, 200, 40, 7, 13, 250, 299, 5, 6]])


def logits(network):
    with torch.inference_mode():
        return network(IDS).logits


@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_is_that_from_which_the_file_was_made(name, tmp_path):
    made = write_file(tmp_path / "model.gguf", name)
    convert(tmp_path / "model.gguf", tmp_path / "out")
    found = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    theirs, ours = made.state_dict(), found.state_dict()
    assert ours.keys() == theirs.keys()
    for tensor in ours:
        assert torch.allclose(ours[tensor], theirs[tensor], rtol=0, atol=2e-7), tensor  # Gemma's + 1 - 1 rounds
    wanted = logits(made)
    assert wanted.std() > 0.1 and torch.allclose(logits(found), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))
    expected, given = made.config.to_dict(), found.config.to_dict()
    differing = {key for key in expected if expected[key] != given.get(key)}
    assert differing <= {"architectures", "_name_or_path", "dtype", "transformers_version", "pad_token_id", "n_ctx"}


def test_values_are_those_of_the_formulas(tmp_path):
    """Blocks of 32: a scale, for Q4_1 an offset, and 32 whole numbers."""
    blocks = np.random.default_rng(1).integers(0, 256, (5, 3, 34), np.uint8)
    blocks[..., :2] = np.float16([[0.25]]).view(np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_tensor("eight", blocks.reshape(5, -1), raw_dtype=Q.Q8_0)
    writer.add_tensor("four", (four := blocks[..., :20].copy()).reshape(5, -1), raw_dtype=Q.Q4_1)
    four[..., 2:4] = np.float16([[-1.5]]).view(np.uint8)
    finish(writer)
    file = GGUFFile(tmp_path / "model.gguf")
    assert np.array_equal(file.values("eight"), (0.25 * blocks[..., 2:].view(np.int8)).reshape(5, 96))
    halves = np.concatenate([four[..., 4:] & 15, four[..., 4:] >> 4], axis=-1)
    assert np.array_equal(file.values("four"), (0.25 * halves - 1.5).reshape(5, 96))


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general__architecture": "mamba"}, "the architecture 'mamba', which attncli does not read; it reads llama"),
        ({"general__architecture": "../llama"}, "the architecture '../llama'"),
        ({"split__count": 2}, "is one of several parts: join them with"),
        ({"llama__expert_count": 8}, "does not know the setting 'llama.expert_count'"),
        ({"llama__block_count": 2**31 - 1}, "tensors, too few for 2,147,483,647 layers"),
        ({"llama__block_count": 4}, "lacks the tensor blk.3.attn_q.weight"),
        ({"llama__block_count": 2}, "does not know the tensor 'blk.2."),
        ({"llama__block_count": 0}, "'llama.block_count' is 0"),
        ({"llama__block_count": None}, "lacks the entry 'llama.block_count'"),
        ({"llama__attention__head_count": "4"}, "'llama.attention.head_count' is '4'"),
        ({"llama__attention__head_count": 3}, "3 heads do not divide the hidden size 64"),
        ({"llama__attention__layer_norm_rms_epsilon": float("nan")}, "'llama.attention.layer_norm_rms_epsilon' is nan"),
        ({"llama__rope__dimension_count": 8}, "rotates only a part of each head"),
        ({"llama__rope__scaling__type": "longrope"}, "the scaling 'longrope'"),
    ],
)
def test_what_is_not_known_is_refused(changes, words, tmp_path):
    path = tmp_path / "model.gguf"
    write_file(path, "llama", **changes)
    with pytest.raises(RequestError) as caught:
        convert(path, tmp_path / "out")
    text = str(caught.value)
    assert words in text and "\n" not in text and str(path) in text and len(text) < 400 + len(str(path))
