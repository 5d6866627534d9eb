"""Statistics from the network: beside plain loops over records, and whatever the order, the batch and the block."""

import math
import threading
import unicodedata
from itertools import islice

import numpy as np
import pytest
import torch
from windows import corpus

import attncli
from attncli import RequestError
from attncli.analysis.distances import divergence_sums
from attncli.analysis.shares import row_shares
from attncli.analysis.statistics import FIGURES, Sums
from attncli.analysis.words import merge_words
from attncli.models import statistics
from attncli.models.statistics import Reducer

TEXTS = [
    "The cat sat on the mat, and the dog did not.",
    "No.",
    "Unbelievably, he saw THE unbelievably fat cat: the cat!",
    "中国 is big, and it is not small.",
]


def sums_of(reducer, texts, begun=None) -> Sums:
    *_, counted = reducer.count(texts, reducer.nothing() if begun is None else begun)
    return counted.sums


def assert_same(found: Sums, expected: Sums, tolerance: float) -> None:
    assert (found.texts, found.queries) == (expected.texts, expected.queries)
    assert found.limit == pytest.approx(expected.limit)
    assert np.allclose(found.figures, expected.figures, rtol=tolerance, atol=tolerance)
    assert np.allclose(found.spread, expected.spread, rtol=tolerance, atol=tolerance)


# --- a plain loop ---------------------------------------------------------------------------------------


def words_of(tokens):
    """For every token the number of its word and, unless that is punctuation or [SEP], its letters."""
    letters: dict[int, str] = {}
    for text, word in zip(tokens.text, tokens.words, strict=True):
        if word is not None:
            letters[word] = letters.get(word, "") + text.removeprefix("##")
    return [(word, letters.get(word, "")) for word in tokens.words]


def is_mark(token: str) -> bool:
    return all(unicodedata.category(character)[0] in "PS" for character in token)


def plain_figures(weights, tokens, query: int) -> dict[str, float]:
    """The figures of one query of one head, from its row of weights."""
    found = dict.fromkeys(FIGURES, 0.0)
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
        if not mark and own is not None and own != other and text == same:
            found["same_word"] += weight
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
    means = [np.mean(text, axis=0) for text in rows]
    return np.mean([row for text in rows for row in text], axis=0), np.std(means, axis=0)


