"""`attncli.capture`: the attention of networks that are not ours, against what they compute themselves."""

import contextlib
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import attncli
from attncli.base.errors import RequestError
from attncli.models.hub import locate
from attncli.models.taps import Gates

LENGTH, WIDTH, HEADS = 5, 32, 4


def by_hand(query: Tensor, key: Tensor, mask: Tensor | None, scale: float | None = None) -> Tensor:
    """Return softmax(q kᵀ scale + mask); rows that see nothing are 0."""
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1).nan_to_num(0.0)


@given(st.data())
def test_weights_of_fused_attention_are_those_of_the_formula(data: st.DataObject) -> None:
    draw = data.draw
    torch.manual_seed(draw(st.integers(0, 99)))
    texts, queries, keys = (draw(st.integers(1, 4)) for _ in range(3))
    groups, causal = draw(st.sampled_from([1, 2])), draw(st.booleans())
    query = torch.randn(texts, 4, queries, 8, dtype=torch.float64)
    key, value = torch.randn(2, texts, 4 // groups, keys, 8, dtype=torch.float64)
    form = draw(st.sampled_from(["none", "bool", "float", "bool of texts", "float of heads"]))
    mask = None
    if not causal and form != "none":
        shape = {"bool of texts": (texts, 1, queries, keys), "float of heads": (texts, 4, queries, keys)}
        mask = torch.randn(shape.get(form, (queries, keys)), dtype=torch.float64)
        mask = mask > 0 if form.startswith("bool") else mask
    scale = draw(st.sampled_from([None, 0.3]))
    options = {"attn_mask": mask, "is_causal": causal, "scale": scale, "enable_gqa": groups > 1}
    with attncli.capture() as seen:
        found = F.scaled_dot_product_attention(query, key, value, **options)
    assert torch.equal(found, F.scaled_dot_product_attention(query, key, value, **options)) or bool(found.isnan().any())
    shown = torch.ones(queries, keys, dtype=torch.bool).tril() if causal else mask
    expected = by_hand(query, key.repeat_interleave(groups, 1), shown, scale)
    np.testing.assert_allclose(seen.calls[0].weights, expected, atol=1e-12)


def test_each_text_of_a_batch_has_its_own_mask() -> None:
    network = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True), 2).eval()
    padding = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]], dtype=torch.bool)
    with attncli.capture(network) as seen:
        network(torch.randn(2, LENGTH, WIDTH), src_key_padding_mask=padding)
    assert [call.name for call in seen.calls] == ["layers.0.self_attn", "layers.1.self_attn"]
    record = seen.record(text=1)
    assert record.weights.shape == (2, HEADS, LENGTH, LENGTH) and record.kind == "encoder"
    assert record.masks[0, 0].tolist() == [True] * 3 + [False] * 2


@given(st.data())
def test_maps_of_multihead_attention_are_its_own(data: st.DataObject) -> None:
    draw = data.draw
    torch.manual_seed(draw(st.integers(0, 99)))
    keys, sizes = draw(st.integers(1, 5)), draw(st.sampled_from([None, 12]))
    more = {"add_bias_kv": draw(st.booleans()), "add_zero_attn": draw(st.booleans()), "kdim": sizes, "vdim": sizes}
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, bias=draw(st.booleans()), **more).double().eval()
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    of_keys = torch.randn(2, keys, sizes or WIDTH, dtype=torch.float64)
    padding = torch.rand(2, keys) > 0.8 if draw(st.booleans()) else None
    if padding is not None:
        padding[:, 0] = False  # what sees nothing is NaN in torch
    mask = draw(
        st.sampled_from([None, torch.randn(LENGTH, keys).double(), torch.randn(2 * HEADS, LENGTH, keys).double()])
    )
    options = {"key_padding_mask": padding, "attn_mask": mask}
    with attncli.capture() as seen:
        output, none = module(x, of_keys, of_keys, need_weights=False, **options)
    same, expected = module(x, of_keys, of_keys, average_attn_weights=False, **options)
    torch.testing.assert_close(output, same)
    assert none is None
    np.testing.assert_allclose(seen.calls[0].weights, expected.detach(), atol=1e-12)


