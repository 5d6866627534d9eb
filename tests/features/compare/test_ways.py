"""The ways in which numbers are made: right everywhere, and wrong where somebody makes a mistake."""

import json
import math
import shutil
from dataclasses import replace

import pytest
import torch
from checkpoints import DECODERS, FAMILIES, language_head, load_both
from mistakes import put_in_place, read_mistakes

from attncli import RequestError, load_model
from attncli.attention import MASKS, Window, attend, multihead
from attncli.checks.tolerance import TOLERANCES
from attncli.features.compare import ways
from attncli.features.compare.beside import TEXTS, TOKENS, Both, NothingToCompare
from attncli.features.compare.ways import WAYS, Check, by_every_way, their_gradients
from attncli.models import model as own
from attncli.models import weighing
from attncli.models.instant import why_not
from attncli.models.transformers_peer import load_reference
from attncli.record import Input

pytestmark = pytest.mark.usefixtures("exact")
INPUTS = [Input("the cat sat on the big cat", "it is too big"), Input("it, too"), Input("un believable cat sat")]


def both_of(directory, dtype="float64", **more):
    loaded = load_model(str(directory), device="cpu", dtype=dtype)
    whole = list(loaded.tokenize(INPUTS, more.get("pad_to")))
    return Both(loaded, load_reference(loaded.place.path, loaded.device, loaded.dtype), INPUTS, whole, **more)


def differing(both):
    return [way.name for way in by_every_way(both) if not way.same]


CASES = [(family, mask) for family in FAMILIES for mask in MASKS]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_family_under_every_mask(tiny, case):
    (family, mask), done = case, []
    head = language_head(family) if family in DECODERS else "Model"
    both = both_of(tiny(family, head=head, max_position_embeddings=64), mask=mask, pad_to=40)
    found = by_every_way(both, lambda: done.append(None))
    assert len(done) == len(WAYS)
    assert [way.name for way in found] == list(WAYS)
    assert all(way.same for way in found), found
    nothing = ["conversion"] if why_not(both.model.config) is None else ["conversion", "instant", "instant norms"]
    nothing += [] if family in DECODERS else ["logits", "instant logits"]
    assert [way.name for way in found if way.difference is None] == nothing
    for way in found:
        single, exact = WAYS[way.name].single, WAYS[way.name].kind == "exact"
        assert way.allowed == 0 if exact else 1e-7 < way.allowed < 1e-2 if single else 0 < way.allowed < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_every_dtype_on_real_weights(dtype):
    both = both_of("minilm", dtype)
    found = by_every_way(both)
    assert all(way.same for way in found), found
    compared = [way for way in found if way.difference is not None]
    halved = dtype in ("bfloat16", "float16")
    nothing = ["conversion", "logits", "instant logits"]
    nothing = ["conversion", "instant", "instant norms", *nothing[1:], "gradients"] if halved else nothing
    assert [way.name for way in found if way.difference is None] == nothing
    assert all(way.difference > 0 for way in compared if way.name not in ("tokens", "records"))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["eurobert", "nomic_bert", "mpnet"])
def test_large_numbers_have_large_rounding(tiny, family):
    """Values and what they are projected by are large, so norms are too, and differ by more."""
    both = both_of(tiny(family, max_position_embeddings=64), "float32")
    for source in both.sources["value"]:
        for name in source.names:
            module = both.reference.network.get_submodule(name)
            with torch.no_grad():
                module.weight.mul_(30)
    both.reference.network.save_pretrained(both.model.place.path)
    found = by_every_way(both_of(both.model.place.path, "float32"))
    assert all(way.same for way in found), [way for way in found if not way.same]


# --- mistakes -------------------------------------------------------------------------------------------


MISTAKES = {one.name: one for one in read_mistakes("compare")}


@pytest.fixture(scope="module")
def huge(tiny, tmp_path_factory):
    """A decoder whose first token has numbers of about a million in its hidden states, as smollm2's has 22,500."""
    both = both_of(tiny("llama", max_position_embeddings=64), "float32")
    with torch.no_grad():
        both.reference.network.get_input_embeddings().weight[both.texts[0].ids[0]] *= 1e6
    directory = tmp_path_factory.mktemp("huge") / "llama"
    shutil.copytree(both.model.place.path, directory)
    both.reference.network.save_pretrained(directory)
    return directory


