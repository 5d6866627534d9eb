"""Sources in networks made by hand, whose answers depend on one part of the prompt.

Vectors are [token, position, token before], each one-hot. Weights undo the norm before them, so a layer is x + x M.
"""

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from attncli import load_model, sources

WORDS = ["<s>", *"abcd", *"1234", ".", "?"]
COUNT, POSITIONS = len(WORDS), 40
SIZE = 2 * COUNT + POSITIONS
WORD, PLACE, BEFORE = np.split(np.eye(SIZE), [COUNT, COUNT + POSITIONS])
SHARP = 300.0  # the score of a match; without one it is 0


def conv(given, active, matrix):
    """Set a layer so that it gives x M from the norm of x, which has so many ones."""
    mean = active / SIZE
    deviation = (mean - mean**2) ** 0.5
    given.weight.copy_(torch.from_numpy(matrix * deviation))
    given.bias.copy_(torch.from_numpy(matrix.sum(axis=0) * mean))


def model_of(path, layers):
    """Return the model of these layers, (query, key, value) each: matrices `[size, size]`."""
    config = transformers.GPT2Config(
        vocab_size=COUNT, n_positions=POSITIONS, n_embd=SIZE, n_layer=len(layers), n_head=1, layer_norm_epsilon=1e-12,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    network = transformers.GPT2LMHeadModel(config).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.transformer.wte.weight.copy_(torch.from_numpy(WORD))
        network.transformer.wpe.weight.copy_(torch.from_numpy(PLACE))
        for number, (block, parts) in enumerate(zip(network.transformer.h, layers, strict=True)):
            block.ln_1.weight.fill_(1)
            conv(block.attn.c_attn, 2 + number, np.hstack(parts))
            block.attn.c_proj.weight.copy_(torch.eye(SIZE))
        network.transformer.ln_f.weight.fill_(1)
    network.save_pretrained(path)
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, "?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.save(str(path / "tokenizer.json"))
    return load_model(str(path), device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def induction(tmp_path_factory):
    """A network that writes what followed an earlier occurrence of its last token (Olsson et al. 2022)."""
    scale = SHARP * SIZE**0.5
    previous = (PLACE[1:].T @ PLACE[:-1] * scale, PLACE.T @ PLACE, WORD.T @ BEFORE)
    copying = (WORD.T @ BEFORE * scale, BEFORE.T @ BEFORE, WORD.T @ WORD * 10)
    return model_of(tmp_path_factory.mktemp("induction"), [previous, copying])


@pytest.fixture(scope="module")
def even(tmp_path_factory):
    """A network that sees all tokens alike, and writes "1" if "a" is among them, however often."""
    none = np.zeros((SIZE, SIZE))
    value = np.outer(WORD[WORDS.index("a")], WORD[WORDS.index("1")]) * 1e9
    return model_of(tmp_path_factory.mktemp("even"), [(none, none, value)])


def prompt(*parts, asks):
    return " ".join([*(f'<doc id="{place}"> {text} </doc>' for place, text in enumerate(parts, 1)), asks])


FACTS = ("a 1 .", "b 2 .", "c 3 .", "d 4 .")


@pytest.mark.parametrize("right", range(4))
def test_an_answer_rests_on_the_part_that_it_was_copied_from(induction, right):
    """One head looks at the token before, in no part, and the other at the token that is copied."""
    found = sources(induction, prompt(*FACTS, asks=f"? {'abcd'[right]}"), max_tokens=1)
    assert found.answer[0].text == "1234"[right]
    one = np.eye(4)[right]
    assert found.effects[0, right] > 5
    np.testing.assert_allclose(found.effects[0, :4], found.effects[0, right] * one, atol=1e-9)
    np.testing.assert_allclose(found.shares[0], [*one / 2, 0.5], atol=1e-9)
    assert found.heads[right][0] == (1, 0, pytest.approx(1))
    assert found.verdict.startswith(f"the answer rests on doc {right + 1} (effect 5.")


def test_each_token_of_an_answer_rests_on_its_own_part(induction):
    found = sources(induction, prompt(*FACTS, asks="? b"), answer="2 ? d 4", each="token", draws=0)
    effects = {unit.text: found.effects[number] for number, unit in enumerate(found.answer)}
    for token, part in (("2", 1), ("4", 3)):
        np.testing.assert_allclose(effects[token][:4], effects[token][part] * np.eye(4)[part], atol=1e-9)
        assert effects[token][part] > 3


def test_two_parts_that_can_be_copied_from_are_found_together(induction):
    found = sources(induction, prompt("a 1 .", "b 2 .", "c 3 .", "b 2 .", "d 4 . d 4 .", asks="? b"), answer="2")
    np.testing.assert_allclose(found.effects[0], 0, atol=1e-2)
    [pair] = found.pairs
    assert (pair.first, pair.second) == (1, 3) and pair.effect > 5 and pair.most < 1e-2
    assert "doc 2 and doc 4 together do" in found.verdict


def test_where_attention_is_even_shares_are_lengths_and_effects_are_not(even):
    parts = ("b 1 2 .", "c d . 3 4 .", "d a .", ". . 3 .")
    found = sources(even, prompt(*parts, asks="? b c"), max_tokens=1)
    assert found.answer[0].text == "1"
    np.testing.assert_allclose(found.shares, found.lengths, atol=1e-12)
    np.testing.assert_allclose(found.effects[0], [0, 0, found.effects[0, 2], 0, 0], atol=1e-9)
    assert found.effects[0, 2] > 5
    assert found.verdict.startswith("the answer rests on doc 3")


@pytest.mark.parametrize("parts", [(0, 3), (1, 2), (0, 1, 3)])
def test_parts_that_say_the_same_are_found_two_at_a_time(even, parts):
    """Three of them can't be."""
    said = [f"b {'a' if number in parts else 'c'} ." for number in range(4)]
    found = sources(even, prompt(*said, asks=". . . . . . ? b"), answer="1")
    np.testing.assert_allclose(found.effects[0], 0, atol=1e-9)
    assert [(pair.first, pair.second) for pair in found.pairs] == [parts][: len(parts) == 2]


def test_the_sentence_that_an_answer_was_copied_from_is_named(induction):
    found = sources(induction, prompt("a 1 . b 2 .", "c 3 . d 4 .", asks="c"), answer="3", sentences=True)
    assert "rests on doc 2" in found.verdict and 'mostly on "c 3 ."' in found.verdict
    effects = [effect for effect in found.sentence_effects[0] if effect == effect]
    assert effects[0] > 5 and abs(effects[1]) < 1e-2
