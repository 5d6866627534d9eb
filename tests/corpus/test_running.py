"""The driver: what an engine gives, in whatever order, is added up in the plan's."""

import json
import random
import sys
import warnings
from dataclasses import replace

import pytest
from counted_words import ListedWords, Words
from hypothesis import given
from hypothesis import strategies as st

from attncli import Notice, RequestError
from attncli.corpus.engines import Counted, Failed, count, here
from attncli.corpus.files import BadFile
from attncli.corpus.finding import find_inputs
from attncli.corpus.folder import folder_at
from attncli.corpus.running import Corpus, Where, go_through, run
from attncli.corpus.shards import Plan
from attncli.corpus.texts import TextFormat

WORK = ListedWords()


@pytest.fixture
def plan(tmp_path):
    """`plan(30)`: of a file of a hundred lines, in shards of so many bytes."""
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"text {number}\n" for number in range(100)))
    return lambda size=30: Plan(find_inputs([str(path)]), size)


EVERY = Words(tuple(f"text {number}".split()[place] for number in range(100) for place in (0, 1)), 100)


def in_order(order):
    """An engine that is done with shards in this order."""

    def engine(work, shards, folder):
        counts = work.begin(1)
        done = []
        for shard in shards:
            *_, last = count(work, counts, shard, folder)
            done.append(last)
        yield from order(done)

    return engine


@pytest.mark.parametrize("kept", [False, True])
@given(seed=st.integers(0, 2**32))
def test_shards_in_any_order_add_up_in_the_plans(tmp_path_factory, kept, seed):
    path = tmp_path_factory.mktemp("corpus")
    (path / "corpus.txt").write_text("".join(f"text {number}\n" for number in range(100)))
    folder = folder_at(str(path / "state")) if kept else None
    shuffled = in_order(lambda done: random.Random(seed).sample(done, len(done)))
    assert run(WORK, Plan(find_inputs([str(path / "corpus.txt")]), 40), shuffled, folder).total == EVERY


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: b"", lambda content: content + b"x"])
def test_a_damaged_file_is_noticed_and_its_shard_counted_again(plan, tmp_path, damage):
    folder = folder_at(str(tmp_path / "state"))
    run(WORK, plan(), here(1), folder)
    name = sorted(folder.names())[3]
    content = folder.read(name)
    folder.write(name, damage(content))
    begun = []
    with pytest.warns(Notice, match=r"is damaged \(.*\): .*corpus.txt.* is counted again"):
        found = run(replace(WORK, begins=lambda: begun.append(1)), plan(), here(1), folder)
    assert found.total == EVERY and begun == [1]
    assert folder.read(name) == content


def test_two_files_that_are_exchanged_are_noticed_and_counted_again(plan, tmp_path):
    """Each is as it was written, with the sums of as many texts as the other: only the file says whose they are."""
    folder = folder_at(str(tmp_path / "state"))
    run(WORK, plan(), here(1), folder)
    one, other = sorted(folder.names())[:2]
    before = folder.read(one), folder.read(other)
    folder.write(one, before[1])
    folder.write(other, before[0])
    begun = []
    with pytest.warns(Notice, match=r"is damaged \(it is of another shard, corpus or request\)") as said:
        found = run(replace(WORK, begins=lambda: begun.append(1)), plan(), here(1), folder)
    assert found.total == EVERY and len(said) == 2 and begun == [1]
    assert (folder.read(one), folder.read(other)) == before


@given(place=st.integers(0, 2000), bit=st.integers(0, 7))
def test_whatever_bit_is_flipped_is_noticed(place, bit):
    content = bytearray(WORK.sealed(Words(("the", "cat", "sat"), 1)))
    content[place % len(content)] ^= 1 << bit
    with pytest.raises(ValueError, match="not as it was written"):
        WORK.unsealed(bytes(content))


def test_an_interruption_leaves_what_is_done_by_then(plan):
    """Also shards that wait for others before them, and what this process had of the one under way."""

    def engine(work, shards, folder):
        first, _, third, *_ = list(shards)
        counts = work.begin(1)
        *_, done = count(work, counts, third, folder)
        yield done
        events = count(work, counts, first, folder)
        yield next(events)
        raise KeyboardInterrupt

    found = run(WORK, plan(70), engine)
    assert found.partial and found.total.texts == 9 + 1


def test_what_can_not_be_counted_is_an_error_or_skipped_with_a_notice(plan):
    def engine(work, shards, folder):
        counts = work.begin(1)
        for shard in shards:
            if shard.number == 1:
                yield Failed(shard, OSError("the disk is gone"), 3)
            elif shard.number == 2:
                yield Failed(shard, BadFile("corpus.txt is garbled"))
            else:
                *_, done = count(work, counts, shard, folder)
                yield done._replace(tries=2)

    with pytest.raises(
        RequestError, match=r"corpus.txt from 70: failed 3 times \(the disk is gone\): --skip-bad goes on"
    ):
        run(WORK, plan(70), engine)
    with pytest.warns(Notice) as told:
        found = run(WORK, plan(70), engine, skip_bad=True)
    said = [str(one.message) for one in told]
    assert [f"skipped {one}" for one in found.skipped] == said[:2]
    assert said[2:] == [f"a shard was counted again {found.retried} times, after its worker failed"]
    left = [number for number in range(100) if not 10 <= number < 28]  # nine lines of 8 bytes are a shard
    assert found.total.words[1::2] == tuple(map(str, left))
    assert found.retried == 2 + found.total.texts // 9 + 1


