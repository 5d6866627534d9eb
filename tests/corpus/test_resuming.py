"""How far a corpus has been counted, and files to go on from."""

import errno
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli import Notice, RequestError
from attncli.analysis.statistics import FIGURES, LINEAR, Sums
from attncli.base import held
from attncli.corpus import resuming
from attncli.corpus.reading import Line
from attncli.corpus.resuming import Fingerprint, Keeper, SoFar, load_so_far, write_so_far

ASKED = {"model": "0" * 64, "--mask": "padding", "--stride": None, "corpus": ["a.txt"]}


@given(st.sets(st.integers(5, 20)))
def test_what_is_counted_is_wanted_no_more(texts):
    so_far = SoFar(Sums.nothing(2, 3), done=5, read=5).reading(16)
    for text in texts:
        so_far = so_far.plus(text, Sums.of_text(1, 0.0, np.zeros((2, 3, len(FIGURES)))))
    assert {text for text in range(25) if not so_far.wants(text)} == texts | set(range(5))
    so_far = so_far.with_all_read()
    assert {text for text in range(25) if not so_far.wants(text)} == set(range(21))


def nothing(divergence: bool = False) -> SoFar:
    return SoFar(Sums.nothing(2, 3, divergence))


def so_far(divergence: bool = False) -> SoFar:
    """Nine texts of five tokens each: the first seven, and two more of a group of eight."""
    numbers = np.random.default_rng(1)
    sums = nothing(divergence).sums
    between = numbers.random((6, 6)) * (1 - np.eye(6))
    for _ in range(9):
        alike = numbers.random((2, len(LINEAR)))
        totals = numbers.random((2, 3, len(FIGURES)))
        sums += Sums.of_text(5, 3.0, totals, between + between.T if divergence else None, alike)
    return SoFar(sums, done=7, ahead=frozenset({9, 12}), read=15, digest="f" * 64)


def save(state: SoFar, path, asked=ASKED) -> None:
    with path.open("wb") as file:
        write_so_far(state, asked, file)


@pytest.mark.parametrize("divergence", [False, True])
def test_what_to_go_on_from_is_what_was_saved(tmp_path, divergence):
    path = tmp_path / "state"  # of whatever suffix
    path.touch()
    before = nothing(divergence)
    assert load_so_far(path, ASKED, before) is before
    with Keeper(path, ASKED) as keeper:
        assert keeper.load(before) is before
        keeper.save(so_far(divergence))
    assert [one.name for one in tmp_path.iterdir()] == ["state"]
    found, expected = load_so_far(path, ASKED, before), so_far(divergence)
    assert replace(found, sums=None) == replace(expected, sums=None)
    for name, value in vars(expected.sums).items():
        assert np.array_equal(getattr(found.sums, name), value)


def test_the_limit_of_every_layer_is_kept_and_one_number_is_of_all(tmp_path):
    """As all files had it before layers had masks of their own."""
    path = tmp_path / "state"
    for limit, written in (([27.0, 27.0], 27.0), ([27.0, 25.0], [27.0, 25.0])):
        save(replace(so_far(), sums=replace(so_far().sums, limit=np.array(limit))), path)
        with np.load(path) as file:
            assert json.loads(str(file["about"]))["limit"] == written
        assert load_so_far(path, ASKED, nothing()).sums.limit.tolist() == limit


@pytest.mark.parametrize("other", [{"model": "1" * 64}, {"--mask": "causal"}, {"--stride": 3}])
def test_who_asks_for_something_else_cannot_go_on(tmp_path, other):
    save(so_far(), tmp_path / "state")
    with pytest.raises(RequestError, match=f"another {next(iter(other))}"):
        load_so_far(tmp_path / "state", {**ASKED, **other}, nothing())


def test_names_of_files_matter_only_where_their_texts_were_not_noted(tmp_path):
    path, other = tmp_path / "state", {**ASKED, "corpus": ["b.txt"]}
    save(so_far(), path)
    assert load_so_far(path, other, nothing()).digest == "f" * 64
    save(replace(so_far(), digest=None), path)
    with pytest.raises(RequestError, match="another corpus"):
        load_so_far(path, other, nothing())
    with pytest.warns(Notice, match="older version, .* can't be checked"):
        assert load_so_far(path, ASKED, nothing()).done == 7


