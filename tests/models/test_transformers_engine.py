"""Models from elsewhere: what is kept is what transformers says, of the tokens that it was given."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
from checkpoints import edit_config
from foreign_checkpoints import (
    ANSWER,
    DECODERS,
    ENCODER_DECODERS,
    POSITIONS,
    TEXT,
    WORDPIECE,
    attend,
    make_foreign,
)
from nearness import same_vectors, same_weights
from safetensors.torch import load_file, save_file

from attncli import load_model
from attncli.base.errors import RequestError
from attncli.models.transformers_engine import LONGEST_ANSWER


class Theirs:
    """transformers' own class with its tokenizer, used as its documentation says."""

    def __init__(self, model):
        path = model.place.path
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        [name] = transformers.AutoConfig.from_pretrained(path).architectures
        kind = getattr(transformers, name)
        self.network = kind.from_pretrained(path, attn_implementation="eager")
        self.batch = self.tokenizer(TEXT, return_tensors="pt")
        self.ids = self.batch.input_ids[0].tolist()

    def maps(self, **more):
        with torch.inference_mode():
            return self.network(**self.batch, output_attentions=True, **more)

    def answer(self) -> list[int]:
        """The start token and all that it writes."""
        longest = LONGEST_ANSWER if self.network.config.model_type == "t5" else POSITIONS
        made = self.network.generate(**self.batch, do_sample=False, num_beams=1, max_new_tokens=longest)
        return made[0].tolist()


def same(record, maps) -> bool:
    """Check that our place in their network equals their own eager attention, up to rounding."""
    return same_weights(record.weights, torch.cat(maps))


# --- what transformers says -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_a_target_is_taught_as_transformers_teaches_it(foreign, family):
    model = foreign(family)
    theirs = Theirs(model)
    labels = theirs.tokenizer(text_target=ANSWER).input_ids
    expected = theirs.maps(labels=torch.tensor([labels]))  # it makes the decoder's input itself
    encoder = attend(model, which="encoder")
    decoder, cross = (attend(model, target=ANSWER, which=part) for part in ("decoder", "cross"))
    assert same(encoder, expected.encoder_attentions)
    assert same(decoder, expected.decoder_attentions)
    assert same(cross, expected.cross_attentions)
    assert encoder.tokens.ids == cross.key_tokens.ids == theirs.ids
    assert decoder.tokens.ids == cross.tokens.ids == [model.network.config.decoder_start_token_id, *labels[:-1]]
    assert [record.kind for record in (encoder, decoder, cross)] == ["encoder", "decoder", "cross"]
    assert encoder.key_tokens is None and decoder.key_tokens is None


@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_without_a_target_the_decoder_reads_its_own_greedy_output(foreign, family):
    model = foreign(family)
    theirs = Theirs(model)
    written = theirs.answer()
    cross = attend(model)
    assert cross.tokens.ids == written[:-1]
    assert len(set(written)) > 10  # and not one token for ever
    assert same(cross, theirs.maps(labels=torch.tensor([written[1:]])).cross_attentions)
    again = attend(model)
    assert again.tokens == cross.tokens and np.array_equal(again.weights, cross.weights)


@pytest.mark.parametrize("family", WORDPIECE)
def test_a_network_is_told_of_segments_only_if_it_takes_them(foreign, family):
    """Their tokenizer gives token types; T5 and BART have none, and two BERTs have: their own encoder's."""
    model = foreign(family)
    theirs = Theirs(model)
    assert "token_type_ids" in theirs.batch
    if family != "encoder-decoder":
        del theirs.batch["token_type_ids"]
    written = theirs.answer()
    cross = attend(model)
    assert cross.tokens.ids == written[:-1]
    assert same(cross, theirs.maps(decoder_input_ids=torch.tensor([written[:-1]])).cross_attentions)
    expected = theirs.maps(decoder_input_ids=torch.tensor([cross.tokens.ids]))
    assert same(attend(model, which="encoder"), expected.encoder_attentions)
    assert same(attend(model, which="decoder"), expected.decoder_attentions)


def test_a_pair_has_segments_where_the_network_takes_them(foreign):
    def told(family):
        model = foreign(family)
        [tokens] = model.tokenizer.encode_each([("the cat", "a mat")], None)
        assert set(tokens.segments) == {0, 1}
        return model.inputs([tokens], "padding").get("token_type_ids")

    assert told("bart-wordpiece") is None
    assert set(told("encoder-decoder")[0].tolist()) == {0, 1}


def test_what_it_writes_ends_at_its_last_position(foreign):
    assert len(attend(foreign("bart")).tokens) == POSITIONS


@pytest.mark.parametrize("part", ["encoder", "cross"])
def test_padding_is_hidden_from_all_unless_nothing_is(foreign, part):
    model = foreign("t5")
    taught = {} if part == "encoder" else {"target": ANSWER}
    plain, hidden, shown = (
        attend(model, which=part, **taught, **more) for more in ({}, {"pad_to": 20}, {"pad_to": 20, "mask": "none"})
    )
    real = len(plain.keys)
    assert hidden.keys.text[real:] == ["<pad>"] * (20 - real) and sum(hidden.keys.padding) == 20 - real
    assert not hidden.mask[:, real:].any() and hidden.mask[:, :real].all()
    assert np.allclose(hidden.weights[:, :, : len(plain.tokens), :real], plain.weights, atol=1e-5)
    assert shown.mask.all() and (shown.mask_name, hidden.mask_name) == ("none", "padding")


