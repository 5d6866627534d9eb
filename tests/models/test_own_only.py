"""Features that run on every network with taps, and refusals in words for the others."""

import pytest
from foreign_checkpoints import TEXT

import attncli
from attncli import RequestError, load_model
from attncli.models.engine import NEEDS_OWN
from attncli.models.model import require_own
from attncli.models.random import random_model


@pytest.mark.parametrize("ask", [require_own, lambda model: random_model(model.place.name)])
def test_what_needs_our_own_network_says_why_there_is_none(foreign, ask):
    with pytest.raises(RequestError, match=r"but none exists for .*: model type 'opt' is not supported") as refused:
        ask(foreign("opt"))
    assert str(refused.value).startswith(f"{NEEDS_OWN}, but")


def test_a_bert_by_transformers_is_tapped_there(tiny):
    model = load_model(str(tiny("bert")), "cpu", engine="transformers")
    assert len(attncli.ablate(model, TEXT).layers) == 4
    with pytest.raises(RequestError, match=r'load it without engine="transformers"$'):
        require_own(model)
