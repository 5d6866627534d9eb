"""A record as a picture: which maps are drawn, of which tokens, under which title, and that they are the record's."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import check_nothing_overlaps, frames, maps, picture_texts, random_record, texts_with_places
from records import attention_records, cross_records

from attncli import RequestError
from attncli.record.grouping import group_record, merge_words
from attncli.record.selection import Grouping

pytestmark = pytest.mark.filterwarnings("ignore::attncli.Notice")  # there may be no Chinese font here


@pytest.mark.slow
@given(attention_records())
@settings(max_examples=10)
def test_maps_are_the_weights_on_one_scale_with_one_bar(record):
    drawn = record.figure()
    images = maps(drawn)
    shown = [np.asarray(image.get_array()) for image in images]
    assert np.array_equal(shown, record.weights.reshape(-1, *record.weights.shape[2:]))
    assert {image.norm.vmin for image in images} == {0}
    assert {image.norm.vmax for image in images} == {float(record.weights.max())}
    assert picture_texts(drawn).count("attention weight") == 1 and len(drawn.axes) == 2


@pytest.mark.slow
def test_layers_are_rows_and_heads_columns():
    drawn = random_record(12, 12, 5).figure()
    assert len(maps(drawn)) == 144
    places = {}
    for text, box in texts_with_places(drawn):
        places.setdefault(text, []).append(box)
    tops = [[places[f"head {layer}.{head}"][0].y0 for layer in range(12)] for head in range(12)]
    lefts = [[places[f"head {layer}.{head}"][0].x0 for head in range(12)] for layer in range(12)]
    assert all(column == sorted(column, reverse=True) for column in tops)
    assert all(row == sorted(row) for row in lefts)


def test_mean_is_over_the_heads_of_each_layer():
    record = random_record(2, 4, 6)
    drawn = record.figure(mean=True)
    for image, maps_of_layer in zip(maps(drawn), record.weights, strict=True):
        np.testing.assert_allclose(image.get_array(), maps_of_layer.mean(axis=0), rtol=1e-6)
    assert "made-up · layers 0-1 · mean of heads 0-3 · mask padding" in picture_texts(drawn)


def pair_record():
    """[CLS] a a a [SEP] b b [SEP], one head of random weights."""
    record = random_record(1, 1, 8)
    tokens = replace(
        record.tokens,
        shown=[],
        text=["[CLS]", "a0", "a1", "a2", "[SEP]", "b0", "b1", "[SEP]"],
        segments=[0] * 5 + [1] * 3,
        special=[place in (0, 4, 7) for place in range(8)],
    )
    return replace(record, tokens=tokens)


def test_segments_are_rows_of_the_one_and_columns_of_the_other():
    record = pair_record()
    drawn = record.figure(segments="AB", special=False)
    check_nothing_overlaps(drawn)
    assert np.array_equal(maps(drawn)[0].get_array(), record.weights[0, 0, 1:4, 5:7])
    texts = picture_texts(drawn)
    assert [texts.count(token) for token in ("a0", "a2", "b0", "b1", "[SEP]")] == [1, 1, 1, 1, 0]
    assert "without [CLS], [SEP], from the first text to the second text: rows no longer sum to 1" in " ".join(texts)


def test_words_are_put_together():
    record = random_record(1, 1, 6)
    text = ["[CLS]", "big", "suit", "##case", "now", "[SEP]"]
    record = replace(record, tokens=replace(record.tokens, shown=[], text=text, words=[None, 0, 1, 1, 2, None]))
    drawn = record.figure(words=True)
    assert np.array_equal(maps(drawn)[0].get_array(), merge_words(record).weights[0, 0])
    assert picture_texts(drawn).count("suitcase") == 2


def test_a_query_is_found_where_others_are_left_out():
    record = pair_record()
    [frame] = frames(record.figure(segments="BA", query="b1", special=False))
    [image] = maps(record.figure(segments="BA", special=False))
    assert frame.get_y() == pytest.approx(image.get_extent()[3] + frame.get_height())
    for name in ("a1", "[CLS]"):
        with pytest.raises(RequestError, match="leaves it out"):
            record.figure(segments="BA", query=name, special=False)


def test_one_row_of_many_keys_can_be_seen():
    """Where keys have no labels: at least a tenth of an inch, in which a frame marks the query's row."""
    record = group_record(random_record(2, 2, 400), Grouping(queries="7,LAST"))
    drawn = record.figure(query=1)
    check_nothing_overlaps(drawn)
    for image, frame in zip(maps(drawn), frames(drawn), strict=True):
        left, right, bottom, top = image.get_extent()
        assert bottom - top >= 0.1 and right - left > 3
        assert (frame.get_y() + frame.get_height(), frame.get_height()) == pytest.approx((bottom, (bottom - top) / 2))


@pytest.mark.slow
@given(cross_records(), st.sampled_from(["matrix", "lines"]), st.booleans())
@settings(max_examples=12)
def test_keys_of_another_text_stand_along_the_keys(record, style, special):
    names = [f"key{place}" for place in range(len(record.keys))]
    record = replace(record, key_tokens=replace(record.keys, shown=[], text=names))
    if not special and (all(record.tokens.special) or all(record.keys.special)):
        return
    drawn = record.select(layers=[0], heads=[0]).figure(style=style, special=special)
    check_nothing_overlaps(drawn)
    shown = picture_texts(drawn)
    assert "cross attention" in " ".join(shown).replace("\u00a0", " ")
    expected = [name for name, flag in zip(record.keys.text, record.keys.special, strict=True) if special or not flag]
    assert [name for name in shown if name.startswith("key") and name != "key"] == expected


# --- titles ----------------------------------------------------------------------------------------------


def test_numbers_are_the_models_and_not_places_in_the_record():
    record = replace(random_record(1, 2, 5), layers=[7], heads=[3, 9])
    texts = picture_texts(record.figure())
    assert "made-up · layer 7 · heads 3,9 · mask padding" in texts
    assert {"head 7.3", "head 7.9"} < set(texts)


def test_a_long_name_and_a_long_title_are_kept_short():
    record = random_record(1, 1, 4)
    path = "/somewhere/far/away/on/this/machine/checkpoints/of-last-year/bert-tiny"
    record = replace(record, model=replace(record.model, name=path))
    assert "bert-tiny · layer 0 · head 0 · mask padding" in picture_texts(record.figure())
    check_nothing_overlaps(record.figure(title="one word after another " * 12))


# --- options ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"style": "line"}, "no style 'line': use one of matrix, lines"),
        ({"cmap": "virids"}, "viridis"),  # its neighbours
        *(({"vmax": wrong}, "vmax") for wrong in (0.0, -1.0, float("nan"), float("inf"))),
        ({"font": "DejaVu Sanz"}, "DejaVu Sans"),
        ({"font_size": 0}, "font-size"),
    ],
)
def test_what_is_no_look_is_refused(options, says):
    with pytest.raises(RequestError, match=says):
        random_record(1, 1, 4).figure(**options)
