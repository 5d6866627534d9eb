"""Small random checkpoints with a head for a task."""

from pathlib import Path

import pytest
from checkpoints import make_checkpoint

from attncli.models.loading import load_model
from attncli.models.model import Model


@pytest.fixture(scope="session")
def with_head(tmp_path_factory):
    """`with_head("bert", "ForMaskedLM", **changes)` -> its directory, made once a session."""
    made: dict[str, Path] = {}

    def make(family: str, head: str, **changes) -> Path:
        key = repr((family, head, sorted(changes.items())))
        if key not in made:
            made[key] = make_checkpoint(tmp_path_factory.mktemp(family), family, head, **changes)
        return made[key]

    return make


@pytest.fixture
def loaded(with_head):
    """`loaded("bert", "ForMaskedLM", dtype="float64", **changes)` -> the model."""

    def load(family: str, head: str, dtype: str = "float32", **changes) -> Model:
        return load_model(str(with_head(family, head, **changes)), "cpu", dtype)

    return load
