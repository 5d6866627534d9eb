"""Pictures as PGF, taken apart: the cells of the maps, their colours, and where the words are."""

import re

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from pictures import maps, random_record, said

from attncli import RequestError
from attncli.report.figure import latex
from attncli.report.figure.drawing import STROKES, hatched, save_figure
from attncli.report.figure.latex import OVERLAP, rectangles, tex


def saved(drawn, path):
    save_figure(drawn, path)
    return path.read_text(encoding="utf-8").splitlines()


def numbers(line):
    return [float(part) for part in re.findall(r"-?[\d.]*\d", line)]


def boxes(lines):
    """(colour, x, y, width, height) of the rectangles that are filled."""
    colour, found = None, []
    for line in lines:
        if line.startswith(r"\acfill") and "opacity" not in line:
            colour = tuple(numbers(line))
        elif line.startswith(r"\acbox") and "use as" not in line:
            found.append((colour, *numbers(line)))
    return found


def test_every_cell_has_its_colour(tmp_path):
    """Read back from the file at the middle of each cell, in every map of a grid."""
    drawn = random_record(2, 2, 5, seed=3).figure()
    found = boxes(saved(drawn, tmp_path / "map.pgf"))
    height = drawn.get_size_inches()[1]
    for image in maps(drawn):
        left, right, bottom, top = image.get_extent()
        colours = image.cmap(image.norm(image.get_array()))
        for (query, key), _ in np.ndenumerate(image.get_array()):
            x = 72 * (left + (key + 0.5) * (right - left) / 5)
            y = 72 * (height - top - (query + 0.5) * (bottom - top) / 5)
            inside = [one for one in found if one[1] < x < one[1] + one[3] and one[2] < y < one[2] + one[4]]
            assert len(inside) == 1
            np.testing.assert_allclose(inside[0][0], colours[query, key][:3], atol=0.005)


def test_cells_meet_and_dark_ones_are_on_top(tmp_path):
    """Viewers leave a white line between two boxes that only touch."""
    found = boxes(saved(random_record(1, 1, 4).figure(), tmp_path / "map.pgf"))
    lightness = [sum(one[0]) for one in found]
    assert lightness == sorted(lightness, reverse=True)
    lefts = sorted({one[1] for one in found})
    cell = lefts[1] - lefts[0]
    for one in found:
        assert one[3] == pytest.approx(round(one[3] / cell) * cell + OVERLAP, abs=0.02)


def test_neighbours_of_one_colour_are_one_rectangle():
    black, white, nothing = (0, 0, 0, 255), (255, 255, 255, 255), (0, 0, 0, 0)
    pixels = np.array([[white, white, black], [white, white, black], [black, nothing, nothing]], dtype=np.uint8)
    assert rectangles(pixels) == {white: [(0, 2, 0, 2)], black: [(2, 3, 0, 2), (0, 1, 2, 3)]}


def test_all_words_are_there_in_the_size_that_was_planned(tmp_path):
    drawn = random_record(1, 2, 6).figure(title="100% of _x_", width="8cm")
    lines = [line for line in saved(drawn, tmp_path / "map.pgf") if line.startswith(r"\actext")]
    parts = [re.fullmatch(r"\\actext(\S+) (\S+) (\S+) (\S+) \{[a-z,]*\}\{(.*)\}%", line) for line in lines]
    assert sorted(part[5] for part in parts) == sorted(map(tex, said(drawn)))
    assert min(float(part[4]) for part in parts) >= 6
    assert {part[3] for part in parts} == {"0", "90"}


def test_a_place_is_a_side_of_the_text_and_stays_where_another_font_is_wider(tmp_path):
    figure = Figure(figsize=(2, 1))
    canvas = figure.add_axes((0, 0, 1, 1))
    canvas.set_axis_off()
    for ha, va, rotation in (
        ("right", "center", 0),
        ("left", "bottom", 0),
        ("center", "top", 90),
        ("right", "center", 90),
    ):
        canvas.text(0.5, 0.5, "it", ha=ha, va=va, rotation=rotation, size=7)
    lines = [line for line in saved(figure, tmp_path / "map.pgf") if line.startswith(r"\actext")]
    assert lines == [
        r"\actext72 36 0 7 {right}{it}%",
        r"\actext72 36 0 7 {left,bottom}{it}%",
        r"\actext72 36 90 7 {right}{it}%",  # read upwards, the end of the text is its top
        r"\actext72 36 90 7 {bottom}{it}%",
    ]


def test_hatching_stays_inside_and_has_the_strokes_of_the_other_formats(tmp_path):
    figure = Figure(figsize=(3, 2))
    canvas = figure.add_axes((0, 0, 1, 1), xlim=(0, 3), ylim=(2, 0))
    canvas.set_axis_off()
    canvas.add_patch(hatched(0.5, 0.5, 2, 1))
    lines = saved(figure, tmp_path / "map.pgf")
    start = max(number for number, line in enumerate(lines) if line == r"\acuse clip")
    points = [tuple(numbers(line)) for line in lines[start:] if re.match(r"\\ac(move|line)", line)]
    assert len(points) > 2 * 6 * len(STROKES)
    assert all(35 <= x <= 181 and 35 <= y <= 109 for x, y in points)  # a point more is cut by the clip
    ends = np.array(points).reshape(-1, 2, 2)
    np.testing.assert_allclose(np.diff(ends[..., 0]), np.diff(ends[..., 1]), atol=0.02)  # "/"


def test_lines_are_as_opaque_as_they_are(tmp_path):
    drawn = random_record(1, 2, 5).figure(style="lines")
    [*strands, _] = [one for one in drawn.axes[0].collections if len(one.get_segments()) > 2]
    lines = saved(drawn, tmp_path / "map.pgf")
    expected = {f"{to_rgba(one)[3]:g}" for strand in strands for one in strand.get_colors()}
    said_so = {line.removeprefix(r"\acinkopacity") for line in lines if line.startswith(r"\acinkopacity")}
    assert expected <= said_so | {"1"}


def test_what_is_more_than_tex_can_keep_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(latex, "MOST", 100)
    with pytest.raises(RequestError, match=r"lines of PGF.*\.pdf"):
        save_figure(random_record(1, 1, 12).figure(), tmp_path / "map.pgf")
    assert not list(tmp_path.iterdir())


def test_the_picture_is_what_it_was(tmp_path):
    """Saving for LaTeX changes nothing that is saved after it."""
    drawn = random_record(1, 2, 6).figure()
    save_figure(drawn, tmp_path / "before.svg")
    save_figure(drawn, tmp_path / "map.tex")
    save_figure(drawn, tmp_path / "after.svg")
    assert (tmp_path / "before.svg").read_bytes() == (tmp_path / "after.svg").read_bytes()
