"""Run a model on a treebank: read its sentences, and tally what heads find in each shard."""

import random
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from attncli.base.errors import Notice, RequestError
from attncli.corpus.engines import pool
from attncli.corpus.files import display_name
from attncli.corpus.running import Show, Where, go_through, notify_partial, silent
from attncli.corpus.shards import MOST_THREADS, Arrays, CorpusSize, Counts, Shard, Work, model_options
from attncli.corpus.treebank import Sentence, TreebankFormat, words_of
from attncli.features.probe.tally import (
    Ints,
    Probed,
    Skipped,
    Tally,
    TreebankTally,
    tally,
)
from attncli.models.engine import Engine, check_every_layer
from attncli.models.model import Model
from attncli.models.network import lay_out
from attncli.models.opening import Opening
from attncli.models.rows import batches, read_ahead
from attncli.record import AttentionRecord, Request
from attncli.text.tokens import NothingKept, Tokens

SHUFFLED = 2**15  # sentences that are shuffled together; all of them are in memory
ENDLESS = 10**9  # tokens: the limit that tokenizers name for models without one
LOST = "with a word that the tokenizer has no token for"  # why a sentence is skipped
NOT_WRITTEN = "that the decoder does not write whole"


COUNTS = ("sentences", "word_count", "shared", "unasked", "respelled", "edges", "chain_edges")  # of a tally


def probe_treebank(
    model: Engine,
    files: Sequence[str],
    test: Sequence[str] | None = None,
    reading: TreebankFormat = TreebankFormat(),
    which: str | None = None,
    where: Where = Where(),
    show: Show = silent,
) -> Probed:
    """Find the heads of a model that know the syntactic head of a word, for each dependency relation.

    files: a treebank, by the names of files ("-" is stdin), folders and addresses. test: another treebank to measure
    the chosen heads on; by default they are measured on the same sentences. reading: which sentences are taken. which:
    of an encoder-decoder the "encoder" (the default), or the "decoder", which is made to write the sentence that the
    encoder reads. where: where shards are counted and their sums are kept.
    show: is called with the progress.

    A Notice counts the sentences that the model can't read. A KeyboardInterrupt ends it early with a `partial` result
    and a Notice, unless nothing has been counted.

    Raises RequestError as reading, the model and `go_through`, for a part that the model does not have, and if no word
    depends on another in any sentence that the model can read.
    """
    which = model.to_itself(which)
    model.check(Request(which=which))
    trees = CountedTrees.of(model, which)
    corpora = [files]
    if test is not None and list(test) != list(files):
        corpora.append(test)
    treebanks = [reading.texts(names) for names in corpora]  # all are found before hours are spent on the first
    found: list[TreebankTally] = []
    partial = False
    for names, sentences in zip(corpora, treebanks, strict=True):
        total, partial = go_through(trees, sentences, where, show)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        found.append(TreebankTally(display_name(names[0]) + more, total))
        if partial:
            break
        _check(found[-1], reading)
    found = [one for one in found if one.tally.edges]
    if not found:
        raise KeyboardInterrupt
    if partial:
        of = " and ".join(str(one.tally.sentence_total) for one in found)
        notify_partial(f"figures are PARTIAL, of {of} sentences", where)
    apart = test is not None and len(found) == len(corpora)
    return Probed(model.info_of(which), found[0], found[-1] if apart else None, partial, model.kind(which))


def _check(found: TreebankTally, reading: TreebankFormat) -> None:
    """Report skipped sentences in a Notice. Raises RequestError if there is nothing to find."""
    counted = found.tally
    if not counted.sentence_total:
        if reading.sample is not None:
            raise RequestError(f"--sample {reading.sample:g} takes no sentence of {found.path}: take more of them")
        raise RequestError(f"{found.path} has no sentence in it: a treebank in CoNLL-U is needed")
    if not counted.edges:
        raise RequestError(f"{found.path}: in no sentence that the model can read does a word depend on another")
    if counted.skips:
        of = f"skipped {counted.skipped} of {counted.sentence_total} sentences"
        warnings.warn(f"{found.path}: {of}: {_describe_skips(counted.skips, found.path)}", Notice, stacklevel=2)


def _describe_skips(skips: Mapping[str, Skipped], path: str) -> str:
    """Return why sentences were skipped, and the line and perhaps the file of the first of each kind."""
    return ", ".join(
        f"{one.count} {why} ({'' if one.count == 1 else 'the first in '}"
        f"{'' if display_name(one.file) == path else f'{display_name(one.file)}, '}line {one.line})"
        for why, one in sorted(skips.items(), key=lambda skip: skip[0] == NOT_WRITTEN)
    )


# --- the work on a shard --------------------------------------------------------------------------------


