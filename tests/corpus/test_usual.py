"""Usual weights of a model's heads, over the short texts that come with the program, and the cache that keeps them."""

import json
import shutil
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import make_checkpoint
from slow import slow_except

from attncli import Notice, Request, RequestError, load_model
from attncli.analysis.edges import Usual, text_sums
from attncli.analysis.patterns import row_shares
from attncli.corpus import usual
from attncli.corpus.usual import lines, usual_of
from attncli.models.engine import Engine
from attncli.models.model import Model
from attncli.models.transformers_engine import TransformersModel
from attncli.record.grouping import merge_words
from attncli.record.selection import Grouping, select


@pytest.mark.slow
def test_it_is_that_of_their_records(minilm):
    texts = lines()
    assert len(texts) == len(set(texts)) >= 10 and all(len(text) < 200 for text in texts)
    for request in (Request(), Request(layers="2", heads="0-3", mask="causal"), Request(measure="norm")):
        asked = {"layers": request.layers, "heads": request.heads, "mask": request.mask, "measure": request.measure}
        records = [row_shares(minilm.attend(text, **asked)) for text in texts]
        found = usual_of(minilm, request)
        assert np.allclose(found.sums, Usual.of(records).sums, atol=1e-4)
        assert np.array_equal(found.counts, Usual.of(records).counts) and found.texts == len(texts)
    between = usual_of(minilm, Request(), words=True)
    assert np.allclose(between.sums, Usual.of(map(merge_words, minilm.attend_many(texts))).sums, atol=1e-4)


@pytest.mark.parametrize(
    ("family", "which", "there"), [("gpt2", None, True), ("t5", "encoder", True), ("t5", None, False)]
)
def test_a_decoder_that_would_have_to_write_is_not_asked(foreign, family, which, there):
    assert (usual_of(foreign(family), Request(which=which)) is not None) is there


# --- the cache ------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("ATTNCLI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "usual"


@pytest.fixture
def walks(monkeypatch):
    """The networks that were walked, or otherwise run, one entry each time."""
    walked = []
    for owner, name in ((Model, "walk"), (TransformersModel, "walk")):

        def counted(self, *arguments, original=getattr(owner, name), **more):
            walked.append(self)
            return original(self, *arguments, **more)

        monkeypatch.setattr(owner, name, counted)
    return walked


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The directory of a small model of the BERT family whose outputs don't end with its embedding."""
    return make_checkpoint(tmp_path_factory.mktemp("small") / "model", "bert", "ForMaskedLM")


@pytest.fixture(scope="module")
def model(small):
    return load_model(str(small), "cpu")


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def check_same(first: Usual, second: Usual) -> None:
    """Two are the same to the last bit, text by text."""
    assert len(first.each) == len(second.each) and first.texts == second.texts
    for one, other in zip(first.each, second.each, strict=True):
        assert one.tokens == other.tokens
        assert one.sums.dtype == other.sums.dtype == one.counts.dtype == other.counts.dtype == np.float64
        assert np.array_equal(one.sums, other.sums) and np.array_equal(one.counts, other.counts)
    assert np.array_equal(first.sums, second.sums) and np.array_equal(first.counts, second.counts)


ENGINES = slow_except(["bert", "gpt2", "t5", "gemma2", "modernbert"], ["bert", "gpt2"])
REQUESTS = [
    Request(),
    Request(layers="-1,0", heads="2,0"),
    Request(layers=[1], heads=3, mask="causal", pad_to=30),
    Request(measure="norm", grouping=Grouping(unit="word")),
    Request(mask="none", predict=True),
]


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("family", ENGINES)
def test_it_is_computed_once_for_all_heads(family, words, foreign, model, folder, walks):
    engine, which = model if family == "bert" else foreign(family), "encoder" if family == "t5" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        records = [engine.attend(text, which=which) for text in lines()]
    texts = [text_sums(merge_words(record) if words else record).tokens for record in records]
    walks.clear()
    for request in REQUESTS:
        asked = replace(request, which=which)
        told: list[float] = []
        first = usual_of(engine, asked, words, told.append)
        assert walks and told == sorted(told) and len(told) == len(lines()) and told[0] == 0
        walks.clear(), told.clear()
        again = usual_of(engine, asked, words, told.append)
        every = usual_of(engine, replace(asked, layers="all", heads="all"), words, told.append)
        assert not walks and not told
        assert texts == [one.tokens for one in again.each]  # so a text of the user's own is recognized among them
        check_same(first, again)
        info = engine.of_part(which).info
        check_same(first, every.select(select(asked.layers, info.layers, ""), select(asked.heads, info.heads, "")))
        shutil.rmtree(folder)


def change_settings(directory: Path) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"layer_norm_eps": 1e-3}))


def change_vocabulary(directory: Path) -> None:
    path = directory / "vocab.txt"
    kept, *others = path.read_text().split("the\n")
    path.write_text(kept + "thee\n" + "the\n".join(others))


