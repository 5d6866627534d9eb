"""Check which requests of a page are valid, how others are refused, and by which names a browser knows models."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import LOOK, STATE, read

from attncli.live import Session
from attncli.live.server import guard as limits
from attncli.live.server.app import Site, name_of, parse_request
from attncli.models.opening import Opening
from attncli.record.selection import Input

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
SAVE = {**LOOK, "state": STATE}


def refused(served, body, path="/look"):
    status, headers, said = served.ask("POST", path, body)
    assert headers["content-type"] == "application/json"
    return status, json.loads(said)["error"]


@given(name=st.sampled_from(sorted(LOOK)), value=ANYTHING)
def test_a_field_of_another_type_is_refused(served, name, value):
    asked = {**LOOK, name: value}
    try:
        body = json.dumps(asked).encode()
        page_request = parse_request(body, served.site)
    except ValueError:
        assert refused(served, body)[0] == 400
    else:
        assert (
            type(page_request.text.text) is str
            and page_request.model in served.site.session.models
            and type(page_request.fresh) is bool
        )


@given(name=st.sampled_from(sorted(STATE)), value=ANYTHING)
def test_so_is_one_of_the_state(served, name, value):
    body = json.dumps({**SAVE, "state": {**STATE, name: value}}).encode()
    try:
        saving = parse_request(body, served.site, more="state")
    except ValueError:
        assert refused(served, body, "/page")[0] == 400
    else:
        assert saving.state["view"] in ("heads", "model", "matrix", "neuron")


@given(asked=ANYTHING)
def test_so_is_anything_else(served, asked):
    body = json.dumps(asked).encode()
    assert refused(served, body)[0] == 400 and refused(served, body, "/page")[0] == 400


@given(body=st.binary(max_size=200))
def test_so_is_what_is_no_json(served, body):
    assert refused(served, body)[0] == 400


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[" * 200_000, b'{"a":' * 40_000, b'"' + b"x" * 200_000, b"1" * 200_000, b"NaN", b"\xff\xfe",
     b"1e999",
     json.dumps({**LOOK, "text": "\ud800"}).encode(), json.dumps({**LOOK, "more": 1}).encode(),
     json.dumps({key: value for key, value in LOOK.items() if key != "whose"}).encode(),
     json.dumps({**LOOK, "whose": "x" * 65}).encode(), json.dumps({**LOOK, "head": [1, 2, 3]}).encode(),
     json.dumps({**LOOK, "head": [-1, 0]}).encode(), json.dumps({**LOOK, "head": [1e300, 0]}).encode()],
)  # fmt: skip
def test_malformed_bodies_are_refused_in_words(served, body):
    status, said = refused(served, body)
    assert status == 400 and said.startswith("invalid request: ") and len(said) < 400
    assert served.look()[0] == 200


@pytest.mark.parametrize("length", [limits.LONGEST_BODY + 1, 10**12, 10**30])
def test_an_enormous_body_is_refused_before_it_comes(served, length):
    status, _, _ = served.ask("POST", "/look", b"", **{"Content-Length": str(length)})
    assert status in (413, 400)  # which h11 says of a number that is none


@pytest.mark.parametrize(
    "model", ["bert-base", "/etc/passwd", "../minilm", ".", "", "minilm\x00", "https://evil.example/x", "__class__"]
)
def test_no_other_model_can_be_chosen(served, model, folder):
    for named in (model, folder):
        body = json.dumps({**LOOK, "model": named}).encode()
        status, said = refused(served, body)
        assert status == 400 and "it is not" not in said and str(folder) not in said.replace(named, "")
    assert len(served.site.session.engines) <= 2


def test_a_directory_is_not_told(served, small, folder):
    """Neither in what is shown, nor in what is saved, nor in what is refused."""
    assert small == folder.rpartition("/")[2]
    answers = [
        served.ask()[2].decode(),
        json.dumps(served.look(model=small, text="the big cat")[1][0]),
        served.save(model=small, text="the big cat")[1],
        json.dumps(served.look(model=small, text="")[1]),
        json.dumps(served.look(model=small, head=[99, 99], text="the big cat")[1]),
        json.dumps(served.look(model=small, text="the cat " * 2000)[1][0]),
    ]
    parent = folder.rpartition("/")[0]
    assert all(parent not in answer for answer in answers)
    assert f'"name": "{small}"' in answers[1]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_mistake_of_ours_is_told_without_its_words(served, monkeypatch):
    def broken(*_, **__):
        raise KeyError("/root/secret")

    monkeypatch.setattr(type(served.site.session), "records", broken)
    for path, asked in (("/look", LOOK), ("/page", SAVE)):
        status, _, body = served.ask("POST", path, json.dumps(asked).encode())
        assert (status, read(body)) == (500, {"error": "the request failed because of a bug in attncli"})


def test_a_path_in_a_refusal_is_not_told(served, monkeypatch, folder):
    from attncli.base.errors import RequestError

    def refuse(*_, **__):
        raise RequestError(lines.pop())

    monkeypatch.setattr(type(served.site.session), "records", refuse)
    lines = [f"{folder}/config.json can't be read", "the file '/etc/x' is bad", f"{folder} takes 512 tokens"]
    assert served.look() == (422, {"error": f"{folder.rpartition('/')[2]} takes 512 tokens"})
    assert "/etc" not in served.look()[1]["error"]
    assert served.look()[1]["error"] == f"{folder.rpartition('/')[2]}/config.json can't be read"


# --- names of models -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("minilm", "minilm"),
        ("google-bert/bert-base-uncased", "google-bert/bert-base-uncased"),
        ("/home/somebody/models/mine", "mine"),
        ("/home/somebody/models/mine/", "mine"),
        ("./mine", "mine"),
        ("~/models/mine", "mine"),
        ("../a/b/mine", "mine"),
        ("a/b/mine", "mine"),
        ("https://user:secret@example.org/models/mine", "mine"),
        ("s3://bucket/mine/", "mine"),
        ("/", "model"),
    ],
)
def test_of_a_directory_or_an_address_the_last_part_is_shown(model, shown):
    assert name_of(model) == shown


def test_a_directory_of_two_parts_that_is_there_is_one(tmp_path, monkeypatch):
    (tmp_path / "somebody" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert name_of("somebody/mine") == "mine"


def test_names_are_told_apart():
    session = Session([Opening("/a/mine"), Opening("/b/mine"), Opening("minilm"), Opening("/c/mine")])
    site = Site(session, [Input("x")])
    assert list(site.names) == ["mine", "mine (2)", "minilm", "mine (3)"]
    assert list(site.names.values()) == session.models
    site.close()
