"""The matrix of ways and families: right everywhere, and wrong where somebody makes a mistake."""

import math
import shutil
from dataclasses import replace

import pytest
import torch
from checkpoints import DECODERS, FAMILIES, language_head, make_checkpoint
from foreign_checkpoints import make_foreign
from mistakes import put_in_place, read_mistakes
from slow import slow_except
from ways import EAGER, OWN, eager_peers, own_peers

from attncli import RequestError
from attncli.attention import MASKS, Window, attend, multihead
from attncli.checks.tolerance import TOLERANCES
from attncli.features.compare.beside import TEXTS, TOKENS, NothingToCompare, compare
from attncli.features.compare.eager import Eager, EagerPeers
from attncli.features.compare.ways import WAYS_OF_EAGER, CompareWay, compare_ways
from attncli.models import model as own
from attncli.models import weighing
from attncli.models.instant import why_not
from attncli.models.transformers_place import NAME
from attncli.record import Input

pytestmark = pytest.mark.usefixtures("exact")
MISTAKES = {one.name: one for one in read_mistakes("compare")}


def go(peers, *names):
    """Go these ways, or all."""
    every = EAGER if isinstance(peers, EagerPeers) else OWN
    return list(compare_ways(peers, {name: every[name] for name in names or every}))


def differing(peers, *names):
    return {way.way for way in go(peers, *names) if not way.same}


def not_compared(found):
    return {way.way for way in found if way.difference is None}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """`foreign(family)` -> a directory with a small random checkpoint, made once, for transformers to run."""
    kept = {}

    def directory_of(family):
        if family not in kept:
            make = make_checkpoint if family == "albert" else make_foreign
            kept[family] = make(tmp_path_factory.mktemp(family), family)
        return kept[family]

    return directory_of


# --- every way in every family --------------------------------------------------------------------------


@pytest.mark.parametrize("mask", slow_except(MASKS, ["causal"]))
@pytest.mark.parametrize("family", slow_except(FAMILIES, ["bert"]))
def test_every_way_in_every_family_of_our_own(tiny, family, mask):
    head = language_head(family) if family in DECODERS else "Model"
    peers = own_peers(tiny(family, head=head, max_position_embeddings=64), mask=mask, pad_to=40)
    found = go(peers)
    assert all(way.same for way in found), [way for way in found if not way.same]
    nothing = {"conversion"} if why_not(peers.model.config) is None else {"conversion", "instant", "in NumPy"}
    assert not_compared(found) == nothing | (set() if family in DECODERS else {"logits"})
    for way in found:
        single, exact = OWN[way.way].single, OWN[way.way].exact
        assert way.allowed == 0 if exact else 1e-7 < way.allowed < 1e-2 if single else 0 < way.allowed < 1e-9


