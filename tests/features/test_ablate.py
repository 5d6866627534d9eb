"""Ablation: on networks whose answer is known, beside finite differences, and on real texts."""

from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch
from checkpoints import EACH, make_checkpoint
from safetensors.torch import load_file, save_file

from attncli import load_model
from attncli.analysis.significance import mean_interval, student_quantile
from attncli.effects.change import Unchanged, head_outputs, silence
from attncli.effects.gradients import gate_gradients
from attncli.effects.question import Asking, make_question
from attncli.features.ablate import COVERED, ablate
from attncli.models.taps import Gates
from attncli.models.transformers_peer import load_reference

SAMPLES = Path(__file__).parents[2] / "sample_inputs"
TEXT, OTHER = "the cat sat on it", "un believ able, the big cat"
ROUNDING = 1e-12
REFERENCE = ["the cat sat", "it, too, is on the big cat"]


@pytest.fixture(scope="module")
def speaker(tmp_path_factory):
    """A classifier in which one head, 2.1, is joined to the rest, and the others are not."""
    folder = make_checkpoint(tmp_path_factory.mktemp("speaker"), "bert", head="ForSequenceClassification")
    tensors = load_file(folder / "model.safetensors")
    for layer in range(4):
        columns = tensors[f"bert.encoder.layer.{layer}.attention.output.dense.weight"]
        for head in range(4):
            if (layer, head) != (2, 1):
                columns[:, 8 * head : 8 * (head + 1)] = 0
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return load_model(str(folder), device="cpu", dtype="float64")


@pytest.mark.parametrize("kind", ["divergence", "logit", "probability", "distance"])
def test_a_head_that_does_nothing_has_no_effect_and_the_one_that_speaks_has_all(speaker, kind):
    target = "LABEL_1" if kind in ("logit", "probability") else None
    found = ablate(speaker, TEXT, way="zero,mean,resample", ask=kind, target=target, reference=REFERENCE)
    effects = found.effects[0]
    for way, name in enumerate(found.ways):
        assert abs(effects[way, 2, 1]) > 1e-4, name
        assert np.count_nonzero(abs(effects[way]) > ROUNDING) == 1, name
        np.testing.assert_allclose(found.together[0, way], effects[way, 2, 1], rtol=1e-9)
        np.testing.assert_allclose(found.of_layers[0, way, 2], effects[way, 2, 1], rtol=1e-9)
    assert len({f"{effect:.9f}" for effect in effects[:, 2, 1]}) == 3  # the ways are three
    if found.importance is not None:
        assert found.importance[2, 1] > 1e-6 and np.count_nonzero(found.importance > ROUNDING) == 1
    else:
        assert kind in ("divergence", "distance")


@pytest.mark.parametrize("family", EACH)
def test_importance_is_the_slope_that_finite_differences_find(tmp_path, family):
    folder = make_checkpoint(tmp_path, family, head="ForSequenceClassification")
    model = load_model(str(folder), device="cpu", dtype="float64")
    question = make_question(model, TEXT, Asking(target="LABEL_0", ask="logit"))
    slopes, step = gate_gradients(question), 1e-5
    [text] = question.texts
    for head in [(0, 0), (1, 3), (2, 2), (3, 1)]:
        ends = [Unchanged.of(model, text.tokens, taps=[Gates({head: 1 + side * step})]).last for side in (1, -1)]
        more, less = (float(question([end])[0]) for end in ends)
        assert slopes[head].item() == pytest.approx((more - less) / (2 * step), rel=1e-5, abs=1e-9)


def test_the_reference_is_what_heads_give_to_the_projection_in_transformers(tiny):
    """Means over all real tokens, head by head; draws are of these tokens, all heads at the same ones."""
    model = load_model(str(tiny("bert")), device="cpu")
    texts = [model.tokenizer.encode("the cat sat"), model.tokenizer.encode(OTHER, pad_to=24)]
    theirs, joined = load_reference(model.place.path, model.device, model.dtype), []
    for layer in theirs.network.encoder.layer:
        layer.attention.output.dense.register_forward_pre_hook(lambda module, given: joined.append(given[0][0]))
    for text in texts:
        theirs.run(text, "padding")
    real = [torch.tensor([not padding for padding in text.padding]) for text in texts]
    expected = torch.stack(
        [torch.cat([joined[layer][real[0]], joined[4 + layer][real[1]]]).unflatten(1, (4, -1)) for layer in range(4)]
    )
    found = head_outputs(model, texts)
    torch.testing.assert_close(found.means, expected.mean(dim=1), atol=1e-5, rtol=0)
    drawn = found.draw(50, 0)
    apart = (drawn[:, :, None] - expected[:, None]).abs().amax(dim=(0, 3, 4))  # [draw, token], of all layers and heads
    assert float(apart.amin(dim=1).max()) < 1e-5 and len(set(apart.argmin(dim=1).tolist())) > 10