def test_what_workers_have_to_say_is_said_once(plan):
    def engine(work, shards, folder):
        for event in in_order(list)(work, shards, folder):
            assert isinstance(event, Counted)
            yield event._replace(notices=("texts are cut",))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(WORK, plan(), engine)
    assert [str(one.message) for one in caught] == ["texts are cut"]


# --- going through a corpus -------------------------------------------------------------------------------


def go(path, reading=TextFormat(), work=WORK, **where):
    return go_through(
        replace(work, reading=reading, options={"--mask": "padding", **reading.option_values}),
        Corpus([str(one) for one in path], reading),
        Where(**where),
    ).total


def test_a_folder_goes_on_only_with_what_it_was_begun_with(plan, tmp_path):
    corpus, state = tmp_path / "corpus.txt", str(tmp_path / "state")
    plan()
    assert go([corpus], state=state, shard_bytes=100) == EVERY == go([corpus], state=state)
    (tmp_path / "again.txt").write_bytes(corpus.read_bytes())  # the same content somewhere else
    assert go([tmp_path / "again.txt"], state=state) == EVERY
    for refused, says in [
        (lambda: go([corpus], TextFormat(limit=3), state=state), "begun with another --limit"),
        (lambda: go([corpus], TextFormat(sample=0.5), state=state), "begun with another --sample"),
        (lambda: go([corpus, corpus], state=state), "it had 1 inputs, and here are 2"),
        (lambda: go([corpus], state=state, shard_bytes=50), "begun with shards of 100 bytes"),
    ]:
        with pytest.raises(RequestError, match=says):
            refused()
    corpus.write_text(corpus.read_text() + "one more\n")
    with pytest.raises(RequestError, match=r"another corpus: input 1, .*corpus.txt, is not what"):
        go([corpus], state=state)
    plan_file = tmp_path / "state" / "plan.json"
    plan_file.write_text("[1, 2")
    with pytest.raises(RequestError, match=r"plan.json is no plan \(.*\): name another folder"):
        go([corpus], state=state)


def test_a_plan_that_says_nonsense_is_refused(plan, tmp_path):
    plan(), go([tmp_path / "corpus.txt"], state=str(tmp_path / "state"))
    path = tmp_path / "state" / "plan.json"
    about = json.loads(path.read_text())
    for change in (
        {"fixed": {"shard_bytes": 0}},
        {"fixed": {}},
        {"asked": []},
        {"inputs": [1]},
        {"more": 1},
        {"version": "1"},
    ):
        path.write_text(json.dumps({**about, **change}))
        with pytest.raises(RequestError, match="is no plan"):
            go([tmp_path / "corpus.txt"], state=str(tmp_path / "state"))
    path.write_text(json.dumps({**about, "version": 1}))
    with pytest.raises(RequestError, match="begun with another version of attncli"):
        go([tmp_path / "corpus.txt"], state=str(tmp_path / "state"))


def test_the_second_of_two_drivers_is_refused(plan, tmp_path):
    plan()
    folder = folder_at(str(tmp_path / "state"))
    with folder.locked(), pytest.raises(RequestError, match="state is in use by another attncli: wait until it ends"):
        go([tmp_path / "corpus.txt"], state=str(tmp_path / "state"))
    assert go([tmp_path / "corpus.txt"], state=str(tmp_path / "state")) == EVERY


def test_sums_are_kept_at_an_address_too(plan, tmp_path):
    plan()
    assert go([tmp_path / "corpus.txt"], state="memory://sums/one", shard_bytes=100) == EVERY
    assert len(folder_at("memory://sums/one").names()) == 9
    refusing = replace(WORK, begins=lambda: pytest.fail("nothing is left to count"))
    assert go([tmp_path / "corpus.txt"], work=refusing, state="memory://sums/one") == EVERY


@pytest.mark.parametrize("where", [{"state": "here"}, {"workers": 2}])
def test_stdin_is_read_once_and_here(where):
    with pytest.raises(RequestError, match="is for files, and stdin can be read only once"):
        go(["-"], **where)


def test_without_ray_it_says_what_to_install(plan, tmp_path, monkeypatch):
    plan()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RequestError, match=r'--on ray needs Ray: pip install "\.\[ray\]" in '):
        go([tmp_path / "corpus.txt"], on="ray")


@pytest.mark.parametrize("on", ["nowhere", "ray:/", ""])
def test_there_are_so_many_engines(on):
    with pytest.raises(RequestError, match="it is one of here, ray"):
        Where(on=on)
    with pytest.raises(RequestError, match="--worker-gpus is for --on ray"):
        Where(gpus=1)
