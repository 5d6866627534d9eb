"""Our place inside networks of transformers, beside their own eager attention, for many model types."""

from typing import Any, NamedTuple

import pytest
import torch
from nearness import same_vectors, same_weights
from transformers import AutoConfig, AutoModel

from attncli.models.rows import Run
from attncli.models.taps import Gates, Maps
from attncli.models.transformers_place import NAME, Pass, Places, Trial, numbers_of, passing, register

# Of configurations the names that each has: small networks whose attention is neither uniform nor one-hot.
SMALL = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "num_hidden_layers": 3, "n_layer": 3, "n_layers": 3,
    "num_layers": 3, "encoder_layers": 3, "decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4,
    "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "d_kv": 8, "v_head_dim": 8, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4, "intermediate_size": 64, "moe_intermediate_size": 32, "hidden_dim": 64, "d_ff": 64,
    "ffn_dim": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "embedding_size": 16, "num_local_experts": 4,
    "num_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "first_k_dense_replace": 1, "vocab_size": 100, "max_position_embeddings": 64, "n_positions": 64,
    "sliding_window": 4, "initializer_range": 0.3, "init_std": 0.3, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
MORE = {
    "deepseek_v3": {"num_key_value_heads": 4, "head_dim": 4},
    "gemma3_text": {"final_logit_softcapping": None, "attn_logit_softcapping": 5.0},
    "gemma2": {"attn_logit_softcapping": 2.0},
    "marian": {"init_std": 1.0},
}
QUICK = ["gpt2", "llama", "gemma2", "gpt_oss", "t5", "bart", "albert"]
SLOW = [
    "mistral", "qwen2", "qwen3", "gemma", "gemma3_text", "phi", "phi3", "gpt_neox", "olmo2", "smollm3", "mixtral",
    "deepseek_v3", "opt", "bert", "roberta", "electra", "distilbert", "modernbert", "esm", "eurobert", "nomic_bert",
    "mt5", "pegasus", "mbart", "marian", "starcoder2", "granite", "cohere", "stablelm", "glm4", "exaone4", "biogpt",
]  # fmt: skip
TYPES = [*QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)]
LENGTH, WRITTEN = 9, 5


class Sides(NamedTuple):
    """A network, what it is called with, where our place is in it, and what its own eager attention gives."""

    network: Any
    inputs: dict[str, Any]
    places: Places
    weights: dict[str, torch.Tensor]
    last: torch.Tensor

    def maps(self, part, layers=None, heads=None, taps=(), last=None):
        """The maps of our place, `[layer, head, query, key]`."""
        queries, keys = {"encoder": (LENGTH, LENGTH), "decoder": (WRITTEN, WRITTEN), "cross": (WRITTEN, LENGTH)}[part]
        run = Run(0, [0], slice(0, queries), queries, [], None, True, keys)
        maps = Maps(
            [run],
            self.places.numbers(part) if layers is None else layers,
            list(range(self.places.heads[part])) if heads is None else heads,
            torch.empty,
        )
        with torch.inference_mode(), passing(Pass(self.places, part, [*taps, maps], last)):
            self.network(**self.inputs)
        return maps.kept[0][0]


def sides_of(model_type: str) -> Sides:
    known = AutoConfig.for_model(model_type)
    named = {*known.to_dict(), *type(known).attribute_map}
    given = {name: value for name, value in SMALL.items() if name in named} | MORE.get(model_type, {})
    config = AutoConfig.for_model(model_type, **given)
    torch.manual_seed(0)
    network = AutoModel.from_config(config, attn_implementation="eager").eval()
    inputs: dict[str, Any] = {"input_ids": torch.randint(3, 100, (1, LENGTH)), "use_cache": False}
    paired = config.is_encoder_decoder
    if paired:
        inputs["decoder_input_ids"] = torch.randint(3, 100, (1, WRITTEN))
    with torch.inference_mode():
        theirs = network(**inputs, output_attentions=True)
    parts = ("encoder", "decoder", "cross") if paired else ("encoder",)
    weights = {part: torch.cat(getattr(theirs, f"{part}_attentions" if paired else "attentions")) for part in parts}
    register()
    network.set_attn_implementation(NAME)
    trial = Trial()
    with torch.inference_mode(), passing(trial):
        network(**inputs)
    places = Places.of(network, trial, network.get_encoder() if paired else None, WRITTEN)
    return Sides(network, inputs, places, weights, theirs.last_hidden_state)


@pytest.mark.parametrize("model_type", TYPES)
def test_it_gives_what_their_eager_attention_gives(model_type):
    """Weights of every part and the last vectors; and of the heads and layers asked for, in their order, only these."""
    sides = sides_of(model_type)
    for part, expected in sides.weights.items():
        assert sides.places.numbers(part) == list(range(len(expected)))
        assert float(expected.std()) > 0.01 and float(expected.amax(-1).mean()) < 0.99
        assert same_weights(sides.maps(part), expected)
        some = sides.maps(part, [len(expected) - 1, 0], [3, 1])
        assert same_weights(some, expected[[len(expected) - 1, 0]][:, [3, 1]])
    with torch.inference_mode():
        last = sides.network(**sides.inputs).last_hidden_state
    assert same_vectors(last, sides.last, 3)


def test_a_pass_ends_after_the_last_layer_that_is_asked_for():
    sides, ran = sides_of("llama"), []
    for number, layer in enumerate(sides.network.layers):
        layer.register_forward_pre_hook(lambda *_, number=number: ran.append(number))
    assert same_weights(sides.maps("encoder", [1], last=1), sides.weights["encoder"][1:2])
    assert ran == [0, 1]


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_taps_are_offered_one_part_of_an_encoder_decoder(part):
    """Silencing a head of one part is what zeroing its columns of that part's W_O does."""
    sides = sides_of("bart")
    half = sides.network.encoder if part == "encoder" else sides.network.decoder
    attention = half.layers[0].encoder_attn if part == "cross" else half.layers[0].self_attn
    with torch.inference_mode():
        with passing(Pass(sides.places, part, [Gates({(0, 2): 0.0})])):
            silenced = sides.network(**sides.inputs).last_hidden_state
        attention.out_proj.weight[:, 16:24] = 0
        expected = sides.network(**sides.inputs).last_hidden_state
    assert same_vectors(silenced, expected, 5) and not same_vectors(silenced, sides.last, 5)


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (["layers.0.self_attn", "layers.3.self_attn"], [0, 3]),  # others in between are of another kind
        (["block.0.layer.1.EncDecAttention", "block.1.layer.1.EncDecAttention"], [0, 1]),
        (["groups.0.layers.0.attention"] * 3, [0, 1, 2]),  # one module, called three times
        (["layers.2.attn"], [2]),
        (["attention", "other"], [0, 1]),
        ([], []),
    ],
)
def test_a_layer_is_numbered_by_its_module(names, numbers):
    assert numbers_of(names) == numbers
