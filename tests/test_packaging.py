"""The published files: an sdist with the whole checkout, and a wheel that includes the texts."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MADE = {"__pycache__", ".hypothesis", ".pytest_cache"}  # what running the tests leaves behind


def build(kind, source, folder):
    """The sdist or the wheel of a checkout, made as pip has it made."""
    program = f"import sys, hatchling.build as backend; print(backend.build_{kind}(sys.argv[1]))"
    command = [sys.executable, "-c", program, str(folder)]
    name = subprocess.run(command, cwd=source, check=True, capture_output=True, text=True).stdout.split()[-1]
    return folder / name


def files(*parts, of=ROOT):
    """Every file below these, seen from the top."""
    found = (path for part in parts for path in (of / part).rglob("*"))
    return {path.relative_to(of).as_posix() for path in found if path.is_file() and not MADE & set(path.parts)}


# Pythons that are some years old don't know the word yet.
SAFELY = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The sdist, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build("sdist", ROOT, folder)) as archive:
        archive.extractall(folder, **SAFELY)
    [top] = (path for path in folder.iterdir() if path.is_dir())
    return top


@pytest.fixture(scope="module")
def installed(unpacked, tmp_path_factory):
    """The wheel of the unpacked sdist, as it is laid down by an installer."""
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(build("wheel", unpacked, folder)) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.mark.slow
def test_the_sdist_is_whole(unpacked):
    folders, single = (
        ("attncli", "tests", "sample_inputs", ".readme", ".ci"),
        ("README.md", "pyproject.toml", ".gitignore"),
    )
    assert {path.name for path in unpacked.iterdir()} == {*folders, *single, "PKG-INFO"}
    assert files(*folders, of=unpacked) == files(*folders)
    for name in single:
        assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes()


def test_the_wheel_has_the_package_and_the_texts_and_nothing_else(installed):
    assert {path.name.partition("-")[0] for path in installed.iterdir()} == {"attncli"}
    assert files("attncli", of=installed) == files("attncli") | {f"attncli/{name}" for name in files("sample_inputs")}


def test_who_has_the_wheel_has_the_texts(installed, tmp_path):
    program = "import attncli.text.samples as it; print(it.FOLDER); print(it.find_sample('pair.txt').text)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(installed)}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    place, _, text = done.stdout.partition("\n")
    assert Path(place) == installed / "attncli" / "sample_inputs"
    assert text.strip() == (ROOT / "sample_inputs" / "pair.txt").read_text(encoding="utf-8").strip()