# --- what is in a file ------------------------------------------------------------------------------------


def changed(path, **changes) -> None:
    """The file with something else of what it says, or other arrays; None takes one away."""
    content = io.BytesIO()
    write_so_far(so_far(), ASKED, content)
    content.seek(0)
    with np.load(content) as file:
        members = {name: file[name] for name in file.files}
    about = json.loads(str(members.pop("about")))
    for name, value in changes.items():
        if name in members:
            members[name] = value(members[name])
        elif name in ("divergence", "extra"):
            members[name] = value
        else:
            about[name] = value
    text = changes.get("text", json.dumps(about))
    with path.open("wb") as file:
        np.savez(file, about=np.array(text), **{name: one for name, one in members.items() if one is not None})


COUNTS = [
    {name: value}
    for name, values in {
        "queries": [0, -5, "7", 45.0, None, True, 10**30, 10**400],
        "texts": [-3, 0, 1, 10, "9", True, 10**400],
        "done": [-1, 6, "7", 10**9, None],
        "read": [3, 12, 10**9, "15", 15.0],
        "ahead": [[9], [9, 9], [12, 9], [6, 9], [9, 15], [9, 10**30], [9.0, 12], ["9", 12], 5, None, [[9], [12]]],
        "limit": [-4.0, 999.0, "x", [27.0], [27.0] * 3, None, {}, float("nan"), 10**400],
        "asked": [5, [], None, {**ASKED, "--other": 1}],
        "digest": [5, ["f"]],
        "text": ["[]", "5", "null", "[" * 100_000, "{", '{"asked": 1e400}'],
    }.items()
    for value in values
]
ARRAYS = [
    {name: change}
    for name in ("totals", "means", "squares", "alike")
    for change in (
        lambda array: array.astype(np.float32),
        lambda array: array.astype(int),
        lambda array: array.astype(str),
        lambda array: array[:1],
        lambda array: array - 9,
        lambda array: array * 99,
        lambda array: array * np.nan,
        lambda array: np.where(array == array.max(), np.inf, array),
    )
]
OTHERS = [{"totals": lambda _: None}, {"divergence": np.zeros((6, 6))}, {"extra": np.zeros(3)}]


@pytest.mark.parametrize("changes", [*COUNTS, *ARRAYS, *OTHERS])
def test_what_no_texts_have_is_nothing_to_go_on_from(tmp_path, changes):
    path = tmp_path / "state"
    changed(path)
    load_so_far(path, ASKED, nothing())
    changed(path, **changes)
    with pytest.raises(RequestError, match=r"nothing to go on from|another model") as told:
        load_so_far(path, ASKED, nothing())
    assert "\n" not in str(told.value) and len(str(told.value)) < 300


@given(data=st.data())
def test_a_file_with_a_flipped_bit_is_refused_or_the_same(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "flipped"
    save(so_far(), path)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    try:
        found = load_so_far(path, ASKED, nothing())
    except RequestError:
        return
    assert replace(found, sums=None) == replace(so_far(), sums=None)
    assert all(np.array_equal(value, getattr(so_far().sums, name)) for name, value in vars(found.sums).items())


def test_what_is_no_such_file_is_refused(tmp_path):
    path = tmp_path / "state"
    save(so_far(), path)
    with pytest.raises(RequestError, match="another model"):
        load_so_far(path, ASKED, SoFar(Sums.nothing(2, 4)))
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"not at all"):
        path.write_bytes(content)
        with pytest.raises(RequestError, match="nothing to go on from"):
            load_so_far(path, ASKED, nothing())


# --- the texts --------------------------------------------------------------------------------------------


def lines(*texts: str) -> list[Line]:
    return [Line("a.txt", number, text) for number, text in enumerate(texts, 1)]


def digest_of(*texts: str) -> str:
    fingerprint = Fingerprint(nothing(), None)
    list(fingerprint.numbered(lines(*texts)))
    [signed] = fingerprint.signed([replace(nothing(), read=len(texts))])
    return signed.digest


def test_texts_that_were_counted_are_passed_over_and_those_of_a_group_are_not(tmp_path):
    begun = SoFar(nothing().sums, 1, frozenset({2}), 3, digest_of("a", "b", "c"))
    for more in ([], ["d"], ["d", "e"]):
        found = Fingerprint(begun, tmp_path).numbered(lines("a", "b", "c", *more))
        assert [(number, line.text) for number, line in found] == list(enumerate(["a", "b", "c", *more]))[1:]