def change_weights(directory: Path, factor: float = 1.25) -> None:
    from safetensors.numpy import load_file, save_file

    path = directory / "model.safetensors"
    save_file({name: tensor * factor for name, tensor in load_file(path).items()}, path, {"format": "pt"})


def test_whatever_it_depends_on_has_another_file(small, model, folder, tmp_path, monkeypatch):
    count = 0

    def changed(engine: Engine, by: int = 1, **asked) -> bool:
        """Whether a request has as many new files."""
        nonlocal count
        usual_of(engine, **{"request": Request(), **asked})
        before, count = count, len(files(folder))
        return count == before + by

    assert changed(model) and changed(load_model(str(small), "cpu"), by=0)
    assert changed(load_model(shutil.copytree(small, tmp_path / "copy"), "cpu"), by=0)  # wherever it is
    for same in ({"layers": "0", "heads": "1"}, {"mask": "padding"}, {"pad_to": 20}, {"predict": True}):
        assert changed(model, by=0, request=Request(**same)), same
    assert changed(model.without("3.all"), by=0)  # heads of the last layer change no maps
    for other in ({"mask": "causal"}, {"mask": "none"}, {"measure": "norm"}):
        assert changed(model, request=Request(**other)), other
    assert changed(model, words=True) and changed(model.without("0.1")) and changed(model.without("0.1,1.0"))
    for change in (change_settings, change_vocabulary, change_weights):
        directory = shutil.copytree(small, tmp_path / change.__name__)
        change(directory)
        assert changed(load_model(directory, "cpu")), change
    for more in ({"dtype": "float64"}, {"engine": "transformers"}):
        assert changed(load_model(str(small), "cpu", **more)), more
    other = copy(model)
    other.device = torch.device("cpu:0")
    assert changed(other)
    for name, value in (("__version__", "9"), ("FORMAT", 99), ("FILES", usual.FILES[:2])):
        with monkeypatch.context() as patch:
            patch.setattr(usual, name, value)
            assert changed(model), name
    assert changed(model, by=0)


def test_the_part_and_the_mask_of_a_decoder_have_one_name(foreign, folder):
    for which, mask in ((None, None), ("decoder", None), (None, "causal"), ("decoder", "causal")):
        usual_of(foreign("gpt2"), Request(which=which, mask=mask))
        assert len(files(folder)) == 1


def test_a_model_without_a_digest_is_not_kept(model, folder, walks):
    for sha256 in ("", "unknown", "a" * 63):
        other = copy(model)
        other.sha256 = sha256
        usual_of(other, Request())
        assert walks and not files(folder)
        walks.clear()


def test_a_request_that_can_not_be_met_is_refused_as_if_nothing_was_kept(model, foreign, folder):
    usual_of(model, Request())
    usual_of(foreign("gpt2"), Request())
    for engine, request in (
        (model, Request(layers="4")),
        (model, Request(heads="4")),
        (model, Request(which="encoder")),
        (foreign("gpt2"), Request(which="encoder")),
    ):
        with pytest.raises(RequestError):
            usual_of(engine, request)


# --- hostile files --------------------------------------------------------------------------------------


def saved(path: Path, **changes: Callable[[np.ndarray], np.ndarray]) -> None:
    """Save the file again with other arrays."""
    with np.load(path) as file:
        arrays = {**file, **{name: change(file.get(name)) for name, change in changes.items()}}
    path.unlink()
    np.savez_compressed(path, **arrays)


def exchanged(path: Path) -> None:
    """Put a whole file of another request in its place."""
    usual_of(load_model("minilm", "cpu"), Request())
    [other] = set(path.parent.iterdir()) - {path}
    other.replace(path)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "a bomb": lambda path: saved(path, more=lambda _: np.zeros(2**23)),
    "no counts": lambda path: np.savez(path, **{name: np.load(path)[name] for name in ("seal", "sums")}),
    "another number": lambda path: saved(path, sums=lambda sums: np.nextafter(sums, 1)),
    "that of another request": exchanged,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_passed_over_and_written_anew(kind, model, folder, walks):
    first = usual_of(model, Request())
    [name] = files(folder)
    HOSTILE[kind](folder / name)
    walks.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_same(first, usual_of(model, Request()))
    assert walks
    walks.clear()
    check_same(first, usual_of(model, Request()))
    assert not walks


@pytest.mark.parametrize("place", ["a file", ""])
def test_without_a_folder_it_is_computed_each_time(place, model, tmp_path, monkeypatch, walks):
    (tmp_path / "a file").write_text("mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "a file")
    monkeypatch.setenv("ATTNCLI_CACHE", place)
    first = usual_of(model, Request())
    walks.clear()
    check_same(first, usual_of(model, Request()))
    assert walks and {path.name for path in tmp_path.rglob("*")} == {"a file"}
