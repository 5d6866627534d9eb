"""The encoder against transformers (eager), on small random networks of every family."""

from typing import Any

import pytest
import torch
from checkpoints import FAMILIES, make_config, make_network
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attncli.attention import causal_mask, combine_masks, padding_mask
from attncli.models.config import ModelConfig
from attncli.models.encoder import Encoded, Encoder
from attncli.models.weights import Checkpoint, StateDict, check_shapes, load_parameters

CPU = torch.device("cpu")
MASKS = ("none", "padding", "causal")


def our_encoder(config: Any, network: Any, dtype: torch.dtype) -> Encoder:
    """Ours, with what transformers' network holds."""
    ours = ModelConfig.from_dict(config.to_dict())
    checkpoint = Checkpoint([StateDict(network.state_dict())], "a network in memory")
    with torch.device("meta"):
        encoder = Encoder(ours)
    assert check_shapes(checkpoint, encoder, ours.family) == []
    for module in ("embeddings", *(f"layers.{number}" for number in range(ours.layers))):
        load_parameters(checkpoint, encoder, ours, module, dtype, CPU)
    return encoder


def masks(name: str, attention_mask: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """The same mask in our words and in transformers'."""
    if name == "none":
        return None, None
    if name == "padding":
        return padding_mask(attention_mask), attention_mask
    length = attention_mask.shape[1]
    ours = combine_masks(padding_mask(attention_mask), causal_mask(length))
    least = torch.finfo(torch.float64).min
    return ours, torch.zeros(ours.shape, dtype=torch.float64).masked_fill(~ours, least)


def run_both(
    family: str,
    mask: str,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    batch: int = 2,
    length: int = 9,
    **changes,
) -> tuple[Encoded, Any, Encoder]:
    """One forward pass of each, over random tokens and segments; [PAD] stands among the tokens too."""
    config = make_config(family, **changes)
    network = make_network(config, seed=seed)
    encoder = our_encoder(config, network, dtype)
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, config.vocab_size, (batch, length), generator=random)
    ids[:, 2] = config.pad_token_id
    attention_mask = (torch.rand(batch, length, generator=random) < 0.7).long()
    attention_mask[:, 0] = 1  # no row is without anything to attend to: there transformers' numbers mean nothing
    kinds = getattr(config, "type_vocab_size", 1)
    segments = torch.randint(0, kinds, (batch, length), generator=random)
    our_mask, their_mask = masks(mask, attention_mask)
    more = {} if family == "distilbert" else {"token_type_ids": segments}
    if mask == "causal":
        their_mask = their_mask.to(dtype)
    with torch.no_grad():
        theirs = network.to(dtype)(
            ids, attention_mask=their_mask, output_attentions=True, output_hidden_states=True, **more
        )
    every = range(config.num_hidden_layers), range(config.num_attention_heads)
    with torch.inference_mode():
        ours = encoder(ids, segments, our_mask, *every, hidden=True)
        without = encoder(ids, segments, our_mask, *every)
    torch.testing.assert_close(without.weights, ours.weights)
    assert without.hidden == []
    return ours, theirs, encoder


def close(ours: Encoded, theirs: Any, weights: float, hidden: float) -> None:
    torch.testing.assert_close(ours.weights, torch.stack(theirs.attentions, dim=1), rtol=0, atol=weights)
    assert len(ours.hidden) == len(theirs.hidden_states)
    for here, there in zip(ours.hidden, theirs.hidden_states, strict=True):
        torch.testing.assert_close(here, there, rtol=0, atol=hidden)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_under_every_mask(family, mask):
    ours, theirs, _ = run_both(family, mask)
    close(ours, theirs, 1e-12, 1e-11)
    ours, theirs, _ = run_both(family, mask, torch.float32)
    close(ours, theirs, 1e-5, 1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=15)