def test_a_direct_call_hides_what_its_bool_masks_forbid() -> None:
    torch.manual_seed(0)
    module, x = nn.MultiheadAttention(WIDTH, HEADS).eval(), torch.randn(LENGTH, 2, WIDTH)
    padding = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)
    projections = [module.in_proj_weight, module.in_proj_bias, None, None, False, 0.0, module.out_proj.weight]
    options = {"key_padding_mask": padding, "attn_mask": torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(2)}
    more = {"training": False, "average_attn_weights": False, **options}
    with attncli.capture() as seen:
        _, expected = F.multi_head_attention_forward(x, x, x, WIDTH, HEADS, *projections, module.out_proj.bias, **more)
    np.testing.assert_allclose(seen.calls[0].weights, expected.detach(), atol=1e-6)
    assert seen.calls[0].kind == "encoder"


def test_keys_of_other_tokens_are_cross_attention_also_where_there_are_as_many() -> None:
    module, x, y = nn.MultiheadAttention(WIDTH, HEADS), *torch.randn(2, LENGTH, 1, WIDTH)
    with attncli.capture() as seen:
        module(x, y, y)
    assert seen.calls[0].kind == "cross"


SMALL = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
OLD = {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 1}


def test_an_encoder_decoder_has_three_kinds() -> None:
    torch.manual_seed(0)
    network = nn.Transformer(WIDTH, HEADS, 1, 2, 64, batch_first=True).eval()
    causal = nn.Transformer.generate_square_subsequent_mask(3)
    with attncli.capture(network) as seen:
        network(torch.randn(1, LENGTH, WIDTH), torch.randn(1, 3, WIDTH), tgt_mask=causal)
    with pytest.raises(RequestError, match="encoder and decoder and cross"):
        seen.record()
    assert seen.record("cross").weights.shape == (2, HEADS, 3, LENGTH)
    assert seen.record("decoder").mask_name == "causal"
    assert seen.record("encoder").layers == [0]


def test_steps_of_generation_are_one_map() -> None:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model("gpt2", **OLD)
    network = transformers.AutoModelForCausalLM.from_config(config).eval()
    ids = torch.randint(3, 50, (1, 4))
    with attncli.capture(network, tokenizer=_Names()) as seen:
        written = network.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, do_sample=False, eos_token_id=None
        )
    with attncli.capture(network) as whole, torch.no_grad():
        network(written[:, :-1])
    record = seen.record()
    np.testing.assert_allclose(record.weights, whole.record().weights, atol=1e-5)
    assert record.tokens.text == [f"t{number}" for number in written[0, :-1].tolist()]
    with pytest.raises(RequestError, match="no such attention"):
        seen.record(call=7)


def test_beams_that_change_places_are_not_joined_to_one_map() -> None:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model("gpt2", **OLD)
    network = transformers.AutoModelForCausalLM.from_config(config).eval()
    ids = torch.randint(3, 50, (1, 4))
    options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    with attncli.capture(network) as seen:
        network.generate(ids, num_beams=4, **options)
    with pytest.raises(RequestError, match=r"the texts change places between the calls of .*, as in beam search"):
        seen.records()
    assert seen.record(call=0).weights.shape[2:] == (4, 4)


class _Names:
    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [f"t{number}" for number in ids]


