"""The names that a browser may know models by."""

import pytest

from attncli.live import Session
from attncli.live.server.app import Site, name_of
from attncli.models.opening import Opening
from attncli.record.selection import Input


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
