"""Read config.json by family: name wrong values, refuse what our network lacks, and run the rest."""

import pytest
import torch
from checkpoints import LLAMA_3, make_config, make_network
from walks import close, made_up, network_of, run_both, walked

from attncli import RequestError
from attncli.models.config import ModelConfig, choose_engine
from attncli.models.families.family import NoOwnNetwork, RotaryPositions, Values, rotary_positions

DEBERTA = {
    "relative_attention": True,
    "pos_att_type": "c2p|p2c",
    "position_biased_input": False,
    "max_relative_positions": -1,
    "type_vocab_size": 0,
}
# As published, in the words of before transformers 5. "gte" and "nomic_bert" are in `test_published.py`.
PUBLISHED = {
    "deberta": DEBERTA,
    "deberta-v2": {**DEBERTA, "position_buckets": 256, "norm_rel_ebd": "layer_norm", "hidden_size": 24},
    "eurobert": {"head_dim": 64, "hidden_size": 1152, "num_attention_heads": 18, "num_key_value_heads": 6},
    "modernbert": {"num_hidden_layers": 7, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0},
}


def read(family, **changes):
    return ModelConfig.from_dict({"model_type": family, **PUBLISHED.get(family, {}), **changes})


# What BERT's keys may be is in `test_config.py`; each kind of value is here once.
WRONG = {
    "albert": [
        ({"inner_group_num": True}, "inner_group_num is True"),
        ({"inner_group_num": 10**6}, "12 times inner_group_num 1000000"),
        ({"embedding_size": None}, "embedding_size is None"),
    ],
    "deberta": [
        ({"talking_head": "no"}, "talking_head"),
        ({"max_relative_positions": None}, "max_relative_positions"),
        ({"type_vocab_size": -1}, "segments is -1"),
    ],
    "deberta-v2": [
        ({"position_buckets": 1}, "position_buckets is 1,"),
        ({"norm_rel_ebd": 3}, "norm_rel_ebd"),
        ({"conv_kernel_size": 4}, "conv_kernel_size is 4"),
        ({"conv_kernel_size": 3, "conv_groups": 5}, "24 is not divisible by 5 conv_groups"),
    ],
    "ernie": [({"use_task_id": True, "task_type_vocab_size": 0}, "task_type_vocab_size is 0")],
    "eurobert": [
        ({"num_key_value_heads": 4}, "num_key_value_heads is 4, which does not divide 18 heads"),
        ({"rms_norm_eps": None}, "layer_norm_eps"),
        ({"mlp_bias": "no"}, "mlp_bias is 'no'"),
    ],
    "modernbert": [
        ({"layer_types": ["full_attention"]}, "layer_types .* 7 layers"),
        ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers is 0"),
        ({"local_attention": 10**30}, "local_attention"),
        ({"rope_parameters": {"full_attention": 3}}, "rope_parameters"),
        ({"rope_parameters": {"full_attention": {"rope_theta": "1"}}}, "rope_theta of full_attention is '1'"),
        ({"local_rope_theta": 10**400}, "rope_theta of sliding_attention"),
        ({"hidden_size": 36}, "heads of 3 elements"),
    ],
    "llama": [
        ({"head_dim": 0}, "head_dim is 0"),
        ({"rope_scaling": LLAMA_3 | {"low_freq_factor": 4.0}}, "not below high_freq_factor 4"),
        ({"rope_scaling": LLAMA_3 | {"factor": 0.5}}, "factor is 0.5"),
        ({"rope_theta": "10000"}, "rope_theta is '10000'"),
    ],
    "mistral": [({"sliding_window": 1}, "sliding_window is 1")],
    "qwen2": [({"use_sliding_window": True, "max_window_layers": -1}, "max_window_layers is -1")],
    "smollm3": [({"no_rope_layers": [1, 2] * 18}, "no_rope_layers must be 0 or 1")],
    "gemma3_text": [
        ({"layer_types": ["chunked_attention"] * 26}, "layer_types is"),
        ({"sliding_window_pattern": 0}, "sliding_window_pattern is 0"),
    ],
    "gemma2": [
        ({"attn_logit_softcapping": -1.0}, "attn_logit_softcapping"),
        ({"query_pre_attn_scalar": "256"}, "query_pre_attn_scalar"),
    ],
    "phi3": [({"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5")],
    "gpt2": [
        ({"n_embd": 770}, "hidden_size 770 is not divisible by 12 heads"),
        ({"scale_attn_weights": 1}, "scale_attn_weights is 1"),
    ],
    "gpt_neox": [({"use_parallel_residual": "no"}, "use_parallel_residual is 'no'")],
}
LEFT = {
    "deberta": [
        ({"talking_head": True}, "talking_head"),
        ({"pos_att_type": "c2p|p2p"}, "other than c2p and p2c"),
        ({"pos_att_type": "c2p|c2p"}, "a term twice"),
        ({"relative_attention": False}, "without relative_attention"),
        ({"embedding_size": 5}, "widened"),
    ],
    "deberta-v2": [({"pos_att_type": [["c2p"]]}, "other than c2p and p2c"), ({"embedding_size": 5}, "widened")],
    "modernbert": [
        ({"rope_parameters": {"full_attention": {"rope_type": "dynamic", "factor": 2.0}}}, "scales its rotary"),
    ],
    "phi3": [({"rope_scaling": {"type": "longrope", "long_factor": [1.0], "short_factor": [1.0]}}, "'longrope'")],
    "llama": [
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "'dynamic'"),
        ({"partial_rotary_factor": 0.5}, "a part of each head"),
    ],
    "gpt2": [
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is true"),
        ({"scale_attn_weights": False}, "scale_attn_weights is false"),
        ({"add_cross_attention": True}, "add_cross_attention is set"),
    ],
    "gemma": [({"use_bidirectional_attention": True}, "use_bidirectional_attention is set")],
    "gemma3_text": [({"use_bidirectional_attention": True}, "use_bidirectional_attention is set")],
    "gpt_neox": [({"hidden_act": "gelu_fast"}, "activation 'gelu_fast'")],
    "nomic_bert": [
        ({"rope_parameters": {"rope_type": ["linear"], "factor": 2.0}}, "scales its rotary"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "head"),
        ({"head_dim": 32}, "head"),
    ],
}
OTHER = {
    "albert": [
        {"num_hidden_groups": 1},
        {"num_hidden_groups": 3},
        {"inner_group_num": 2},
        {"inner_group_num": 2, "num_hidden_groups": 1, "embedding_size": 32},
    ],
    "deberta": [
        {"max_relative_positions": -1},
        {"pos_att_type": ["c2p"], "max_relative_positions": 1},
        {"pos_att_type": "p2c", "type_vocab_size": 0, "position_biased_input": True},
        {"relative_attention": False, "pos_att_type": None, "position_biased_input": True},
    ],
    "deberta-v2": [
        {"share_att_key": True, "norm_rel_ebd": "none"},
        {"pos_att_type": ["c2p"]},
        {"pos_att_type": "p2c", "share_att_key": True},
        {"pos_att_type": []},
        {"position_buckets": -1, "max_relative_positions": 5},
        {"position_buckets": 2},
        {"position_buckets": 6, "max_relative_positions": 4},
        {"relative_attention": False, "pos_att_type": [], "position_biased_input": True, "norm_rel_ebd": "none"},
        {"conv_kernel_size": 3, "conv_act": "gelu"},
        {"conv_kernel_size": 5, "conv_groups": 4, "type_vocab_size": 0},
    ],
    "eurobert": [
        {"num_key_value_heads": 1},
        {"num_attention_heads": 6, "num_key_value_heads": 3, "hidden_size": 36, "head_dim": 6},
        {"attention_bias": True, "mlp_bias": True},
        {"hidden_act": "gelu", "rms_norm_eps": 1e-2},
    ],
    "modernbert": [
        {"attention_bias": True, "mlp_bias": True, "norm_bias": True},
        {"layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]},
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 400.0, "factor": 2.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
            }
        },
        {"local_attention": 64},
    ],
    "roformer": [{"rotary_value": True}],
}


