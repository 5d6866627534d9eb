"""The plug-in for pytest: what it says of a leak, and that pytest starts without torch."""

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
from attncli.checks.behaviour.small import randomize, small_config
from attncli.testing import assert_attention, assert_no_leak


class SelfAttention(nn.Module):
    def __init__(self, width: int = 16, heads: int = 4, ahead: int = 0) -> None:
        super().__init__()
        self.n_heads, self.ahead = heads, ahead
        self.to_qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        q, k, v = (one.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for one in self.to_qkv(x).chunk(3, dim=-1))
        shown = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(self.ahead)
        if real is not None:
            shown = shown & real[:, None, None] | torch.eye(x.shape[1], dtype=torch.bool)
        return self.out(F.scaled_dot_product_attention(q, k, v, shown).transpose(1, 2).flatten(2))


class GPT(nn.Module):
    def __init__(self, ahead: tuple[int, ...] = (0, 0)) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layers = nn.ModuleList(SelfAttention(ahead=one) for one in ahead)

    def forward(self, ids: Tensor, real: Tensor | None = None) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = x + layer(x, real)
        return x


def test_a_right_model_passes() -> None:
    assert_no_leak(GPT().eval(), vocab_size=50)
    assert_no_leak(SelfAttention().eval(), width=16)
    assert_no_leak(lambda x: x.cumsum(1), width=16)


@pytest.mark.parametrize(("ahead", "layer"), [((1, 0), 0), ((0, 2), 1)])
def test_a_leak_is_named(ahead: tuple[int, ...], layer: int) -> None:
    with pytest.raises(AssertionError, match=rf"look-ahead.*token \d+, layer {layer}, head \d"):
        assert_no_leak(GPT(ahead).eval(), vocab_size=50)
    with pytest.raises(AssertionError, match="look-ahead"):
        assert_no_leak(SelfAttention(ahead=1).eval(), width=16)
    with pytest.raises(AssertionError, match="look-ahead"):
        assert_no_leak(lambda x: x.flip(1).cumsum(1), width=16)


def test_padding_of_a_model_of_ones_own() -> None:
    model = GPT().eval()
    assert_no_leak(model, vocab_size=50, call=model)
    wide = GPT((20, 20)).eval()  # sees the future
    assert_no_leak(wide, vocab_size=50, causal=False, call=wide)
    with pytest.raises(AssertionError, match="padding on the right"):
        assert_no_leak(wide, vocab_size=50, causal=False, call=lambda ids, real: wide(ids))


def test_a_model_of_transformers_is_not_changed() -> None:
    model = transformers.GPT2LMHeadModel(small_config("gpt2"))
    randomize(model)
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert_no_leak(model)
    assert model.training and not any(one._forward_hooks for one in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_can_not_be_checked() -> None:
    with pytest.raises(RequestError, match="vocab_size="):
        assert_no_leak(GPT())
    with pytest.raises(RequestError, match="training"):
        assert_no_leak(GPT(), vocab_size=50)
    with pytest.raises(RequestError, match="nothing of"):
        assert_no_leak(GPT().eval(), vocab_size=50, causal=False)


def unscaled(query: Tensor, key: Tensor, value: Tensor) -> Any:
    return (query @ key.mT).softmax(-1) @ value


def test_assert_attention() -> None:
    assert_attention(F.scaled_dot_product_attention)
    with pytest.raises(AssertionError, match=r"wrong: unscaled.*without the division"):
        assert_attention(unscaled)


THREE_LINES = """
def test_no_leak(assert_no_leak):
    from test_testing import GPT
    assert_no_leak(GPT((1,)).eval(), vocab_size=50)
"""


def test_three_lines_suffice(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(THREE_LINES)
    here = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}; import pytest"
    call = "; pytest.main(['-p', 'no:cacheprovider', '-q', 'test_mine.py'])"
    made = subprocess.run(
        [sys.executable, "-c", here + call], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "1 failed" in made.stdout and "layer 0, head" in made.stdout
    assert "examine(" not in made.stdout  # the traceback ends in the test


def test_the_plug_in_imports_no_torch() -> None:
    code = "import pytest, attncli.testing, sys; print(not {'torch', 'transformers', 'numpy'} & set(sys.modules))"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout == "True\n"


def test_the_entry_point() -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\nattncli = "attncli.testing"' in text
