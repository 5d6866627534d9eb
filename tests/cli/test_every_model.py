"""Every command on every kind of model: it works, or is refused in one line.

The commands, their arguments and their options are those of the program. The models are small and random.
"""

import asyncio
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import transformers
from checkpoints import make_checkpoint
from cli.commands import LIVE, commands, is_flag
from cli.test_every_option import GENERAL, VALUES
from foreign_checkpoints import NO_TEXT, TEXT, make_foreign
from own_attention import MINE

from attncli.models import loading
from attncli.models.engine import NEEDS_OWN

OTHER = "the mat sat on the cat"
TREES = Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu"

HEADS = [name for name in dir(transformers) if re.fullmatch(r"Bert(Model|For[A-Z]\w+|LMHeadModel)", name)]
LOOKS_BACK = "BertLMHeadModel"  # the only BERT that attncli has no network for
FAMILIES = ("gpt2", "llama", "mistral", "gpt_neox", "t5", "bart", "esm", "encoder-decoder", *NO_TEXT)
MAKE: dict[str, Any] = {
    **{name: partial(make_checkpoint, head=name.removeprefix("Bert")) for name in HEADS},
    LOOKS_BACK: partial(make_checkpoint, head="LMHeadModel", is_decoder=True),
    **{family: partial(make_checkpoint, family=family, head="ForMaskedLM") for family in ("modernbert", "deberta-v2")},
    **{family: partial(make_foreign, family=family) for family in FAMILIES},
}
OWN = {*HEADS, "modernbert", "deberta-v2", "gpt2", "llama", "mistral", "gpt_neox"} - {LOOKS_BACK}
WITH_OPTIONS = ("BertForMultipleChoice", "gpt2", "t5", "vit")  # test_every_option.py has a BERT

MODEL = "MODEL"  # stands for the name of the model
# What each argument is given, by its name. A new one has to be entered here.
ARGUMENTS = {
    "action": "show",
    "text": TEXT,
    "first": TEXT,
    "second": OTHER,
    "query": "*",
    "key": "the",
    "files": "trees.conllu",
    "what": "mine.py:attention",
    "subject": "maps",
    "name": MODEL,
}
FEWER = {"permutations": ("3",), "rankings": ("120",)}  # so that a call takes no time
# More than one value of an option, or other ones than those for a single kind of model.
SEVERAL: dict[str, list[tuple[str, ...]]] = {
    "layer": [("-1",), ("all",), ("99",)],
    "head": [("all",), ("99",)],
    "mask": [("none",), ("causal",)],
    "masks": [("none,causal",), ("none",)],
    "vectors": [("all",), ("0.0",)],
    "dtype": [("bfloat16",), ("float16",), ("float64",)],
    "engine": [("attncli",), ("transformers",)],
    "which": [("encoder",), ("decoder",), ("cross",)],
    "target": [("the",), ("LABEL_1",)],
    "pool": [("mean",), ("last",)],
    "task": [("words",), ("classes",), ("tokens",), ("span",), ("embedding",)],
    "models": [(f"{MODEL},{MODEL}",)],
}
# What a command can't do with every model that it can run.
REFUSED_ALL_THE_SAME = {
    "generate": ("writes no text",),
    "sources": ("positions of these tokens in their text are unknown",),
    "similar": ("name no pooling: add --pool mean",),
    "flow": ("cross-attention leads into another text",),
    "diff": ("maps must have the same size",),
    "patch": ("give two texts with the same number", "give its output with --target", "too small to divide by"),
    "probe": ("no sentence that the model can read",),
    "check": ("depend on positions",),
}
ABOUT_OUR_OWN = ("check",)  # and not about whatever network there is
NOT_TRIED = {"model", "device", "open_it", "on", "workers", "worker_gpus"}  # who computes, and where; a browser


def on_a_model() -> list[str]:
    """The commands that open a model."""
    return [name for name, one in commands().items() if {"model", "name"} & {each.name for each in one.params}]


def plain_call(name: str) -> list[str]:
    """A command with every argument that it has."""
    parameters = commands()[name].params
    words = [ARGUMENTS[one.name] for one in parameters if one.param_type_name == "argument"]
    model = ["-m", MODEL] if any(one.name == "model" for one in parameters) else []
    fewer = [word for one in parameters if one.name in FEWER for word in (one.opts[0], *FEWER[one.name])]
    return [*name.split(), *model, *fewer, *words]


