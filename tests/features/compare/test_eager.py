"""Our place inside networks of transformers beside their own eager attention: without and with a mistake in it."""

import pytest
import torch
from checkpoints import make_checkpoint
from foreign_checkpoints import make_foreign
from mistakes import put_in_place, read_mistakes

from attncli import RequestError, load_model
from attncli.features.compare.beside import NothingToCompare
from attncli.features.compare.eager import BesideEager, Eager, compare_eager
from attncli.features.compare.ways import WAYS_OF_EAGER, by_every_way
from attncli.models.transformers_place import NAME
from attncli.record import Input

INPUTS = [Input("the cat sat on the big mat"), Input("it, too"), Input("a cat in a hat")]
CROSS = {"mask causal", "hidden states"}  # what there is nothing of to compare in a cross-attention
CASES = {
    ("gpt2", None): {"[PAD]"},
    ("llama", None): {"[PAD]"},
    ("gemma2", None): set(),
    ("gemma3", None): set(),
    ("gpt_oss", None): set(),
    ("opt", None): set(),
    ("esm", None): set(),
    ("modernbert", None): {"logits"},
    ("albert", None): {"logits"},
    ("t5", "encoder"): set(),
    ("t5", "decoder"): {"hidden states"},
    ("t5", "cross"): CROSS,
    ("bart", "encoder"): set(),
    ("bart", "decoder"): {"hidden states"},
    ("bart", "cross"): CROSS,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """`made(family)` -> a directory with a small random checkpoint, made once."""
    kept = {}

    def directory_of(family):
        if family not in kept:
            folder = tmp_path_factory.mktemp(family)
            make = make_checkpoint if family == "albert" else make_foreign
            kept[family] = make(folder, family)
        return kept[family]

    return directory_of


def both_of(path, which=None, mask=None, dtype="float32"):
    model = load_model(str(path), device="cpu", dtype=dtype, engine="transformers").of_part(which)
    eager = Eager(model)
    return BesideEager(eager, [eager.ready(one) for one in model.tokenize(INPUTS, None)], mask)


def found_by(both):
    """The first thing that differs; None where nothing does."""
    if not compare_eager(both.reference, both.texts, both.mask).same:
        return "layers"
    for name, check in WAYS_OF_EAGER.items():
        try:
            if not check.find(both) <= both.allowed(check.kind):
                return name
        except NothingToCompare:
            pass
        except RequestError:
            return name
    return None


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_the_same_in_every_way(made, case):
    both = both_of(made(case[0]), case[1])
    agreement = compare_eager(both.reference, both.texts)
    assert agreement.same, agreement.verdict
    assert [one.layer for one in agreement.layers] == both.layers and agreement.vectors == "attention outputs"
    ways, done = [], []
    ways = by_every_way(both, lambda: done.append(None))
    assert len(done) == len(ways) == len(WAYS_OF_EAGER)
    assert all(way.same for way in ways), ways
    assert {way.name for way in ways if way.difference is None} == CASES[case]
    assert both.model.network.config._attn_implementation == NAME  # what was put aside is there again


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
@pytest.mark.parametrize("family", ["gemma3", "esm"])
def test_it_is_the_same_under_every_mask(made, family, mask):
    both = both_of(made(family), None, mask)
    assert found_by(both) is None
    assert compare_eager(both.reference, both.texts, mask).mask == mask


@pytest.mark.slow
def test_of_some_layers_only(made):
    both = both_of(made("llama"))
    assert [one.layer for one in compare_eager(both.reference, both.texts, layers=[2, 0]).layers] == [2, 0]
    some = BesideEager(both.reference, both.texts, layers=[1])
    assert all(way.same for way in by_every_way(some))


@pytest.mark.slow
def test_double_precision_is_held_to_float32_and_half_precision_to_its_errors(made):
    """transformers' norms compute in float32; other ways show little in half precision and are left out."""
    both = both_of(made("llama"), dtype="float64")
    assert found_by(both) is None
    halved = both_of(made("llama"), dtype="bfloat16")
    agreement = compare_eager(halved.reference, halved.texts)
    assert agreement.same and all(one.rounding is not None for one in agreement.layers)
    ways = by_every_way(halved)
    assert all(way.difference is None and "bfloat16" in way.note for way in ways)


@pytest.mark.slow
def test_a_silenced_head_is_silent_on_both_sides(made):
    both = both_of(made("llama"))
    plain = both.theirs(both.texts[0])
    silenced = Eager(both.model.without("0.1,1.2"))
    assert found_by(BesideEager(silenced, both.texts)) is None
    with torch.inference_mode():
        other = silenced.theirs(both.texts[0], "causal")
    assert torch.equal(plain.weights[0], other.weights[0]) and not torch.equal(plain.weights[1], other.weights[1])


def test_what_does_not_call_our_function_is_refused_in_one_line(tmp_path):
    with pytest.raises(RequestError, match="calls no attention function that can be replaced"):
        both_of(make_foreign(tmp_path, "gpt_neo"))


# --- mistakes -------------------------------------------------------------------------------------------

# Found at once, by tests that are quick; the others are slow.
AT_ONCE = (
    "key heads in another order",
    "mask off by one",
    "Conv1D not transposed",
)


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(one, marks=[] if one.name.endswith(AT_ONCE) else pytest.mark.slow, id=one.name)
        for one in read_mistakes("tests", "compare")
        if one.name.startswith("in transformers: ")
    ],
)
def test_a_mistake_is_found(made, monkeypatch, mistake):
    put_in_place(monkeypatch, mistake)
    options = mistake.options
    try:
        both = both_of(made(options["-m"]), options.get("--which"), options.get("--mask"))
        found = found_by(both)
    except Exception as error:  # noqa: BLE001  (which ends the command with another code than 0)
        found = repr(error)
    print(mistake.name, "->", found)
    assert found is not None


def test_without_a_mistake_nothing_is_found(made):
    assert found_by(both_of(made("gpt2"))) is None
