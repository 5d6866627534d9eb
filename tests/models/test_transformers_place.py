"""Our place inside networks of transformers, beside their own eager attention, for many model types."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from nearness import eager, same_vectors, same_weights
from slow import slow_except
from small_networks import BY_HAND, make_small, sharpen, small_config
from transformers import AutoModel

from attncli import load_model
from attncli.models.rows import RowRun
from attncli.models.taps import Gates, KeptMaps
from attncli.models.transformers_place import AttentionModules, TappedPass, find_attention, passing
from attncli.record import Request

QUICK = ["gpt2", "llama", "gemma2", "gpt_oss", "t5", "bart", "albert"]
SLOW = [
    "mistral", "qwen2", "qwen3", "gemma", "gemma3_text", "phi", "phi3", "gpt_neox", "olmo2", "smollm3", "mixtral",
    "deepseek_v3", "opt", "bert", "roberta", "electra", "distilbert", "modernbert", "esm", "eurobert", "nomic_bert",
    "mt5", "pegasus", "mbart", "marian", "starcoder2", "granite", "cohere", "stablelm", "glm4", "exaone4", "biogpt",
    "gptj", "codegen", "ctrl",
]  # fmt: skip
TYPES = slow_except([*QUICK, *BY_HAND, *SLOW], [*QUICK, *list(BY_HAND)[:5]])
TURNED = {name: {"rotary_dim": 4} for name in ("gptj", "codegen")}
LENGTH, WRITTEN = 9, 5


class Sides(NamedTuple):
    """A network, what it is called with, where our place is in it, and what its own eager attention gives.

    weights: by part `[layer, head, query, key]`. last: the last vectors.
    """

    network: Any
    inputs: dict[str, Any]
    places: AttentionModules
    weights: dict[str, torch.Tensor]
    last: torch.Tensor

    def passed(self, part, taps=(), last=None):
        """Go through the network once with these taps; return the pass."""
        queries, keys = {"cross": (WRITTEN, LENGTH), "decoder": (self.fed, self.fed)}.get(part, (LENGTH, LENGTH))
        run = self.run(queries, keys)
        mask = "causal" if part == "decoder" else "padding"
        current = TappedPass(self.places, part, run, taps, mask, torch.ones(1, keys, dtype=torch.bool), last)
        with torch.inference_mode(), passing(current):
            current.decoded = self.network(**self.inputs).last_hidden_state
        return current

    @property
    def fed(self):
        """The number of tokens that a decoder is fed."""
        return WRITTEN if "decoder_input_ids" in self.inputs else LENGTH

    def run(self, queries, keys):
        return RowRun(0, [0], slice(0, queries), queries, [None] * 8, None, True, keys)

    def maps(self, part, layers=None, heads=None, last=None):
        """The maps of our place, `[layer, head, query, key]`."""
        _, count, queries, keys = self.weights[part].shape
        layers = self.places.numbers(part) if layers is None else layers
        maps = KeptMaps([self.run(queries, keys)], layers, list(range(count)) if heads is None else heads, torch.empty)
        self.passed(part, [maps], last)
        return maps.kept[0][0]


def sides_of(model_type: str) -> Sides:
    torch.manual_seed(0)
    config = small_config(model_type, **BY_HAND.get(model_type, TURNED.get(model_type, {})))
    network = AutoModel.from_config(config, attn_implementation="eager").eval()
    sharpen(network, model_type)
    inputs: dict[str, Any] = {"input_ids": torch.randint(3, 100, (1, LENGTH)), "use_cache": False}
    paired = config.is_encoder_decoder
    if paired:
        inputs["decoder_input_ids"] = torch.randint(3, 100, (1, WRITTEN))
    with torch.inference_mode():
        theirs = network(**inputs, output_attentions=True)
    halves = network.get_encoder() if paired else network, network.get_decoder() if paired else network
    places = find_attention(network, *halves, inputs)
    assert places is not None and (places.by_hand is not None) == (model_type in BY_HAND)
    named = {part: f"{part}_attentions" for part in places.parts} if paired else {places.parts[0]: "attentions"}
    weights = {part: torch.cat(getattr(theirs, name)) for part, name in named.items()}
    return Sides(network, inputs, places, weights, theirs.last_hidden_state)


@pytest.mark.parametrize("model_type", TYPES)
def test_it_gives_what_their_eager_attention_gives(model_type):
    """Weights of every part and the last vectors; and of the heads and layers asked for, in their order, only these."""
    sides = sides_of(model_type)
    for part, expected in sides.weights.items():
        assert sides.places.numbers(part) == list(range(len(expected)))
        assert float(expected.std()) > 0.01 and float(expected.amax(-1).mean()) < 0.99
        assert same_weights(sides.maps(part), expected)
        heads = [expected.shape[1] - 1, 0]
        some = sides.maps(part, [len(expected) - 1, 0], heads)
        assert same_weights(some, expected[[len(expected) - 1, 0]][:, heads])
    assert same_vectors(sides.passed(part).decoded, sides.last, 3)


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_taps_are_offered_one_part_of_an_encoder_decoder(part):
    """Silencing a head of one part is what zeroing its columns of that part's W_O does."""
    sides = sides_of("bart")
    half = sides.network.encoder if part == "encoder" else sides.network.decoder
    attention = half.layers[0].encoder_attn if part == "cross" else half.layers[0].self_attn
    silenced = sides.passed(part, [Gates({(0, 2): 0.0})]).decoded
    with torch.inference_mode():
        attention.out_proj.weight[:, 16:24] = 0
    expected = sides.passed(part).decoded
    assert same_vectors(silenced, expected, 5) and not same_vectors(silenced, sides.last, 5)


