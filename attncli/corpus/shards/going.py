"""A corpus gone through: from the names of files to the sums of all that is in them."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

from attncli.base.errors import RequestError
from attncli.corpus.inputs.choosing import Choosing, end_of
from attncli.corpus.inputs.digests import digested
from attncli.corpus.inputs.files import Input
from attncli.corpus.inputs.finding import find_inputs
from attncli.corpus.inputs.kinds import TEXTS, Kinds
from attncli.corpus.shards.plan import Plan
from attncli.corpus.shards.running import Result, Show, run, silent
from attncli.corpus.shards.state import State, no_plan
from attncli.corpus.shards.where import Where
from attncli.corpus.shards.work import Total, Work


@dataclass(frozen=True)
class Corpus:
    """What is read: files, folders and addresses by name, how texts stand in them, and which kinds are meant."""

    names: Sequence[str]
    reading: Choosing
    kinds: Kinds = TEXTS

    def inputs(self) -> list[Input]:
        """Found once: who goes through a corpus twice has the same. Raises RequestError as `find_inputs` and the
        reading's `check` do.
        """
        return self.found

    @cached_property
    def found(self) -> list[Input]:
        found = find_inputs(self.names, self.kinds, self.reading.skip_bad)
        self.reading.check(found)
        return found


def going_through(work: Work[Total], corpus: Corpus, where: Where = Where(), show: Show = silent) -> Result[Total]:
    """The sums over all of a corpus. A folder of this machine is held meanwhile: nobody else counts into it.

    Raises RequestError for inputs that can't be read, a folder that was begun with something else, and as `run` does.
    """
    inputs = corpus.inputs()
    where.check(inputs)
    if where.device is not None:
        work = work.on(where.device)
    folder = where.folder
    with nullcontext() if folder is None else folder.held():
        state = None if folder is None else State(folder)
        if state is not None:
            state.check(work.asked)
        fixed = None if state is None else state.fixed
        size = shard_bytes(where, fixed, work.shard_bytes)
        if state is not None:
            inputs = digested(inputs, state.stamps)
        plan = Plan(inputs, size, end_of(corpus.reading, inputs))
        try:
            work = work.at(fixed, plan.bytes)
        except (KeyError, ValueError) as error:
            raise RequestError(no_plan(str(where.state), error)) from error
        if state is not None:
            state.agree(work.asked, {**work.fixed, "shard_bytes": size}, inputs)
        return run(work, plan, where.engine(), folder, corpus.reading.skip_bad, show)


def shard_bytes(where: Where, fixed: dict[str, int] | None, usual: int) -> int:
    """Of a shard. Raises RequestError where a folder was begun with another size."""
    if fixed is None:
        return where.shard_bytes or usual
    if where.shard_bytes not in (None, fixed["shard_bytes"]):
        raise RequestError(
            f"{where.state} was begun with shards of {fixed['shard_bytes']:,} bytes: leave --shard-mb out, or name "
            "another folder"
        )
    return fixed["shard_bytes"]
