"""The plug-in for pytest: how it describes a leak, and that pytest starts without torch."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F

from attncli.base.errors import RequestError
from attncli.checks.behaviour.opening import randomize, small_config
from attncli.testing import assert_attention, assert_no_leak

HEADS = 4
LEAK = r": token (\d+) differs by [\d.]+ in layer (\d), head (\d)(?: when token (\d+) changes)? \(rounding explains"


class SelfAttention(nn.Module):
    """Causal attention, of which some heads see tokens ahead, or [PAD]."""

    def __init__(self, width: int = 16, ahead: tuple[int, ...] = (0,) * HEADS, shows_padding: bool = False) -> None:
        super().__init__()
        self.n_heads, self.ahead, self.shows_padding = HEADS, ahead, shows_padding
        self.to_qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        length = x.shape[1]
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.to_qkv(x).chunk(3, dim=-1))
        visible = torch.stack([torch.ones(length, length, dtype=torch.bool).tril(one) for one in self.ahead])
        if real is not None and not self.shows_padding:
            visible = visible & real[:, None, None] | torch.eye(length, dtype=torch.bool)
        return self.out(F.scaled_dot_product_attention(q, k, v, visible).transpose(1, 2).flatten(2))


class GPT(nn.Module):
    """Three layers; the mask of one head of one layer may be off by `ahead`, or one layer may show [PAD]."""

    def __init__(self, layer: int = 0, head: int = 0, ahead: int = 0, padding: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(1)
        masks = [tuple(ahead * ((one, other) == (layer, head)) for other in range(HEADS)) for one in range(3)]
        self.embedding = nn.Embedding(50, 16)
        self.layers = nn.ModuleList(SelfAttention(16, one, number == padding) for number, one in enumerate(masks))
        self.eval()

    def forward(self, ids: Tensor, real: Tensor | None = None) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = x + layer(x, real)
        return x


def leak(model: Any, **options: Any) -> tuple[str, int, int, int, int | None]:
    """Return the law that a model breaks, and the token, layer, head and cause that the message names."""
    with pytest.raises(AssertionError) as raised:
        assert_no_leak(model, **options)
    first = str(raised.value).splitlines()[1]
    named = re.search(LEAK, first)
    assert named is not None, first
    token, layer, head, cause = named.groups()
    return first.split(":")[0], int(token), int(layer), int(head), None if cause is None else int(cause)


def test_a_right_model_passes() -> None:
    assert_no_leak(GPT(), vocab_size=50)
    assert_no_leak(SelfAttention().eval(), width=16)
    assert_no_leak(lambda x: x.cumsum(1), width=16)


@pytest.mark.parametrize(("layer", "head", "ahead"), [(0, 0, 1), (1, 2, 1), (2, 3, 2)])
def test_a_mask_off_by_one_in_one_head_of_one_layer(layer: int, head: int, ahead: int) -> None:
    law, token, found_layer, found_head, cause = leak(GPT(layer, head, ahead), vocab_size=50)
    assert (law, found_layer, found_head) == ("look-ahead", layer, head)
    assert cause is not None and token < cause <= token + ahead


@pytest.mark.parametrize("layer", [0, 2])
def test_padding_on_the_left_that_is_shown(layer: int) -> None:
    model = GPT(padding=layer)
    law, token, found_layer, *_ = leak(model, vocab_size=50, call=model)
    assert (law, found_layer) == ("padding on the left", layer) and token >= 3  # after 3 [PAD]
    assert_no_leak(GPT(), vocab_size=50, call=GPT())


def test_a_leak_outside_attention_modules_names_its_tokens() -> None:
    with pytest.raises(AssertionError, match=r"look-ahead: BROKEN: token \d+ differs by [\d.]+ when token \d+ changes"):
        assert_no_leak(lambda x: x.flip(1).cumsum(1), width=16)


def test_padding_of_an_encoder() -> None:
    encoder = GPT()
    for layer in encoder.layers:
        layer.ahead = (20,) * HEADS
    assert_no_leak(encoder, vocab_size=50, causal=False, call=encoder)
    with pytest.raises(AssertionError, match=r"an encoder, .* causal=False"):
        assert_no_leak(encoder, vocab_size=50)
    with pytest.raises(AssertionError, match="padding on the right"):
        assert_no_leak(encoder, vocab_size=50, causal=False, call=lambda ids, real: encoder(ids))


def test_a_model_of_transformers_is_not_changed() -> None:
    model = transformers.GPT2LMHeadModel(small_config("gpt2"))
    randomize(model)
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert_no_leak(model)
    assert model.training and not any(one._forward_hooks for one in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_models_that_can_not_be_checked() -> None:
    with pytest.raises(RequestError, match="vocab_size="):
        assert_no_leak(GPT())
    with pytest.raises(RequestError, match="training"):
        assert_no_leak(GPT().train(), vocab_size=50)
    with pytest.raises(RequestError, match="could not be checked"):
        assert_no_leak(GPT(), vocab_size=50, causal=False)


def unscaled(query: Tensor, key: Tensor, value: Tensor) -> Any:
    return (query @ key.mT).softmax(-1) @ value


def test_assert_attention() -> None:
    assert_attention(F.scaled_dot_product_attention)
    with pytest.raises(AssertionError, match=r"wrong: unscaled.*without the division"):
        assert_attention(unscaled)


THREE_LINES = """
def test_no_leak(assert_no_leak):
    from test_testing import GPT
    assert_no_leak(GPT(ahead=1), vocab_size=50)
"""


@pytest.mark.slow
def test_three_lines_suffice(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(THREE_LINES)
    here = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}; import pytest"
    call = "; pytest.main(['-p', 'no:cacheprovider', '-q', 'test_mine.py'])"
    made = subprocess.run(
        [sys.executable, "-c", here + call], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "1 failed" in made.stdout and "layer 0, head 0" in made.stdout
    assert "examine(" not in made.stdout  # the traceback ends in the test


def test_the_plug_in_imports_no_torch() -> None:
    code = "import pytest, attncli.testing, sys; print(not {'torch', 'transformers', 'numpy'} & set(sys.modules))"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout == "True\n"
