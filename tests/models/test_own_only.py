"""Features that run on every network with taps, and refusals in words for the others."""

import inspect

import pytest
from foreign_checkpoints import TEXT

import attncli
from attncli import RequestError, load_model
from attncli.features.similar import cosines
from attncli.models.engine import NEEDS_OWN
from attncli.models.head import one_head
from attncli.models.random import random_model

GIVEN = {"texts": [TEXT], "edges": [("cat", "the")]}  # any other argument without a default is a text
POOLED = {"similar": {"pool": "mean"}}


def needed(function) -> list:
    """The arguments after the model that have no default."""
    _, *others = inspect.signature(function).parameters.values()
    return [GIVEN.get(one.name, TEXT) for one in others if one.default is one.empty and one.kind is not one.VAR_KEYWORD]


@pytest.mark.parametrize("name", ["ablate", "cut", "cut_each", "patch", "trust", "similar"])
def test_it_says_why_not_of_a_network_that_is_closed(closed, name):
    function = getattr(attncli, name)
    with pytest.raises(RequestError, match=r"hides them .*: attncli run shows its maps$"):
        function(closed, *needed(function), **POOLED.get(name, {}))


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.of_part(None),
        lambda model: model.predict(TEXT),
        lambda model: model.embed([TEXT]),
        lambda model: model.without("0.1"),
        lambda model: cosines(model, [TEXT], pool="mean"),
        lambda model: one_head(model, model.tokenizer.encode(TEXT), 0, 0, "causal"),
    ],
)
def test_so_does_everything_else_that_taps(closed, ask):
    with pytest.raises(RequestError, match="it calls no attention function that can be replaced"):
        ask(closed)


def test_what_needs_our_own_network_says_why_there_is_none(foreign):
    with pytest.raises(RequestError, match=r"but none exists for .*: model type 'opt' is not supported") as refused:
        random_model(foreign("opt").place.name)
    assert str(refused.value).startswith(f"{NEEDS_OWN}, but")


def test_a_bert_by_transformers_is_tapped_there(tiny):
    model = load_model(str(tiny("bert")), "cpu", engine="transformers")
    assert len(attncli.ablate(model, TEXT).layers) == 4


def test_a_closed_network_of_a_family_of_ours_is_led_to_our_own(tiny):
    model = load_model(str(tiny("mpnet")), "cpu", engine="transformers")
    with pytest.raises(RequestError, match=r": omit --engine transformers, so that attncli's own network .*$"):
        attncli.ablate(model, TEXT)
    assert len(attncli.ablate(load_model(model.place.name, "cpu"), TEXT).layers) == 4


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A Falcon, whose code in transformers calls no attention function."""
    from table_of_models import make_random

    made = tmp_path_factory.mktemp("falcon")
    make_random(made, "falcon")
    return load_model(str(made), "cpu")
