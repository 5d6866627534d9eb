"""Statistics inside transformers' networks are plain means over the maps of their own eager attention."""

import numpy as np
import pytest
import torch
from by_hand import ByHand
from slow import slow_except
from small_networks import make_small

from attncli import load_model
from attncli.corpus.reducer import corpus_statistics

TEXTS = ["the cat sat", "a big cat on the mat", "it", "on the mat"]
QUICK = [("gpt2", "decoder"), ("llama", "decoder")]
SLOW = [
    *((name, "decoder") for name in ("gemma3", "gemma2", "gpt_oss", "opt")),
    ("esm", "encoder"),
    ("t5", "encoder"),
    ("t5", "decoder"),
    ("bart", "encoder"),
    ("bart", "decoder"),
]
CASES = [
    {},
    {"words": True},
    {"measure": "norm"},
    {"measure": "norm", "words": True},
]


def between_words(maps, words):
    """Add up weights to the pieces of a word, average those from them; a token without a word stands alone."""
    groups = []
    for place, word in enumerate(words):
        if groups and word is not None and words[place - 1] == word:
            groups[-1].append(place)
        else:
            groups.append([place])
    summed = np.stack([maps[..., group].sum(axis=-1) for group in groups], axis=-1)
    return np.stack([summed[..., group, :].mean(axis=-2) for group in groups], axis=-2)


def entropy(rows):
    return -(rows * np.log(np.where(rows > 0, rows, 1))).sum(axis=-1)


@pytest.mark.parametrize("asked", slow_except(CASES, [CASES[0], CASES[-1]]), ids=str)
@pytest.mark.parametrize(("name", "part"), [*QUICK, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW)])
def test_statistics_are_means_over_eager_maps(tmp_path, name, part, asked):
    model = load_model(str(make_small(tmp_path, name)), device="cpu", engine="transformers")
    theirs = ByHand(model.place.path, part, torch.float32)
    found = corpus_statistics(model, TEXTS, which=part if theirs.paired else None, **asked)
    figures, means = [], []
    for text in TEXTS:
        ids = theirs.tokenizer(text).input_ids
        norms = asked.get("measure") == "norm"
        maps = (theirs.norms if norms else theirs.maps)(ids).double().numpy()
        if asked.get("words"):
            record = model.attend(text, **({"which": part} if theirs.paired else {}))
            maps = between_words(maps, record.tokens.words)
        if norms:
            maps = maps / maps.sum(axis=-1, keepdims=True)
        count = maps.shape[-1]
        back = np.subtract.outer(np.arange(count), np.arange(count))
        of_queries = {
            "entropy": entropy(maps),
            "strongest": maps.max(axis=-1),
            "distance": (maps * np.abs(back)).sum(axis=-1),
            "self": (maps * (back == 0)).sum(axis=-1),
            "previous": (maps * (back == 1)).sum(axis=-1),
            "next": (maps * (back == -1)).sum(axis=-1),
            "first": maps[..., 0],
        }
        figures.append(of_queries)
        means.append({key: one.mean(axis=-1) for key, one in of_queries.items()})
    assert found.texts == len(TEXTS) and found.tokens == sum(one["first"].shape[-1] for one in figures)
    for key in figures[0]:
        expected = np.concatenate([one[key] for one in figures], axis=-1).mean(axis=-1)
        np.testing.assert_allclose(found.figure(key), expected, atol=1e-5, err_msg=key)
        spread = np.std([one[key] for one in means], axis=0)
        place = list(found.heads[0].spread).index(key)
        np.testing.assert_allclose(found.spread[..., place], spread, atol=1e-3, err_msg=key)
    assert found.mask == ("causal" if part == "decoder" else "padding") and found.kind == part
