"""Mask functions that are right are found right, and mistakes in them are found and named."""

from pathlib import Path

import pytest
import torch
from checks.theirs import right_masks
from checks.theirs.loaded import loaded, one_of_each_quick
from checks.theirs.wrong import NAME, PLANTED, base, source

from attncli.base.errors import RequestError
from attncli.checks.theirs.found import Found, Wanted
from attncli.checks.theirs.masks.check import check_mask
from attncli.checks.theirs.subjects.here import Here

PROGRAM = Path(right_masks.__file__).read_text(encoding="utf-8")
# Mistake, function, what stands there, what stands there in its place, what True is said to mean.
WRONG = [
    ("causal off by one", "subsequent_mask", "size)), diagonal=1", "size)), diagonal=2", None),
    ("causal off by one", "lower_triangle", "[j <= i for", "[j <= i + 1 for", None),
    ("causal off by one", "future_of", "> queries[:, None]", "> queries[:, None] + 1", None),
    ("causal off by one", "causal_biases", "> places[:, None]", "> places[:, None] + 1", None),
    ("causal off by one", "for_torchs_heads", "keys).triu(1)", "keys).triu(2)", None),
    ("causal hides itself", "generate_square_subsequent_mask", '"-inf")), diagonal=1', '"-inf")), diagonal=0', None),
    ("causal hides itself", "subsequent_mask", "size)), diagonal=1", "size)), diagonal=0", None),
    ("causal hides itself", "lower_triangle", "[j <= i for", "[j < i for", None),
    ("causal hides itself", "future_of", "> queries[:, None]", ">= queries[:, None]", None),
    ("causal hides itself", "causal_with_padding", "1.0).tril()", "1.0).tril(-1)", None),
    ("causal the wrong way", "generate_square_subsequent_mask", 'float("-inf")), diagonal=1)',
     'float("-inf")), diagonal=1).T', None),
    ("causal the wrong way", "lower_triangle", "[j <= i for", "[j >= i for", "allowed"),
    ("causal the wrong way", "future_of", "> queries[:, None]", "< queries[:, None]", "forbidden"),
    ("causal the wrong way", "causal_biases", "> places[:, None]", "< places[:, None]", None),
    ("causal the wrong way", "make_trg_mask", "torch.tril(torch.ones(length", "torch.triu(torch.ones(length", None),
    ("[PAD] hidden as query", "padding_mask", "pad_id)[:, None, None, :]", "pad_id)[:, None, :, None]", None),
    ("[PAD] hidden as query", "extended_attention_mask", "[:, None, None, :].float", "[:, None, :, None].float",
     None),
    ("[PAD] hidden as query", "combined_hidden", "pad)[:, None]", "pad)[:, :, None]", None),
    ("[PAD] hidden as query", "make_trg_mask", ".unsqueeze(1).unsqueeze(2)", ".unsqueeze(1).unsqueeze(3)", None),
    ("[PAD] hidden as query", "pad_attn_mask", "seq_k.eq(PAD).unsqueeze(1)", "seq_k.eq(PAD).unsqueeze(2)", None),
    ("[PAD] forgotten", "make_trg_mask", "return pad & ", "return ", None),
    ("[PAD] forgotten", "combined_hidden", "future | (tgt == pad)[:, None]", "future", None),
    ("[PAD] forgotten", "causal_with_padding", " * attention_mask[:, None].float()", "", None),
    ("[PAD] forgotten", "for_torchs_heads", "future | (mask == 0)[:, None, :]", "future.repeat(len(mask), 1, 1)", None),
    ("causal forgotten", "make_trg_mask", "pad & torch.tril(torch.ones(length, length)).bool()", "pad", None),
    ("causal forgotten", "combined_hidden", "future | (tgt == pad)[:, None]", "(tgt == pad)[:, None]", None),
    ("causal forgotten", "causal_with_padding", "1.0).tril() *", "1.0) *", None),
    ("masks combined by or", "make_trg_mask", "pad & torch", "pad | torch", None),
    ("masks combined by or", "combined_hidden", "future | (tgt", "future & (tgt", None),
    ("masks combined by or", "causal_with_padding", "tril() * attention", "tril() + attention", None),
    ("masks combined by or", "for_torchs_heads", "future | (mask", "future & (mask", None),
    ("first text's [PAD] for all", "padding_mask", "(tokens != pad_id)", "(tokens[:1] != pad_id)", None),
    ("first text's [PAD] for all", "sequence_mask", "< lengths[:, None]", "< lengths[0].expand(len(lengths), 1)", None),
    ("first text's [PAD] for all", "extended_attention_mask", "= attention_mask[:, None", "= attention_mask[:1, None",
     None),
    ("length off by one", "sequence_mask", "< lengths[:, None]", "<= lengths[:, None]", None),
    ("length off by one", "sequence_mask", "< lengths[:, None]", "< lengths[:, None] - 1", None),
    ("length off by one", "lengths_to_mask", "[text, :length]", "[text, : length + 1]", None),
    ("number too small", "extended_attention_mask", "* -10000.0", "* -1.0", None),
    ("number too small", "generate_square_subsequent_mask", 'float("-inf")', "-100.0", None),
    ("number too small", "causal_biases", "torch.finfo(dtype).min", "-1", None),
    ("0 times -inf", "extended_attention_mask", "* -10000.0", "* -math.inf", None),
    ("added with the wrong sign", "extended_attention_mask", "* -10000.0", "* 1e9", None),
    ("mask inverted", "extended_attention_mask", "(1.0 - extended) * ", "extended * ", None),
    ("mask inverted", "padding_mask", "tokens != pad_id", "tokens == pad_id", "allowed"),
    ("mask inverted", "key_padding_mask", "eq(pad_token_id)", "ne(pad_token_id)", "forbidden"),
    ("mask inverted", "subsequent_mask", "upper == 0", "upper == 1", "allowed"),
    ("heads before texts", "for_torchs_heads", "repeat_interleave(num_heads, dim=0)", "repeat(num_heads, 1, 1)", None),
]  # fmt: skip


