"""Panics of libraries written in Rust, and the command that a message names to install an extra."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import tokenizers

from attncli.base.errors import Panic, install_hint, quiet_panics

# --- panics ----------------------------------------------------------------------------------------------


@pytest.fixture
def panic():
    """`panic()`: the library gives up, with words on stderr."""
    backtracking = tokenizers.pre_tokenizers.Split(tokenizers.Regex("(x+x+)+y"), "isolated")
    return lambda: backtracking.pre_tokenize_str("x" * 60)


@pytest.mark.parametrize("backtrace", ["0", "1", "full"])
def test_a_panic_is_an_exception_of_one_line_and_nothing_is_written(backtrace, panic, capfd, monkeypatch):
    monkeypatch.setenv("RUST_BACKTRACE", backtrace)
    for _ in range(2):
        with pytest.raises(Panic, match=r"^Onig: Regex search error: retry-limit-in-match over$"), quiet_panics():
            panic()
    os.write(2, b"heard again")
    assert capfd.readouterr().err == "heard again"


@pytest.mark.parametrize("other", [KeyboardInterrupt, SystemExit, ValueError("no"), MemoryError])
def test_whatever_else_happens_comes_through(other, capfd):
    with pytest.raises(other if isinstance(other, type) else type(other)), quiet_panics():
        raise other
    os.write(2, b"heard again")
    assert capfd.readouterr().err == "heard again"


def test_threads_that_do_so_at_once_all_find_back(capfd):
    def often():
        for _ in range(100):
            with quiet_panics():
                time.sleep(0.0001)  # another one's turn

    threads = [threading.Thread(target=often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(2, b"heard again")
    assert capfd.readouterr().err == "heard again"


def test_where_stderr_is_closed_there_is_nothing_to_turn_away():
    code = (
        "import os\nfrom attncli.base.errors import quiet_panics\nbefore = sorted(os.listdir('/dev/fd'))\n"
        "with quiet_panics():\n    print('done')\nassert sorted(os.listdir('/dev/fd')) == before"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2), check=True, text=True)
    assert done.stdout == "done\n"


# --- installing extras -----------------------------------------------------------------------------------


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def test_a_checkout_is_named_and_has_the_extra():
    assert install_hint("live") == f'pip install ".[live]" in the clone {ROOT}'


def test_a_package_that_is_no_checkout_names_none(tmp_path):
    """Try site-packages, and the folder of another project."""
    for name in ("__init__.py", "base/__init__.py", "base/errors.py", "base/printable.py"):
        (tmp_path / "attncli" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "attncli" / name, tmp_path / "attncli" / name)
    program = "from attncli.base.errors import install_hint; print(install_hint('live'))"
    for project in (None, 'name = "another"\n'):
        if project is not None:
            (tmp_path / "pyproject.toml").write_text(f"[project]\n{project}", encoding="utf-8")
        said = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=True, env={})
        assert said.stdout.decode() == 'pip install ".[live]" in a clone of attncli\n'


def test_every_extra_that_is_named_exists_and_no_name_of_a_registry_is():
    named = set()
    for path in [*ROOT.glob("attncli/**/*.py"), *ROOT.glob("**/README.md")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"pip install (-e )?['\"]?attncli", text), path
        named |= set(re.findall(r"install_hint\(['\"]([\w-]+)['\"]\)", text))
        named |= {
            name for names in re.findall(r"pip install (?:-e )?\"\.\[([\w,-]+)\]", text) for name in names.split(",")
        }
    assert {"corpora", "live", "minilm", "probe", "ray", "sentencepiece", "flow"} <= named <= set(EXTRAS)
