"""What is said of one row of one head: where the query comes from, and what comes out."""

import numpy as np
from heads import heads, made_up
from hypothesis import given
from hypothesis import strategies as st

from attncli.analysis import steps
from attncli.render.captions.steps import end, raised_heading, title, vector


def document(head, query):
    """What `explain --json` prints."""
    return steps.document(head.record, head.x, head.value, query)


@given(heads(), st.integers(0, 3))
def test_the_end_has_the_strongest_by_weight_and_by_what_it_brings(head, query):
    explained = document(head, query)
    keys = explained["keys"]
    heaviest = max(range(len(keys)), key=lambda place: keys[place]["weight"])
    longest = max(range(len(keys)), key=lambda place: keys[place]["contribution"])
    last = end(explained).splitlines()[-1]
    assert f'most weight: {heaviest} "' in last and f'brings most: {longest} "' in last


def test_a_query_that_may_attend_to_nothing_says_so():
    mask = np.tri(5, k=-1, dtype=bool)
    assert "may attend to nothing" in end(document(made_up(tokens=5, mask=mask), 0))


def test_the_title_says_which_head_which_query_and_where_it_comes_from():
    head = made_up()
    which, x, q = title(document(head, 2)).splitlines()
    assert which == 'made-up · layer 0 head 0 · mask padding · query 2 "##s"'
    assert x == f"x = {vector(head.x[2])}, the attention's input"
    assert q == f"q = W_Q x + b_Q = {vector(head.query[2])}"


def test_the_title_says_who_shares_the_keys():
    head = made_up()
    explained = steps.document(head.record, head.x, head.value, 2, steps.Beside(group=range(6, 9)))
    assert explained["group"] == [6, 7, 8]
    assert title(explained).splitlines()[2] == "heads 6-8 share their keys and values"
    assert "share" not in title(document(head, 2))


def test_a_negative_number_is_taken_away_as_a_plus():
    assert raised_heading({"largest": 2.5}) == "exp(· - 2.50)"
    assert raised_heading({"largest": -0.18}) == "exp(· + 0.18)"


def test_a_vector_is_shown_by_its_first_elements_and_its_size():
    assert vector([1, 2.25]) == "(1.000, 2.250) [2]"
    assert vector(range(9)) == "(0.000, 1.000, 2.000, 3.000, 4.000, 5.000, ...) [9]"


def test_tokens_and_names_are_not_for_the_terminal_to_obey():
    explained = document(made_up(), 1)
    for place in (explained["query"], *explained["keys"]):
        place["shown"] = "\x1b[31m[bold]"
    explained["model"]["name"] = "\x1b[2J"
    for said in (title(explained), end(explained)):
        assert "\x1b" not in said and "[bold]" in said
