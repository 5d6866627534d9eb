"""What the shell is told to complete: names of choices, and of models."""

import os
import subprocess
import sys

import pytest

from attncli.base import choices
from attncli.models.hub import ALIASES


def completed(*words: str) -> list[str]:
    """What bash would offer after these words, the last of which is begun."""
    environment = {
        **os.environ,
        "_ATTNCLI_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("attncli", *words)),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-c", "from attncli.__main__ import main; main()"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("run", "--mask", ""), choices.names(choices.Mask)),
        (("run", "--dtype", "float"), ("float32", "float64", "float16")),
        (("heatmap", "--style", ""), choices.names(choices.Style)),
        (("view", "--which", "c"), ("cross",)),
        (("stats", "--by", "se"), ("self", "separator")),
        (("run", "--model", ""), tuple(ALIASES)),
        (("compare", "-m", "bert-b"), tuple(name for name in ALIASES if name.startswith("bert-b"))),
        (("models", "show", "mini"), ("minilm",)),
        (("samples", "co"), ("coreference.txt",)),
        (("bench", ""), choices.names(choices.Subject)),
    ],
)
def test_names_are_completed(words, offered):
    assert sorted(completed(*words)) == sorted(offered)
