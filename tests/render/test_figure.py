"""Pictures: what they say, that nothing overlaps, and that files are what their suffix says."""

import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import AxesImage, imread
from matplotlib.text import Text
from records import attention_records, cross_records, record_of

from attncli import Notice, RequestError
from attncli.analysis.words import merge_words
from attncli.render import figure
from attncli.render.figure import Panel, heatmap, panel_grid, save_figure
from attncli.text import Tokens

pytestmark = pytest.mark.filterwarnings("ignore::attncli.Notice")  # there may be no Chinese font here


def random_record(layers, heads, length, seed=0):
    weights = np.random.default_rng(seed).random((layers, heads, length, length)) ** 6
    return record_of(weights / weights.sum(axis=-1, keepdims=True))


def with_tokens(record, texts):
    length = len(texts)
    weights = record.weights[..., :length, :length]
    tokens = Tokens(
        list(texts), [0] * length, [0] * length, [None] * length, [(0, 0)] * length, [False] * length, [False] * length
    )
    return replace(record, tokens=tokens, weights=weights, mask=record.mask[:length, :length])


def words(drawn):
    """Everything written in a picture, with the place it takes, in pixels."""
    renderer = FigureCanvasAgg(drawn).get_renderer()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        drawn.draw(renderer)
    beyond = []  # ticks that are not drawn
    for bar in drawn.axes[1:]:
        low, high = bar.get_ylim()
        beyond += [tick for tick in bar.yaxis.get_major_ticks() if not low <= tick.get_loc() <= high]
    hidden = {text for tick in beyond for text in tick.findobj(Text)}
    texts = [text for text in drawn.findobj(Text) if text.get_visible() and text.get_text().strip()]
    texts = [text for text in texts if text not in hidden]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts]


def said(drawn):
    return [text for text, _ in words(drawn)]


def maps(drawn):
    """The maps of a picture; the colour bar is none."""
    return [image for image in drawn.axes[0].get_children() if isinstance(image, AxesImage)]


def saved_svg(drawn, tmp_path):
    save_figure(drawn, tmp_path / "map.svg")
    return ElementTree.parse(tmp_path / "map.svg").getroot()


# --- nothing overlaps -----------------------------------------------------------------------------------


def check_layout(drawn):
    places = words(drawn)
    width, height = drawn.get_size_inches() * drawn.dpi
    boxes = np.array([box.extents for _, box in places])
    assert (boxes[:, :2] >= -1).all() and (boxes[:, 2:] <= (width + 1, height + 1)).all(), "words leave the picture"
    # One pixel less on each side: lines of text may touch.
    low, high = boxes[:, :2] + 1, boxes[:, 2:] - 1
    apart = ((low[:, None] >= high[None]) | (low[None] >= high[:, None])).any(axis=-1)
    clash = np.argwhere(~apart & ~np.eye(len(boxes), dtype=bool))
    assert not len(clash), [(places[a][0], places[b][0]) for a, b in clash[:5]]


@settings(max_examples=25)
@given(
    attention_records(),
    st.booleans(),
    st.booleans(),
    st.text("Wi中 ", max_size=120),
    st.lists(st.text("Wil中##", min_size=1, max_size=30), min_size=14, max_size=14),
)
def test_no_word_lies_on_another(record, mean, special, title, texts):
    tokens = replace(record.tokens, text=[*texts[: len(record.tokens)]])
    check_layout(heatmap(replace(record, tokens=tokens), mean=mean, special=special, title=title or None))


@pytest.mark.parametrize(
    "layers, heads, length", [(1, 1, 3), (1, 1, 120), (1, 2, 90), (1, 12, 40), (6, 12, 14), (12, 12, 5), (24, 16, 12)]
)
def test_no_word_lies_on_another_in_large_pictures(layers, heads, length):
    check_layout(heatmap(random_record(layers, heads, length)))