@pytest.mark.parametrize(
    ("mistake", "found_by"),
    [
        (None, set()),
        ("on smollm2: relevance counts what is negative", {"gradients"}),
        ("on smollm2: gradients by gates of the next head", {"gradients"}),
        ("on smollm2: gradient x input is of the token before", {"gradients"}),
        ("on smollm2: gradients through the future", {"gradients"}),
        ("on smollm2: silenced heads keep a tenth", {"without"}),
        ("in NumPy: another epsilon on smollm2", {"instant"}),
    ],
)
def test_one_token_with_large_numbers_hides_no_mistake(huge, mistake, found_by, monkeypatch):
    names = ("gradients", "without", "mask padding", "instant")
    monkeypatch.setattr(ways, "WAYS", {name: WAYS[name] for name in names})
    if mistake is not None:
        put_in_place(monkeypatch, MISTAKES[mistake])
    both = both_of(huge, "float32")
    assert max(float(state.abs().max()) for state in both.theirs(both.texts[0]).states) > 1e5
    assert set(differing(both)) == found_by


@pytest.mark.parametrize(
    ("mistake", "found_by"),
    [
        (None, set()),
        ("logits of Gemma 2 are not bounded for compare", {"logits"}),
        ("in NumPy: logits of Gemma 2 are not bounded for compare", {"instant logits"}),
    ],
)
def test_logits_of_the_next_token_are_compared(tiny, mistake, found_by, monkeypatch):
    monkeypatch.setattr(ways, "WAYS", {name: WAYS[name] for name in ("logits", "instant logits")})
    if mistake is not None:
        put_in_place(monkeypatch, MISTAKES[mistake])
    both = both_of(tiny("gemma2", head="ForCausalLM", max_position_embeddings=64), "float32")
    found = by_every_way(both)
    assert all(way.difference is not None for way in found), found
    assert {way.name for way in found if not way.same} == found_by


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "found_by"),
    [
        ("rows beyond the cache come the last one first", {"[PAD]"}),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("heads given out of order are kept in order", {"some heads of all", "norms", "instant norms"}),
                ("--without silences the head before", {"without"}),
                ("mask never used in gradients", {"gradients"}),
                ("texts beyond the cache get the first texts' mask", {"[PAD]"}),
                ("maps of half-precision vectors are made in half precision", {"half precision"}),
            )
        ),
    ],
)
def test_a_mistake_that_nothing_else_finds_is_found(tiny, mistake, found_by, monkeypatch):
    put_in_place(monkeypatch, MISTAKES[mistake])
    assert found_by == set(differing(both_of(tiny(max_position_embeddings=64))))


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
    chosen = ("conversion", "together", "logits", "instant logits")
    monkeypatch.setattr(ways, "WAYS", {name: WAYS[name] for name in chosen})
    assert differing(both_of(tmp_path / "model.gguf", "float32")) == ([] if mistake is None else ["conversion"])


IN_NUMPY = [
    name
    for name, one in MISTAKES.items()
    if name.startswith("in NumPy: ") and one.options.get("-m") in (None, *FAMILIES)
]


@pytest.fixture(scope="module")
def real():
    return both_of("minilm", "float32", pad_to=40)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [None, *IN_NUMPY])
def test_a_mistake_in_numpy_is_found(real, tiny, mistake, monkeypatch):
    monkeypatch.setattr(ways, "WAYS", {name: WAYS[name] for name in ("instant", "instant norms")})
    family = None if mistake is None else MISTAKES[mistake].options.get("-m")
    both = real if family is None else both_of(tiny(family, max_position_embeddings=64), "float32")
    if mistake is not None:
        put_in_place(monkeypatch, MISTAKES[mistake])
    found = differing(both)
    assert "instant" in found if mistake is not None else found == []


@pytest.mark.parametrize("more", [-1, 1])
def test_a_window_of_the_published_width_is_outgrown(tiny, more, monkeypatch):
    """ModernBERT's layers see 64 tokens to each side; the texts that are compared are shorter."""
    both = both_of(tiny("modernbert", local_attention=128, max_position_embeddings=300))
    assert max(map(len, both.texts)) < 64 < max(len(one) for texts, _ in both.beyond_windows for one in texts)
    monkeypatch.setattr(ways, "WAYS", {name: WAYS[name] for name in ("one layer", "some heads", "mask none")})
    assert differing(both) == []
    monkeypatch.setattr(own, "Window", lambda reach: Window(reach + more))
    assert differing(both) == ["one layer"]


def test_a_mask_that_forgets_pad_is_found_although_only_rows_of_pad_show_it(tiny, monkeypatch):
    monkeypatch.setitem(MASKS, "causal", MASKS["causal"][1:])
    monkeypatch.setattr(ways, "WAYS", {"mask causal": WAYS["mask causal"]})
    assert differing(both_of(tiny(max_position_embeddings=64), "float32")) == ["mask causal"]


