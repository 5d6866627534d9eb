"""Which heads find the syntactic heads of words: `attncli probe` in Python. What they find in a shard is counted in
`attncli.corpus.counted_trees`.
"""

import warnings
from collections.abc import Mapping, Sequence

from attncli.analysis.probing import Probed, TreebankTally
from attncli.analysis.tally import Skipped
from attncli.base.errors import Notice, RequestError
from attncli.corpus.counted_trees import CountedTrees
from attncli.corpus.files import TREEBANKS, shown
from attncli.corpus.running import Corpus, Show, Where, go_through, silent
from attncli.corpus.sentences import NOT_WRITTEN
from attncli.corpus.treebank import TreebankReading
from attncli.models.engine import Engine
from attncli.record import Request


def probe(
    model: Engine,
    files: Sequence[str],
    test: Sequence[str] | None = None,
    reading: TreebankReading = TreebankReading(),
    which: str | None = None,
    where: Where = Where(),
    show: Show = silent,
) -> Probed:
    """Which heads of a model know the syntactic head of a word, for each dependency relation (Clark et al. 2019).

    files: a treebank, by the names of files ("-" is stdin), folders and addresses. test: choose heads on the first and
    measure them on this one; by default both is done on the same sentences. reading: which sentences are taken.
    which: of an encoder-decoder the "encoder" (the default), or the "decoder", which is then made to write the sentence
    that the encoder reads. where: who counts, and where what shards give is kept: of the test in a folder "test" of
    that one. show: is told how far it is, in either.

    A Notice says how many sentences can't be read whole. A KeyboardInterrupt ends it early: what was found by then is
    `partial`, and a Notice says so. A treebank of which nothing has been counted is left out; if that is all of them,
    it is an interruption like any other.

    Raises RequestError as reading, the model and `go_through` do, for a part that the model has not, and where no
    word depends on another in any sentence that it can read.
    """
    which = model.to_itself(which)
    model.check(Request(which=which))
    trees = CountedTrees.of(model, reading, which)
    asked = [(Corpus(files, reading, TREEBANKS), where)]
    if test is not None and list(test) != list(files):
        asked.append((Corpus(test, reading, TREEBANKS), where.inside("test")))
        where.check(asked[1][0].inputs)  # before hours are spent on the first
    found: list[TreebankTally] = []
    partial = False
    for treebank, there in asked:
        result = go_through(trees, treebank, there, show)
        partial = result.partial
        found.append(TreebankTally(called(treebank.names), result.total))
        if partial:
            break
        check(found[-1], reading)
    found = [one for one in found if one.tally.edges]
    if not found:
        raise KeyboardInterrupt
    if partial:
        of = " and ".join(str(one.tally.seen) for one in found)
        more = "" if where.state is None else "; the same command goes on from here"
        warnings.warn(f"interrupted: these figures are PARTIAL, of {of} sentences{more}", Notice, stacklevel=2)
    apart = test is not None and len(found) == len(asked)
    return Probed(model.info_of(which), found[0], found[-1] if apart else None, partial, model.kind(which))


def called(files: Sequence[str]) -> str:
    """A treebank, as messages say it."""
    return shown(files[0]) + (f" and {len(files) - 1} more" if len(files) > 1 else "")


def check(found: TreebankTally, reading: TreebankReading) -> None:
    """A Notice says which sentences were skipped. Raises RequestError where nothing is to be found."""
    counted = found.tally
    if not counted.seen:
        if reading.sample is not None:
            raise RequestError(f"--sample {reading.sample:g} takes no sentence of {found.path}: take more of them")
        raise RequestError(f"{found.path} has no sentence in it: a treebank in CoNLL-U is needed")
    if not counted.edges:
        raise RequestError(f"{found.path}: in no sentence that the model can read does a word depend on another")
    if counted.skips:
        of = f"skipped {counted.skipped} of {counted.seen} sentences"
        warnings.warn(f"{found.path}: {of}: {in_words(counted.skips, found.path)}", Notice, stacklevel=2)


def in_words(skips: Mapping[str, Skipped], path: str) -> str:
    """Why sentences were skipped, by the lines that they stand in, and by files where the treebank is several."""
    return ", ".join(
        f"{one.count} {why} ({'' if one.count == 1 else 'the first in '}"
        f"{'' if shown(one.file) == path else f'{shown(one.file)}, '}line {one.line})"
        for why, one in sorted(skips.items(), key=lambda skip: skip[0] == NOT_WRITTEN)
    )
