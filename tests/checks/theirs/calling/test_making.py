"""Arguments for constructors: what each is, by its name."""

import pytest

from attncli.base.errors import RequestError
from attncli.checks.code.subject import Subject
from attncli.checks.theirs.calling.making import Sizes, arguments


def made(function, given=None, sizes=None):
    """For a class whose constructor has this signature."""

    class Attention:
        __init__ = function

        def __call__(self, x):
            return x

    return arguments(Subject(Attention).describe(), sizes or Sizes(), given or {})


def test_sizes_are_told_apart():
    values = [*Sizes()._asdict().values(), Sizes().head_dim]
    assert len(values) == len(set(values)) and Sizes().head_dim * Sizes().heads == Sizes().d_model


def test_what_is_needed_is_given():
    assert made(lambda self, d_model, num_heads: None) == {"d_model": 32, "num_heads": 4}
    assert made(lambda self, embed_dim, n_heads, d_k, d_ff, max_len, dropout: None) == {
        "embed_dim": 32, "n_heads": 4, "d_k": 8, "d_ff": 48, "max_len": 64, "dropout": 0.1
    }  # fmt: skip


def test_how_many_heads_is_given_where_it_could_be_left_out():
    found = made(lambda self, dim, heads=8, qkv_bias=False, device=None: None)
    assert found["heads"] == 4 and "device" not in found


def test_sizes_that_are_asked_for():
    assert made(lambda self, dim, heads: None, sizes=Sizes(12, 3)) == {"dim": 12, "heads": 3}


def test_a_config_has_all_names_of_all_sizes():
    [config] = made(lambda self, config: None).values()
    assert (config["n_embd"], config["num_attention_heads"], config["block_size"]) == (32, 4, 64)
    assert config["bias"] and config["attn_pdrop"] == 0.1


def test_what_is_given_by_the_user_comes_first():
    found = made(lambda self, d_model, heads, colour: None, {"colour": "red", "heads": 2})
    assert found == {"d_model": 32, "heads": 2, "colour": "red"}


def test_what_is_needed_and_not_known_is_refused():
    with pytest.raises(RequestError, match=r"wants 'colour'.*--give colour=VALUE"):
        made(lambda self, d_model, colour: None)


def test_what_the_constructor_does_not_have_is_refused():
    with pytest.raises(RequestError, match="--give colour: Attention's constructor has no such parameter"):
        made(lambda self, d_model: None, {"colour": "red"})


def test_what_takes_anything_is_given_anything():
    assert made(lambda self, d_model, **others: None, {"colour": "red"}) == {"d_model": 32, "colour": "red"}
