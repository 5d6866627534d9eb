"""An engine is opened again, in another process, as it was."""

import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from foreign_checkpoints import TEXT

from attncli import Engine, load_model
from attncli.models.opening import Opening


def reopened(engine: Engine) -> Engine:
    """By what is left of how to open it when that is sent to another process."""
    sent = pickle.dumps(Opening.of(engine))
    assert len(sent) < 1000
    opening = pickle.loads(sent)
    assert opening == Opening.of(engine)
    return opening.open()


def assert_same(again: Engine, engine: Engine) -> None:
    assert (again.name, again.sha256, again.dtype_name, again.device, again.silenced_heads, again.info) == (
        (engine.name, engine.sha256, engine.dtype_name, engine.device, engine.silenced_heads, engine.info)
    )
    np.testing.assert_array_equal(again.attend(TEXT).weights, engine.attend(TEXT).weights)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("load", [load_model, partial(load_model, engine="transformers")])
def test_an_engine_is_opened_again_as_it_was(tiny, load, dtype):
    engine = load(str(tiny("bert")), "cpu", dtype)
    assert_same(reopened(engine), engine)


def test_one_that_fell_to_transformers_falls_there_without_a_word(foreign, recwarn):
    engine = foreign("gpt2")
    assert_same(reopened(engine), engine)
    assert not recwarn.list


def test_heads_that_are_silenced_stay_so(tiny):
    plain = load_model(str(tiny("bert")), "cpu")
    engine = plain.without([(3, 1), (0, 2)]).without("0.0-1")
    assert Opening.of(engine).without == "0.0-2,3.1" and Opening.of(plain).without is None
    assert_same(reopened(engine), engine)
    assert_same(reopened(plain), plain)


def test_a_directory_is_found_from_elsewhere(tiny, tmp_path, monkeypatch):
    path = Path(tiny("bert"))
    monkeypatch.chdir(path.parent)
    opening = Opening.of(load_model(path.name, "cpu"))
    monkeypatch.chdir(tmp_path)
    assert opening.name == str(path) and opening.open().info.name == str(path)


def test_what_is_wrong_with_a_name_is_said_without_torch():
    script = (
        "import pickle, sys\nfrom attncli import RequestError\nfrom attncli.models.opening import Opening\n"
        "try:\n    pickle.loads(pickle.dumps(Opening('miniln'))).open()\n"
        "except RequestError as error:\n    print(error, 'torch' in sys.modules)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "did you mean minilm" in said and said.endswith(" False\n")