@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_statistics_equal_a_plain_loop_over_saved_records(minilm, tmp_path, mask):
    attncli.save_records(list(minilm.attend_many(TEXTS, mask=mask)), tmp_path / "maps.safetensors")
    figures, spread = plain_statistics(attncli.load_records(tmp_path / "maps.safetensors"))
    found = sums_of(Reducer(minilm, mask), corpus(minilm, TEXTS))
    assert found.texts == len(TEXTS)
    assert np.allclose(found.figures, figures, rtol=1e-6, atol=1e-6)
    assert np.allclose(found.spread, spread, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mask", ["padding", "causal"])
@pytest.mark.parametrize(("measure", "words"), [("norm", False), ("weight", True), ("norm", True)])
def test_norms_and_words_equal_a_plain_loop_over_records(minilm, measure, words, mask):
    records = minilm.attend_many(TEXTS, mask=mask, measure=measure)
    if words:
        records = map(merge_words, records)
    records = list(map(row_shares, records))
    figures, spread = plain_statistics(records)
    found = sums_of(Reducer(minilm, mask, measure=measure, words=words), corpus(minilm, TEXTS))
    assert (found.texts, found.queries) == (len(TEXTS), sum(len(record.tokens) for record in records))
    assert np.allclose(found.figures, figures, rtol=2e-6, atol=2e-6)
    assert np.allclose(found.spread, spread, rtol=2e-6, atol=2e-6)


def test_padding_never_counts(minilm):
    """A record with [PAD] has rows of it, which a plain loop must leave out to get the same."""
    records = [minilm.attend(TEXTS[0], pad_to=20)]
    real = len(minilm.tokenizer.encode(TEXTS[0]))
    figures, _ = plain_statistics(records, [range(real)])
    found = sums_of(Reducer(minilm), corpus(minilm, TEXTS[:1]))
    assert found.queries == real
    assert np.allclose(found.figures, figures, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra"])
def test_every_family_is_counted_as_its_records_are(tiny, family):
    model = attncli.load_model(str(tiny(family)), device="cpu", dtype="float64")
    texts = ["the cat sat on the cat", "it, too"]
    found = sums_of(Reducer(model), corpus(model, texts))
    weights = [record.weights for record in model.attend_many(texts)]
    strongest = np.concatenate([one.max(axis=-1) for one in weights], axis=-1).mean(axis=-1)
    assert found.figures[..., FIGURES.index("strongest")] == pytest.approx(strongest, abs=1e-6)


def test_windows_of_a_long_text_are_one_text(tiny):
    model = attncli.load_model(str(tiny()), device="cpu", dtype="float64")
    long = "the cat, and the cat. " * 12
    [cut] = texts = corpus(model, [long], stride=17)
    assert len(cut) > 2
    records = list(model.attend_tokens([window.tokens for window in cut]))
    figures, _ = plain_statistics(records, [range(*window.counted) for window in cut])
    found = sums_of(Reducer(model), texts)
    assert (found.texts, found.queries) == (1, sum(window.queries for window in cut))
    # Whether a word is the same is asked of the window here, as in the plain loop: it knows no other words.
    assert np.allclose(found.figures, figures, rtol=1e-6, atol=1e-6)
    assert np.allclose(found.spread, 0, atol=1e-6)


def test_words_of_a_long_text_are_each_counted_once_and_whole(tiny):
    """A plain loop over the words of every window; "embeddings" is many pieces in the tiny vocabulary."""
    model = attncli.load_model(str(tiny()), device="cpu", dtype="float64")
    long = "the embeddings, and the cat. " * 12
    [cut] = texts = corpus(model, [long], stride=17)
    assert len(cut) > 2
    records = [merge_words(record) for record in model.attend_tokens([window.tokens for window in cut])]
    figures, _ = plain_statistics(records, [range(*window.words.counted) for window in cut])
    found = sums_of(Reducer(model, words=True), texts)
    whole = model.tokenizer.backend.encode(long)
    assert found.queries == len({word for word in whole.word_ids if word is not None}) + 2 < len(whole)
    # A word that the end of a window cuts is the same word all the same: the plain loop knows no more than the rest.
    others = [place for place, name in enumerate(FIGURES) if name != "same_word"]
    assert np.allclose(found.figures[..., others], figures[..., others], rtol=1e-6, atol=1e-6)


# --- what changes nothing -------------------------------------------------------------------------------


MANY = [" ".join(["the cat sat on the big mat"] * (1 + number % 5)) + "." * (number % 3) for number in range(23)]


@pytest.mark.parametrize(
    "options", [{"batch_tokens": 1}, {"batch_tokens": 60}, {"block_weights": 1}, {"block_weights": 300}]
)
@pytest.mark.parametrize("asked", [{}, {"measure": "norm", "words": True}, {"mask": "causal", "words": True}])
def test_batch_and_block_change_nothing(minilm, options, asked):
    texts = corpus(minilm, [text.replace("big mat", "embeddings") for text in MANY])
    expected = sums_of(Reducer(minilm, distances=True, **asked), texts)
    found = sums_of(Reducer(minilm, distances=True, **asked, **options), texts)
    assert_same(found, expected, 1e-6)
    assert np.allclose(found.divergence / found.queries, expected.divergence / found.queries, atol=1e-6)


@pytest.fixture
def cores():
    """`cores(3)`: as on a machine with so many of them."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("asked", [{}, {"measure": "norm", "words": True, "distances": True}])
def test_how_many_cores_there_are_changes_nothing(minilm, cores, asked):
    texts = corpus(minilm, [*MANY, "the cat sat, " * 400])
    cores(1)
    expected = sums_of(Reducer(minilm, **asked), texts)
    cores(3)
    found = sums_of(Reducer(minilm, batch_tokens=100, **asked), texts)
    assert_same(found, expected, 1e-6)
    assert torch.get_num_threads() == 3


def test_who_stops_early_leaves_no_thread_behind(minilm, cores):
    cores(3)
    running = threading.active_count()
    reducer = Reducer(minilm, batch_tokens=20)
    counting = reducer.count(corpus(minilm, MANY), reducer.nothing())
    next(counting)
    assert threading.active_count() > running
    counting.close()
    assert threading.active_count() == running
    assert torch.get_num_threads() == 3


def test_the_order_of_texts_changes_nothing(minilm):
    assert_same(
        sums_of(Reducer(minilm), corpus(minilm, MANY[::-1])), sums_of(Reducer(minilm), corpus(minilm, MANY)), 1e-6
    )


@pytest.mark.parametrize("sorted_together", [1, 2, 23, 24])
def test_how_many_texts_are_sorted_together_changes_nothing(tiny, monkeypatch, sorted_together):
    model = attncli.load_model(str(tiny()), device="cpu", dtype="float64")
    expected = sums_of(Reducer(model), corpus(model, MANY))
    monkeypatch.setattr("attncli.models.packed.TEXTS_SORTED", sorted_together)
    assert_same(sums_of(Reducer(model), corpus(model, MANY)), expected, 1e-9)


@pytest.mark.parametrize("steps", [1, 2, 5, 9])
def test_going_on_is_as_if_it_had_not_stopped(tiny, steps):
    model = attncli.load_model(str(tiny()), device="cpu", dtype="float64")
    reducer = Reducer(model, distances=True, batch_tokens=40)
    texts = corpus(model, MANY, stride=3)
    *_, counted = islice(reducer.count(texts, reducer.nothing()), steps)
    assert 0 < counted.sums.texts < len(MANY)
    rest = [cut for cut in texts if counted.wants(cut[0].text)]
    assert len(rest) == len(MANY) - counted.sums.texts
    found, expected = sums_of(reducer, rest, counted), sums_of(reducer, texts)
    assert_same(found, expected, 1e-9)
    assert np.allclose(found.divergence, expected.divergence)


def test_no_more_weights_than_a_block_are_ever_there(tiny, monkeypatch):
    model = attncli.load_model(str(tiny(max_position_embeddings=400)), device="cpu")
    made = []

    def watched(weights, *others):
        made.append(weights.numel())
        return attend_into(weights, *others)

    attend_into = statistics.attend_into
    monkeypatch.setattr(statistics, "attend_into", watched)
    sums_of(Reducer(model, distances=True, block_weights=20_000), corpus(model, ["the cat " * 190]))
    assert max(made) <= 20_000 < 4 * 382**2


# --- in Python ------------------------------------------------------------------------------------------


def test_the_function_gives_the_figures_and_says_what_they_are_of(minilm):
    found = attncli.corpus_statistics(minilm, iter(TEXTS), mask="causal", measure="norm", words=True)
    sums = sums_of(Reducer(minilm, "causal", measure="norm", words=True), corpus(minilm, TEXTS))
    assert np.array_equal(found.figures, sums.figures) and np.array_equal(found.spread, sums.spread)
    assert (found.texts, found.tokens, found.distances) == (4, sums.queries, None)
    assert (found.mask, found.measure, found.words, found.partial) == ("causal", "share of norm", True, False)


@pytest.mark.parametrize(
    ("texts", "says"), [([], "no text in the corpus"), (["a cat", " "], "text 1: the text is empty")]
)
def test_a_corpus_with_nothing_in_it_is_refused(minilm, texts, says):
    with pytest.raises(RequestError, match=says):
        attncli.corpus_statistics(minilm, texts)


# --- distances and refusals -----------------------------------------------------------------------------


@pytest.mark.parametrize(("measure", "words"), [("weight", False), ("norm", False), ("weight", True), ("norm", True)])
def test_divergences_are_those_of_the_records(minilm, measure, words):
    found = sums_of(Reducer(minilm, distances=True, measure=measure, words=words), corpus(minilm, TEXTS))
    records = minilm.attend_many(TEXTS, measure=measure)
    shown = [row_shares(merge_words(record) if words else record) for record in records]
    expected = sum(divergence_sums(record.weights.reshape(72, *record.weights.shape[2:])) for record in shown)
    assert np.allclose(found.divergence, expected, atol=1e-4)
    assert found.divergence.max() / found.queries > 0.3


def test_scores_that_are_no_numbers_are_refused(tiny):
    model = attncli.load_model(str(tiny()), device="cpu")
    model.need(2)
    model.encoder.layer(1).attention.query.weight.fill_(math.nan)
    reducer = Reducer(model)
    with pytest.raises(RequestError, match="layer 1, head 0"):
        sums_of(reducer, corpus(model, ["the cat"]))


def test_a_mask_that_there_is_not(minilm):
    with pytest.raises(RequestError, match="padding, causal, none"):
        Reducer(minilm, "future")
