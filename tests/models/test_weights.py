"""Checkpoints in every form that they come in, and everything that can be wrong with one."""

import pickle
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import make_checkpoint, make_config, make_network
from hypothesis import given, settings
from hypothesis import strategies as st
from irregular import TouchedByPickle
from safetensors.torch import load_file, save_file

from attncli import Notice, RequestError, load_model

TEXT = "the cat sat on it"


def maps(directory: Path, **more: Any) -> torch.Tensor:
    """All maps of TEXT, in float64; what the checkpoint has too much is an error here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return torch.from_numpy(load_model(str(directory), "cpu", "float64").attend(TEXT, **more).weights)


def transformers_maps(network: Any, directory: Path) -> torch.Tensor:
    ids = torch.tensor([load_model(str(directory), "cpu").tokenizer.encode(TEXT).ids])
    with torch.no_grad():
        attentions = network.base_model.double()(ids, output_attentions=True).attentions
    return torch.cat(attentions).float()


@pytest.fixture
def checkpoint(tiny, tmp_path):
    """A copy of a BERT, to spoil: its directory."""
    return Path(shutil.copytree(tiny("bert"), tmp_path / "model"))


# --- forms ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["safetensors", "sharded", "bin", "sharded bin", "2018"])
@pytest.mark.parametrize("family", ["bert", "modernbert"])  # whose tensors are cut
def test_every_form_of_a_checkpoint_is_the_same_network(family, form, tmp_path):
    directory = make_checkpoint(tmp_path, family, form=form)
    if "sharded" in form:
        assert len(list(tmp_path.glob("*model-*"))) > 1
    expected = transformers_maps(make_network(make_config(family)), directory)
    torch.testing.assert_close(maps(directory), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_of_one_matrix_take_no_more_memory_than_it(dtype, tiny):
    """Load in the file's dtype, where parts are mapped, and in another one, where none holds the whole matrix."""
    model = load_model(str(tiny("modernbert")), "cpu", dtype)
    model.need(1)
    attention = model.network.layer(0).attention
    parts = [part.weight for part in (attention.query, attention.key, attention.value)]
    begins = [part.data_ptr() for part in parts]
    if dtype == "float32":
        assert [begin - begins[0] for begin in begins] == [place * parts[0].nbytes for place in range(3)]
    else:
        assert [part.untyped_storage().nbytes() for part in parts] == [part.nbytes for part in parts]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_checkpoint_in_another_dtype(dtype, tmp_path):
    directory = make_checkpoint(tmp_path, "bert", dtype=dtype)
    stored = make_network(make_config("bert")).to(dtype)
    torch.testing.assert_close(maps(directory), transformers_maps(stored, directory))


def test_buffers_of_old_checkpoints_are_no_surplus(checkpoint):
    spoil(checkpoint, lambda tensors: tensors.update({"embeddings.position_ids": torch.arange(40)[None]}))
    assert maps(checkpoint).isfinite().all()


# --- only what is needed --------------------------------------------------------------------------------


def spoil(directory: Path, change: Any) -> None:
    """Change a checkpoint's tensors: `change` gets them by name."""
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors")


def test_only_tensors_that_run_are_read(tmp_path, monkeypatch):
    from attncli.models.weights import SafetensorsFile

    directory, read = make_checkpoint(tmp_path, form="sharded"), []
    original = SafetensorsFile.read
    monkeypatch.setattr(SafetensorsFile, "read", lambda self, name: (read.append(name), original(self, name))[1])
    model = load_model(str(directory), "cpu")
    assert read == []
    model.attend(TEXT, layers=1, heads=0)
    assert all(name.startswith(("embeddings.", "encoder.layer.0.", "encoder.layer.1.")) for name in read)
    assert len(read) == len(set(read)) > 0
    before = len(read)
    model.attend(TEXT, layers=0)
    assert len(read) == before


# --- what can be wrong ----------------------------------------------------------------------------------

VALUE = "encoder.layer.1.attention.self.value.weight"


def put(change: Any) -> Any:
    return lambda tensors: tensors.update({VALUE: change(tensors[VALUE])})


def with_one(number: float) -> Any:
    """A tensor of zeros with one number that is wrong, so that no average shows it."""
    return put(
        lambda tensor: torch.zeros_like(tensor).index_put_((torch.tensor(5), torch.tensor(7)), torch.tensor(number))
    )


