"""Whoever wants to know how far it is is told of as many steps as were announced."""

from contextlib import contextmanager

import pytest
from invented import embedding_model

from attncli.effects.question import Asking
from attncli.features.ablate import ablate
from attncli.features.cut import cut_each
from attncli.features.patch import patch
from attncli.features.similar import similar
from attncli.features.trust import trust

A, B = "the cat sat", "the big sat"
CAUSAL = Asking(mask="causal")
CALLS = {
    "ablate": (lambda model, progress: ablate(model, [A, B], progress=progress), 2, "texts"),
    "similar": (lambda model, progress: similar(model, A, B, True, 4, progress=progress), 10, "steps"),
    "cut": (lambda model, progress: cut_each(model, A, asking=CAUSAL, progress=progress), 15, "edges"),
    "patch": (lambda model, progress: patch(model, A, B, "layer", "0,1", progress=progress), 18, "patches"),
    "trust": (lambda model, progress: trust(model, A, Asking(), progress, permutations=2, rankings=120), None, "steps"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return embedding_model(tmp_path_factory.mktemp("embedding"))


SLOW = pytest.param("similar", marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [SLOW, "ablate", "cut", "patch", "trust"])
def test_as_many_steps_are_told_as_were_announced(model, name):
    call, steps, called = CALLS[name]
    announced, told = [], []

    @contextmanager
    def progress(total, what):
        announced.append((total, what))
        yield lambda: told.append(what)

    call(model, progress)
    [(total, what)] = announced
    assert (total, what) == (len(told), called) and steps in (None, total)