@pytest.mark.parametrize("fused", [True, False])
def test_a_silenced_head_adds_nothing_and_gradients_pass(fused: bool) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x = torch.randn(2, LENGTH, WIDTH, requires_grad=True)
    with attncli.capture(module, taps=[Gates({(0, 1): 0.0})]) as seen:
        output, _ = module(x, x, x, need_weights=not fused)
    output.sum().backward()
    assert x.grad is not None and bool(x.grad.any())
    with torch.no_grad():
        size = WIDTH // HEADS
        module.out_proj.weight[:, size : 2 * size] = 0
        expected, maps = module(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(output, expected)
    np.testing.assert_allclose(seen.calls[0].weights, maps, atol=1e-6)


@pytest.mark.parametrize("written", ["sdpa", "eager"])
def test_norms_of_minilm_are_those_of_its_engine(minilm, written: str) -> None:
    """By the formula of our network, and by the module that the joined outputs go through."""
    text = "The cat sat because it was tired."
    network = transformers.AutoModel.from_pretrained(locate("minilm").path, attn_implementation=written)
    expected = minilm.attend(text, measure="norm")
    with attncli.capture(network, tokens=expected.tokens, heads=[1, 4], measure="norm") as seen:
        network(torch.tensor([minilm.tokenizer.encode(text).ids]))
    record = seen.record()
    assert record.measure == "norm" and record.heads == [1, 4]
    np.testing.assert_allclose(record.weights, expected.weights[:, [1, 4]], rtol=1e-3, atol=1e-6)


def test_norms_of_multihead_attention() -> None:
    module, x = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), torch.randn(1, LENGTH, WIDTH)
    with attncli.capture(module, measure="norm") as seen:
        module(x, x, x)
    _, weights = module(x, x, x, average_attn_weights=False)
    values = F.linear(x, *(one.chunk(3)[2] for one in (module.in_proj_weight, module.in_proj_bias)))
    by_head = zip(values[0].chunk(HEADS, 1), module.out_proj.weight.chunk(HEADS, 1), strict=True)
    projected = [part @ columns.T for part, columns in by_head]
    lengths = torch.stack(projected).norm(dim=-1)
    np.testing.assert_allclose(seen.record().weights[0], (weights[0] * lengths[:, None]).detach(), atol=1e-6)


def test_norms_without_a_projection_are_refused_in_one_line() -> None:
    query = torch.randn(1, HEADS, LENGTH, 8)
    with attncli.capture(measure="norm") as seen:
        F.scaled_dot_product_attention(query, query, query)
    with pytest.raises(
        RequestError, match="norms need the output projection, but none reads the outputs of the attention"
    ):
        seen.record()


def test_only_what_is_wanted_is_kept() -> None:
    module = nn.Sequential(*(nn.TransformerEncoderLayer(WIDTH, HEADS, batch_first=True) for _ in range(3)))
    with attncli.capture(module, layers=[1], heads=[0, 3], tokens=list("abcde")) as seen:
        module(torch.randn(1, LENGTH, WIDTH))
    record = seen.record()
    assert (record.layers, record.heads, record.tokens.text) == ([1], [0, 3], list("abcde"))


def test_shapes_alone_take_no_maps() -> None:
    network = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, HEADS, batch_first=True), 2).eval()
    x = torch.randn(1, LENGTH, WIDTH)
    with attncli.capture(heads=[]) as seen:
        network(x)
        network(x)
    assert repr(seen) == f"<4 attentions · encoder: 2 layers, {HEADS} heads, {LENGTH} x {LENGTH}>"
    assert sum(call.weights.size for call in seen.calls) == 0
    with pytest.raises(RequestError, match="no such attention"):
        seen.record()
    with attncli.capture(calls=[1]) as second:
        network(x)
        network(2 * x)
    with attncli.capture() as both:
        network(2 * x)
    assert np.array_equal(second.record().weights, both.record().weights)


def test_some_rows_are_those_of_the_whole(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.TransformerEncoderLayer(WIDTH, HEADS, batch_first=True).eval()
    x, causal = torch.randn(1, LENGTH, WIDTH), torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    with attncli.capture() as whole, attncli.capture(queries=slice(-2, None), tokens=list("abcde")) as rows:
        module(x, src_mask=causal)
    record = rows.record()
    np.testing.assert_allclose(record.weights, whole.record().weights[:, :, -2:], atol=1e-6)
    assert (record.tokens.text, record.keys.text, record.kind) == (["d", "e"], list("abcde"), "decoder")
    assert record.masks[0].tolist() == [[True] * 4 + [False], [True] * 5]
    record.save(tmp_path / "rows.npz")
    assert attncli.load_record(tmp_path / "rows.npz").rows == record.rows == [3, 4]


def test_nothing_seen_is_one_clear_line() -> None:
    with attncli.capture() as seen:
        nn.Linear(2, 2)(torch.ones(1, 2))
    assert repr(seen) == "<no attention was seen>"
    with pytest.raises(RequestError, match="call the network inside the block"):
        seen.record()


def test_parts_of_a_network_that_are_called_alone_are_its_own() -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 4}
    config = transformers.AutoConfig.for_model("t5", **sizes, decoder_start_token_id=0)
    network = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
    other = nn.MultiheadAttention(WIDTH, HEADS)
    x = torch.randn(LENGTH, 1, WIDTH)
    with attncli.capture(network) as seen:
        network.generate(torch.randint(3, 50, (1, 6)), max_new_tokens=3, do_sample=False, eos_token_id=None)
        other(x, x, x)
    assert seen.record("encoder").weights.shape == (2, 4, 6, 6)  # `generate` calls the encoder, and not the network
    assert seen.record("decoder").weights.shape == (2, 4, 3, 3)
    assert len(seen.calls) == 2 + 3 * 2 * 2