def test_long_captions_and_headings_keep_their_distance():
    [maps] = random_record(1, 6, 4).weights
    rows = [[Panel("causal\n0.31 of the weight had to move", one) for one in three] for three in (maps[:3], maps[3:])]
    drawn = panel_grid(rows, list("abcd"), headings=["layer 5, head 11, a long heading"] * 2, title="masks")
    check_layout(drawn)
    assert said(drawn).count("causal\n0.31 of the weight had to move") == 6


# --- what is drawn --------------------------------------------------------------------------------------


@given(attention_records())
@settings(max_examples=10)
def test_maps_are_the_weights_on_one_scale_with_one_bar(record):
    drawn = heatmap(record)
    images = maps(drawn)
    shown = [np.asarray(image.get_array()) for image in images]
    assert np.array_equal(shown, record.weights.reshape(-1, *record.weights.shape[2:]))
    assert {image.norm.vmin for image in images} == {0}
    assert {image.norm.vmax for image in images} == {float(record.weights.max())}
    assert said(drawn).count("attention weight") == 1 and len(drawn.axes) == 2


def test_layers_are_rows_and_heads_columns():
    drawn = heatmap(random_record(12, 12, 5))
    assert len(maps(drawn)) == 144
    places = {}
    for text, box in words(drawn):
        places.setdefault(text, []).append(box)
    for number in range(12):
        assert len(places[f"layer {number}"]) == len(places[f"head {number}"]) == 1
    middles = [places[f"layer {number}"][0].y0 for number in range(12)]
    assert middles == sorted(middles, reverse=True)
    assert [places[f"head {number}"][0].x0 for number in range(12)] == sorted(
        places[f"head {number}"][0].x0 for number in range(12)
    )


def test_numbers_are_the_models_and_not_places_in_the_record():
    record = replace(random_record(1, 2, 5), layers=[7], heads=[3, 9])
    texts = said(heatmap(record))
    assert "made-up · layer 7 · heads 3,9 · mask padding" in texts
    assert {"head 3", "head 9"} < set(texts)


def test_one_head_has_its_weights_in_the_cells():
    record = record_of([[0.125, 0.875, 0], [0.5, 0.25, 0.25], [1, 0, 0]])
    texts = said(heatmap(record))
    assert sorted(text for text in texts if text[:2] in ("0.", "1.") and len(text) == 4) == sorted(
        ["0.12", "0.88", "0.50", "0.25", "0.25", "1.00"]
    )


def test_mean_is_over_the_heads_of_each_layer():
    record = random_record(2, 4, 6)
    drawn = heatmap(record, mean=True)
    for image, maps_of_layer in zip(maps(drawn), record.weights, strict=True):
        np.testing.assert_allclose(image.get_array(), maps_of_layer.mean(axis=0), rtol=1e-6)
    assert "made-up · layers 0-1 · mean of heads 0-3 · mask padding" in said(drawn)


def test_without_special_tokens_the_picture_says_that_rows_do_not_sum_to_1():
    record = random_record(1, 1, 6)
    drawn = heatmap(record, special=False)
    assert np.array_equal(maps(drawn)[0].get_array(), record.weights[0, 0, 1:-1, 1:-1])
    assert "without [CLS], [SEP]: rows no longer sum to 1" in said(drawn)
    assert not any("sum to 1" in text for text in said(heatmap(record)))


def test_a_text_of_special_tokens_only_leaves_nothing_to_draw():
    with pytest.raises(RequestError, match="nothing to draw"):
        heatmap(random_record(1, 1, 2), special=False)


def test_vmax_is_the_end_of_the_scale():
    record = random_record(1, 2, 6)
    assert {image.norm.vmax for image in maps(heatmap(record, vmax=0.25))} == {0.25}
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(RequestError, match="vmax"):
            heatmap(record, vmax=wrong)


def pair_record():
    """[CLS] a a a [SEP] b b [SEP], one head of random weights."""
    record = random_record(1, 1, 8)
    tokens = replace(
        record.tokens,
        text=["[CLS]", "a0", "a1", "a2", "[SEP]", "b0", "b1", "[SEP]"],
        segments=[0] * 5 + [1] * 3,
        special=[place in (0, 4, 7) for place in range(8)],
    )
    return replace(record, tokens=tokens)


