"""Sums of batches: beside plain loops over records, and never more weights in memory than a block."""

import math
import unicodedata
import warnings

import numpy as np
import pytest
import torch
from slow import slow_except
from windows import corpus, sums_of

import attncli
from attncli import RequestError
from attncli.analysis.patterns import row_shares
from attncli.corpus.batch_sums import sum_statistics
from attncli.corpus.reducer import Pace, Reducer
from attncli.corpus.sums import FIGURES, Counting
from attncli.models import weighing
from attncli.record.grouping import merge_words

TEXTS = [
    "The cat sat on the mat, and the dog did not.",
    "No.",
    "Unbelievably, he saw THE unbelievably fat cat: the cat!",
    "中国 is big, and it is not small.",
]


def words_of(tokens):
    """Return each token's word number and, unless it is punctuation or [SEP], its letters."""
    letters: dict[int, str] = {}
    for text, word in zip(tokens.text, tokens.words, strict=True):
        if word is not None:
            letters[word] = letters.get(word, "") + text.removeprefix("##")
    return [(word, letters.get(word, "")) for word in tokens.words]


def is_mark(token: str) -> bool:
    return all(unicodedata.category(character)[0] in "PS" for character in token)


def plain_figures(weights, tokens, query: int) -> dict[str, float]:
    """The figures of one query of one head, from its row of weights."""
    found = {**dict.fromkeys(FIGURES, 0.0), "same_word": np.nan}  # of a query whose word is nowhere else
    words = words_of(tokens)
    for key, weight in enumerate(weights):
        weight = float(weight)
        found["entropy"] -= weight * math.log(weight) if weight > 0 else 0.0
        found["strongest"] = max(found["strongest"], weight)
        found["distance"] += weight * abs(query - key)
        for name, place in (("self", query), ("previous", query - 1), ("next", query + 1), ("first", 0)):
            found[name] += weight if key == place else 0.0
        found["cls"] += weight if tokens.text[key] == "[CLS]" else 0.0
        found["separator"] += weight if tokens.text[key] == "[SEP]" else 0.0
        mark = not tokens.special[key] and is_mark(tokens.text[key])
        found["punctuation"] += weight if mark else 0.0
        (own, text), (other, same) = words[query], words[key]
        if not mark and own is not None and own != other and text == same and weight > 0:
            found["same_word"] = weight + np.nan_to_num(found["same_word"])
    return found


def plain_statistics(records, queries=None):
    """Means over all queries, and the standard deviation of the texts' means: `[layer, head, figure]` each."""
    rows: list[list[np.ndarray]] = []
    for number, record in enumerate(records):
        rows.append([])
        for query in range(len(record.tokens)) if queries is None else queries[number]:
            every = [
                [
                    list(plain_figures(record.map(layer, head)[query], record.tokens, query).values())
                    for head in record.heads
                ]
                for layer in record.layers
            ]
            rows[-1].append(np.array(every))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of texts without a word that is there twice
        means = [np.nanmean(text, axis=0) for text in rows]
        return np.nanmean([row for text in rows for row in text], axis=0), np.nanstd(means, axis=0)


@pytest.mark.parametrize("mask", slow_except(["padding", "causal"], ["causal"]))
@pytest.mark.parametrize(("measure", "words"), [("weight", False), ("norm", False), ("weight", True), ("norm", True)])
def test_statistics_equal_a_plain_loop_over_records(minilm, measure, words, mask):
    records = minilm.attend_many(TEXTS, mask=mask, measure=measure)
    if words:
        records = map(merge_words, records)
    records = list(map(row_shares, records))
    figures, spread = plain_statistics(records)
    found = sums_of(Reducer(minilm, Counting(mask, measure=measure, words=words)), corpus(minilm, TEXTS))
    assert (found.texts, found.queries) == (len(TEXTS), sum(len(record.tokens) for record in records))
    assert np.allclose(found.figures, figures, rtol=2e-6, atol=2e-6)
    assert np.allclose(found.spread, spread, rtol=2e-6, atol=2e-6)


def test_words_of_a_long_text_are_each_counted_once_and_whole(tiny):
    """A plain loop over the words of every window; "embeddings" is many pieces in the tiny vocabulary."""
    model = attncli.load_model(str(tiny()), device="cpu", dtype="float64")
    long = "the embeddings, and the cat. " * 12
    cut = corpus(model, [long], stride=17)
    assert len(cut) > 2
    records = [merge_words(record) for record in model.attend_tokens([window.tokens for window in cut])]
    figures, _ = plain_statistics(records, [range(*window.in_words.counted) for window in cut])
    found = sums_of(Reducer(model, Counting(words=True)), cut)
    whole = model.tokenizer.backend.encode(long)
    assert found.queries == len({word for word in whole.word_ids if word is not None}) + 2 < len(whole)
    # A word that the end of a window cuts is the same word all the same: the plain loop knows no more than the rest.
    others = [place for place, name in enumerate(FIGURES) if name != "same_word"]
    assert np.allclose(found.figures[..., others], figures[..., others], rtol=1e-6, atol=1e-6)


def test_no_more_weights_than_a_block_are_ever_there(tiny, monkeypatch):
    model = attncli.load_model(str(tiny(max_position_embeddings=400)), device="cpu")
    made = []

    def watched(weights, *others):
        made.append(weights.numel())
        return attend_into(weights, *others)

    attend_into = weighing.attend_into
    monkeypatch.setattr(weighing, "attend_into", watched)
    sums_of(
        Reducer(model, pace=Pace.on("cpu", block_weights=20_000)),
        corpus(model, ["the cat " * 190]),
    )
    assert max(made) <= 20_000 < 4 * 382**2


def test_scores_that_are_no_numbers_are_refused(tiny):
    model = attncli.load_model(str(tiny()), device="cpu")
    model.need(2)
    model.network.layer(1).attention.query.bias.fill_(math.nan)
    reducer = Reducer(model)
    with pytest.raises(RequestError, match="layer 1, head 0"):
        sums_of(reducer, corpus(model, ["the cat"]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_added_up_in_single(dtype):
    ones = torch.full((1, 2, 64, 64), 1 / 64, dtype=dtype)
    made = sum_statistics(
        ones, torch.empty_like(ones), torch.ones(1, 1, 64, 64), torch.ones(1, 1, 64, dtype=torch.bool)
    )
    assert made.dtype == torch.float32
    assert made[0, 0].tolist() == pytest.approx([64 * np.log(64), 1.0, 64.0], rel=1e-3)