# --- the mask that is asked for ---------------------------------------------------------------------------

DECODERS = ["gpt2", "llama", "mistral", "gemma3", "gemma2", "gpt_oss", "opt"]
TEXTS = ["the cat sat", "on the mat", "it, a big cat in a mat", "a"]
PADDED = 3  # tokens of [PAD]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """`small(name)` -> the model of a small checkpoint with its tokenizer, made once."""
    made = {}

    def make(name):
        if name not in made:
            folder = make_small(tmp_path_factory.mktemp(name), name)
            made[name] = load_model(str(folder), device="cpu", engine="transformers")
        return made[name]

    return make


def shown_by_hand(mask, real, window, ahead):
    """Return what a mask allows, bool `[query, key]`. real: False at [PAD]. ahead: the network was trained to look
    ahead.
    """
    back = np.subtract.outer(np.arange(len(real)), np.arange(len(real)))
    shown = np.ones_like(back, dtype=bool)
    if mask == "causal" or (mask is None and not ahead):
        shown &= back >= 0
    if mask != "none":
        shown &= real
    return shown if window is None else shown & (np.abs(back) < window)


def additive(shown):
    """A 4-dimensional mask that is added to scores."""
    made = torch.from_numpy(shown)[None, None]
    return torch.zeros(made.shape).masked_fill(~made, torch.finfo(torch.float32).min)


@pytest.mark.parametrize("mask", [None, "padding", "none", "causal"])
@pytest.mark.parametrize("name", slow_except(DECODERS, ["gpt2", "gemma3"]))
def test_a_decoder_has_the_mask_that_is_asked_for(small, name, mask):
    """`padding` shows the future and hides [PAD], `none` hides nothing, and windows stay."""
    model = small(name)
    tokens = model.tokenizer.encode(TEXTS[0])
    length = len(tokens) + PADDED
    record = model.attend(TEXTS[0], mask=mask, pad_to=length)
    real = np.arange(length) >= PADDED
    positions = torch.tensor([[0] * PADDED + list(range(len(tokens)))])
    config = model.network.config
    kinds = getattr(config, "layer_types", None) or ["sliding_attention" if name == "mistral" else "full_attention"] * 3
    windows = {"sliding_attention": getattr(config, "sliding_window", None), "full_attention": None}
    shown = {kind: shown_by_hand(mask, real, window, False) for kind, window in windows.items()}
    masks = {kind: additive(one) for kind, one in shown.items()}
    given = masks if getattr(config, "layer_types", None) else masks[kinds[0]]
    ids = torch.tensor([record.tokens.ids])
    with eager(model) as network, torch.inference_mode():
        made = network(ids, attention_mask=given, position_ids=positions, output_attentions=True)
    rows = slice(0 if mask == "none" else PADDED, None)  # [PAD] sees nothing, and theirs is uniform there
    assert np.array_equal(record.masks[:, rows], np.stack([shown[kind] for kind in kinds])[:, rows])
    assert same_weights(record.weights[:, :, rows], torch.cat(made.attentions)[:, :, rows])
    assert record.mask_name == (mask or "causal")
    ahead = record.weights[..., np.triu(np.ones((length, length), dtype=bool), 1)].sum()
    assert (ahead > 1) == (mask in ("padding", "none"))
    with torch.inference_mode():
        [last] = model.last_hidden([model.tokenizer.encode(TEXTS[0], pad_to=length)], mask)
    with eager(model) as network, torch.inference_mode():
        made = network.base_model(ids, attention_mask=given, position_ids=positions)
    assert same_vectors(last[rows], made.last_hidden_state[0, rows], 3)


