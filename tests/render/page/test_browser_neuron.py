"""Neuron in a real browser: from q and k to weights, with the numbers of the record."""

from dataclasses import replace

import numpy as np
import pytest
from records import record_of

from attncli.record import Vectors

pytestmark = pytest.mark.slow

SIZE = 8  # of a head
PLUS, MINUS = "#c2410c", "#2563eb"


@pytest.fixture
def record():
    """Two layers of two heads whose weights are made of their q and k; heads 0.1 and 1.0 have them with them."""
    numbers = np.random.default_rng(5)
    query, key = numbers.normal(size=(2, 2, 2, 9, SIZE)).astype(np.float32)
    scaled = query @ key.swapaxes(-1, -2) / np.sqrt(SIZE)
    mask = np.tril(np.ones((9, 9), dtype=bool))
    raised = np.exp(scaled) * mask
    made = record_of(raised / raised.sum(axis=-1, keepdims=True), mask=mask, mask_name="causal")
    chosen = [(0, 1), (1, 0)]
    return replace(
        made,
        vectors=Vectors(chosen, np.stack([query[one] for one in chosen]), np.stack([key[one] for one in chosen])),
    )


def bars(opened):
    """What stands beside each key."""
    return {int(bar["key"]): bar for bar in opened.marks("rect") if "score" in bar}


@pytest.mark.parametrize("layer, head", [(0, 1), (1, 0)])
def test_score_scaled_score_and_weight_are_those_of_the_records_q_and_k(opened, record, layer, head):
    page = opened(record, f"#view=neuron&layer={layer}&head={head}&token=6")
    query, key = record.vectors.of(layer, head)
    score = key @ query[6]
    drawn = bars(page)
    assert list(drawn) == list(range(7))  # the mask hides the rest
    for place, bar in drawn.items():
        assert bar["query"] == 6
        assert bar["score"] == pytest.approx(score[place], abs=1e-5)
        assert bar["scaled"] == pytest.approx(score[place] / np.sqrt(SIZE), abs=1e-5)
        assert bar["weight"] == pytest.approx(record.map(layer, head)[6, place], abs=1e-5)
    widths, weights = np.array([bar["width"] for bar in drawn.values()]), record.map(layer, head)[6, :7]
    assert widths / widths.max() == pytest.approx(weights / weights.max(), abs=0.02)


def test_terms_and_another_scale_make_the_weights_with_them(opened, record):
    """As of a network whose positions add to its scores."""
    numbers = np.random.default_rng(7).normal(size=(2, 2, 9, 9)).astype(np.float32)
    scale, terms = np.array([0.25, 0.1]), {"content to position": numbers[0], "position to content": numbers[1]}
    record = replace(record, vectors=replace(record.vectors, scale=scale, terms=terms))
    page = opened(record, "#view=neuron&layer=1&head=0&token=6")
    query, key = record.vectors.of(1, 0)
    scaled, added = 0.1 * (key @ query[6])[:7], numbers[:, 1, 6, :7].sum(axis=0)
    raised = np.exp(scaled + added)
    drawn = bars(page)
    for place, bar in drawn.items():
        assert bar["scaled"] == pytest.approx(scaled[place], abs=1e-5)
        assert bar["added"] == pytest.approx(added[place], abs=1e-5)
        assert bar["weight"] == pytest.approx(raised[place] / raised.sum(), abs=1e-5)
    said = page.texts()
    assert "/ √100" in said and "+ terms" in said and f"{added[3]:.2f}" in said
    assert any("terms: content to position, position to content" in one for one in said)


def test_the_numbers_stand_there_as_words(opened, record):
    page = opened(record, "#view=neuron&head=1&token=6")
    query, key = record.vectors.of(0, 1)
    score = key @ query[6]
    texts = page.texts()
    for place in range(7):
        row = [f"{score[place]:.2f}", f"{score[place] / np.sqrt(SIZE):.2f}", f"{record.map(0, 1)[6, place]:.4f}"]
        start = next(number for number in range(len(texts)) if texts[number : number + 3] == row)
        assert texts[start - 1] == record.tokens.text[place]


def test_masked_keys_say_so_and_have_no_bar(opened, record):
    page = opened(record, "#view=neuron&head=1&token=6")
    assert page.texts().count("masked") == 2
    page.press("j")
    assert page.texts().count("masked") == 1 and len(bars(page)) == 8


def test_every_layer_hides_the_keys_that_its_own_mask_hides(opened, record):
    """Layer 0 looks back, layer 1 at its neighbours; the page goes from one to the other."""
    masks = np.stack([record.mask, np.abs(np.subtract.outer(range(9), range(9))) <= 1])
    scores = np.stack(
        [query @ key.T / np.sqrt(SIZE) for query, key in (record.vectors.of(0, 1), record.vectors.of(1, 0))]
    )
    weights = np.exp(scores) * masks
    weights = np.repeat((weights / weights.sum(axis=-1, keepdims=True))[:, None], 2, axis=1).astype(np.float32)
    page = opened(replace(record, weights=weights, masks=masks), "#view=neuron&layer=0&head=1&token=4")
    for layer, head, there in ((0, 1, range(5)), (1, 0, range(3, 6)), (0, 1, range(5))):
        page.go(f"#view=neuron&layer={layer}&head={head}&token=4")
        drawn = bars(page)
        assert list(drawn) == list(there) and page.texts().count("masked") == 9 - len(there)
        for place, bar in drawn.items():
            assert bar["weight"] == pytest.approx(weights[layer, head, 4, place], abs=1e-5)
        assert "differ" not in " ".join(page.texts())


