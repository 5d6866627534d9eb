"""The work that counts a treebank: saved sums of a shard, and what tells it from other work."""

import json
import pickle
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from treebanks import corpora, plain, tally_of

from attncli.features.probe.counting import TreebankWork
from attncli.models.opening import Opening

TREES = TreebankWork(Opening("of nothing"), {"model": "0"}, layers=2, heads=3, threads=1)


@given(corpora(), st.lists(st.tuples(st.sampled_from(["long", "odd"]), st.text(), st.integers(1, 9))))
def test_what_is_kept_of_a_shard_is_all_of_it(corpus, skipped):
    found = tally_of(corpus)
    for why, file, line in skipped:
        found = found.plus_skipped(why, file, line)
    about, arrays = TREES.saved(found)
    assert plain(TREES.loaded(json.loads(json.dumps(about)), arrays)) == plain(found)


def test_work_is_small_and_what_is_asked_for_otherwise_is_another(minilm):
    work = TreebankWork.of(minilm)
    away = pickle.loads(pickle.dumps(replace(work, model=None)))
    assert len(pickle.dumps(away)) < 5000 and away == replace(work, model=None) and away.digest == work.digest
    assert TreebankWork.of(minilm.without("3.1")).digest != work.digest
    assert work.on("cuda").opening.device == "cuda"