def test_several_texts_have_means_intervals_and_curves(tiny):
    """An order is made by every second text, and measured on the others."""
    model = load_model(str(tiny("bert")), device="cpu")
    texts = ["the cat sat on it", "it is too big", "un believ able", "the big cat"]
    found = ablate(model, texts, layer="1,2")
    alone = [ablate(model, text, layer="1,2").effects[0] for text in texts]
    np.testing.assert_allclose(found.effects, alone, atol=1e-6)
    low, high = found.interval()
    assert (low <= found.mean).all() and (found.mean <= high).all() and (low < high).all()
    curves = {curve.by: curve for curve in found.curves}
    assert set(curves) == {"effect", "random"} and curves["random"].effects.shape == (5, 8)
    order = curves["effect"].heads
    sizes = {(layer, head): found.effects[::2, 0].mean(0)[layer - 1, head] for layer, head in order}
    assert [sizes[head] for head in order] == sorted(sizes.values())
    for curve in found.curves:  # all heads gone is the same in whatever order
        np.testing.assert_allclose(curve.effects[:, -1], found.together[1::2].mean(), atol=1e-6)
    assert abs(found.together[1::2].mean() - found.together[::2].mean()) > 1e-3


def test_more_lines_than_it_takes_are_refused(refused, tmp_path, monkeypatch):
    monkeypatch.setattr("attncli.features.ablate.MOST_TEXTS", 2)
    (tmp_path / "lines.txt").write_text("a\nb\nc\n", encoding="utf-8")
    said = refused("ablate", "-f", tmp_path / "lines.txt")
    assert "has 3 texts; ablate takes at most 2. Cut the file with head -n 2." in said


def test_two_texts_have_no_interval(minilm):
    found = ablate(minilm, ["The cat sat.", "It rained."], layer="5", head="0")
    assert found.interval() is None and "interval" not in found.document()["effects"][0]
    three = ablate(minilm, ["The cat sat.", "It rained.", "Why?"], layer="5", head="0")
    assert three.interval()[0][0, 0, 0] == 0 < three.interval()[1][0, 0, 0]  # a distance is not below 0
    assert three.document()["effects"][0]["interval"] == [float(end[0, 0, 0]) for end in three.interval()]


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 11, 30, 100, 1000, 10**6])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 0.96, 0.99])
def test_quantiles_of_students_distribution_are_scipys(freedom, share):
    assert student_quantile(share, freedom) == pytest.approx(scipy.stats.t.ppf(0.5 + share / 2, freedom), rel=1e-6)


def coverage(draw, mean):
    """Return the share of draws `[sample, draw, ...]` whose interval contains the mean."""
    low, high = mean_interval(draw, COVERED)
    return float(np.mean((low <= mean) & (mean <= high)))


@pytest.fixture(scope="module")
def sentences():
    lines = (SAMPLES / "treebank.conllu").read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]


@pytest.mark.slow
@pytest.mark.parametrize("asking", [Asking(), Asking(similar_to="A cat sits on a rug.")])
def test_the_interval_holds_the_mean_of_real_effects(minilm, sentences, asking):
    """Texts drawn from 40 sentences, whose mean is known; over the heads of two layers."""
    heads, changes = [(layer, head) for layer in (2, 5) for head in range(12)], []
    for text in sentences:
        question = make_question(minilm, text, asking)
        changes.append(question.effects([silence([head]) for head in heads]))
    effects, random = np.array(changes), np.random.default_rng(0)
    for texts in (3, 5, 12):
        draw = effects[random.integers(len(effects), size=(texts, 4000))]
        assert 0.93 <= coverage(draw, effects.mean(axis=0)) <= 0.97, texts


def test_one_command_saves_several_files(attncli, tmp_path):
    done = attncli("ablate", "The cat sat.", "-l", "3", "-o", str(tmp_path / "a.pdf"), "-o", str(tmp_path / "a.csv"))
    assert (done.code, len(done.out.splitlines())) == (0, 2)
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "a.csv").read_text().startswith("layer,head,way,")