def checked(thing: object, **wanted: object) -> Found:
    return check_mask(Here(thing), Wanted("mask", **wanted))


@pytest.mark.parametrize("thing", right_masks.RIGHT, ids=lambda thing: thing.__name__)
def test_what_is_right_is_found_right_under_its_convention(thing):
    kind, words = right_masks.RIGHT[thing]
    found = checked(thing)
    assert found.right, found
    assert found.kind == kind
    assert words in "; ".join(found.conventions)


@pytest.mark.parametrize(("mistake", "name", "old", "new", "means"), one_of_each_quick(WRONG))
def test_a_mistake_is_found_and_named(mistake, name, old, new, means, tmp_path):
    assert PROGRAM.count(old) == 1
    found = checked(loaded(PROGRAM.replace(old, new), name, tmp_path), means=means)
    assert not found.right
    assert [one.mistake for one in found.diagnosis] == [mistake], found


@pytest.mark.parametrize(
    "planted", [one for one in PLANTED if one.style == "mask_function"], ids=lambda one: one.mistake
)
def test_mistakes_are_told_apart_by_what_the_function_says_of_true(planted, tmp_path):
    assert checked(loaded(base(planted.style), NAME[planted.style], tmp_path)).right
    found = checked(loaded(source(planted), NAME[planted.style], tmp_path))
    assert [one.mistake for one in found.diagnosis] == [planted.mistake]


def test_two_mistakes_at_once_are_both_named(tmp_path):
    program = PROGRAM.replace("future | (tgt", "future & (tgt").replace(
        "ones(size, size), diagonal=1)", "ones(size, size), diagonal=2)"
    )
    found = checked(loaded(program, "combined_hidden", tmp_path))
    assert {one.mistake for one in found.diagnosis} == {"masks combined by or", "causal off by one"}


def test_what_true_stands_for_is_asked_where_two_mistakes_give_the_same_numbers():
    def upper(n):
        return torch.ones(n, n).triu()

    (only,) = checked(upper).diagnosis
    assert only.mistake == "causal hides itself"
    assert "--mask-means allowed" in only.remedy
    (only,) = checked(upper, means="allowed").diagnosis
    assert only.mistake == "causal the wrong way"
    assert "--mask-means" not in only.remedy


def test_what_no_mistake_explains_is_shown_at_its_smallest():
    def every_other(n):
        return (torch.arange(n)[:, None] - torch.arange(n)) % 2 == 0

    found = checked(every_other)
    assert not found.right
    assert found.diagnosis == ()
    assert found.smallest == "of 2 tokens it allows [[1, 0], [0, 1]], and should allow [[1, 0], [1, 1]]"


def test_a_changed_input_and_a_mask_that_is_another_each_time_are_wrong():
    def drops(tokens, pad):
        seen = tokens != pad
        tokens[:] = pad
        return seen

    wrong = {check.name for check in checked(drops).checks if check.holds is False}
    assert wrong == {"inputs are not changed"}

    calls = []

    def forgets(n):
        calls.append(n)
        return torch.ones(n, n).tril() if calls.count(n) < 5 else torch.ones(n, n)

    assert "the same twice" in {check.name for check in checked(forgets).checks if check.holds is False}


def three(tokens, size):
    return tokens > 0, torch.ones(size, size).tril(), tokens


def numbers(n):
    return torch.arange(n * n).view(n, n)


def needs(n, colour):
    return colour[n]


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (three, "gives 3 arrays: hand in a function that gives one of them"),
        (numbers, "numbers gives no mask"),
        (needs, "--map NAME=length"),
    ],
)
def test_what_gives_no_mask_is_refused_in_one_line(thing, said):
    with pytest.raises(RequestError, match=said) as refused:
        checked(thing)
    assert len(str(refused.value)) <= 300
    assert "\n" not in str(refused.value)


def test_a_parameter_is_what_the_user_says_it_is():
    def mask(a, b):
        return a != b

    assert checked(mask, map={"a": "tokens", "b": "pad"}).kind == "a padding mask"
    with pytest.raises(RequestError, match="--map a=colour"):
        checked(mask, map={"a": "colour"})


def test_a_function_of_numpy_is_given_arrays_of_numpy(tmp_path):
    program = (
        "import numpy as np\n\n\ndef create_padding_mask(seq):\n"
        "    return np.equal(seq, 0).astype(np.float32)[:, None, None, :] * -1e9\n"
    )
    found = checked(loaded(program, "create_padding_mask", tmp_path))
    assert found.right, found
    assert found.conventions == ("[batch, 1, 1, key], -1e+09 is added where it is forbidden", "[PAD] is token 0")


def test_a_device_and_a_dtype_that_are_wanted_are_given():
    def made(n, device, dtype):
        return torch.ones(n, n, device=device, dtype=dtype).tril()

    assert checked(made).conventions == ("[query, key], 1.0 = allowed",)
