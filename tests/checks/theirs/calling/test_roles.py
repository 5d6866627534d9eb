"""What parameters are for, by their names and places."""

import re

import pytest

from attncli.base.errors import RequestError
from attncli.checks.code.subject import Parameter
from attncli.checks.theirs.calling.roles import KNOWN, NAMES, role_of, roles_of


def call(*names: str, optional: tuple[str, ...] = (), keyword: tuple[str, ...] = ()) -> list[Parameter]:
    return [
        *(Parameter(name, "positional", True) for name in names),
        *(Parameter(name, "positional", False) for name in optional),
        *(Parameter(name, "keyword", False) for name in keyword),
    ]


def said(*names: str, optional: tuple[str, ...] = (), given: dict[str, str] | None = None) -> list[str]:
    return [role for _, role in roles_of(call(*names, optional=optional), given or {}).places]


@pytest.mark.parametrize(
    "name, role",
    [
        ("q", "query"),
        ("Q", "query"),
        ("queries", "query"),
        ("hiddenStates", "x"),
        ("hidden_states", "x"),
        ("encoderOutput", "memory"),
        ("attn_mask", "mask"),
        ("attentionMask", "mask"),
        ("keyPaddingMask", "padding"),
        ("valid_lens", "lengths"),
        ("numHeads", "heads"),
        ("n_heads", "heads"),
        ("num_kv_heads", "key_heads"),
        ("d_model", "d_model"),
        ("embedDim", "d_model"),
        ("d_k", "head_dim"),
        ("T", "length"),
        ("_mask", "mask"),
        ("mask2", "mask"),
        ("mask_1", "mask"),
        ("colour", None),
        ("", None),
    ],
)
def test_the_role_of_a_name(name, role):
    assert role_of(name) == role


@pytest.mark.parametrize("given", [True, False])
def test_no_name_has_two_roles_where_it_stands(given):
    names = [name for role, names in NAMES.items() for name in names.split() if (role in KNOWN) == given]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["hidden", "h", "emb", "features"])
def test_a_size_of_a_constructor_may_be_what_a_function_is_given(name):
    assert role_of(name) in ("d_model", "heads") and said(name) == said(name, "mask")[:1] == ["x"]


@pytest.mark.parametrize(
    "names, roles",
    [
        (("q", "k", "v"), ["query", "key", "value"]),
        (("query", "key", "value", "mask"), ["query", "key", "value", "mask"]),
        (("v", "k", "q"), ["value", "key", "query"]),
        (("x",), ["x"]),
        (("hidden_states", "attention_mask"), ["x", "mask"]),
        (("x", "memory"), ["x", "memory"]),
        (("x", "x_kv"), ["x", "memory"]),
        (("src", "tokens"), ["x", "memory"]),  # a second x is what is looked at
        (("query",), ["x"]),  # a query alone has nothing to look at but itself
        (("query", "memory"), ["query", "memory"]),
        (("x", "key", "value"), ["query", "key", "value"]),
        (("foo",), ["x"]),
        (("foo", "bar"), ["x", "memory"]),
        (("foo", "bar", "baz"), ["query", "key", "value"]),
        (("foo", "bar", "baz", "qux"), ["query", "key", "value", "mask"]),
        (("foo", "mask"), ["x", "mask"]),
        (("foo", "bar", "baz", "mask"), ["query", "key", "value", "mask"]),
    ],
)
def test_what_is_given(names, roles):
    assert said(*names) == roles


def test_what_may_be_left_out_and_is_not_known_is_left_out():
    assert said("x", optional=("mask", "colour", "need_weights", "is_causal")) == ["x", "mask", "returns", "causal"]


def test_only_arguments_of_any_number_are_query_key_and_value():
    assert [role for _, role in roles_of([Parameter("args", "many", False)], {}).places] == ["query", "key", "value"]


def test_many_more_are_not_given():
    roles = roles_of([*call("x"), Parameter("kwargs", "many", False)], {})
    assert roles.places == (("x", "x"),)


def test_those_by_place_and_those_by_name():
    roles = roles_of(call("x", optional=("mask",), keyword=("is_causal",)), {})
    assert roles.by_place == ("x", "mask") and roles.places[-1] == ("is_causal", "causal")


def test_a_mask_without_a_default_is_needed():
    assert roles_of(call("x", "mask"), {}).needed == ("mask",)
    assert roles_of(call("x", optional=("mask",)), {}).needed == ()


def test_what_the_user_says_comes_first():
    assert said("foo", "bar", "baz", given={"foo": "value", "bar": "key", "baz": "query"}) == ["value", "key", "query"]
    assert said("x", "colour", given={"colour": "mask"}) == ["x", "mask"]


@pytest.mark.parametrize("names", [("x", "colour"), ("query", "key", "value", "colour"), tuple("abcdefgi")])
def test_a_parameter_that_nobody_knows_is_refused_with_what_would_settle_it(names):
    with pytest.raises(RequestError, match=r"--map \w+=query") as refused:
        roles_of(call(*names), {})
    named = re.search(r"parameter '(\w+)'", str(refused.value))[1]
    assert named in names and len(str(refused.value)) <= 300


def test_keys_of_another_text():
    assert roles_of(call("x", "memory"), {}).crosses and roles_of(call("q", "k", "v"), {}).crosses
    assert not roles_of(call("x", "mask"), {}).crosses
    assert roles_of(call("x", "mask", "padding_mask"), {}).masks == ("mask", "padding")