FLAWS = {
    "missing": (lambda tensors: tensors.pop(VALUE), "lacks"),
    "too narrow": (put(lambda tensor: tensor[:, 1:].clone()), r"\[32, 31\].*\[32, 32\]"),
    "flat": (put(lambda tensor: tensor.flatten()), r"\[1024\].*\[32, 32\]"),
    "whole numbers": (put(lambda tensor: tensor.int()), "torch.int32"),
    "eight bits": (put(lambda tensor: tensor.to(torch.float8_e4m3fn)), "float8"),
    "NaN": (with_one(float("nan")), "NaN"),
    "-inf": (with_one(float("-inf")), "infinite"),
    "half": (put(lambda tensor: tensor.half().fill_(torch.inf)), "infinite"),
    "too large": (put(lambda tensor: tensor.double().fill_(1e300)), "too large for float32"),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_named_with_its_tensor(flaw, checkpoint):
    change, says = FLAWS[flaw]
    spoil(checkpoint, change)
    with pytest.raises(RequestError, match=says) as caught:
        load_model(str(checkpoint), "cpu").attend(TEXT)
    assert VALUE in str(caught.value) and str(checkpoint) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_large_but_finite_numbers_are_no_flaw(checkpoint):
    """Their sum overflows; none of them does."""
    spoil(checkpoint, lambda tensors: tensors["encoder.layer.3.output.dense.weight"].fill_(3e38))
    load_model(str(checkpoint), "cpu").need(4)


def test_a_surplus_in_the_encoder_is_a_notice(checkpoint, tiny):
    spoil(checkpoint, lambda tensors: tensors.update({"encoder.layer.9.output.dense.bias": torch.zeros(3)}))
    with pytest.warns(Notice, match=r"not used: encoder\.layer\.9\.output\.dense\.bias$"):
        model = load_model(str(checkpoint), "cpu")
    expected = load_model(str(tiny("bert")), "cpu").attend(TEXT)
    assert (model.attend(TEXT).weights == expected.weights).all()


# --- files that are damaged, or mean harm ---------------------------------------------------------------


def refused(directory: Path, name: str) -> str:
    with pytest.raises(RequestError) as caught:
        load_model(str(directory), "cpu").attend(TEXT)
    assert name in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


def with_bytes(directory: Path, name: str, change: Any) -> Path:
    """A new copy of a checkpoint, in which the bytes of one file are changed."""
    copy = Path(shutil.copytree(directory, Path(tempfile.mkdtemp(dir=directory.parent)) / "model"))
    (copy / name).write_bytes(change((copy / name).read_bytes()))
    return copy


FORMS = pytest.mark.parametrize(("form", "name"), [("safetensors", "model.safetensors"), ("bin", "pytorch_model.bin")])


@FORMS
@given(share=st.none() | st.floats(0, 1, exclude_max=True), places=st.lists(st.integers(-5000, 4999), max_size=6))
@settings(max_examples=40)
def test_a_file_that_is_cut_short_is_refused_and_garbled_bytes_end_in_an_answer_or_a_refusal(
    form, name, share, places, tiny
):
    """Never in another exception. Names, shapes and the index stand at a file's two ends."""

    def damage(whole: bytes) -> bytes:
        garbled = bytearray(whole)
        for place in places:
            garbled[place] ^= 1 + place % 255
        return bytes(garbled if share is None else whole[: int(share * len(whole))])

    directory = with_bytes(tiny("bert", form=form), name, damage)
    if share is not None:
        refused(directory, name)
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load_model(str(directory), "cpu").attend(TEXT)
    except RequestError as error:
        assert "\n" not in str(error)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("how", ["torch", "old torch", "pickle", "in a tensor's place"])
def test_a_pickle_that_wants_to_run_code_does_not(how, checkpoint, tmp_path):
    (checkpoint / "model.safetensors").unlink()
    path, witness = checkpoint / "pytorch_model.bin", tmp_path / "witness"
    evil = TouchedByPickle(witness)
    if how == "pickle":
        path.write_bytes(pickle.dumps(evil))
    elif how == "in a tensor's place":
        torch.save({VALUE: evil, "other": torch.zeros(1)}, path)
    else:
        torch.save(evil, path, _use_new_zipfile_serialization=how == "torch")
    assert "safetensors" in refused(checkpoint, path.name)
    assert not witness.exists()


@pytest.mark.parametrize("content", [{}, [torch.zeros(2)], {"epoch": 1}])
def test_a_pickle_without_tensors_by_name(content, checkpoint):
    (checkpoint / "model.safetensors").unlink()
    torch.save(content, checkpoint / "pytorch_model.bin")
    refused(checkpoint, str(checkpoint))