def every(table):
    return [(family, *(one if isinstance(one, tuple) else (one,))) for family, some in table.items() for one in some]


@pytest.mark.parametrize(("family", "changes", "says"), every(WRONG))
def test_a_wrong_value_is_named(family, changes, says):
    with pytest.raises(RequestError, match=says) as caught:
        read(family, **changes)
    assert not isinstance(caught.value, NoOwnNetwork)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


@pytest.mark.parametrize(("family", "changes", "says"), every(LEFT))
def test_what_our_network_lacks_is_left_to_transformers(family, changes, says):
    with pytest.raises(NoOwnNetwork, match=says):
        read(family, **changes)
    data = {"num_attention_heads": 4, "model_type": family, **PUBLISHED.get(family, {}), **changes}
    engine, reason = choose_engine(data)
    assert engine == "transformers" and reason is not None


@pytest.mark.parametrize(
    ("data", "base", "stretch"),
    [
        ({}, 700.0, 1.0),
        ({"rope_parameters": None, "rope_scaling": None, "rope_theta": 5}, 5.0, 1.0),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 50}, "rope_theta": 5}, 50.0, 1.0),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2}}, 700.0, 2.0),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 5}, 5.0, 4.0),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_parameters": {"rope_theta": 9}}, 700.0, 4.0),
        ({"partial_rotary_factor": 1.0, "head_dim": 64}, 700.0, 1.0),
    ],
)
def test_rotary_positions_of_both_versions_are_read_as_transformers_reads_them(data, base, stretch):
    from transformers import NomicBertConfig

    usual = {"rope_theta": 700.0}
    assert rotary_positions(Values(data, {}, usual)) == RotaryPositions(64, base, stretch=stretch)
    theirs = NomicBertConfig(**{**usual, **data}).rope_parameters
    assert (theirs["rope_theta"], theirs.get("factor", 1.0)) == (base, stretch)


@pytest.mark.slow
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize(("family", "changes"), every(OTHER))
@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_other_configurations_are_transformers(family, changes, mask):
    ours, theirs = run_both(family, mask, batch=1, length=30, **changes)
    close(ours, theirs, 1e-10, 1e-10)
    assert len(ours.weights[0]) == 4 * changes.get("inner_group_num", 1)


@pytest.mark.parametrize(("task", "same"), [(0, True), (1, False)])
def test_every_text_has_ernies_first_task(task, same):
    theirs = make_network(make_config("ernie")).double()
    ids = [5, 6, 7, 8]
    [ours] = walked(network_of(theirs, torch.float64), [made_up(ids)], whole=True).states
    with torch.inference_mode():
        expected = theirs(torch.tensor([ids]), task_type_ids=torch.full((1, 4), task)).last_hidden_state[0]
    assert torch.allclose(ours[-1], expected, rtol=0, atol=1e-10) == same