def test_segments_are_rows_of_the_one_and_columns_of_the_other():
    record = pair_record()
    drawn = heatmap(record, segments="AB", special=False)
    check_layout(drawn)
    assert np.array_equal(maps(drawn)[0].get_array(), record.weights[0, 0, 1:4, 5:7])
    texts = said(drawn)
    assert [texts.count(token) for token in ("a0", "a2", "b0", "b1", "[SEP]")] == [1, 1, 1, 1, 0]
    assert "without [CLS], [SEP], from the first text to the second text: rows no longer sum to 1" in " ".join(texts)


def test_words_are_put_together():
    record = random_record(1, 1, 6)
    text = ["[CLS]", "big", "suit", "##case", "now", "[SEP]"]
    record = replace(record, tokens=replace(record.tokens, text=text, words=[None, 0, 1, 1, 2, None]))
    drawn = heatmap(record, words=True)
    assert np.array_equal(maps(drawn)[0].get_array(), merge_words(record).weights[0, 0])
    assert said(drawn).count("suitcase") == 2


def frames(drawn):
    return [patch for patch in drawn.axes[0].patches if not patch.get_fill()]


def test_the_row_of_a_query_is_framed_in_every_map():
    record = random_record(2, 3, 6)
    drawn = heatmap(record, query=2)
    images = maps(drawn)
    assert len(frames(drawn)) == len(images) == 6
    for frame, image in zip(frames(drawn), images, strict=True):
        left, right, bottom, top = image.get_extent()
        cell = (bottom - top) / 6
        assert (frame.get_x(), frame.get_width()) == pytest.approx((left, right - left))
        assert (frame.get_y(), frame.get_height()) == pytest.approx((top + 2 * cell, cell))
    assert not frames(heatmap(record))


def test_a_query_is_found_where_others_are_left_out():
    record = pair_record()
    [frame] = frames(heatmap(record, segments="BA", query="b1", special=False))
    [image] = maps(heatmap(record, segments="BA", special=False))
    assert frame.get_y() == pytest.approx(image.get_extent()[3] + frame.get_height())
    for name in ("a1", "[CLS]"):
        with pytest.raises(RequestError, match="leaves it out"):
            heatmap(record, segments="BA", query=name, special=False)


@pytest.mark.parametrize("style", ["matrix", "lines"])
@pytest.mark.parametrize(
    "layers, heads, length", [(1, 1, 5), (1, 1, 14), (1, 1, 120), (1, 3, 14), (6, 12, 14), (2, 3, 60)]
)
@pytest.mark.parametrize("width", ["8cm", "17cm"])
def test_a_picture_is_as_wide_as_it_should_be_and_its_letters_can_be_read(style, layers, heads, length, width):
    drawn = heatmap(random_record(layers, heads, length), style=style, width=width)
    assert drawn.get_size_inches()[0] == pytest.approx(float(width[:-2]) / 2.54)
    check_layout(drawn)
    # Weights in cells are as large as the cells allow.
    assert min(text.get_size() for text in drawn.findobj(Text) if text.get_text()) >= 6 - 1e-6


def test_a_width_that_is_too_small_names_one_that_fits():
    record = random_record(6, 12, 8)
    with pytest.raises(RequestError, match=r"too narrow.*; [\d.]+cm would do") as refused:
        heatmap(record, width="2cm")
    fits = re.search(r"([\d.]+cm) would do", str(refused.value))[1]
    check_layout(heatmap(record, width=fits))


@pytest.mark.parametrize("style", ["matrix", "lines"])
def test_font_and_size_are_those_asked_for(style):
    drawn = heatmap(random_record(1, 1, 6), style=style, font="stixgeneral", font_size=8)
    check_layout(drawn)
    labels = [text for text in drawn.findobj(Text) if text.get_text() == "[CLS]"]
    assert len(labels) == 2
    for label in labels:
        assert label.get_size() == 8 and label.get_fontfamily()[0] == "STIXGeneral"