@pytest.mark.parametrize("cache", [{}, {"cache_implementation": "static"}])
def test_a_cache_of_a_window_or_of_a_fixed_length_is_no_cross_attention(cache: dict[str, str]) -> None:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model("mistral", **SMALL, num_key_value_heads=2, sliding_window=3)
    network = transformers.AutoModelForCausalLM.from_config(config).eval()
    with attncli.capture(network) as seen:
        network.generate(torch.randint(3, 50, (1, 6)), max_new_tokens=4, do_sample=False, eos_token_id=None, **cache)
    assert {call.kind for call in seen.calls} == {"decoder"}


def test_heads_that_transformers_packs_into_queries_are_heads() -> None:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model("llama", **SMALL, num_key_value_heads=2)
    network = transformers.AutoModelForCausalLM.from_config(config).eval()
    ids, mask = torch.randint(3, 50, (2, 4)), torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])
    options = {"attention_mask": mask, "max_new_tokens": 3, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    with attncli.capture(network) as seen:
        written = network.generate(ids, **options)
    with attncli.capture(network) as whole:
        network(written[:, :-1], attention_mask=F.pad(mask, (0, 2), value=1))
    for one, other in zip(seen.records(), whole.records(), strict=True):
        np.testing.assert_allclose(one.weights[:, :, 1:], other.weights[:, :, 1:], atol=1e-5)
        assert np.array_equal(one.masks, other.masks)
    with attncli.capture(network, taps=[Gates({(1, 3): 1.0})]):
        assert torch.equal(network.generate(ids, **options), written)


class Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ZeroDivisionError


@pytest.mark.filterwarnings("error")
def test_a_module_that_raises_is_left_and_the_network_goes_on() -> None:
    class Tries(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bad, self.good = nn.Sequential(Raises()), nn.MultiheadAttention(WIDTH, HEADS)

        def forward(self, x: Tensor) -> Tensor:
            with contextlib.suppress(ZeroDivisionError):
                self.bad(x)
            return self.good(x, x, x)[0] @ F.scaled_dot_product_attention(x, x, x).mT

    network, x = Tries(), torch.randn(LENGTH, 1, WIDTH)
    with attncli.capture(network) as seen:
        network(x)
        network(x)
    assert [call.name for call in seen.calls] == ["good", ""] * 2 and not seen._running


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_a_changed_network_returns_have_gradients_and_its_dtype(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module, x = nn.MultiheadAttention(WIDTH, HEADS, dtype=dtype), torch.randn(LENGTH, 2, WIDTH, dtype=dtype)
    gradients = []
    for taps in ([], [Gates({(0, 1): 1.0})]):
        with attncli.capture(module, taps=taps, heads=[2]) as seen:
            _, weights = module(x, x, x, average_attn_weights=False)
        assert weights.dtype == dtype
        gradients.append(torch.autograd.grad(weights[..., 0].sum(), module.in_proj_weight)[0])
        np.testing.assert_allclose(seen.calls[0].weights[:, 0], weights[:, 2].detach().float(), atol=0.01)
    torch.testing.assert_close(*gradients, atol=0.05 if dtype == torch.bfloat16 else 1e-5, rtol=0.1)


def test_tokens_are_one_for_each_that_the_network_read() -> None:
    x = torch.randn(1, LENGTH, WIDTH)
    with attncli.capture(tokens=["a", "cat"]) as seen:
        nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)(x, x, x)
    with pytest.raises(RequestError, match="2 tokens were given, but the network read 5: give one for each"):
        seen.record()
