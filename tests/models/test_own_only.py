"""What looks inside a network is refused in words for a model that transformers runs, wherever it is asked."""

import inspect

import pytest
from foreign_checkpoints import TEXT

import attncli
from attncli import RequestError, load_model
from attncli.checks.agreement import compare
from attncli.effects.ablated_corpus import ablate_files
from attncli.effects.similarity import cosines
from attncli.models.head import one_head
from attncli.models.loading import load_own
from attncli.models.model import require_own
from attncli.models.own_only import NEEDED, why_no_encoder
from attncli.models.random import random_model

GIVEN = {"texts": [TEXT], "edges": [("the", "cat")]}  # any other argument without a default is a text
ON_A_MODEL = [
    name
    for name in attncli.__all__
    if inspect.isfunction(getattr(attncli, name))
    and next(iter(inspect.signature(getattr(attncli, name)).parameters), None) == "model"
]
OF_THEIRS = {"corpus_statistics"}  # runs on such a model


def needed(function) -> list:
    """The arguments after the model that have no default."""
    _, *others = inspect.signature(function).parameters.values()
    return [GIVEN.get(one.name, TEXT) for one in others if one.default is one.empty and one.kind is not one.VAR_KEYWORD]


@pytest.mark.parametrize("name", [name for name in ON_A_MODEL if name not in OF_THEIRS])
def test_a_function_of_the_library_says_why_not(foreign, name):
    model, function = foreign("gpt2"), getattr(attncli, name)
    with pytest.raises(RequestError) as refused:
        function(model, *needed(function))
    assert str(refused.value).startswith(f"{NEEDED}, and there is none for {model.place.name}: ")
    assert why_no_encoder(model.place) in str(refused.value)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.predict(TEXT),
        lambda model: model.embed([TEXT]),
        lambda model: model.outputs(),
        lambda model: ablate_files(model, ["-"]),
        lambda model: cosines(model, [TEXT]),
        lambda model: one_head(model, model.tokenizer.encode(TEXT), 0, 0, "padding"),
        lambda model: compare(model, []),
        lambda model: load_own(model.place.name),
        lambda model: random_model(model.place.name),
    ],
)
def test_so_does_everything_else_that_looks_inside(foreign, ask):
    with pytest.raises(RequestError, match=r"and there is none for .*: model type 'gpt2' is not one") as refused:
        ask(foreign("gpt2"))
    assert str(refused.value).startswith(NEEDED)


def test_a_bert_by_transformers_is_led_to_the_network_that_there_is(tiny):
    model = load_model(str(tiny("bert")), "cpu", engine="transformers")
    with pytest.raises(RequestError, match=r'load it without engine="transformers"$'):
        attncli.ablate(model, TEXT)
    assert len(attncli.ablate(load_model(model.place.name, "cpu"), TEXT).layers) == 4


def test_our_own_model_is_what_is_required_of_it(minilm):
    assert require_own(minilm) is minilm


def test_there_is_no_reason_where_there_is_an_encoder(minilm):
    assert why_no_encoder(minilm.place) is None
