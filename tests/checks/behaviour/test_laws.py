"""Each law finds its mistake, planted into the code of transformers, and right models keep them all."""

import contextlib
import io
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slow import slow_except
from transformers import AttentionInterface, masking_utils
from transformers.cache_utils import DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.llama import modeling_llama

from attncli.base.errors import RequestError
from attncli.checks.behaviour import laws, opening
from attncli.checks.behaviour.laws import AGREE, LAWS, Behaviour, Outcome, examine, in_order
from attncli.checks.behaviour.opening import make_subject, open_named, randomize, small_config

Patch = pytest.MonkeyPatch
README = (Path(laws.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
CAUSAL = masking_utils.causal_mask_function
BOTH = ("eager", "sdpa")


def check(model_type: str, *laws: str, backends: tuple[str, ...] = ("eager",)) -> Behaviour:
    """Check some laws of a model type, or all."""
    opened = open_named(f"transformers:{model_type}")
    return examine(opened.name, opened.kind, opened.make, backends, laws or (*LAWS, AGREE))


def broken(behaviour: Behaviour) -> dict[tuple[str, str], Outcome]:
    return {(one.law, one.backend): one for one in behaviour.broken}


def outcome_of(behaviour: Behaviour, law: str) -> Outcome:
    return next(one for one in behaviour.outcomes if one.law == law)


PADDING = {"padding on the right", "padding on the left", "padded batches"}
DECODER = {"look-ahead", "cached steps", *PADDING}


KEPT = {
    **dict.fromkeys(("llama", "gemma3_text", "gpt2", "falcon", "bloom", "t5", "bart"), DECODER),
    **dict.fromkeys(("mistral", "gpt_neo"), DECODER | {"window"}),
    "mixtral": {"look-ahead"},  # whose experts round differently
    "deepseek_v3": {"look-ahead", "packed documents"},
    **dict.fromkeys(("bert", "roberta", "modernbert", "deberta-v2", "albert"), PADDING),
}


@pytest.mark.parametrize("model_type", slow_except(KEPT, ["gpt2", "bert"]))
def test_right_models_keep_their_laws(model_type: str) -> None:
    result = check(model_type, backends=BOTH)
    assert not result.broken, str(result)
    assert KEPT[model_type] <= {one.law for one in result.outcomes if one.holds}
    assert (outcome_of(result, "look-ahead").note == "an encoder may look ahead") == (result.kind == "encoder")


@pytest.mark.slow
def test_flex_attention_is_checked_too() -> None:
    result = check("mistral", backends=("eager", "flex_attention"))
    assert not result.broken and not result.missing
    assert (AGREE, True) in [(one.law, one.holds) for one in result.outcomes]


def test_a_backend_that_is_not_available_is_not_checked() -> None:
    result = check("gpt2", "look-ahead", backends=("eager", "flash_attention_2"))
    assert {one.backend for one in result.outcomes} == {"eager"}
    assert "not checked: flash_attention_2 (FlashAttention2" in str(result)
    with pytest.raises(RequestError, match="can't be run"):
        check("gpt2", backends=("flash_attention_2",))


# --- planted mistakes ----------------------------------------------------------------------------------------------


def test_a_mask_off_by_one(monkeypatch: Patch) -> None:
    def off_by_one(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return key <= query + 1

    monkeypatch.setattr(masking_utils, "causal_mask_function", off_by_one)
    for function in (masking_utils.create_causal_mask, masking_utils.sdpa_mask, masking_utils.eager_mask):
        plain = getattr(function, "__wrapped__", function)
        defaults = tuple(off_by_one if one is CAUSAL else one for one in plain.__defaults__ or ())
        monkeypatch.setattr(plain, "__defaults__", defaults)
    outcome = broken(check("llama", "look-ahead"))["look-ahead", "eager"]
    assert outcome.layer == 0 and outcome.head is not None and (outcome.difference or 0) > 0.01
    assert outcome.position is not None and outcome.cause == outcome.position + 1
    assert "in the gradient" in outcome.note


@pytest.mark.slow
def test_an_inverted_sdpa_mask(monkeypatch: Patch) -> None:
    def inverted(module: Any, q: Any, k: Any, v: Any, mask: Any, **more: Any) -> Any:
        visible = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        mask = ~(visible[None, None] if mask is None else mask)
        mask[..., 0] = True  # the last query sees something
        return sdpa_attention_forward(module, q, k, v, mask, **more)

    monkeypatch.setitem(AttentionInterface._global_mapping, "sdpa", inverted)
    found = broken(check("llama", backends=BOTH))
    assert ("look-ahead", "sdpa") in found and all(backend == "sdpa" for _, backend in found)
    assert found[AGREE, "sdpa"].note.startswith("compared with eager")


def test_sdpa_that_ignores_its_mask(monkeypatch: Patch) -> None:
    def ignores(module: Any, q: Any, k: Any, v: Any, mask: Any, **more: Any) -> Any:
        return sdpa_attention_forward(module, q, k, v, None, **more)

    monkeypatch.setitem(AttentionInterface._global_mapping, "sdpa", ignores)
    assert set(broken(check("bert", backends=BOTH))) == {(law, "sdpa") for law in (*PADDING, AGREE)}


@pytest.mark.parametrize(("by", "seen"), [(1, 4), (-1, 2)])
def test_a_window_off_by_one(monkeypatch: Patch, by: int, seen: int) -> None:
    usual = masking_utils.sliding_window_overlay
    monkeypatch.setattr(masking_utils, "sliding_window_overlay", lambda window: usual(window + by))
    outcome = broken(check("mistral", "window"))["window", "eager"]
    assert outcome.note == f"in layer 0, head 0 sees {seen} tokens back; the configuration says 3"


def test_a_window_in_the_wrong_layers() -> None:
    subject = open_named("transformers:gemma3_text").make("eager")
    subject.config = deepcopy(subject.config)
    subject.config.layer_types = ["full_attention", "full_attention", "sliding_attention"]
    outcome = LAWS["window"](subject)
    assert outcome.holds is False and outcome.layer is not None


def test_positions_off_by_one_after_a_cache(monkeypatch: Patch) -> None:
    usual = DynamicCache.get_seq_length
    monkeypatch.setattr(
        DynamicCache, "get_seq_length", lambda self, layer_idx=0: usual(self, layer_idx) + bool(usual(self, layer_idx))
    )
    assert "without position_ids" in broken(check("llama", "cached steps"))["cached steps", "eager"].note


@pytest.mark.slow
def test_a_model_that_counts_no_positions_gets_a_note() -> None:
    outcome = outcome_of(check("bamba", "cached steps"), "cached steps")
    assert outcome.holds and outcome.note.startswith("not promised: steps without position_ids")


def test_a_cache_that_forgets_its_oldest_token(monkeypatch: Patch) -> None:
    usual = DynamicCache.update

    def update(self: Any, key: Any, value: Any, *more: Any, **named: Any) -> Any:
        key, value = usual(self, key, value, *more, **named)
        if key.shape[2] > 6:
            key, value = key.clone(), value.clone()
            key[:, :, 0], value[:, :, 0] = 0, 0
        return key, value

    monkeypatch.setattr(DynamicCache, "update", update)
    assert ("cached steps", "eager") in broken(check("gpt2", "cached steps"))


@pytest.mark.parametrize("name", ["llama", "llama.modeling_llama:LlamaAttention"])
def test_key_heads_in_turns(monkeypatch: Patch, name: str) -> None:
    monkeypatch.setattr(modeling_llama, "repeat_kv", lambda vectors, count: vectors.repeat(1, count, 1, 1))
    opened = open_named(f"transformers.models.{name}" if ":" in name else f"transformers:{name}")
    found = broken(examine(opened.name, opened.kind, opened.make, ("eager",)))
    assert set(found) == {("key heads", "eager")} and found["key heads", "eager"].note.endswith("0, 2; 1, 3")


@pytest.mark.parametrize(
    ("model_type", "expected"),
    [("llama", PADDING - {"padding on the right"}), ("bert", PADDING), ("t5", PADDING)],
)
def test_padding_that_is_shown(monkeypatch: Patch, model_type: str, expected: set[str]) -> None:
    monkeypatch.setattr(masking_utils, "padding_mask_function", lambda real: lambda batch, head, query, key: key >= 0)
    found = broken(check(model_type))
    assert {law for law, _ in found} - {"cached steps"} == expected
    outcome = found["padding on the left", "eager"]
    assert (outcome.difference or 0) > 0.01 and (outcome.layer == 0 or model_type == "t5")


def test_packed_documents_that_see_each_other(monkeypatch: Patch) -> None:
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", lambda positions: None)
    [((law, _), outcome)] = broken(check("llama")).items()
    assert law == "packed documents" and outcome.position is not None and outcome.position >= 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_type", "reason"),
    [("gpt_oss", "eager attention"), ("bamba", "layers without attention (linear_attention)"), ("lfm2", "layers")],
)
def test_packing_that_is_not_promised_gets_a_note(model_type: str, reason: str) -> None:
    result = check(model_type)
    outcome = outcome_of(result, "packed documents")
    assert result.right and outcome.holds is None and outcome.note.startswith(f"not promised: {reason}")


# --- names, sizes and notes ----------------------------------------------------------------------------------------


def test_a_configuration_that_looks_ahead_is_no_mistake() -> None:
    model = transformers.LlamaModel(small_config("llama", is_causal=False))
    randomize(model)
    assert not make_subject(model).causal


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    heads=st.sampled_from([2, 4, 6]), groups=st.sampled_from([1, 2]), window=st.integers(2, 6), layers=st.integers(1, 2)
)
def test_sizes(heads: int, groups: int, window: int, layers: int) -> None:
    """A right model of any size keeps the laws, and the measured window is that of the configuration."""
    sizes = {"num_attention_heads": heads, "num_key_value_heads": groups, "head_dim": 8, "num_hidden_layers": layers}
    opened = opening.open_config("mistral", small_config("mistral", sliding_window=window, **sizes))
    result = examine("mistral", "decoder", opened.make, ("eager",))
    assert not result.broken, str(result)
    wrong = opened.make("eager")
    wrong.config = deepcopy(wrong.config)
    wrong.config.sliding_window = window + 1
    assert LAWS["window"](wrong).holds is False


def test_order_of_heads() -> None:
    """Groups follow each other, once or twice (keys, then values); a head may look elsewhere."""
    for right in ([[0, 1], [2, 3]], [[0, 1], [2, 3], [0, 1], [2, 3]], [[0], [1], [2], [3]], [[0, 1], [3]]):
        assert in_order(right, 4)
    for wrong in ([[0, 2], [1, 3]], [[2, 3], [0, 1]], [[1], [0], [3], [2]]):
        assert not in_order(wrong, 4)


def test_names_that_can_not_be_checked() -> None:
    for name, message in {
        "transformers:vit": "reads no text",
        "transformers:llamma": "no model type",
        "transformers.models.llama.modeling_llama:Nothing": "there is no",
        "transformers.masking_utils:sdpa_mask": "is not a class of torch modules",
    }.items():
        with pytest.raises(RequestError, match=message):
            open_named(name)


def test_a_law_that_fails_is_not_checked(monkeypatch: Patch) -> None:
    monkeypatch.setitem(LAWS, "look-ahead", lambda subject: subject.nothing)
    opened = open_named("transformers:llama")
    [outcome] = examine(opened.name, opened.kind, opened.make, ("eager",), ("look-ahead",)).outcomes
    assert outcome.holds is None and "the model fails: AttributeError" in outcome.note


@pytest.mark.slow
@pytest.mark.parametrize("script", re.findall(r"```python\n(import torch\n.*?)```", README, flags=re.DOTALL))
def test_scripts_of_the_readme(script: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(script, {})
    assert script.splitlines()[-1] == f"# {', '.join(printed.getvalue().splitlines())}"