def test_whatever_the_shape(family, data):
    draw = data.draw
    heads = draw(st.integers(1, 5), label="heads")
    changes = {
        "num_attention_heads": heads,
        "hidden_size": heads * draw(st.integers(1, 7), label="head_dim"),
        "num_hidden_layers": draw(st.integers(1, 4), label="layers"),
        "intermediate_size": draw(st.integers(1, 40), label="intermediate_size"),
        "hidden_act": draw(st.sampled_from(["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"])),
        "max_position_embeddings": draw(st.integers(20, 40), label="positions"),
        "pad_token_id": draw(st.integers(0, 6), label="pad_token_id"),
    }
    if family != "distilbert":
        changes["layer_norm_eps"] = draw(st.sampled_from([1e-12, 1e-5, 1e-2]))
        changes["type_vocab_size"] = draw(st.integers(1, 4), label="segments")
    if family == "electra":
        changes["embedding_size"] = draw(st.sampled_from([changes["hidden_size"], 3, 30]))
    ours, theirs, _ = run_both(
        family,
        draw(st.sampled_from(MASKS), label="mask"),
        seed=draw(st.integers(0, 2**32), label="seed"),
        batch=draw(st.integers(1, 3), label="batch"),
        length=draw(st.integers(3, 12), label="length"),
        **changes,
    )
    close(ours, theirs, 1e-9, 1e-8)


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_embeddings_are_widened_only_where_they_are_narrow(family):
    _, _, encoder = run_both(family, "none", **({"embedding_size": 32} if family == "electra" else {}))
    assert encoder.embeddings.project is None
    _, _, narrow = run_both("electra", "none", embedding_size=7)
    assert narrow.embeddings.project.weight.shape == (32, 7)


def test_segments_matter_where_there_are_any():
    encoder = run_both("bert", "none")[2]
    ids = torch.tensor([[3, 4, 5]])
    with torch.inference_mode():
        zero, left_out, one = (
            encoder(ids, segments, hidden=True).hidden[0]
            for segments in (torch.zeros_like(ids), None, torch.ones_like(ids))
        )
    torch.testing.assert_close(zero, left_out)
    assert not torch.allclose(zero, one)