def test_an_unknown_style_is_refused():
    with pytest.raises(RequestError, match="matrix or lines"):
        heatmap(random_record(1, 1, 4), style="line")


def test_all_weights_zero_is_a_picture_too():
    drawn = heatmap(record_of(np.zeros((1, 1, 4, 4))))
    check_layout(drawn)
    assert maps(drawn)[0].norm.vmax == 1


def test_an_unknown_colour_map_names_its_neighbours():
    with pytest.raises(RequestError, match="viridis"):
        heatmap(random_record(1, 1, 4), cmap="virids")


def test_the_default_colours_get_darker_evenly():
    """Lightness (CIE L*) falls in even steps from the first colour to the last, so grey print keeps the order."""
    colours = figure.colour_map(figure.COLOURS)(np.linspace(0, 1, 64))[:, :3]
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    luminance = linear @ (0.2126, 0.7152, 0.0722)
    lightness = np.where(luminance > 0.008856, 116 * np.cbrt(luminance) - 16, 903.3 * luminance)
    steps = -np.diff(lightness)
    assert lightness[0] > 90 and lightness[-1] < 10
    assert steps.min() > 0 and steps.max() < 2 * steps.mean()


def test_a_single_peak_is_seen_in_a_thumbnail():
    weights = np.zeros((12, 12, 400, 400))
    weights[3, 7, 211, 133] = 1
    drawn = heatmap(record_of(weights))
    places = [np.argwhere(np.asarray(image.get_array()) == 1) for image in maps(drawn)]
    assert [len(found) for found in places] == [0] * 43 + [1] + [0] * 100
    shape = maps(drawn)[43].get_array().shape
    np.testing.assert_allclose(places[43][0] / shape, np.array([211, 133]) / 400, atol=1 / min(shape))


def test_labels_that_nobody_could_read_are_not_drawn():
    assert "[CLS]" not in said(heatmap(random_record(12, 12, 60)))
    assert said(heatmap(random_record(12, 12, 5))).count("[CLS]") == 24


def test_a_long_name_and_a_long_title_are_kept_short():
    record = random_record(1, 1, 4)
    path = "/somewhere/far/away/on/this/machine/checkpoints/of-last-year/bert-tiny"
    record = replace(record, model=replace(record.model, name=path))
    assert "bert-tiny · layer 0 · head 0 · mask padding" in said(heatmap(record))
    check_layout(heatmap(record, title="one word after another " * 12))


@settings(max_examples=100)
@given(st.text(max_size=40))
def test_a_long_token_is_cut_to_a_length(token):
    from rich.cells import cell_len

    short = figure.cut(token, 16)
    assert short == token or (short.endswith("…") and token.startswith(short[:-1]))
    if token.isascii():
        assert cell_len(short) <= 16 or not token.isprintable()


# --- texts from outside ---------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.lists(st.text(st.characters(codec=None), max_size=8), min_size=1, max_size=6), st.text(max_size=20))
def test_any_token_and_title_make_a_well_formed_svg(tmp_path_factory, texts, title):
    record = with_tokens(random_record(1, 1, 6), texts)
    root = saved_svg(heatmap(record, title=title), tmp_path_factory.mktemp("svg"))
    assert root.tag.endswith("svg")


def test_no_token_is_mathematics(tmp_path):
    texts = ["$x$", r"$\frac{", "$", "a_b^c", "<b>&amp;", r"\$"]
    root = saved_svg(heatmap(with_tokens(random_record(1, 1, 6), texts)), tmp_path)
    written = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert all(written.count(text) == 2 for text in texts)


def test_control_characters_are_written_as_escapes(tmp_path):
    texts = ["\x1b[31m", "a\nb", "\u202eabc", "\t", "\x00"]
    root = saved_svg(heatmap(with_tokens(random_record(1, 1, 6), texts)), tmp_path)
    written = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {r"\x1b[31m", r"a\nb", r"\u202eabc", r"\t", r"\x00"} < written