@dataclass(frozen=True)
class CountedTrees(Work[Tally]):
    """The work that tallies what heads find in the sentences of a shard.

    layers, heads: of the model. threads: cores that share a computation that can't be divided.
    """

    which: str | None
    layers: int
    heads: int
    threads: int

    @classmethod
    def of(cls, model: Engine, which: str | None) -> "CountedTrees":
        """Return the work on a model; which: as `Engine.to_itself` returns it."""
        check_every_layer(model, which, "probe")
        info = model.info_of(which)
        threads = min(MOST_THREADS, torch.get_num_threads())
        return cls(
            Opening.of(model),
            model_options("probe", model, which),
            which,
            info.layers,
            info.heads,
            threads,
            model=model,
        )

    @property
    def fixed(self) -> Mapping[str, int]:
        return {"threads": self.threads}

    def begin(self, cores: int | None) -> Counts[Tally]:
        model = self.open_model()
        if isinstance(model, Model):
            model.need(self.layers)  # before several threads use it
            lay_out(model.network)  # before the first shard: its sums must not depend on earlier shards

        def counts(shard: Shard) -> Iterator[Tally]:
            with pool(cores or torch.get_num_threads(), self.threads) as each:
                yield from tally(_read(model, shard.texts, self.which, each), self.nothing())

        return counts

    def nothing(self) -> Tally:
        return Tally.nothing(self.layers, self.heads)

    def corpus_size(self, total: Tally) -> CorpusSize:
        return CorpusSize(total.sentence_total, total.word_count)

    def saved(self, total: Tally) -> tuple[dict[str, Any], Arrays]:
        about = {
            **{name: getattr(total, name) for name in COUNTS},
            "distances": [
                {"relation": relation, "offset": offset, "count": total.offsets[relation][offset]}
                for relation, offset in total.found_at
            ],
            "skips": [{"why": why, **asdict(skipped)} for why, skipped in total.skips.items()],
        }
        found = np.array(list(total.found_at.values()), dtype=np.int64)
        return about, {"found_at": found, "tree_edges": total.tree_edges, "layer_edges": total.layer_edges}

    def loaded(self, about: dict[str, Any], arrays: Arrays) -> Tally:
        if arrays["tree_edges"].shape != (self.layers, self.heads):
            raise ValueError("its shapes are another model's")
        offsets: dict[str, Counter[int]] = {}
        found_at: dict[tuple[str, int], Ints] = {}
        for one, found in zip(about["distances"], arrays["found_at"], strict=True):
            offsets.setdefault(one["relation"], Counter())[one["offset"]] = one["count"]
            found_at[one["relation"], one["offset"]] = found
        return Tally(
            **{name: about[name] for name in COUNTS},
            offsets=offsets,
            found_at=found_at,
            tree_edges=arrays["tree_edges"],
            layer_edges=arrays["layer_edges"],
            skips={one.pop("why"): Skipped(**one) for one in about["skips"]},
        )


# --- sentences and their maps ---------------------------------------------------------------------------


class _NotWhole(Exception):  # noqa: N818  (it says what is the case)
    """The model can't read a sentence to its end. The words continue a number of sentences."""


def _read(
    model: Engine, sentences: Iterable[Sentence], which: str | None, each: ThreadPoolExecutor
) -> Iterator[tuple[AttentionRecord | str, Sentence]]:
    """Yield every sentence with its maps, or first, for those that the model can't read, with the reason.

    Tokens are made twice, because that is cheap and they need not be kept: first to count them. The order is random
    with a fixed seed, so that an interrupted run has not only the beginning of a treebank.

    each: threads of one core each, for batches.
    """
    left = iter(sentences)
    while some := list(islice(left, SHUFFLED)):
        whole = []
        for sentence in some:
            try:
                whole.append(_tokens_by_word(model, sentence)[1])
            except _NotWhole as why:
                yield str(why), sentence
        order = list(range(len(whole)))
        random.Random(0).shuffle(order)
        if which == "decoder" and len(model.parts) > 1:
            lost = []
            for number in order:
                written = _maps_of_writing(model, whole[number])
                if written is None:
                    lost.append(number)
                else:
                    yield written
            yield from ((NOT_WRITTEN, whole[number]) for number in sorted(lost))
        else:
            tokens = (_tokens_by_word(model, whole[number])[0] for number in order)
            for number, record in zip(order, _records(model, tokens, Request(which=which), each), strict=True):
                yield record, whole[number]


def _records(
    model: Engine, texts: Iterable[Tokens], request: Request, each: ThreadPoolExecutor
) -> Iterator[AttentionRecord]:
    """Yield the maps of all layers and heads. On a CPU each thread computes a batch.

    So the last bits do not depend on the number of cores, and cores do not wait for each other.
    """
    if not isinstance(model, Model) or model.device.type != "cpu":
        yield from model.attend_tokens(texts, request)
        return
    for group in read_ahead(texts, model.config.layers * model.config.heads, model.batch_tokens):
        cut = batches(group, model.batch_tokens)
        made = each.map(
            lambda batch: list(model.attend_tokens(batch, request)), [[group[n] for n in one] for one in cut]
        )
        of_group = dict(chain.from_iterable(map(zip, cut, made)))
        for number in range(len(group)):
            yield of_group.pop(number)  # frees its memory with the last reference


def _maps_of_writing(model: Engine, sentence: Sentence) -> tuple[AttentionRecord, Sentence] | None:
    """Return the maps of a decoder that writes the sentence that its encoder has read, and the sentence with its units;
    None if its tokens, perhaps of another tokenizer, are not all of the sentence.
    """
    record = model.attend(sentence.text, which="decoder", target=sentence.text)
    found = words_of(record.tokens, sentence)
    return None if found is None else (replace(record, tokens=found[0]), found[1])


def _tokens_by_word(model: Engine, sentence: Sentence) -> tuple[Tokens, Sentence]:
    """Return the tokens of a sentence with its units as words, and the sentence with these units.

    Raises _NotWhole if the model can't read it to its end, and RequestError if the tokenizer belongs to another model,
    or fails.
    """
    room = model.tokenizer.max_tokens
    try:
        tokens = model.tokenizer.read(sentence.text)
    except NothingKept as error:
        raise _NotWhole(LOST) from error
    if len(tokens) > room:
        raise _NotWhole(
            f"of more than the {room} tokens that the model reads" if room < ENDLESS else "that are too long"
        )
    by_word = words_of(tokens, sentence)
    if by_word is None:
        raise _NotWhole(LOST)
    return by_word
