"""The rule for a label, and the measures on maps."""

import json
from dataclasses import replace

import numpy as np
import pytest
from records import record_of

from attncli.analysis.kinds import (
    KINDS,
    Judged,
    KindMeasure,
    content_shift,
    exclude_labelled,
    labels_of,
    load_kinds,
    mean_at,
    offset_samples,
    with_kinds,
)
from attncli.analysis.significance import LEVEL
from attncli.base.errors import RequestError

HEADS = (6, 12)
DIGEST = "ab" * 32


def judged(kind, *measures):
    return Judged(KINDS[kind], measures)


def of_draws(score, null=0.05, noise=0.01, least=0.3, draws=12, seed=0):
    draw = np.random.default_rng(seed)
    samples = np.broadcast_to(score, HEADS) + noise * draw.normal(size=(draws, *HEADS))
    return KindMeasure.of("maps", samples, null + noise * draw.normal(size=(draws, *HEADS)), least)


def scores(**by_head):
    made = np.full(HEADS, 0.05)
    for name, score in by_head.items():
        layer, head = name[1:].split("_")
        made[int(layer), int(head)] = score
    return made


def test_a_head_far_above_chance_gets_the_label_and_a_small_effect_does_not():
    measure = of_draws(scores(h1_2=0.9, h3_4=0.25))
    assert judged("previous", measure).heads == [(1, 2)]
    assert measure.low[3, 4] > measure.null[3, 4]  # above chance, and too little


def test_a_large_score_that_may_be_luck_gets_no_label():
    assert judged("previous", of_draws(scores(h1_2=0.6), noise=0.3)).heads == []


def test_every_measure_of_a_kind_has_to_hold():
    one, other = of_draws(scores(h1_2=0.9, h3_4=0.8)), of_draws(scores(h3_4=0.7))
    assert judged("induction", one, other).heads == [(3, 4)]


def test_shuffled_matrices_raise_the_floor():
    measure, shuffled = of_draws(scores(h1_2=0.9, h3_4=0.5)), of_draws(scores(h0_0=0.6))
    assert judged("sink", measure).heads == [(1, 2), (3, 4)]
    assert judged("sink", measure.with_floor(shuffled)).heads == [(1, 2)]


def test_a_head_with_another_label_is_neither_content_nor_idle():
    active, content, idle = exclude_labelled(
        [
            judged("retrieval", of_draws(scores(h1_2=0.9))),
            judged("content", of_draws(scores(h1_2=0.9, h3_4=0.9))),
            judged("idle", of_draws(scores(h1_2=0.9, h3_4=0.9, h0_0=0.9))),
        ]
    )
    assert (active.heads, content.heads, idle.heads) == ([(1, 2)], [(3, 4)], [(0, 0)])
    assert labels_of([active, content, idle]) == {(0, 0): ["idle"], (1, 2): ["retrieval"], (3, 4): ["content"]}


@pytest.mark.slow
def test_intervals_of_all_heads_and_kinds_hold_together():
    """Where nothing is above its null, one network in 20 has an interval above it, over as many kinds as there are."""
    above = [
        any((of_draws(0.05, noise=0.1, least=0.0, seed=seed * 100 + kind).holds).any() for kind in range(len(KINDS)))
        for seed in range(60)
    ]
    assert np.mean(above) <= 2 * LEVEL


@pytest.mark.parametrize("texts", [3, 12])
def test_means_over_texts_and_draws_have_one_interval(texts):
    samples = np.random.default_rng(0).normal(0.5, 0.1, (texts, *HEADS))
    drawn = KindMeasure.of("maps", samples, np.zeros_like(samples), 0.3)
    summed = KindMeasure.of_texts("texts", samples.mean(0), samples.std(0), texts, np.zeros((6, 1)), 0.3)
    np.testing.assert_allclose(summed.low, drawn.low, atol=1e-12)
    np.testing.assert_allclose(summed.high, drawn.high, atol=1e-12)


def test_maps_that_move_with_the_words():
    fixed = np.broadcast_to(np.eye(6), (5, 1, 1, 6, 6))
    assert np.allclose(content_shift(fixed), 0)
    disjoint = np.zeros((5, 1, 1, 6, 6))
    for draw in range(5):
        disjoint[draw, ..., draw] = 1
    assert np.allclose(content_shift(disjoint), 1)


def test_the_best_distance_is_chosen_on_other_draws():
    noise = np.random.default_rng(0).random((12, 14, *HEADS))
    scores_of_noise, others = offset_samples(noise)
    assert abs((scores_of_noise - others).mean()) < 0.02  # the best on the same draws would be 0.4 above
    profile = np.zeros((12, 14, *HEADS))
    profile[:, 3] = 1.0
    found, rest = offset_samples(profile)
    assert (found == 1).all() and (rest == 0).all()


def test_the_mean_weight_at_a_distance():
    maps = np.arange(25.0).reshape(5, 5)
    assert mean_at(maps, range(1, 4), -1) == np.mean([maps[1, 0], maps[2, 1], maps[3, 2]])


def test_a_file_of_kinds_names_heads_of_its_model_and_part(tmp_path):
    path, heads = tmp_path / "kinds.json", [{"layer": 1, "head": 2, "labels": "induction,sink"}]
    written = {"model": {"name": "made-up", "sha256": DIGEST}, "part": "decoder", "measured": "2026-11-28"}
    path.write_text(json.dumps({**written, "heads": heads}))
    record = record_of(np.full((2, 3, 2, 2), 0.5))
    model = replace(record.model, sha256=DIGEST)
    known = with_kinds(replace(record, model=model, kind="decoder"), load_kinds(path)).kinds
    assert known.heads == {(1, 2): ["induction", "sink"]} and known.origin == "attncli kinds, 2026-11-28"
    for other in (
        replace(record, model=model),
        replace(record, model=replace(model, sha256="cd" * 32), kind="decoder"),
        replace(record, model=replace(model, changes="without 0.1"), kind="decoder"),
    ):
        with pytest.raises(RequestError, match="--kinds has labels for the decoder attention of made-up"):
            with_kinds(other, load_kinds(path))
    path.write_text(json.dumps({**written, "heads": [{**heads[0], "labels": "\x1b[2J,sink"}]}))
    assert load_kinds(path).heads == {(1, 2): ["sink"]}
    for damaged in ("", "[]", json.dumps(written), json.dumps({**written, "measured": "today", "heads": heads})):
        path.write_text(damaged)
        with pytest.raises(RequestError, match="is not a file of kinds: make one with attncli kinds -o"):
            load_kinds(path)
