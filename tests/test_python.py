"""The library as people call it: plain keywords, one clear error for what is wrong, one line for what comes out."""

import importlib
import inspect
import re
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from own_attention import MINE

import attncli
from attncli import RequestError
from attncli.features.similar import cosines
from attncli.record import Request

A, B = "The cat sat on the mat.", "A cat is sitting on a rug."
EDGES = [("cat", "sat")]


# --- plain keywords -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["attend", "attend_many"])
def test_a_request_is_made_of_keywords_with_its_own_defaults(name):
    parameters = inspect.signature(getattr(attncli.Engine, name)).parameters
    assert all(getattr(Request(), field) == parameters[field].default for field in vars(Request()))


def test_ways_are_names_too(minilm):
    texts, where = ["A dog ran.", "It rains."], {"layer": "5", "head": "0"}
    for ways in ("zero,mean", ["zero", "mean"], ("zero", "mean")):
        found = attncli.ablate(minilm, A, way=ways, reference=texts, **where)
        assert found.ways == ["zero", "mean"] and found.effects.shape == (1, 2, 1, 1)
    assert attncli.ablate(minilm, A, way="mean", **where).ways == ["mean"]


def test_an_edge_may_be_of_places(minilm):
    by_place = attncli.cut(minilm, A, edges=[(2, 3)], layer="5").document()
    assert by_place == attncli.cut(minilm, A, edges=[("cat", "sat")], layer="5").document()


def test_numbers_of_any_library_are_layers(minilm):
    torch = pytest.importorskip("torch")
    expected = minilm.attend(A, layers=[3], heads=[0, 5]).weights
    for layer, heads in product(
        (3, np.int64(3), torch.tensor(3), [3]), ([0, 5], np.array([0, 5]), torch.tensor([0, 5]))
    ):
        assert np.array_equal(minilm.attend(A, layers=layer, heads=heads).weights, expected)


def test_a_path_is_a_directory_whatever_its_name(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match=r"no model './minilm': there is no such directory"):
        attncli.load_model(Path("minilm"))
    shutil.copytree(tiny("bert"), tmp_path / "minilm")
    assert attncli.load_model(Path("minilm"), "cpu").info.layers == attncli.load_model(tiny("bert"), "cpu").info.layers
    assert attncli.load_model(tmp_path / "minilm", "cpu").place.origin == "directory"


def test_records_of_a_generator_are_saved(minilm, tmp_path):
    attncli.save_records(minilm.attend_many([A, B], layers="0"), tmp_path / "a.safetensors")
    assert len(attncli.load_records(tmp_path / "a.safetensors")) == 2


# --- errors ---------------------------------------------------------------------------------------------

WRONG = {
    "attend two": (
        lambda m: m.attend([A, B]),
        r"text is one text, not a list of 2: use attend_many\(texts\)",
    ),
    "attend pairs": (lambda m: m.attend(A, [B]), "pair is one text, not a list of 1: give a str, or None"),
    "attend_many one": (
        lambda m: list(m.attend_many(A)),
        r"texts is a list of texts, not the str .*attend\(text\)",
    ),
    "attend_many a pair": (lambda m: list(m.attend_many([A], B)), "pairs is a list of texts, not the str "),
    "pad_to": (
        lambda m: m.attend(A, pad_to="20"),
        "pad_to is a number of tokens, not the str '20': give an int",
    ),
    "target": (lambda m: m.attend(A, target=3), "target is one text, not the int 3"),
    "another keyword": (lambda m: m.attend(A, mesure="norm"), r"attend\(\) got an unexpected .* 'mesure'"),
    "device": (lambda m: attncli.load_model("minilm", 0), "device is one text, not the int 0: write one of auto"),
    "model of stats": (
        lambda m: attncli.corpus_statistics("minilm", [A]),
        "model is the str 'minilm': open one with",
    ),
    "stats of one": (
        lambda m: attncli.corpus_statistics(m, A),
        "texts is a list of texts, not the str .*a list",
    ),
    "stats of a number": (
        lambda m: attncli.corpus_statistics(m, [A, 3]),
        r"texts\[1\] is one text, not the int 3",
    ),
    "similar_to": (lambda m: attncli.ablate(m, A, similar_to=[B]), "similar_to is one text, not a list of 1"),
    "ways": (lambda m: attncli.ablate(m, A, way=3), "way is the int 3: give one of zero, mean, resample"),
    "texts": (lambda m: attncli.ablate(m, 3), "text is the int 3: give a str, or a list of them"),
    "one edge": (
        lambda m: attncli.cut(m, A, edges=("cat", "sat")),
        "an edge is a pair of tokens, not the str 'cat': ",
    ),
    "option of cut": (lambda m: attncli.cut(m, A, by="head"), "cut has no parameter by"),
    "cut a record": (lambda m: attncli.cut(m.attend(A)), "model is an AttentionRecord: open one with"),
    "cosines": (lambda m: cosines(m, A), "texts is a list of texts, not the str"),
    "predict": (lambda m: m.predict([A]), "text is one text, not a list of 1: predict each text separately"),
    "flow of a list": (lambda m: attncli.flow(m, [A]), "text is one text, not a list of 1"),
    "find in texts": (lambda m: attncli.find([A], "cat", "sat"), "model is a list of 1: open one with attncli"),
    "diff of a number": (lambda m: attncli.diff(m, A, 3), "second is one text, not the int 3"),
    "option of diff": (
        lambda m: attncli.diff(m, A, B, by="head"),
        "diff has no parameter by",
    ),
    "cut, text first": (
        lambda m: attncli.cut(A, m),
        "text is a Model: give a str, or a list of them",
    ),
    "similar, model last": (lambda m: attncli.similar(A, B, m), "second is one text, not a Model"),
    "save": (
        lambda m: attncli.save_records(m.attend(A), "a.npz"),
        r"not one: write \[record\], or record\.save",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_value_of_the_wrong_type_is_one_clear_error(minilm, name):
    call, says = WRONG[name]
    with pytest.raises(TypeError, match=says) as caught:
        call(minilm)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_what_an_error_says_to_type_works(minilm, tmp_path):
    record, path = minilm.attend(A), str(tmp_path / "maps.npz")
    record.save(path)
    ways = {"saved": path}, {"text": A}, {"model": minilm, "text": A}, {"model": minilm.attend(A)}
    entries = [attncli.find(query="sat", key="cat", **way).document()["heads"] for way in ways]
    first, *others = ({(one["layer"], one["head"]): one["weight"] for one in heads} for heads in entries)
    assert all(other == pytest.approx(first, abs=1e-5) for other in others)
    assert attncli.flow(record).document()["tokens"] == record.tokens.text


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda model: attncli.ablate(model, A, way="meen"), "no way 'meen': use one of zero, mean, resample"),
        (lambda model: attncli.ablate(model, A, way=["zero", 3]), "no way 3: use one of zero, mean, resample"),
        (lambda model: attncli.ablate(model, A, reference=[B]), "reference has no effect with --way zero"),
        (lambda model: attncli.ablate(model, A, ask="cosign"), "no question 'cosign': use one of cosine, "),
        (lambda model: attncli.patch(model, A, B, by=3), "no part 3: use one of head, layer, token"),
        (lambda model: model.attend(A, mask=3), "no mask 3: use one of padding, causal, none"),
        (lambda model: model.attend(A, layers=1.5), r"layer 1\.5 is not a number: layers are 0 to 5"),
        (lambda model: model.attend(A, heads=["a"]), r"head 'a' is not a number: heads are 0 to 11"),
        (lambda model: attncli.load_model("minilm", engine=3), "no engine 3: use one of auto, attncli, transformers"),
    ],
)
def test_a_value_that_there_is_not_names_those_that_there_are(minilm, call, says):
    with pytest.raises(RequestError, match=says):
        call(minilm)


