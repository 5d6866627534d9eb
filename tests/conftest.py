"""Fixtures of all tests: one thread a worker, caches of their own, no network, and the default model."""

import functools
import gc
import math
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import typer.main
from hypothesis import settings

from attncli.base import progress

# Set before torch, matplotlib and huggingface_hub are imported: they read these when they are.
# Programs that a test starts inherit them.
HOME = tempfile.TemporaryDirectory(prefix="attncli-tests-", ignore_cleanup_errors=True)
FONTS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "matplotlib"
os.environ["OMP_NUM_THREADS"] = "1"  # as many workers as there are cores, so a thread each
os.environ.setdefault("MPLCONFIGDIR", str(FONTS))  # looking at all fonts anew takes seconds
os.environ["XDG_CACHE_HOME"] = HOME.name
os.environ["HF_HUB_OFFLINE"] = "1"
for name in (
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_ENDPOINT",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "ATTNCLI_CACHE",
    "ATTNCLI_MODEL",
    "ATTNCLI_QUIET",
):
    os.environ.pop(name, None)

COMPLETING = "_ATTNCLI_COMPLETE"  # is set where a shell does

settings.register_profile("attncli", deadline=None, max_examples=10)
settings.load_profile("attncli")
# Typer makes all commands of their functions anew at each call: for calls in this process they are made once, and once
# more for those in which a shell completes, which changes them (`attncli.cli.help`).
MADE = typer.main.get_command
MADE_ONCE = functools.cache(lambda app, completing: MADE(app))
typer.main.get_command = lambda app: MADE_ONCE(app, COMPLETING in os.environ)


progress.SECONDS = math.inf  # what stands on stderr does not depend on the time that a command takes
gc.disable()  # while millions of things are made that stay


def pytest_collection_modifyitems(items) -> None:
    """Run a test again whose browser died under it, once: on a busy machine one in some thousands does."""
    for item in items:
        if "running" in item.fixturenames:
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=["TargetClosedError"]))


def pytest_collection_finish() -> None:
    """Keep imported and collected objects out of every later garbage collection."""
    gc.enable()
    gc.freeze()


def pytest_unconfigure() -> None:
    HOME.cleanup()


@pytest.fixture(autouse=True)
def no_kinds():
    """No kinds of heads are known from an earlier test: `run`, pages and `explore` would name them."""
    shutil.rmtree(Path(HOME.name) / "attncli" / "kinds", ignore_errors=True)


@pytest.fixture(scope="session")
def minilm():
    """The default model with its published weights, in float32 on the CPU."""
    from attncli import load_model

    return load_model("minilm", device="cpu")


@pytest.fixture(scope="session")
def instant():
    """The default model as the commands open it for short texts: in NumPy."""
    from attncli import load_model

    return load_model("minilm", engine="instant")


@pytest.fixture(scope="session")
def smollm2_file():
    """The .gguf file of the trained decoder. Without its wheel the tests that need it are skipped, or, with
    ATTNCLI_NEED_SMOLLM2 set, fail.
    """
    from attncli.models.aliases import ALIASES
    from attncli.models.hub import find_in_wheel

    entry = ALIASES["smollm2"]
    path = find_in_wheel(entry)
    if path is None:
        (pytest.fail if os.environ.get("ATTNCLI_NEED_SMOLLM2") else pytest.skip)(f"no smollm2: {entry.install}")
    return path


@pytest.fixture(scope="session")
def smollm2(smollm2_file):
    """The trained decoder, in float32 on the CPU."""
    from attncli import load_model

    return load_model("smollm2", device="cpu")


@pytest.fixture(scope="session")
def smollm2_by_transformers(smollm2_file):
    """The network that transformers reads from the same file, which takes it half a minute."""
    from transformers import AutoModelForCausalLM

    folder, name = smollm2_file.parent, smollm2_file.name
    read = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype="float32", attn_implementation="eager")
    return read.eval().requires_grad_(False)


@pytest.fixture(scope="session")
def running():
    from browsers import chromium

    with chromium() as found:
        yield found


@pytest.fixture
def browser(running):
    """Chromium, one a worker (`browsers.chromium`)."""
    return running()


@pytest.fixture(scope="module")
def exact():
    """transformers computes all of float64 in float64."""
    from exact import computing_in_float64

    with computing_in_float64():
        yield


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """`tiny(family, **changes)` -> the directory of a small random checkpoint, made once a session."""
    from checkpoints import make_checkpoint

    made: dict[str, Path] = {}

    def make(family: str = "bert", **changes) -> Path:
        key = repr((family, sorted(changes.items())))
        if key not in made:
            made[key] = make_checkpoint(tmp_path_factory.mktemp(family), family, **changes)
        return made[key]

    return make


@pytest.fixture(scope="session")
def foreign(tmp_path_factory):
    """`foreign(family)` -> a small random model, made once a session."""
    from foreign_checkpoints import make_foreign

    from attncli import load_model

    made = {}

    def load(family: str, **more):
        key = family, *more.items()
        if key not in made:
            made[key] = load_model(
                str(make_foreign(tmp_path_factory.mktemp(family), family, **more)), "cpu", engine="transformers"
            )
        return made[key]

    return load