def test_a_digest_is_of_what_was_read_also_where_the_next_text_has_begun():
    fingerprint = Fingerprint(nothing(), None)
    texts = fingerprint.numbered(lines("a", "b", "c"))
    next(texts), next(texts)
    [before, now] = fingerprint.signed([replace(nothing(), read=1), replace(nothing(), read=2)])
    assert (before.digest, now.digest) == (digest_of("a"), digest_of("a", "b"))


@pytest.mark.parametrize(
    "texts", [["a", "c", "b"], ["a", "x", "c", "d"], ["x", "b", "c"], ["ab", "c", "d"], ["", "a", "b", "c"]]
)
def test_other_texts_are_refused_before_one_of_them_is_counted(tmp_path, texts):
    begun = SoFar(nothing().sums, 3, frozenset(), 3, digest_of("a", "b", "c"))
    found = Fingerprint(begun, tmp_path).numbered(lines(*texts))
    with pytest.raises(RequestError, match=r"another corpus: some of the first 3 texts here are not those"):
        next(found)


@pytest.mark.parametrize("texts", [[], ["a"], ["a", "b"]])
def test_fewer_texts_are_refused(tmp_path, texts):
    begun = SoFar(nothing().sums, 2, frozenset(), 3, digest_of("a", "b", "c"))
    with pytest.raises(RequestError, match=f"another corpus: it has read 3 texts, and here are {len(texts)};"):
        list(Fingerprint(begun, tmp_path).numbered(lines(*texts)))


def test_a_digest_is_of_the_texts_and_their_borders():
    several = [("a", "b"), ("ab",), ("a", "b", ""), ("", "a", "b"), ("b", "a"), ("\ud800",), ("é",), ("e\u0301",)]
    assert len({digest_of(*texts) for texts in several}) == len(several)


# --- keeping it -------------------------------------------------------------------------------------------


def test_a_keeper_saves_what_is_offered_if_the_last_time_was_long_ago(tmp_path, monkeypatch):
    with Keeper(tmp_path / "state", ASKED) as keeper:
        before = nothing()
        keeper.load(before)
        keeper.offer(so_far())
        assert keeper.load(before) is before
        monkeypatch.setattr(resuming, "SAVED_EVERY", -1.0)
        keeper.offer(so_far())
        assert keeper.load(before).done == 7


def test_what_is_in_the_file_already_is_not_saved_again(tmp_path):
    path = tmp_path / "state"
    save(so_far(), path)
    before = path.stat().st_ino
    with Keeper(path, ASKED) as keeper:
        keeper.save(keeper.load(nothing()))
        assert path.stat().st_ino == before
        keeper.save(so_far())
        assert path.stat().st_ino != before


def test_a_file_has_one_keeper_at_a_time(tmp_path):
    with Keeper(tmp_path / "state", ASKED) as keeper:
        keeper.save(so_far())
        with pytest.raises(RequestError, match="in use by another attncli"), Keeper(tmp_path / "state", ASKED):
            pass
    with Keeper(tmp_path / "state", ASKED) as keeper:
        assert keeper.load(nothing()).done == 7


def test_a_full_disk_is_told_of_and_what_was_saved_stays(tmp_path, monkeypatch):
    path = tmp_path / "state"
    save(so_far(), path)
    with Keeper(path, ASKED) as keeper:
        newer = keeper.load(nothing()).with_all_read()

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(resuming, "write_so_far", full)
            with pytest.warns(Notice, match=r"state: No space left on device: there is nothing newer to go on from"):
                keeper.save(newer)
        assert keeper.kept is not newer and load_so_far(path, ASKED, nothing()).done == 7
        with pytest.raises(RequestError, match="in use"):
            held.HeldFile(path)
        keeper.save(newer)  # there is room again
    assert load_so_far(path, ASKED, nothing()).done == 15


def test_a_keeper_without_a_file_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = nothing()
    with Keeper(None, ASKED) as keeper:
        keeper.save(so_far())
        assert keeper.load(before) is before
    with Keeper(tmp_path / "state", ASKED) as keeper:
        keeper.load(before)
    assert list(tmp_path.iterdir()) == []