# --- files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_the_same_picture_is_the_same_bytes_and_has_no_date(tmp_path, suffix):
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    for path in (first, second):
        save_figure(heatmap(random_record(2, 2, 6)), path)
    assert first.read_bytes() == second.read_bytes()
    assert b"CreationDate" not in first.read_bytes() and b"dc:date" not in first.read_bytes()


def test_dots_an_inch(tmp_path):
    drawn = heatmap(random_record(1, 1, 6))
    save_figure(drawn, tmp_path / "map.png", dpi=50)
    height, width, _ = imread(tmp_path / "map.png").shape
    np.testing.assert_allclose((width, height), drawn.get_size_inches() * 50, atol=1)


def test_text_stays_text(tmp_path):
    drawn = heatmap(random_record(1, 1, 6))
    root = saved_svg(drawn, tmp_path)
    written = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sorted(written) == sorted(said(drawn))
    save_figure(drawn, tmp_path / "map.pdf")
    content = (tmp_path / "map.pdf").read_bytes()
    assert b"/TrueType" in content or b"/CIDFontType2" in content
    assert b"/Type3" not in content


def test_too_many_dots_are_refused_with_a_number_that_fits(tmp_path):
    drawn = heatmap(random_record(1, 1, 6))
    with pytest.raises(RequestError, match=r"--dpi \d+ fits"):
        save_figure(drawn, tmp_path / "map.png", dpi=100_000)
    with pytest.raises(RequestError, match=r"\.png, \.svg, \.pdf"):
        save_figure(drawn, tmp_path / "map.jpg")
    assert not list(tmp_path.iterdir())


def test_the_users_settings_neither_matter_nor_change(tmp_path):
    def picture(name):
        save_figure(heatmap(random_record(1, 2, 6)), tmp_path / name)
        return (tmp_path / name).read_bytes()

    plain = picture("plain.svg")
    others = {"font.size": 33, "axes.facecolor": "black", "font.family": "serif", "svg.fonttype": "path"}
    with matplotlib.rc_context(others):
        assert picture("other.svg") == plain
        assert {name: matplotlib.rcParams[name] for name in others} == {**others, "font.family": ["serif"]}


def test_neither_pyplot_nor_torch_is_imported(tmp_path):
    random_record(1, 2, 5).save(tmp_path / "maps.npz")
    program = """
import sys
import attncli
from attncli.render.figure import heatmap, save_figure
save_figure(heatmap(attncli.load_record("maps.npz")), "map.png")
assert not {"matplotlib.pyplot", "torch", "rich"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    assert (tmp_path / "map.png").stat().st_size


def test_a_character_without_a_font_is_noticed_once(monkeypatch):
    monkeypatch.setattr("attncli.render.fonts.installed", dict)
    record = with_tokens(random_record(1, 3, 6), ["奖", "杯", "不", "a", "奖", "b"])
    with pytest.warns(Notice) as noticed:
        check_layout(heatmap(record))
    [notice] = [warning for warning in noticed if warning.category is Notice]
    assert all(character in str(notice.message) for character in "奖杯不")


@given(cross_records(), st.sampled_from(["matrix", "lines"]), st.booleans())
@settings(max_examples=12)
def test_keys_of_another_text_stand_along_the_keys(record, style, special):
    record = with_key_tokens(record)
    if not special and (all(record.tokens.special) or all(record.keys.special)):
        return
    drawn = heatmap(record.select(layers=[0], heads=[0]), style=style, special=special)
    check_layout(drawn)
    shown = said(drawn)
    assert "cross attention" in " ".join(shown).replace("\u00a0", " ")
    expected = [name for name, flag in zip(record.keys.text, record.keys.special, strict=True) if special or not flag]
    assert [name for name in shown if name.startswith("key") and name != "key"] == expected


def with_key_tokens(record):
    """Every key with a name of its own."""
    return replace(record, key_tokens=replace(record.keys, text=[f"key{place}" for place in range(len(record.keys))]))
