"""The size of a page that is told before it is built is that of the page, to a fifth."""

import pytest

from attncli.page import expected_size, page

TEXT = "The trophy does not fit in the suitcase because it is too big."
LONG = " ".join([TEXT, "The cat sat on the mat, and the dog did not mind it at all."] * 5)


def off(records):
    """Return the relative error of the expected size."""
    return expected_size(records) / len(page(records)) - 1


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (TEXT, {}),
        (TEXT, {"vectors": "all"}),
        (TEXT, {"layers": 3, "heads": 1}),
        (TEXT, {"layers": 3, "heads": 1, "pad_to": 200}),
        (TEXT, {"measure": "norm"}),
        (LONG, {"layers": [0, 5]}),
        (LONG, {"layers": [0, 5], "mask": "causal"}),
        (LONG, {"layers": 2, "heads": 7, "mask": "causal"}),
    ],
)
def test_of_one_record(minilm, text, asked):
    assert abs(off([minilm.attend(text, **asked)])) < 0.1


def test_of_several_texts_and_masks(minilm):
    texts = [TEXT, "It rains.", LONG]
    records = [minilm.attend(text, layers=[1, 4], mask=mask) for text in texts for mask in ("none", "causal")]
    assert abs(off(records)) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{}, {"mask": "causal"}, {"layers": [0, 3], "vectors": "all"}])
def test_of_as_many_tokens_as_the_model_takes(minilm, asked):
    assert abs(off([minilm.attend(" ".join([LONG] * 4), **asked)])) < 0.2


@pytest.mark.slow
def test_of_many_texts_only_some_layers_are_tried(minilm, monkeypatch):
    records = list(minilm.attend_many([f"{TEXT} {LONG}"] * 6))
    whole = expected_size(records)
    monkeypatch.setattr("attncli.page.document.ENOUGH", 1_000_000)
    assert expected_size(records) == pytest.approx(whole, rel=0.1)
