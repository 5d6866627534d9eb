"""Installing extras: the command that a message names works where the program is."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from attncli.base.errors import install_hint

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
    assert {"corpora", "live", "minilm", "probe", "ray", "sentencepiece", "stats"} <= named <= set(EXTRAS)