CROSS = {"mask causal", "hidden states"}  # what there is nothing of to compare in a cross-attention
RUN_BY_TRANSFORMERS = {
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


@pytest.mark.slow
@pytest.mark.parametrize("case", RUN_BY_TRANSFORMERS, ids=str)
def test_every_way_in_families_that_transformers_runs(foreign, case):
    peers = eager_peers(foreign(case[0]), case[1])
    agreement = compare(peers, peers.texts)
    assert agreement.same, agreement.verdict
    assert [one.layer for one in agreement.layers] == peers.layers and agreement.vectors == "attention outputs"
    found = go(peers)
    assert all(way.same for way in found), [way for way in found if not way.same]
    assert not_compared(found) == RUN_BY_TRANSFORMERS[case]
    assert peers.model.network.config._attn_implementation == NAME  # what was put aside is there again


@pytest.mark.slow
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("family", ["gemma3", "esm"])
def test_families_that_transformers_runs_under_every_mask(foreign, family, mask):
    peers = eager_peers(foreign(family), None, mask)
    assert compare(peers, peers.texts).same
    assert differing(peers) == set()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_every_dtype(foreign, dtype):
    exact = ("tokens", "records", "sums")  # or less than their addition rounds
    halved = dtype in ("bfloat16", "float16")
    names = [name for name in OWN if name != "gradients" or not halved]
    found = go(own_peers("minilm", dtype), *names)
    assert all(way.same for way in found), [way for way in found if not way.same]
    assert not_compared(found) == {"conversion", "logits"} | ({"instant", "in NumPy"} if halved else set())
    assert all(way.difference > 0 for way in found if way.difference is not None and way.way not in exact)
    peers = eager_peers(foreign("llama"), dtype=dtype)
    agreement = compare(peers, peers.texts)
    assert agreement.same and all((one.rounding is not None) == halved for one in agreement.layers)
    assert differing(peers) == set()


@pytest.mark.slow
def test_some_layers_only(foreign):
    peers = eager_peers(foreign("llama"))
    some = EagerPeers(peers.reference, peers.texts, layers=[2, 0])
    assert [one.layer for one in compare(some, peers.texts).layers] == [2, 0]
    assert differing(EagerPeers(peers.reference, peers.texts, layers=[1])) == set()


@pytest.mark.slow
def test_large_numbers_have_large_rounding(tiny):
    """Values and what they are projected by are large, so norms are too, and differ by more."""
    peers = own_peers(tiny("eurobert", max_position_embeddings=64), "float32")
    for layer in range(peers.model.config.layers):
        for name in peers.model.config.source(f"layers.{layer}.attention.value").names:
            with torch.no_grad():
                peers.reference.network.get_submodule(name).weight.mul_(30)
    peers.reference.network.save_pretrained(peers.model.place.path)
    assert differing(own_peers(peers.model.place.path, "float32")) == set()


@pytest.mark.slow
def test_long_texts_and_many_go_as_far_as_they_must(tiny):
    peers = own_peers(tiny(max_position_embeddings=200), inputs=[Input("the cat " * 80)] * 5)
    assert [len(one) for one in peers.texts] == [TOKENS] * TEXTS
    assert differing(peers) == set()


# --- mistakes -------------------------------------------------------------------------------------------

FOUND_BY = [
    ("q and k swapped where the walk ends", "bert", {"some layers and heads", "together", "sums"}),
    ("q and k swapped in stats", "bert", {"sums"}),
    ("keys as values in the fused kernel, masked", "bert", {"mask causal"}),
    ("mask never used in the fused kernel", "bert", {"mask causal"}),
    ("transposed W in norms: W_O", "bert", {"norms", "sums"}),
    ("tokenizer drops the last token", "bert", {"tokens"}),
    ("segments forgotten", "bert", {"pair", "some layers and heads"}),
    ("both parts of GPT-NeoX one after the other", "gpt_neox", {"some layers and heads", "without", "gradients"}),
    ("queries and keys are normalised after the rotation", "qwen3", {"some layers and heads", "vectors"}),
    ("key heads of a decoder in turns where the walk ends", "llama", {"some layers and heads"}),
    ("scores of Gemma 2 are not bounded in the formula", "gemma2", {"formula"}),
    ("scores of Gemma 2 are not bounded in gradients", "gemma2", {"gradients"}),
    ("logits of Gemma 2 are not bounded for compare", "gemma2 that predicts", {"logits"}),
    ("in NumPy: logits of Gemma 2 are not bounded for compare", "gemma2 that predicts", {"instant"}),
]


@pytest.mark.parametrize(("mistake", "family", "ways"), FOUND_BY)
def test_a_mistake_is_found(tiny, mistake, family, ways, monkeypatch):
    put_in_place(monkeypatch, MISTAKES[mistake])
    name, _, predicts = family.partition(" that ")
    head, dtype = ("ForCausalLM", "float32") if predicts else ("Model", "float64")
    peers = own_peers(tiny(name, head=head, max_position_embeddings=64), dtype)
    assert differing(peers, *ways) == ways


@pytest.fixture(scope="module")
def huge(tiny, tmp_path_factory):
    """A decoder whose first token has numbers of about a million in its hidden states, as smollm2's has 22,500."""
    peers = own_peers(tiny("llama", max_position_embeddings=64), "float32")
    with torch.no_grad():
        peers.reference.network.get_input_embeddings().weight[peers.texts[0].ids[0]] *= 1e6
    directory = tmp_path_factory.mktemp("huge") / "llama"
    shutil.copytree(peers.model.place.path, directory)
    peers.reference.network.save_pretrained(directory)
    return directory


@pytest.mark.parametrize(
    ("mistake", "ways"),
    [
        (None, set()),
        ("on smollm2: relevance counts what is negative", {"gradients"}),
        ("on smollm2: silenced heads keep a tenth", {"without"}),
        ("in NumPy: another epsilon on smollm2", {"instant"}),
    ],
)
def test_one_token_with_large_numbers_hides_no_mistake(huge, mistake, ways, monkeypatch):
    if mistake is not None:
        put_in_place(monkeypatch, MISTAKES[mistake])
    peers = own_peers(huge, "float32")
    assert max(float(state.abs().max()) for state in peers.theirs(peers.texts[0]).states) > 1e5
    assert differing(peers, *(ways or ("gradients", "without", "mask padding", "instant"))) == ways


@pytest.mark.parametrize("mistake", [None, "rotary base", "epsilon"])
def test_the_settings_of_a_gguf_file_are_those_that_transformers_reads(tmp_path, mistake, monkeypatch):
    """Both sides read the converted directory, so only its settings show a mistake in the conversion."""
    pytest.importorskip("gguf")
    from gguf_files import write_file

    from attncli.models.gguf import architectures

    monkeypatch.setenv("ATTNCLI_CACHE", str(tmp_path / "cache"))
    if mistake is not None:
        [planted] = [one for one in read_mistakes("tests") if one.name.startswith(f"the {mistake} of a .gguf file")]
        put_in_place(monkeypatch, planted)
        wrong = replace(architectures.ARCHITECTURES["llama"], config=architectures._with_rotary_positions)
        monkeypatch.setitem(architectures.ARCHITECTURES, "llama", wrong)
    write_file(tmp_path / "model.gguf", "llama-untied")
    found = differing(own_peers(tmp_path / "model.gguf", "float32"), "conversion", "together", "logits", "instant")
    assert found == (set() if mistake is None else {"conversion"})


@pytest.mark.parametrize("more", [-1, 1])
def test_a_window_of_the_published_width_is_outgrown(tiny, more, monkeypatch):
    """ModernBERT's layers see 64 tokens to each side; the texts that are compared are shorter."""
    peers = own_peers(tiny("modernbert", local_attention=128, max_position_embeddings=300))
    assert differing(peers, "some layers and heads", "mask none") == set()
    monkeypatch.setattr(own, "Window", lambda reach: Window(reach + more))
    assert differing(peers, "some layers and heads", "mask none") == {"some layers and heads"}


def test_a_mask_that_forgets_pad_is_found_although_only_rows_of_pad_show_it(tiny, monkeypatch):
    monkeypatch.setitem(MASKS, "causal", MASKS["causal"][1:])
    assert differing(own_peers(tiny(max_position_embeddings=64), "float32"), "mask causal") == {"mask causal"}


def test_a_mistake_in_the_formula_is_found(tiny, monkeypatch):
    right = multihead.attend
    wrong = lambda q, k, v, mask, score, normalise: right(q, k, v, mask, lambda a, b: a @ b.mT, normalise)  # noqa: E731
    monkeypatch.setattr(multihead, "attend", wrong)
    peers = own_peers(tiny(max_position_embeddings=64))
    assert differing(peers, "some layers and heads", "formula", "mask causal") == {"formula"}


@pytest.mark.parametrize("terms", ["bert", "mpnet"])
def test_gates_whose_gradients_forget_the_mask_are_found(tiny, terms, monkeypatch):
    """If positions add to the scores the formula has the gradients, otherwise the fused kernel."""
    peers = own_peers(tiny(terms, max_position_embeddings=64))
    name, right = ("attend", attend) if terms == "mpnet" else ("attend_output", weighing.attend_output)
    monkeypatch.setattr(weighing, name, lambda q, k, v, mask, *more: right(q, k, v, None, *more))
    assert differing(peers, "gradients") == {"gradients"}


@pytest.mark.parametrize("mistake", ["key heads in another order", "mask off by one", "Conv1D not transposed"])
def test_a_mistake_in_our_place_inside_a_network_of_transformers_is_found(foreign, monkeypatch, mistake):
    """All of them: `plant_mistakes.py --compare`."""
    planted = MISTAKES[f"in transformers: {mistake}"]
    put_in_place(monkeypatch, planted)
    peers = eager_peers(foreign(planted.options["-m"]))
    assert differing(peers)


def test_a_network_of_transformers_has_a_silenced_head_in_no_way(foreign):
    peers = eager_peers(foreign("gpt2"))
    assert differing(peers) == set() and compare(peers, peers.texts).same
    silenced = EagerPeers(Eager(peers.model.without("0.1")), peers.texts)
    assert "mask causal" in differing(silenced, "mask causal")


def test_what_computes_attention_by_hand_is_compared_where_no_mask_has_to_be_put(foreign):
    peers = eager_peers(foreign("gpt_neo"))
    assert compare(peers, peers.texts).same
    assert differing(peers, *WAYS_OF_EAGER) == set()
    assert not_compared(go(peers, *WAYS_OF_EAGER)) == {"mask padding", "mask causal", "mask none"}


# --- what can't be compared -----------------------------------------------------------------------------


def test_where_there_is_nothing_on_the_other_side_it_says_so(tiny):
    def nothing(peers):
        raise NothingToCompare("there is none")

    def refused(peers):
        raise RequestError("too large")

    found = {"one": CompareWay("this", nothing), "two": CompareWay("that", refused)}
    one, two = compare_ways(own_peers(tiny(max_position_embeddings=64)), found)
    assert (one.difference, one.same, one.note) == (None, True, "there is none")
    assert math.isnan(two.difference) and not two.same and two.note == "too large"
