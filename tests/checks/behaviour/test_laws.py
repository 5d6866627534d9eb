"""Each law finds its mistake, planted into the code of transformers, and right models keep them all."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AttentionInterface, masking_utils
from transformers.cache_utils import DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.llama import modeling_llama

from attncli.base.errors import RequestError
from attncli.checks.behaviour import opening
from attncli.checks.behaviour.examine import examine
from attncli.checks.behaviour.laws import AGREE, LAWS, in_order
from attncli.checks.behaviour.opening import open_named, subject_of
from attncli.checks.behaviour.report import Behaviour, Outcome
from attncli.checks.behaviour.small import randomize, small_config

Patch = pytest.MonkeyPatch


def check(model_type: str, backends: tuple[str, ...] = ("eager",)) -> Behaviour:
    opened = open_named(f"transformers:{model_type}")
    return examine(opened.name, opened.kind, opened.make, backends)


def broken(behaviour: Behaviour) -> dict[tuple[str, str], Outcome]:
    return {(one.law, one.backend): one for one in behaviour.broken}


@pytest.mark.parametrize("model_type", ["llama", "mistral", "gemma3_text", "gpt2", "falcon", "bloom", "deepseek_v3"])
def test_right_decoders_keep_every_law(model_type: str) -> None:
    found = check(model_type, ("eager", "sdpa"))
    assert not found.broken, str(found)
    assert {"look-ahead", "padding on the left", "cached steps", "key heads"} - {"key heads"} <= held(found)


@pytest.mark.parametrize("model_type", ["bert", "roberta", "modernbert", "deberta-v2", "albert"])
def test_right_encoders_keep_their_laws(model_type: str) -> None:
    found = check(model_type, ("eager", "sdpa"))
    assert not found.broken, str(found)
    assert {"padding on the right", "padding on the left", "padded batches"} <= held(found)
    [ahead, *_] = [one for one in found.outcomes if one.law == "look-ahead"]
    assert ahead.holds is None and ahead.note == "an encoder may look ahead"


@pytest.mark.parametrize("model_type", ["t5", "bart"])
def test_right_encoder_decoders_keep_their_laws(model_type: str) -> None:
    found = check(model_type, ("eager", "sdpa"))
    assert not found.broken, str(found)
    assert {"look-ahead", "padding on the right", "cached steps"} <= held(found)


def held(found: Behaviour) -> set[str]:
    return {one.law for one in found.outcomes if one.holds}


def test_flex_attention_is_checked_too() -> None:
    found = check("mistral", ("eager", "flex_attention"))
    assert not found.broken and not found.missing
    assert ("backends agree", True) in [(one.law, one.holds) for one in found.outcomes]


def test_a_backend_that_is_not_there_is_not_right() -> None:
    found = check("gpt2", ("eager", "flash_attention_2"))
    assert list(found.missing) == ["flash_attention_2"]
    assert {one.backend for one in found.outcomes} == {"eager"}
    with pytest.raises(RequestError, match="can't be run"):
        check("gpt2", ("flash_attention_2",))


# --- planted mistakes ----------------------------------------------------------------------------------------------


def shows_one_more(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return key <= query + 1


def test_a_mask_off_by_one(monkeypatch: Patch) -> None:
    monkeypatch.setattr(masking_utils, "causal_mask_function", shows_one_more)
    for function in (masking_utils.create_causal_mask, masking_utils.sdpa_mask, masking_utils.eager_mask):
        plain = getattr(function, "__wrapped__", function)
        defaults = tuple(shows_one_more if one is CAUSAL else one for one in plain.__defaults__ or ())
        monkeypatch.setattr(plain, "__defaults__", defaults)
    found = broken(check("llama"))
    leak = found["look-ahead", "eager"].leak
    assert leak is not None and leak.layer == 0 and leak.head is not None and leak.difference > 0.01
    assert "in the gradient" in found["look-ahead", "eager"].note


CAUSAL = masking_utils.causal_mask_function


def test_an_inverted_sdpa_mask(monkeypatch: Patch) -> None:
    def inverted(module: Any, q: Any, k: Any, v: Any, mask: Any, **more: Any) -> Any:
        shown = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        mask = ~(shown[None, None] if mask is None else mask)
        mask[..., 0] = True  # the last query sees something
        return sdpa_attention_forward(module, q, k, v, mask, **more)

    monkeypatch.setitem(AttentionInterface._global_mapping, "sdpa", inverted)
    found = broken(check("llama", ("eager", "sdpa")))
    assert ("look-ahead", "sdpa") in found and (AGREE, "sdpa") in found
    assert all(backend == "sdpa" for _, backend in found)
    assert found[AGREE, "sdpa"].note.startswith("from eager")


def test_sdpa_that_ignores_its_mask(monkeypatch: Patch) -> None:
    def ignores(module: Any, q: Any, k: Any, v: Any, mask: Any, **more: Any) -> Any:
        return sdpa_attention_forward(module, q, k, v, None, **more)

    monkeypatch.setitem(AttentionInterface._global_mapping, "sdpa", ignores)
    found = broken(check("bert", ("eager", "sdpa")))
    assert {("padding on the right", "sdpa"), ("padding on the left", "sdpa"), (AGREE, "sdpa")} <= set(found)
    assert all(backend == "sdpa" for _, backend in found)


@pytest.mark.parametrize(("by", "seen"), [(1, 4), (-1, 2)])
def test_a_window_off_by_one(monkeypatch: Patch, by: int, seen: int) -> None:
    usual = masking_utils.sliding_window_overlay
    monkeypatch.setattr(masking_utils, "sliding_window_overlay", lambda window: usual(window + by))
    found = broken(check("mistral"))
    assert (
        found["window", "eager"].note == f"in layer 0 a token sees {seen} tokens back; the configuration says 3 tokens"
    )


def test_a_window_in_the_wrong_layers(monkeypatch: Patch) -> None:
    """The configuration says one thing of a layer, and the code does another."""
    made = open_named("transformers:gemma3_text").make("eager")
    made.config = deepcopy(made.config)
    made.config.layer_types = list(reversed(["sliding_attention", "full_attention", "full_attention"]))
    outcome = LAWS["window"](made)
    assert outcome.holds is False and "layer" in outcome.note


def test_positions_off_by_one_after_a_cache(monkeypatch: Patch) -> None:
    usual = DynamicCache.get_seq_length
    monkeypatch.setattr(
        DynamicCache, "get_seq_length", lambda self, layer_idx=0: usual(self, layer_idx) + bool(usual(self, layer_idx))
    )
    found = broken(check("llama"))
    assert ("cached steps", "eager") in found and "without position_ids" in found["cached steps", "eager"].note


def test_a_cache_that_forgets_its_oldest_token(monkeypatch: Patch) -> None:
    usual = DynamicCache.update

    def update(self: Any, key: Any, value: Any, *more: Any, **named: Any) -> Any:
        key, value = usual(self, key, value, *more, **named)
        if key.shape[2] > 6:
            key, value = key.clone(), value.clone()
            key[:, :, 0], value[:, :, 0] = 0, 0
        return key, value

    monkeypatch.setattr(DynamicCache, "update", update)
    assert ("cached steps", "eager") in broken(check("gpt2"))


def test_key_heads_in_turns(monkeypatch: Patch) -> None:
    monkeypatch.setattr(modeling_llama, "repeat_kv", lambda vectors, count: vectors.repeat(1, count, 1, 1))
    found = broken(check("llama"))
    assert set(found) == {("key heads", "eager")}
    assert found["key heads", "eager"].note.endswith("0, 2; 1, 3")


def test_padding_that_is_shown(monkeypatch: Patch) -> None:
    monkeypatch.setattr(masking_utils, "padding_mask_function", lambda real: lambda batch, head, query, key: key >= 0)
    found = broken(check("llama"))
    assert ("padding on the left", "eager") in found and ("padded batches", "eager") in found
    leak = found["padding on the left", "eager"].leak
    assert leak is not None and leak.layer == 0 and leak.difference > 0.01
    assert ("look-ahead", "eager") not in found


@pytest.mark.parametrize("model_type", ["bert", "t5"])
def test_padding_that_is_shown_to_an_encoder(monkeypatch: Patch, model_type: str) -> None:
    monkeypatch.setattr(masking_utils, "padding_mask_function", lambda real: lambda batch, head, query, key: key >= 0)
    assert {("padding on the right", "eager")} <= set(broken(check(model_type)))


def test_packed_documents_that_see_each_other(monkeypatch: Patch) -> None:
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", lambda positions: None)
    found = broken(check("llama"))
    assert set(found) == {("packed documents", "eager")}
    leak = found["packed documents", "eager"].leak
    assert leak is not None and leak.position is not None and leak.position >= 6


def test_experts_are_no_leak() -> None:
    assert not check("mixtral").broken


def test_a_configuration_that_looks_ahead_is_no_mistake() -> None:
    model = transformers.LlamaModel(small_config("llama", is_causal=False))
    randomize(model)
    assert not subject_of(model).causal


# --- what is asked ----------------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    heads=st.sampled_from([2, 4, 6]), groups=st.sampled_from([1, 2]), window=st.integers(2, 6), layers=st.integers(1, 2)
)
def test_sizes(heads: int, groups: int, window: int, layers: int) -> None:
    """A right model of any size keeps the laws, and the window that is measured is the one that it was given."""
    sizes = {"num_attention_heads": heads, "num_key_value_heads": groups, "head_dim": 8, "num_hidden_layers": layers}
    config = small_config("mistral", sliding_window=window, **sizes)
    found = examine("mistral", "decoder", opening.of_config("mistral", config, None).make, ("eager",))
    assert not found.broken, str(found)
    wrong = opening.of_config("mistral", config, None).make("eager")
    wrong.config = deepcopy(wrong.config)
    wrong.config.sliding_window = window + 1
    assert LAWS["window"](wrong).holds is False


@pytest.mark.parametrize(
    ("order", "right"),
    [
        ([[0, 1], [2, 3]], True),
        ([[0, 1], [2, 3], [0, 1], [2, 3]], True),  # keys, then values
        ([[0], [1], [2], [3]], True),
        ([[0, 1], [3]], True),  # a head that looks elsewhere
        ([[0, 2], [1, 3]], False),
        ([[2, 3], [0, 1]], False),
        ([[1], [0], [3], [2]], False),
    ],
)
def test_order_of_heads(order: list[list[int]], right: bool) -> None:
    assert in_order(order, 4) is right


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("transformers:vit", "reads no text"),
        ("transformers:llamma", "no model type"),
        ("transformers.models.llama.modeling_llama:Nothing", "there is no"),
        ("transformers.masking_utils:sdpa_mask", "no class of modules"),
    ],
)
def test_what_can_not_be_checked(what: str, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        open_named(what)


def test_a_module_is_checked_inside_its_model(monkeypatch: Patch) -> None:
    monkeypatch.setattr(modeling_llama, "repeat_kv", lambda vectors, count: vectors.repeat(1, count, 1, 1))
    opened = open_named("transformers.models.llama.modeling_llama:LlamaAttention")
    assert not examine(opened.name, opened.kind, opened.make, ("eager",), ("key heads",)).right


def test_a_law_that_fails_is_not_checked(monkeypatch: Patch) -> None:
    def fails(subject: Any) -> Any:
        raise ValueError("no such thing")

    laws: dict[str, Callable[..., Any]] = {"look-ahead": fails}
    monkeypatch.setattr("attncli.checks.behaviour.examine.LAWS", laws)
    opened = open_named("transformers:llama")
    found = examine(opened.name, opened.kind, opened.make, ("eager",), ("look-ahead",))
    assert [one.holds for one in found.outcomes] == [None] and "no such thing" in found.outcomes[0].note
    assert not found.right
