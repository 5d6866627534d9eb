"""Model: texts in, records out; the published weights against transformers."""

import json
import shutil

import numpy as np
import pytest
from checkpoints import DECODERS
from slow import slow_except

from attncli import load_model
from attncli.models.aliases import ALIASES
from attncli.models.rows import AHEAD_TOKENS

# --- the published weights ------------------------------------------------------------------------------


def test_minilm_says_what_it_is(minilm):
    info = minilm.info
    assert (info.name, info.layers, info.heads, info.hidden_size) == ("minilm", 6, 12, 384)
    assert info.sha256 == ALIASES["minilm"].sha256
    assert minilm.tokenizer.max_tokens == 512  # and not the 128 that its tokenizer.json says


# --- what is asked for ----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", slow_except(DECODERS, ("llama", "gemma2", "gpt2")))
def test_padding_before_a_decoder_s_text_changes_nothing_in_it(tiny, family):
    """Positions begin at the first real token, so that queries and keys have the same rotation."""
    model = load_model(str(tiny(family)), "cpu", "float64")
    plain = model.attend("the cat sat on it", vectors="all")
    padded = model.attend("the cat sat on it", vectors="all", pad_to=len(plain.tokens) + 3)
    assert padded.tokens.padding == [True] * 3 + [False] * len(plain.tokens)
    np.testing.assert_allclose(padded.weights[..., 3:, 3:], plain.weights, atol=1e-7)
    assert not padded.weights[..., :3].any() and not padded.masks[..., :3].any()
    for of_padded, of_plain in ((padded.vectors.query, plain.vectors.query), (padded.vectors.key, plain.vectors.key)):
        np.testing.assert_allclose(of_padded[:, 3:], of_plain, rtol=1e-6, atol=1e-6)
    rotation = padded.vectors.rotation
    assert (rotation is None) == (plain.vectors.rotation is None)
    if rotation is not None:
        assert rotation.keys.tolist() == [0, 0, 0, *plain.vectors.rotation.keys]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_tokenizer_s_files_may_name_the_side_of_the_padding(tiny, tmp_path, side):
    shutil.copytree(tiny("llama"), tmp_path / "it")
    file = tmp_path / "it" / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps({**settings, "padding_side": side}), encoding="utf-8")
    padded = load_model(str(tmp_path / "it"), "cpu").attend("the cat", pad_to=20).tokens.padding
    assert padded == sorted(padded, reverse=side == "left") and any(padded)


@pytest.mark.slow
def test_records_come_as_they_are_ready(tiny):
    """A corpus is not read to its end before the first record is there."""
    model = load_model(str(tiny("bert")), "cpu")

    def corpus():
        yield from ["the cat"] * (1 + AHEAD_TOKENS // 4)  # one more than are read ahead
        raise AssertionError("read too far")

    assert next(model.attend_many(corpus())).tokens.text == ["[CLS]", "the", "cat", "[SEP]"]


def test_texts_and_pairs_of_different_number(tiny):
    model = load_model(str(tiny("bert")), "cpu")
    with pytest.raises(ValueError, match="shorter"):
        list(model.attend_many(["the", "cat"], ["it"]))


@pytest.mark.parametrize("make", [list, iter])
def test_a_bar_says_how_far_many_texts_are(make, minilm, capsys):
    """Pass a generator, whose number of texts is unknown."""
    texts = ["The cat sat.", "It is big.", "A dog."]
    found = list(minilm.attend_many(make(texts), layers=0, progress=True))
    assert [one.tokens.text for one in found] == [one.tokens.text for one in minilm.attend_many(texts, layers=0)]
    printed = capsys.readouterr()
    assert "3 texts" in printed.err if make is iter else "3/3" in printed.err
    assert printed.out == ""
    list(minilm.attend_many(texts, layers=0))
    assert capsys.readouterr().err == ""