# --- one line -------------------------------------------------------------------------------------------


def test_a_model_is_one_line(minilm, tiny):
    assert repr(minilm) == "<Model minilm: 6 layers x 12 heads, hidden 384, float32 on cpu>"
    without = minilm.without("3.1")
    assert repr(without) == "<Model minilm without 3.1: 6 layers x 12 heads, hidden 384, float32 on cpu>"
    theirs = attncli.load_model(tiny("bert"), "cpu", "float64", "transformers")
    size = f"{theirs.info.layers} layers x {theirs.info.heads} heads, hidden {theirs.info.hidden_size}"
    assert repr(theirs) == f"<TransformersModel {tiny('bert')}: {size}, float64 on cpu>"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda model: attncli.ablate(model, A, layer="4,5", head="0-2", similar_to=B),
            r"<Ablation of minilm: 1 text, way zero, layers 4-5, heads 0-2, cosine of the .* two texts 0\.\d+>",
        ),
        (
            lambda model: attncli.cut(model, A, edges=EDGES, layer="5"),
            r"<JointCut of minilm: 1 edge cut, layer 5, heads 0-11, distance .* lengths, effect \+[\d.e-]+>",
        ),
        (
            lambda model: attncli.cut(model, A, out_of="cat", layer="5", head="3"),
            r"<EdgeEffects of minilm: 9 edges cut one by one, layer 5, head 3, distance .* lengths>",
        ),
        (
            lambda model: attncli.patch(model, A, A.replace("cat", "dog"), by="layer", layer="5"),
            r"<PatchResult of minilm: by layer, layer 5, heads 0-11, distance .*: [\d.]+ for .*, 0 for the second>",
        ),
        (
            lambda model: attncli.diff(model, A, masks="padding,causal"),
            r"<ComparedRecords of minilm: A mask padding, B mask causal, most moved \d\.\d+ 0\.\d+>",
        ),
        (
            lambda model: attncli.mechanisms(model, A, layer=4, head=3, design="alibi"),
            r"<HeadDesign of minilm: layer 4 head 3, ALiBi, looks nearer>",
        ),
        (lambda model: attncli.similar(model, A, B), r"<Similarity of minilm: cosine 0\.\d+, 9 x 10 tokens>"),
        (lambda model: cosines(model, [A, B]), r"<Cosines of minilm: 2 texts>"),
        (
            lambda model: attncli.corpus_statistics(model, [A, B]),
            r"<Statistics of minilm: 2 texts, 19 tokens, mask padding>",
        ),
        (lambda model: model.attend(A).tokens, r"Tokens\(text=\[9 entries\], .*\)"),
        (
            lambda model: model.attend(A, vectors="5.0").vectors,
            r"Vectors\(heads=\[\(5, 0\)\], query=float32 \[1, 9, 32\], key=float32 \[1, 9, 32\], .*\)",
        ),
    ],
)
def test_a_result_is_one_line(minilm, call, line):
    shown = repr(call(minilm))
    assert re.fullmatch(line, shown) and len(shown) < 300 and shown.isprintable()


def test_a_check_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "mine_in_one_line.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    mine = importlib.import_module("mine_in_one_line")
    found = attncli.check(mine.unscaled)
    assert repr(found) == f"<Result: {found.verdict}>"
    assert found.verdict.startswith("wrong: unscaled computes attention ")
