"""A cosine that was taken apart: words, pairs, and what is between the sum and the cosine."""

import numpy as np
import pytest
from records import similarity_of, tokens

from attncli.analysis.similarity import Cosines, References

CELLS = np.array([[0.1, 0.02, 0.0], [0.2, -0.3, 0.05]])
FIRST, SECOND = tokens(["un", "##able"], [0, 0]), tokens(["the", "cat", "##s"], [0, 1, 1])


def made(**changes):
    return similarity_of(CELLS, FIRST, SECOND, **changes)


def test_the_difference_is_that_of_the_sum_and_the_cosine():
    assert (made(cosine=0.07).sum, made(cosine=0.06).difference) == pytest.approx((0.07, 0.01))


def test_terms_of_references_belong_to_the_sum():
    """cos(a, b) = Σ + cos(r_a, b) + cos(a, r_b) - cos(r_a, r_b)"""
    found = made(cosine=0.5, references=References(first=0.4, second=0.3, both=0.25, steps=8, half_difference=0.1))
    assert (found.sum, found.difference) == pytest.approx((0.07 + 0.45, 0.02))


def test_words_add_up_what_their_pieces_contribute():
    merged = made().merged()
    np.testing.assert_allclose(merged.contributions, [[0.3, -0.23]])
    assert (merged.tokens.text, merged.key_tokens.text) == (["unable"], ["the", "cats"])
    assert merged.sum == pytest.approx(made().sum)


def test_the_strongest_pairs_are_those_of_the_largest_size():
    assert made().strongest(3) == [(1, 1, -0.3), (1, 0, 0.2), (0, 0, 0.1)]
    assert len(made().strongest(100)) == CELLS.size


def test_the_document_and_its_rows():
    found = made(cosine=0.07)
    document = found.document()
    assert document["contributions"] == CELLS.tolist() and document["cosine"] == 0.07
    assert (document["credited"], document["tokens"], document["key_tokens"]) == ("vectors", FIRST.text, SECOND.text)
    assert "references" not in document and len(document["effects"]) == 4
    rows = list(found.rows())
    assert len(rows) == CELLS.size
    assert rows[4] == {"index": 1, "key_index": 1, "token": "##able", "key_token": "cat", "contribution": -0.3}
    references = References(0.4, 0.3, 0.25, 8, 0.1)
    of_inputs = made(references=references).document()
    assert of_inputs["credited"] == "inputs"
    assert of_inputs["references"] == {"first": 0.4, "second": 0.3, "both": 0.25, "steps": 8, "half_difference": 0.1}


def test_cosines_of_texts():
    values = np.array([[1, 0.5], [0.5, 1]])
    found = Cosines(made().model, ["a", "b"], values)
    assert found.document() == {"model": found.model.document(), "texts": ["a", "b"], "cosines": values.tolist()}
    assert list(found.rows())[1] == {"text": 0, "other": 1, "cosine": 0.5}