@given(st.data())
@settings(max_examples=30)
def test_a_request_gets_these_layers_and_heads_in_its_order(data):
    family = data.draw(st.sampled_from(FAMILIES))
    encoder = run_both(family, "none")[2]
    layers, heads = (data.draw(st.permutations(range(4)).flatmap(prefixes), label=what) for what in ("layers", "heads"))
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 50, (2, 6), generator=random)
    mask = combine_masks(causal_mask(6), padding_mask(torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6])))
    with torch.inference_mode():
        every = encoder(ids, None, mask, range(4), range(4)).weights
        some = encoder(ids, None, mask, layers, heads).weights
    torch.testing.assert_close(some, every[:, layers][:, :, heads])


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=10)
def test_queries_and_keys_are_those_of_transformers(family, data):
    """What its own projections give, in the last layer that runs and in those before, in the order asked for."""
    config = make_config(family)
    network = make_network(config).double()
    encoder = our_encoder(config, network, torch.float64)
    layers, heads = (data.draw(st.permutations(range(4)).flatmap(prefixes), label=what) for what in ("layers", "heads"))
    pairs = [(layer, head) for layer in layers for head in heads]
    neurons = data.draw(st.lists(st.sampled_from(pairs), unique=True), label="neurons")
    theirs: dict[str, list[Tensor]] = {"query": [], "key": []}
    for name, module in network.named_modules():  # in the order of the layers
        kind = {"query": "query", "q_lin": "query", "key": "key", "k_lin": "key"}.get(name.rpartition(".")[-1])
        if kind is not None:
            module.register_forward_hook(lambda _, inputs, output, kind=kind: theirs[kind].append(output))
    ids = torch.randint(5, 50, (2, 6), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        network(ids)
        found = encoder(ids, None, None, layers, heads, vectors=neurons).vectors
    assert found.shape == (2, 2, len(neurons), 6, 8) and len(theirs["query"]) == len(theirs["key"]) == 4
    for kind, ours in zip(("query", "key"), found, strict=True):
        for place, (layer, head) in enumerate(neurons):
            expected = theirs[kind][layer][..., 8 * head : 8 * (head + 1)]
            torch.testing.assert_close(ours[:, place], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("layers", [[3], [0, 2], [0, 1, 2, 3]])
@pytest.mark.parametrize("heads", [[1], [0, 1, 2, 3]])
def test_keeping_queries_and_keys_takes_no_more_arithmetic(layers, heads):
    """They are what was projected anyway."""
    from torch.utils.flop_counter import FlopCounterMode

    config = make_config("bert")
    encoder = our_encoder(config, make_network(config), torch.float64)
    counts = []
    for neurons in ([], [(layer, head) for layer in layers for head in heads]):
        with torch.inference_mode(), FlopCounterMode(display=False) as counter:
            encoder(torch.tensor([[2, 3, 4]]), layers=layers, heads=heads, vectors=neurons)
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


def prefixes(order: list[int]) -> st.SearchStrategy[list[int]]:
    return st.integers(1, len(order)).map(lambda count: list(order[:count]))


class Forbidden(torch.nn.Module):
    """What must not run."""

    def forward(self, *_: Any, **__: Any) -> Tensor:
        raise AssertionError("this was not asked for")


def test_nothing_runs_after_the_last_weights_asked_for():
    """The layer's own maps need its queries and keys; neither its values nor what comes after."""
    config = make_config("bert")
    encoder = our_encoder(config, make_network(config), torch.float32)
    ids = torch.tensor([[2, 3, 4]])
    with torch.inference_mode():
        expected = encoder(ids, layers=[1, 2], heads=[0]).weights
        encoder.layers[2].attention.query = Forbidden()
        encoder.layers[1].attention.value = encoder.layers[1].up = Forbidden()
        torch.testing.assert_close(encoder(ids, layers=[1], heads=[0]).weights[:, 0], expected[:, 0])
        with pytest.raises(AssertionError, match="not asked for"):
            encoder(ids, layers=[2], heads=[0])


def test_one_head_allocates_one_heads_maps(monkeypatch):
    """Every tensor that the request makes is counted: none is as large as the maps of two heads."""
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            for part in result if isinstance(result, tuple | list) else [result]:
                if isinstance(part, Tensor):
                    largest = max(largest, part.untyped_storage().nbytes())
            return result

    length = 200
    config = make_config("bert", max_position_embeddings=length, hidden_size=16, num_attention_heads=4)
    encoder = our_encoder(config, make_network(config), torch.float32)
    ids = torch.randint(0, config.vocab_size, (1, length))
    with torch.inference_mode(), Watch():
        kept = encoder(ids, layers=[3], heads=[2]).weights
    one_map = length * length * 4
    assert kept.untyped_storage().nbytes() == one_map
    assert largest < 2 * one_map


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra"])
def test_without_positions_the_order_of_the_tokens_does_not_matter(family):
    encoder = run_both(family, "none")[2]
    ids, order = torch.tensor([[9, 8, 7, 6, 5]]), torch.tensor([4, 2, 0, 1, 3])
    with torch.inference_mode():
        plain = encoder(ids, hidden=True, positions=False).hidden[-1]
        moved = encoder(ids[:, order], hidden=True, positions=False).hidden[-1]
        ordered = encoder(ids[:, order], hidden=True).hidden[-1]
    torch.testing.assert_close(moved, plain[:, order])
    assert not torch.allclose(ordered, moved)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra"])
def test_half_precision_stays_near(family, dtype):
    """No further from the exact numbers than transformers in the same dtype, give or take."""
    exact, _, _ = run_both(family, "padding")
    ours, theirs, _ = run_both(family, "padding", dtype)
    our_error = (ours.weights.double() - exact.weights).abs().mean()
    their_error = (torch.stack(theirs.attentions, dim=1).double() - exact.weights).abs().mean()
    assert ours.weights.dtype == dtype
    assert 0 < our_error < 2 * their_error < 0.01
