"""Options of pictures, and the ones that are refused."""

import pytest
from pictures import maps, random_record

from attncli import RequestError


def test_vmax_is_the_end_of_the_scale():
    record = random_record(1, 2, 6)
    assert {image.norm.vmax for image in maps(record.figure(vmax=0.25))} == {0.25}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"style": "line"}, "no style 'line': it is one of matrix, lines"),
        ({"cmap": "virids"}, "viridis"),  # its neighbours
        *(({"vmax": wrong}, "vmax") for wrong in (0.0, -1.0, float("nan"), float("inf"))),
        ({"width": "8 furlongs"}, "8cm"),
        ({"font": "DejaVu Sanz"}, "DejaVu Sans"),
        ({"font_size": 0}, "font-size"),
    ],
)
def test_what_is_no_look_is_refused(options, says):
    with pytest.raises(RequestError, match=says):
        random_record(1, 1, 4).figure(**options)