def test_layers_and_heads_are_counted_in_the_part_asked_for(foreign):
    model = foreign("bart")  # 3 layers of 4 heads read, 2 of 2 write
    whole, some = attend(model, which="encoder"), attend(model, which="encoder", layers="-1,0", heads=[3, 1])
    assert (some.layers, some.heads) == ([2, 0], [3, 1])
    assert same_weights(some.weights, whole.weights[[2, 0]][:, [3, 1]])
    assert np.array_equal(some.mask, whole.mask)
    sizes = [(info.layers, info.heads, info.hidden_size) for info in (whole.model, attend(model).model)]
    assert sizes == [(3, 4, 32), (2, 2, 32)]
    with pytest.raises(RequestError, match="layer 2 is out of range"):
        attend(model, layers=2)
    with pytest.raises(RequestError, match="head 2 is out of range"):
        attend(model, which="decoder", heads="0-2")


@pytest.mark.parametrize("family", [*DECODERS, "modernbert", "bart"])
def test_vectors_are_those_of_what_reads_the_text(foreign, family):
    model = foreign(family)
    theirs = Theirs(model)
    given = theirs.maps(output_hidden_states=True)
    expected = given.encoder_hidden_states if family == "bart" else given.hidden_states
    [tokens] = model.tokenizer.encode_each([(TEXT, None)], None)
    found = model.hidden_states(tokens)
    assert len(found) == len(expected) == model.of_part(model.parts[0]).info.layers + 1
    assert all(same_vectors(ours, other[0], len(found)) for ours, other in zip(found, expected, strict=True))


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "asked", "why"),
    [
        ("gpt2", {"which": "cross"}, "has no cross attention, since it is only a decoder"),
        ("gpt2", {"which": "encoder"}, "has no encoder attention, since it is only a decoder"),
        ("gpt2", {"target": ANSWER}, "--target is for encoder-decoders, but .* is a decoder: omit it"),
        ("gpt2", {"pad_to": 30}, "has no padding token: omit --pad-to"),
        ("gpt2", {"which": "middle"}, "no part 'middle': use one of encoder, decoder, cross"),
        ("t5", {"target": ""}, "the text is empty"),
        ("t5", {"target": ANSWER, "which": "encoder"}, "the encoder does not read: omit it, or use --which"),
        ("t5", {"mask": "causal"}, "cross-attention has no future to hide: use --mask padding or none"),
        ("bart", {"pad_to": POSITIONS + 1}, "can't pad to 41 tokens"),
        ("mamba", {}, "has no attention in transformers with one map per head"),
    ],
)
def test_what_a_model_does_not_have_is_refused(foreign, family, asked, why):
    with pytest.raises(RequestError, match=why):
        attend(foreign(family), **asked)


def test_vectors_that_transformers_does_not_make(foreign):
    model = foreign("gpt2")
    with pytest.raises(RequestError, match="transformers can't omit the positions"):
        model.hidden_states(model.tokenizer.encode(TEXT), positions=False)


def test_files_that_are_not_whole_or_no_numbers_are_refused(tmp_path):
    path = make_foreign(tmp_path, "gpt2") / "model.safetensors"
    tensors, name = load_file(path), "transformer.h.1.attn.c_attn.weight"
    save_file({**tensors, name: torch.full_like(tensors[name], torch.nan)}, path, {"format": "pt"})
    with pytest.raises(RequestError, match=r"layer 1, head 0 of .* has scores too large for float32: use another --"):
        attend(load_model(str(tmp_path), "cpu", engine="transformers"))
    del tensors[name]
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(RequestError, match=r"does not find h\.1\.attn\.c_attn\.weight in .*: the weights are incomp"):
        load_model(str(tmp_path), "cpu", engine="transformers")
    edit_config(tmp_path, model_type="made-up")
    with pytest.raises(RequestError, match=r"^transformers can't load [^\n]*made-up[^\n]*$"):
        load_model(str(tmp_path), "cpu", engine="transformers")


@pytest.mark.parametrize(
    ("family", "changes", "why"),
    [
        ("opt", {"architectures": 1000}, "architectures is 1000, not a list"),
        ("opt", {"text_config": 5}, "text_config is 5, not an object"),
        ("opt", {"text_config": {}}, "text_config is stated, but opt has no such part"),
        ("opt", {"quantization_config": [4]}, r"quantization_config is \[4\], not an object"),
        ("opt", {"num_hidden_layers": 1_000_000}, "num_hidden_layers is 1000000, more than 1,000 in files of"),
        ("opt", {"num_labels": 10**9}, "num_labels is 1000000000, more than 1,000,000"),
        (
            "opt",
            {"num_hidden_layers": 900},
            r"describes a network of [\d,]+ numbers, but its weights have",
        ),
        ("bart", {"is_encoder_decoder": False}, "is_encoder_decoder is false, but bart has an encoder and a decoder"),
        ("t5", {"num_decoder_layers": 10**6}, "num_decoder_layers is 1000000, more than 1,000"),
    ],
)
def test_sizes_are_held_against_the_files_before_anything_is_built(family, changes, why, tmp_path, monkeypatch):
    make_foreign(tmp_path, family)
    edit_config(tmp_path, **changes)
    built = "transformers.modeling_utils.PreTrainedModel.from_pretrained"
    monkeypatch.setattr(built, lambda *_, **__: pytest.fail("it is built first"))
    with pytest.raises(RequestError, match=why) as caught:
        load_model(str(tmp_path), "cpu", engine="transformers")
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.slow
def test_transformers_keeps_quiet(foreign):
    program = (
        "import sys, warnings; warnings.simplefilter('ignore');from attncli import "
        "load_model;list(load_model(sys.argv[1], 'cpu', engine='transformers').attend_many(['the cat ' * 30]))"
    )
    path = foreign("bart").place.path
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=True, timeout=300)
    assert done.stdout == b"" and done.stderr == b""