def calls(name: str) -> list[list[str]]:
    """The command with each of its options, with several values of some, and with a file of every suffix it names."""
    plain, found = plain_call(name), []
    for option in commands()[name].params:
        if option.param_type_name == "argument" or option.name in {*GENERAL, *NOT_TRIED, *FEWER}:
            continue
        values = SEVERAL.get(option.name) or [() if is_flag(option) else VALUES[option.name]]
        if option.name == "output_path":
            values = [(f"a{suffix}",) for suffix in re.findall(r"\.[a-z]+\b", option.help)]
        opt = max(option.opts, key=len)
        found += [[*plain, opt, *value] for value in values]
        if option.name == "json":
            found += [[*plain, opt, *more] for more in (["--measure", "norm"], ["--words"], ["--pair", OTHER])]
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """`place(kind)` -> a folder with a model of this name, and the files that arguments and options name."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("one.txt", "lines.txt"):
        (folder / name).write_text(f"{TEXT}\n{OTHER}\n", encoding="utf-8")
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    trees = TREES.read_text(encoding="utf-8").split("\n\n")
    (folder / "trees.conllu").write_text("\n\n".join(trees[:3]) + "\n\n", encoding="utf-8")
    (folder / "other.conllu").write_text("\n\n".join(trees[3:5]) + "\n\n", encoding="utf-8")

    def make(kind: str) -> Path:
        if not (folder / kind).exists():
            (folder / kind).mkdir()
            MAKE[kind](folder / kind)
        return folder

    return make


@pytest.fixture
def ends_well(attncli, monkeypatch, place, opened, at_no_terminal):
    """`ends_well(kind, [words])` -> the exit code and what was printed, which is at most one line of error."""

    def run(kind: str, words: list[str]) -> Any:
        folder = place(kind)
        monkeypatch.chdir(folder)
        before = set(folder.iterdir())
        result = attncli(*(word.replace(MODEL, f"./{kind}") for word in words))
        for made in set(folder.iterdir()) - before:
            shutil.rmtree(made) if made.is_dir() else made.unlink()
        lines = result.err.splitlines()
        errors = [line for line in lines if line.startswith("attncli: error: ")]
        assert "bug in attncli" not in result.err + result.out and "Traceback" not in result.err, result
        assert all(line.startswith("attncli: ") for line in lines), result
        assert errors == (lines[-1:] if result.code == 2 else []), result
        assert result.code in (0, 1, 2) and not (result.code == 2 and result.out), result
        return result

    return run


@pytest.fixture(scope="module")
def known():
    return {}


@pytest.fixture
def opened(known, monkeypatch):
    read_once(known, monkeypatch)


def read_once(known: dict[Any, Any], patch: pytest.MonkeyPatch) -> None:
    """Read a model once and not at each call; find once, too, what is wrong with it."""
    patch.setattr(loading, "load_from", partial(once, known, loading.load_from))


def once(known, load, place, *how):
    key = place, *how
    if key not in known:
        try:
            known[key] = load(place, *how), None
        except Exception as error:  # noqa: BLE001
            known[key] = None, error
    found, error = known[key]
    if error is not None:
        raise error
    return found


@pytest.fixture
def at_no_terminal(monkeypatch):
    without_terminal(monkeypatch)


def without_terminal(patch: pytest.MonkeyPatch) -> None:
    """Let the explorer and the server show the first text, and end."""
    from attncli.features import explore
    from attncli.live.explorer.app import Explorer
    from attncli.live.explorer.panes import StatusPane

    async def until_answered(app: Explorer) -> str:
        """Return the status line once the explorer has an answer or an error."""
        async with app.run_test(size=(100, 30)) as pilot:
            while app.answer is None and not app.screen.query_one("#status", StatusPane).has_class("wrong"):
                await pilot.pause(0.01)
            return app.screen.query_one("#status", StatusPane).message

    def show(app: Explorer) -> None:
        with ThreadPoolExecutor(1) as threads:
            print(threads.submit(asyncio.run, until_answered(app)).result())

    async def end(*_: Any) -> None:
        pass

    patch.setattr(explore, "_check_terminal", lambda: None)
    patch.setattr(Explorer, "run", show)
    patch.setattr("uvicorn.Server.serve", end)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("name", on_a_model())
def test_a_command_works_or_says_why_not(ends_well, kind, name):
    """transformers runs what attncli has no network for; no command reads a picture."""
    result = ends_well(kind, plain_call(name))
    if name == "models":
        assert result.code == 0
    elif name in ABOUT_OUR_OWN and kind not in OWN:
        line = result.err.splitlines()[-1]
        assert result.code == 2 and f"{NEEDS_OWN}, but none exists for ./{kind}: " in line
    elif kind in NO_TEXT:
        assert f"reads {NO_TEXT[kind]}" in (result.out if name == "explore" else result.err)
    else:
        assert result.code != 2 or any(why in result.err for why in REFUSED_ALL_THE_SAME.get(name, ()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    # Each call of check starts a process, and its options do the same on every kind of model.
    [
        (name, kind)
        for name in on_a_model()
        if name not in LIVE
        for kind in WITH_OPTIONS[: 1 if name == "check" else None]
    ],
)
def test_so_does_each_of_its_options(ends_well, kind, name):
    for words in calls(name):
        ends_well(kind, words)