def test_a_mistake_in_the_formula_is_found(tiny, monkeypatch):
    right = multihead.attend
    wrong = lambda q, k, v, mask, score, normalise: right(q, k, v, mask, lambda a, b: a @ b.mT, normalise)  # noqa: E731
    monkeypatch.setattr(multihead, "attend", wrong)
    monkeypatch.setattr(ways, "WAYS", {name: WAYS[name] for name in ("one layer", "formula", "mask causal")})
    assert differing(both_of(tiny(max_position_embeddings=64))) == ["formula"]


@pytest.mark.parametrize("terms", ["bert", "mpnet"])
def test_gates_whose_gradients_forget_the_mask_are_found(tiny, terms, monkeypatch):
    """If positions add to the scores the formula has the gradients, otherwise the fused kernel."""
    both = both_of(tiny(terms, max_position_embeddings=64))
    monkeypatch.setattr(ways, "WAYS", {"gradients": WAYS["gradients"]})
    name, right = ("attend", attend) if terms == "mpnet" else ("attend_output", weighing.attend_output)
    monkeypatch.setattr(weighing, name, lambda q, k, v, mask, *more: right(q, k, v, None, *more))
    assert differing(both) == ["gradients"]


@pytest.mark.parametrize(
    ("mistake", "found_by"),
    [
        ("q and k swapped where the walk ends", {"one layer", "some heads", "together", "sums"}),
        ("q and k swapped in stats", {"sums", "sums of norms", "distances"}),
        ("keys as values in the fused kernel, masked", {"mask causal"}),
        ("mask never used in the fused kernel", {"mask causal"}),
        ("transposed W in norms: W_O", {"norms", "sums of norms"}),
        ("tokenizer drops the last token", {"tokens"}),
        ("segments forgotten", {"pair", "one layer"}),
        ("both parts of GPT-NeoX one after the other", {"one layer", "without", "gradients"}),
        ("queries and keys are normalised after the rotation", {"one layer", "vectors"}),
        ("key heads of a decoder in turns where the walk ends", {"one layer", "some heads"}),
        ("scores of Gemma 2 are not bounded in the formula", {"formula"}),
        ("scores of Gemma 2 are not bounded in gradients", {"gradients"}),
    ],
)
def test_a_mistake_is_found(tiny, mistake, found_by, monkeypatch):
    put_in_place(monkeypatch, MISTAKES[mistake])
    monkeypatch.setattr(ways, "WAYS", {name: WAYS[name] for name in WAYS if name in found_by})
    family = MISTAKES[mistake].options.get("-m", "bert")
    assert found_by == set(differing(both_of(tiny(family, max_position_embeddings=64))))


# --- what can't be compared -----------------------------------------------------------------------------


def test_where_there_is_nothing_on_the_other_side_it_says_so(tiny, monkeypatch):
    def nothing(both):
        raise NothingToCompare("there is none")

    def refused(both):
        raise RequestError("too large")

    monkeypatch.setattr(ways, "WAYS", {"one": Check("this", nothing), "two": Check("that", refused)})
    one, two = by_every_way(both_of(tiny(max_position_embeddings=64)))
    assert (one.difference, one.same, one.note) == (None, True, "there is none")
    assert math.isnan(two.difference) and not two.same and two.note == "too large"
    assert json.loads(json.dumps([one.document(), two.document()], allow_nan=False))[1]["difference"] is None


@pytest.mark.slow
def test_long_texts_and_many_go_as_far_as_they_must(tiny):
    directory = tiny(max_position_embeddings=200)
    loaded = load_model(str(directory), device="cpu", dtype="float64")
    inputs = [Input("the cat " * 80)] * 5
    whole = list(loaded.tokenize(inputs, None))
    both = Both(loaded, load_reference(directory, loaded.device, loaded.dtype), inputs, whole)
    assert [len(one) for one in both.texts] == [TOKENS] * TEXTS
    assert differing(both) == []


def test_a_gradient_is_the_slope_of_the_number(tiny):
    """Take a weighted sum of the last vectors, along the input vectors of the first layer."""
    directory = tiny("bert")
    model, reference = load_both(directory)
    tokens = model.tokenizer.encode("the cat sat on a mat")
    number = lambda last: (last * torch.arange(32)).sum()  # noqa: E731
    inputs, _ = their_gradients(reference, tokens, "padding", number)
    moved, step = [], 1e-6
    for away in (-step, step):
        hook = reference.network.embeddings.register_forward_hook(lambda *made, away=away: made[-1] * (1 + away))
        moved.append(number(reference.run(tokens, "padding")[1][-1]))
        hook.remove()
    assert float(inputs.sum()) == pytest.approx(float(moved[1] - moved[0]) / 2 / step, rel=1e-5)
