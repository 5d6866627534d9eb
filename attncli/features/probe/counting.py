"""Run a model on a treebank: read its sentences, and tally what heads find in each shard."""

import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch

from attncli.base.arrays import Ints
from attncli.base.errors import Notice, RequestError
from attncli.corpus.engines import pool
from attncli.corpus.files import display_name
from attncli.corpus.running import Show, Workplace, notify_partial, process_corpus, silent
from attncli.corpus.shards import MOST_THREADS, Arrays, CorpusSize, Counts, Shard, Work, model_options
from attncli.corpus.treebank import TreebankFormat, TreeSentence, words_of
from attncli.features.probe import Probed
from attncli.features.probe.tally import Skipped, Tally, TreebankTally, tally
from attncli.models.engine import Engine, check_every_layer
from attncli.models.model import own_network
from attncli.models.network import lay_out
from attncli.models.opening import Opening
from attncli.models.parts import self_attention_kind, self_attention_part
from attncli.models.rows import batches, read_ahead
from attncli.record import AttentionRecord, Request
from attncli.text.tokens import NothingKept, Tokens

ENDLESS = 10**9  # tokens; for models without a limit, tokenizers give a larger one
COUNTS = ("sentences", "word_count", "shared", "untested", "respelled", "edges", "chain_edges")  # of a tally


def probe_treebank(
    model: Engine,
    files: Sequence[str],
    test: Sequence[str] | None = None,
    reading: TreebankFormat = TreebankFormat(),
    where: Workplace = Workplace(),
    show: Show = silent,
) -> Probed:
    """Find the heads of a model that attend to a word's syntactic head, for each dependency relation.

    files: a treebank, by the names of files ("-" is stdin), folders and addresses. test: another treebank to measure
    the chosen heads on; by default they are measured on the same sentences. reading: which sentences to take. where:
    where to count shards and keep their sums. show: called with the progress.
    An encoder-decoder is probed in its encoder.

    A Notice counts the sentences that the model can't read. A KeyboardInterrupt ends it early with a `partial` result
    and a Notice, unless nothing has been counted.

    Raises RequestError as `reading.texts`, the model and `process_corpus` do. Also if no readable sentence has a word
    that depends on another.
    """
    which = self_attention_part(model, None)
    model.check(Request(which=which))
    trees = TreebankWork.of(model)
    corpora = [files]
    if test is not None and list(test) != list(files):
        corpora.append(test)
    treebanks = [reading.texts(names) for names in corpora]  # all files are found before hours of work on the first
    found: list[TreebankTally] = []
    partial = False
    for names, sentences in zip(corpora, treebanks, strict=True):
        total, partial = process_corpus(trees, sentences, where, show)
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
        notify_partial(f"{of} sentences", where)
    apart = test is not None and len(found) == len(corpora)
    return Probed(
        model.of_part(which).info, found[0], found[-1] if apart else None, partial, self_attention_kind(model, which)
    )


def _check(found: TreebankTally, reading: TreebankFormat) -> None:
    """Report skipped sentences in a Notice. Raises RequestError if there is nothing to find."""
    counted, path = found.tally, found.path
    if not counted.sentence_total:
        if reading.sample is not None:
            raise RequestError(f"--sample {reading.sample:g} takes no sentence of {path}: give a larger share")
        raise RequestError(f"{path} has no sentences: give a treebank in CoNLL-U")
    if not counted.edges:
        raise RequestError(f"{path}: no sentence that the model can read has a word that depends on another")
    reasons = []
    for why, one in counted.skips.items():
        first = "" if one.count == 1 else "the first on "
        line = f"line {one.line}" if display_name(one.file) == path else f"line {one.line} of {display_name(one.file)}"
        reasons.append(f"{one.count} {why} ({first}{line})")
    if reasons:
        of = f"skipped {counted.skipped} of {counted.sentence_total} sentences"
        warnings.warn(f"{path}: {of}: {', '.join(reasons)}", Notice, stacklevel=2)


# --- the work on a shard --------------------------------------------------------------------------------


@dataclass(frozen=True)
class TreebankWork(Work[Tally]):
    """The work that tallies what heads find in the sentences of a shard.

    layers, heads: of the model. threads: cores for a computation that can't be split into batches.
    """

    layers: int
    heads: int
    threads: int

    @classmethod
    def of(cls, model: Engine) -> "TreebankWork":
        """Return the work on a model."""
        which = self_attention_part(model, None)
        check_every_layer(model, which, "probe")
        info = model.of_part(which).info
        threads = min(MOST_THREADS, torch.get_num_threads())
        options = model_options("probe", model, which)
        return cls(Opening.of(model), options, info.layers, info.heads, threads, model=model)

    @property
    def fixed(self) -> Mapping[str, int]:
        return {"threads": self.threads}

    def begin(self, cores: int | None) -> Counts[Tally]:
        model = self.open_model()
        if (own := own_network(model)) is not None:
            own.need(self.layers)  # before several threads use it
            lay_out(own.network)  # before the first shard, because sums must not depend on earlier shards

        def counts(shard: Shard) -> Iterator[Tally]:
            with pool(cores or torch.get_num_threads(), self.threads) as each:
                yield from tally(_read(model, shard.texts, each), self.nothing())

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


def _read(
    model: Engine, sentences: Iterable[TreeSentence], each: ThreadPoolExecutor
) -> Iterator[tuple[AttentionRecord | str, TreeSentence]]:
    """Yield every sentence with its maps, or with the reason why the model can't read it.

    each: threads of one core each, for batches.
    """
    read, skipped = deque[TreeSentence](), deque[tuple[str, TreeSentence]]()

    def tokens() -> Iterator[Tokens]:
        for sentence in sentences:
            found = _tokens_by_word(model, sentence)
            if isinstance(found, str):
                skipped.append((found, sentence))
            else:
                read.append(found[1])
                yield found[0]

    for record in _records(model, tokens(), each):
        yield record, read.popleft()
        while skipped:
            yield skipped.popleft()
    yield from skipped


def _records(model: Engine, texts: Iterable[Tokens], each: ThreadPoolExecutor) -> Iterator[AttentionRecord]:
    """Yield the maps of all layers and heads. On a CPU each thread computes a batch.

    So results are bitwise independent of the number of cores, and cores do not wait for each other.
    """
    request = Request(which=self_attention_part(model, None))
    if own_network(model) is None or model.device.type != "cpu":
        yield from model.attend_tokens(texts, request)
        return
    for group in read_ahead(texts, model.layers * model.heads, model.batch_tokens):
        cut = batches(group, model.batch_tokens)
        made = each.map(
            lambda batch: list(model.attend_tokens(batch, request)), [[group[n] for n in one] for one in cut]
        )
        of_group = dict(chain.from_iterable(map(zip, cut, made)))
        for number in range(len(group)):
            yield of_group.pop(number)  # frees its memory with the last reference


def _tokens_by_word(model: Engine, sentence: TreeSentence) -> tuple[Tokens, TreeSentence] | str:
    """Return the tokens of a sentence, whose words are its units (`tally`), and the sentence with these units.

    If the model can't read all of it, return the reason, worded to follow "3 sentences". Raises RequestError if the
    tokenizer belongs to another model, or fails.
    """
    lost, room = "with a word that the tokenizer has no tokens for", model.tokenizer.max_tokens
    try:
        tokens = model.tokenizer.read(sentence.text)
    except NothingKept:
        return lost
    if len(tokens) > room:
        return f"of more than the {room} tokens that the model reads" if room < ENDLESS else "too long"
    return words_of(tokens, sentence) or lost