def test_minilms_weights_come_out_of_its_q_and_k(opened, minilm):
    record = minilm.attend("The trophy does not fit in the suitcase because it is too big.", layers=4, vectors="4.7")
    page = opened(record, "#view=neuron&layer=4&head=7&token=10", height=1000)
    drawn = bars(page)
    assert [drawn[key]["weight"] for key in range(len(record.tokens))] == pytest.approx(
        record.map(4, 7)[10].tolist(), abs=1e-5
    )
    assert "differ" not in " ".join(page.texts())


def test_elements_are_coloured_by_their_sign_and_as_strong_as_they_are_large(opened, record):
    page = opened(record, "#view=neuron&head=1&token=6")
    query, key = record.vectors.of(0, 1)
    cells = [rect.attrib for rect in page.svg().iter("{http://www.w3.org/2000/svg}rect") if "opacity" in rect.attrib]
    strips = [cells[start : start + SIZE] for start in range(0, len(cells), SIZE)]
    expected = [part for place in range(9) for part in (key[place], query[6] * key[place])] + [query[6]]
    largest = max(np.abs(key).max(), np.abs(query[6]).max()), np.abs(query[6] * key).max()
    assert len(strips) == len(expected)
    for number, (strip, values) in enumerate(zip(strips, expected, strict=True)):
        most = largest[number % 2] if number < 18 else largest[0]
        assert [float(cell["opacity"]) for cell in strip] == pytest.approx(np.abs(values) / most, abs=1e-3)
        assert [cell["fill"] for cell in strip] == [PLUS if value > 0 else MINUS for value in values]


def test_pointing_at_an_element_tells_its_numbers(opened, record):
    page = opened(record, "#view=neuron&head=1&token=6")
    query, key = record.vectors.of(0, 1)
    cells = [rect.attrib for rect in page.svg().iter("{http://www.w3.org/2000/svg}rect") if "opacity" in rect.attrib]

    def point(cell):
        page.point(float(cell["x"]) + float(cell["width"]) / 2, float(cell["y"]) + float(cell["height"]) / 2)
        return page.tip()

    q, k = query[6, 3], key[2, 3]
    assert point(cells[2 * 2 * SIZE + 3]) == f"k[3] = {k:.4f}"
    assert point(cells[(2 * 2 + 1) * SIZE + 3]) == f"q[3] × k[3] = {q:.4f} × {k:.4f} = {q * k:.4f}"
    assert point(cells[18 * SIZE + 3]) == f"q[3] = {q:.4f}"
    names = record.tokens.text
    page.point(*page.place("[x]", 0))
    assert page.tip() == f"{names[6]} (6) → {names[4]} (4): weight {record.map(0, 1)[6, 4]:.6f}"


def test_a_click_on_a_key_makes_it_the_query(opened, record):
    page = opened(record, "#view=neuron&head=1&token=6")
    page.point(*page.place("[x]", 0), click=True)
    assert page.hash["token"] == "4" and {bar["query"] for bar in bars(page).values()} == {4}


def test_without_a_held_token_the_first_word_is_the_query(opened, record):
    page = opened(record, "#view=neuron&head=1")
    assert {bar["query"] for bar in bars(page).values()} == {1}
    assert "query 1 “cat”" in page.text("said")


def test_a_head_without_q_and_k_says_which_have_them_and_what_to_type(opened, record):
    page = opened(record, "#view=neuron&layer=1&head=1")
    said = " ".join(page.texts())
    assert "q and k of head 1.1 are not in this page." in said
    assert "It has those of 0.1, 1.0." in said
    assert "attncli view --vectors 1.1" in said
    page = opened(replace(record, vectors=None), "#view=neuron")
    assert "It has those of no head." in " ".join(page.texts())


def test_weights_that_the_model_rounded_more_are_not_passed_over(opened, record):
    page = opened(replace(record, weights=record.weights * np.float32(0.95)), "#view=neuron&head=1&token=6")
    apart = 0.05 * record.map(0, 1)[6].max()
    assert f"the model's own weights differ by up to {apart:.3f}" in " ".join(page.texts())


def test_on_a_narrow_screen_the_numbers_are_still_there(opened, record):
    page = opened(record, "#view=neuron&head=1&token=6", width=390)
    assert bars(page)[3]["weight"] == pytest.approx(record.map(0, 1)[6, 3], abs=1e-5)
    assert f"{record.map(0, 1)[6, 3]:.4f}" in page.texts()
