"""Completion through the shells' entry points, and in bash, zsh and fish."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import shell

from attncli.base import choices
from attncli.models.aliases import ALIASES

FILES = ()  # nothing is offered: the shell completes the names of files
OFFERED = [
    (("run", "--mask", ""), choices.names(choices.MaskName)),
    (("run", "--dtype", "float"), ("float32", "float64", "float16")),
    (("run", "--device", ""), ("auto", "cpu", "cuda", "mps")),
    (("run", "--engine", "tr"), ("transformers",)),
    (("run", "--measure", ""), ("weight", "norm")),
    (("heatmap", "--style", ""), choices.names(choices.Style)),
    (("heatmap", "--segments", "A"), ("AA", "AB")),
    (("view", "--which", "c"), ("cross",)),
    (("view", "--mask", "none,"), ("none,padding", "none,causal")),
    (("stats", "--by", "se"), ("self", "separator")),
    (("align", "--attention", "d"), ("dot",)),
    (("flow", "--method", "raw,ro"), ("raw,rollout",)),
    (("diff", "--measures", "weight,"), ("weight,norm",)),
    (("diff", "--models", "minilm,electra"), ("minilm,electra-small",)),
    (("samples", "co"), ("coreference.txt",)),
    (("run", "--model", ""), tuple(ALIASES)),
    (("compare", "-m", "bert-b"), tuple(name for name in ALIASES if name.startswith("bert-b"))),
    (("models", "show", "mini"), ("minilm", "minilm-l12")),
    (("run", "-l", ""), FILES),
    (("run", "--pad"), ("--pad-to",)),  # though it is rare
    (("run", "-m", "./"), FILES),
    *((line, FILES) for line in [
        ("stats", ""), ("stats", "--state", ""), ("run", "-f", ""), ("run", "-o", "ma"), ("heatmap", "--from", "ma"),
        ("probe", ""), ("probe", "--test", ""), ("diff", ""),
    ]),
]  # fmt: skip

TRIED_EVERYWHERE = [words for words, _ in OFFERED[::6]]


def quoted(words) -> str:
    """A line as a person types it, the last word begun."""
    return " ".join([*map(shlex.quote, ("attncli", *words[:-1])), words[-1]])


def surroundings(name: str, words) -> dict[str, str]:
    """Return the variables that a shell's function sets after these words, the last of which is unfinished."""
    if name == "bash":
        shown = [shlex.quote(word) for word in words[:-1]]
        words_told = "\n".join(("attncli", *shown, words[-1]))
        return {"_ATTNCLI_COMPLETE": "complete_bash", "COMP_WORDS": words_told, "COMP_CWORD": str(len(words))}
    told = {"_ATTNCLI_COMPLETE": f"complete_{name}", "_TYPER_COMPLETE_ARGS": quoted(words)}
    return {**told, "_TYPER_COMPLETE_FISH_ACTION": "get-args"} if name == "fish" else told


def read(name: str, answer: str) -> list[str]:
    """The values in what the program tells a shell."""
    if name == "zsh":
        assert answer.strip() == "_files" or answer.startswith("_arguments '*: :((")
        return re.findall(r'^(?:_arguments \'\*: :\(\()?"(.*?)"', answer, flags=re.MULTILINE)
    return [line.partition("\t")[0] for line in answer.splitlines() if line]


@pytest.mark.parametrize(("words", "offered"), OFFERED, ids=lambda one: " ".join(one) if len(one) < 5 else "")
def test_values_are_offered(words, offered, attncli, monkeypatch):
    for name in ("bash", "zsh", "fish") if words in TRIED_EVERYWHERE else ("bash",):
        with monkeypatch.context() as patch:
            for variable, value in surroundings(name, words).items():
                patch.setenv(variable, value)
            result = attncli()
        assert (result.code, result.err) == (0, "")
        assert sorted(read(name, result.out)) == sorted(offered)


def test_nothing_is_imported_that_takes_long():
    heavy = ("torch", "transformers", "matplotlib", "rich", "pydantic", "httpx", "requests", "tokenizers")
    program = (
        "import sys\nfrom attncli.cli.app import main\n"
        "try: main([])\nexcept SystemExit: pass\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **surroundings("bash", ("run", "-m", ""))}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    offered, *_, imported = done.stdout.splitlines()
    assert imported == "[]" and offered == next(iter(ALIASES))


# --- real shells ----------------------------------------------------------------------------------------

LINES = [
    ("attncli run --mask pa", "attncli run --mask padding"),
    ("attncli flow --method raw,ro", "attncli flow --method raw,rollout"),
    ("attncli run 'the cat' --engine tr", "attncli run 'the cat' --engine transformers"),
    ("attncli run -f one", "attncli run -f one.txt"),
    ("attncli compare -m electra", "attncli compare -m electra-small"),
    ("attncli run -m ./check", "attncli run -m ./checkpoint/"),
]


@pytest.fixture
def folder(tmp_path):
    """A folder with a file, a directory, and a program that is called attncli."""
    (tmp_path / "one.txt").write_text("a cat\n")
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "attncli"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m attncli "$@"\n')
    program.chmod(0o755)
    return tmp_path


def around(folder: Path) -> dict[str, str]:
    environment = shell.environment(HOME=str(folder), TERM="dumb", PYTHONPATH=os.pathsep.join(sys.path))
    return {**environment, "PATH": f"{folder / 'bin'}{os.pathsep}{environment['PATH']}"}


def needs(name: str):
    return pytest.mark.skipif(shutil.which(name) is None, reason=f"there is no {name} here")


@pytest.mark.slow
@needs("fish")
def test_fish(folder):
    script = "attncli --show-completion | source\n" + "".join(
        f"complete -C {shlex.quote(line)}; echo ==\n" for line, _ in LINES
    )
    done = subprocess.run(
        ["fish", "--no-config"],
        input=script,
        cwd=folder,
        env=around(folder),
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    for (_, whole), offered in zip(LINES, done.stdout.split("==\n"), strict=False):
        assert whole.rpartition(" ")[2] in offered.splitlines(), (whole, offered, done.stderr)


INTERACTIVE = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "PS1='ready> '", "source <(attncli --show-completion)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "PS1='ready> '; unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u -D",
        'eval "$(attncli --show-completion)"',
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in INTERACTIVE])
def test_a_shell_that_is_typed_into(name, folder):
    """Tab after each line, at a pseudo-terminal, makes it the whole one."""
    command, *setup = INTERACTIVE[name]
    main, other = pty.openpty()
    process = subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, cwd=folder, env=around(folder), start_new_session=True
    )
    os.close(other)
    try:
        for line in setup:
            type_in(main, f"{line}; echo d''one\n", "done")
        for begun, whole in LINES:
            type_in(main, f"{begun}\t", whole)
            type_in(main, "\x15echo d''one\n", "done")
    finally:
        process.kill()
        process.wait()
        os.close(main)


def type_in(terminal: int, text: str, until: str) -> None:
    """Type, and wait for what is to be seen."""
    os.write(terminal, text.encode())
    shown, end = "", time.monotonic() + 300
    while until not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"no {until!r} after {text!r}: {shown!r}"
        shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x07|\x08", "", os.read(terminal, 4096).decode())
