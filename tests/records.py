"""Records made up for tests, without a model."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from attncli.analysis.difference import Difference
from attncli.effects.asking import MeasuredOutput
from attncli.features.ablate import Ablation
from attncli.features.cut import EdgeEffects
from attncli.features.diff import ComparedRecords
from attncli.features.similar import Similarity
from attncli.record import AttentionRecord, ModelInfo
from attncli.report.page import page_of
from attncli.text.tokens import Tokens

WORDS = ("cat", "##s", "中", "[x]", "é", "the", "sat")


def tokens_of(length: int, padding: int = 0) -> Tokens:
    """[CLS] words [SEP] [PAD] ..., `length` tokens in all."""
    real = length - padding
    text = ["[CLS]", *(WORDS[place % len(WORDS)] for place in range(real - 2)), "[SEP]", *["[PAD]"] * padding]
    special = [token in ("[CLS]", "[SEP]", "[PAD]") for token in text]
    return Tokens(
        text=text,
        ids=list(range(length)),
        segments=[0] * length,
        words=[None if flag else place - 1 for place, flag in enumerate(special)],
        offsets=[(0, 0) if flag else (place, place + 1) for place, flag in enumerate(special)],
        special=special,
        padding=[token == "[PAD]" for token in text],
    )


def tokens(text, words, segments=None, special=None) -> Tokens:
    """These pieces, each with the number of its word; None is what the tokenizer added."""
    count = len(text)
    special = [word is None for word in words] if special is None else special
    return Tokens(
        text=list(text),
        ids=list(range(count)),
        segments=list(segments or [0] * count),
        words=list(words),
        offsets=[(place, place + 1) for place in range(count)],
        special=special,
        padding=[token == "[PAD]" for token in text],
    )


def record_of(weights, mask=None, mask_name: str = "padding", padding: int = 0) -> AttentionRecord:
    """A record of weights `[query, key]` or `[layer, head, query, key]`, numbered from 0.

    mask: `[query, key]`, or `[layer, query, key]` where every layer has its own.
    """
    weights = np.asarray(weights, dtype=np.float32)
    weights = weights.reshape(-1, *weights.shape[-3:]) if weights.ndim > 2 else weights[None, None]
    layers, heads, length, _ = weights.shape
    tokens = tokens_of(length, padding)
    if mask is None:
        mask = np.broadcast_to(~np.array(tokens.padding), (length, length))
    return AttentionRecord(
        weights=weights,
        layers=list(range(layers)),
        heads=list(range(heads)),
        tokens=tokens,
        masks=mask,
        mask_name=mask_name,
        model=ModelInfo("made-up", "/made/up", "0" * 64, layers, heads, 8 * heads),
    )


@st.composite
def attention_records(draw, padding: int = 0) -> AttentionRecord:
    """Records of random sizes, whose rows sum to 1 and give [PAD] nothing."""
    layers, heads = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    length = draw(st.integers(3, 14)) + padding
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = numbers.random((layers, heads, length, length)) ** draw(st.sampled_from([1, 8]))
    weights[..., length - padding :] = 0
    return record_of(weights / weights.sum(axis=-1, keepdims=True), padding=padding)


@st.composite
def layered_records(draw, padding: int = 0) -> AttentionRecord:
    """Records whose layers have masks of their own, no two the same; all that may be attended to has some weight."""
    layers, heads = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    length = draw(st.integers(3, 9)) + padding
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    masks = numbers.random((layers, length, length)) < draw(st.sampled_from([0.2, 0.5, 0.9]))
    masks[..., length - padding :] = False
    masks[:, 0, :3] = [[number & 4, number & 2, number & 1] for number in numbers.permutation(8)[:layers]]
    raised = (numbers.random((layers, heads, length, length)) + 0.01) * masks[:, None]
    sums = raised.sum(axis=-1, keepdims=True)
    return record_of(np.divide(raised, sums, out=raised, where=sums > 0), masks, padding=padding)


@st.composite
def cross_records(draw) -> AttentionRecord:
    """Records of a cross-attention: what is written looks at what was read, which has another length."""
    record = draw(attention_records())
    keys = draw(st.integers(2, 14))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = numbers.random((*record.weights.shape[:3], keys), dtype=np.float32)
    return replace(
        record,
        weights=weights / weights.sum(axis=-1, keepdims=True),
        masks=np.ones((len(record.tokens), keys), dtype=bool),
        key_tokens=tokens_of(keys),
        kind="cross",
    )


def similarity_of(cells, first: Tokens, second: Tokens, **changes) -> Similarity:
    """A cosine taken apart into these contributions, with effects of two layers of two heads."""
    model = ModelInfo("made-up", None, None, 2, 2, 4)
    effects = np.array([[0.1, -0.2], [0.0, 0.05]])
    made = Similarity(
        texts=("a", "b"),
        model=model,
        cosine=float(cells.sum()),
        tokens=first,
        key_tokens=second,
        contributions=cells,
        pooling=["mean"],
        biased=False,
        effects=Ablation(
            model=model,
            answer=MeasuredOutput("cosine", "cosine of the embeddings of the two texts", float(cells.sum())),
            layers=[0, 1],
            heads=[0, 1],
            ways=["zero"],
            effects=effects[None, None],
            of_layers=effects.sum(axis=1)[None, None],
            together=effects.sum()[None, None],
            importance=None,
        ),
    )
    return replace(made, **changes)


def an_ablation() -> Ablation:
    """Two layers of three heads, silenced in two ways, on a text whose question is hostile."""
    effects = np.random.default_rng(0).normal(size=(1, 2, 2, 3))
    sums = effects.sum(axis=-1)
    answer = MeasuredOutput("cosine", "cosine with <b>", 0.5)
    model = record_of(np.eye(3)).model
    return Ablation(model, answer, [1, 4], [0, 2, 5], ["zero", "mean"], effects, sums, sums.sum(axis=-1), None)


def page_of_two(found: Difference) -> str:
    """Return the page of `attncli diff`."""
    report = ComparedRecords(found).report()
    return page_of(report.title, report.parts)


def ablation_page(found: Ablation) -> str:
    """Return the page of silenced heads."""
    report = found.report()
    return page_of(report.title, report.parts)


def edges_page(found: EdgeEffects) -> str:
    """Return the page of cut edges."""
    report = found.report()
    return page_of(report.title, report.parts)


def cut_edges() -> EdgeEffects:
    """Make the effects of edges from two queries to four keys, one of which a mask hides from the first."""
    record = record_of(np.full((2, 1, 4, 4), 0.25))
    effects = np.random.default_rng(0).normal(size=(2, 4)) / 100
    effects[0, 3] = np.nan
    answer = MeasuredOutput("logit", "logit of cat", 1.5)
    return EdgeEffects(record, answer, False, [1, 2], [0, 1, 2, 3], effects, ~np.isnan(effects))
