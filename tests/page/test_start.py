"""Check how a page opens: what is known before there is a record, and what only with one."""

import re

import numpy as np
import pytest
from records import record_of

from attncli.analysis.edges import Usual, edges
from attncli.base.errors import RequestError
from attncli.page import Start
from attncli.page.payload import findings_entry

RECORD = record_of(np.full((5, 5), 0.2))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"view": "tree"}, "no view 'tree': it is one of heads, model, matrix, neuron"),
        ({"threshold": 1.5}, "threshold 1.5 is out of range"),
        ({"segments": "AC"}, "no segments 'AC'"),
    ],
)
def test_what_no_page_can_open_with_is_refused_at_once(options, says):
    with pytest.raises(RequestError, match=re.escape(says)):
        Start(**options)


@pytest.mark.parametrize(
    ("options", "says"), [({"query": "dog"}, "no token 'dog'"), ({"segments": "AB"}, "no second segment")]
)
def test_what_a_text_does_not_have_is_refused_with_it(options, says):
    with pytest.raises(RequestError, match=says):
        Start(**options).state(RECORD)


def test_a_token_is_found_by_its_name_and_segments_in_any_case():
    assert Start(query="cat").state(RECORD)["token"] == 1
    assert "token" not in Start().state(RECORD)
    assert Start(segments="ab").state(None)["segments"] == "AB"


def opening(start, record):
    return start.opening(record, findings_entry(record)["heads"])


def test_it_opens_on_the_head_that_run_would_put_first(random_maps):
    record = record_of(random_maps(3, 4, 9))
    first = edges(record, Usual.of_text(record))[0][0]
    assert (first.layer, first.head) != (0, 0)
    assert opening(Start(), record) == {
        "layer": first.layer,
        "head": first.head,
        "heads": [first.head],
        "token": first.query,
    }
    assert opening(Start(head=(2, 3)), record) == {"layer": 2, "head": 3, "heads": [3]}


def test_where_no_head_stands_out_it_opens_on_the_first_of_the_last_layer():
    assert opening(Start(), record_of(np.full((2, 3, 5, 5), 0.2))) == {"layer": 1, "head": 0, "heads": [0]}


def test_a_head_that_is_not_there_is_refused():
    with pytest.raises(RequestError, match=re.escape("head 1.0 is not in this record: layers are 0, heads 0")):
        opening(Start(head=(1, 0)), RECORD)
