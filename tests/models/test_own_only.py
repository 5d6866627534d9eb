"""Features that run on every network with taps, and refusals in words for the others."""

import pytest
from foreign_checkpoints import TEXT

import attncli
from attncli import RequestError, load_model
from attncli.models.engine import NEEDS_OWN
from attncli.models.random import random_model


def test_what_needs_our_own_network_says_why_there_is_none(foreign):
    with pytest.raises(RequestError, match=r"but none exists for .*: model type 'opt' is not supported") as refused:
        random_model(foreign("opt").place.name)
    assert str(refused.value).startswith(f"{NEEDS_OWN}, but")


def test_a_bert_by_transformers_is_tapped_there(tiny):
    model = load_model(str(tiny("bert")), "cpu", engine="transformers")
    assert len(attncli.ablate(model, TEXT).layers) == 4