@pytest.mark.parametrize("mask", ["padding", "none", "causal"])
@pytest.mark.parametrize("name", slow_except(["bert", "modernbert"], ["bert"]))
def test_an_encoder_has_the_mask_that_is_asked_for(small, tiny, name, mask):
    """`causal` hides the future; ModernBERT's windows stay."""
    model = load_model(str(tiny("bert")), device="cpu", engine="transformers") if name == "bert" else small(name)
    real = len(model.tokenizer.encode(TEXTS[2]))
    length = real + PADDED
    record = model.attend(TEXTS[2], mask=mask, pad_to=length)
    kinds = getattr(model.network.config, "layer_types", None) or ["full_attention"] * model.layers
    windows = {"sliding_attention": 3, "full_attention": None}  # each sees 2 to each side
    shown = {kind: shown_by_hand(mask, np.arange(length) < real, window, True) for kind, window in windows.items()}
    masks = {kind: additive(one) for kind, one in shown.items()}
    given = masks if name == "modernbert" else masks["full_attention"]
    with eager(model) as network, torch.inference_mode():
        made = network(
            torch.tensor([record.tokens.ids]), attention_mask=given, output_attentions=True, output_hidden_states=True
        )
    assert np.array_equal(record.masks, np.stack([shown[kind] for kind in kinds]))
    rows = slice(length if mask == "none" else real)
    assert same_weights(record.weights[:, :, rows], torch.cat(made.attentions)[:, :, rows])
    last = model.hidden_states(record.tokens, mask)[-1]
    assert same_vectors(last[rows], made.hidden_states[-1][0, rows], 4)


@pytest.mark.parametrize("mask", [None, "padding", "none", "causal"])
@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_decoder_that_is_fed_has_the_mask_that_is_asked_for(small, name, mask):
    model = small(name)
    record = model.attend(TEXTS[0], which="decoder", target="a cat on a mat", mask=mask)
    length = len(record.tokens)
    shown = shown_by_hand(mask, np.ones(length, dtype=bool), None, False)
    with eager(model) as network, torch.inference_mode():
        made = network(
            torch.tensor([model.tokenizer.encode(TEXTS[0]).ids]),
            decoder_input_ids=torch.tensor([record.tokens.ids]),
            decoder_attention_mask=additive(shown),
            output_attentions=True,
        )
    assert np.array_equal(record.masks, np.stack([shown] * 2))
    assert same_weights(record.weights, torch.cat(made.decoder_attentions))


# --- several texts ----------------------------------------------------------------------------------------

PLACES = [
    *((name, "decoder") for name in DECODERS),
    *((name, "encoder") for name in ("esm", "modernbert")),
    *((name, part) for name in ("t5", "bart") for part in ("encoder", "decoder", "cross")),
]


@pytest.mark.slow
@pytest.mark.parametrize("mask", [None, "padding"])
@pytest.mark.parametrize(("name", "part"), PLACES)
def test_several_texts_give_what_each_gives_alone(small, name, part, mask):
    """Texts of the same and of different lengths, and [PAD]; maps, masks, norms and vectors."""
    model = small(name)
    of_part = model.of_part(part)
    tokens = [model.tokenizer.encode(text) for text in [*TEXTS, TEXTS[0]]]
    tokens.append(model.tokenizer.encode(TEXTS[1], pad_to=len(tokens[1]) + PADDED))
    tokens.append(model.tokenizer.encode(TEXTS[0], pad_to=len(tokens[1]) + PADDED))
    target = "a cat" if part in ("decoder", "cross") and model.paired else None
    for measure in ("weight", "norm"):
        request = Request(mask=mask, which=part if model.paired else None, measure=measure, target=target)
        together = list(model.attend_tokens(tokens, request))
        for one, record in zip(tokens, together, strict=True):
            [alone] = model.attend_tokens([one], request)
            same = same_weights if measure == "weight" else partial(same_vectors, depth=3)
            assert same(torch.from_numpy(record.weights), torch.from_numpy(alone.weights))
            assert np.array_equal(record.masks, alone.masks)
            assert record.tokens.ids == alone.tokens.ids
    ready = [of_part.ready(one, "a cat" if model.paired else None, answer=True) for one in tokens]
    with torch.inference_mode():
        vectors = of_part.last_hidden(ready, mask)
        for one, made in zip(ready, vectors, strict=True):
            assert same_vectors(made, of_part.last_hidden([one], mask)[0], 6)
