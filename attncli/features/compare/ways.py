"""Code paths that users' numbers take, each compared with transformers.

`agreement` goes through the network layer by layer. A `CompareWay` goes through the call that the commands make, for
masks with [PAD], norms, logits and the network in NumPy, and yields the differences from transformers' numbers. `WAYS`
lists them for attncli's own networks, `WAYS_OF_EAGER` for networks that transformers runs. Tests compare further code
paths with the same functions (`tests/ways.py`).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from attncli.attention import MASKS
from attncli.base.arrays import as_numpy
from attncli.base.errors import RequestError, no_notices
from attncli.features.compare.agreement import Comparison, is_half, vector_difference, worst
from attncli.features.compare.beside import NothingToCompare, OwnPeers, Peers
from attncli.features.compare.eager import EagerPeers
from attncli.models.block import Tap
from attncli.models.checkpoint_files import VOCABULARY_FILES, weight_files
from attncli.models.devices import as_tensor
from attncli.models.instant import Instant, why_not
from attncli.models.taken import TextResult, as_record
from attncli.models.transformers_peer import peer_tokenizer
from attncli.models.weights import Checkpoint, StateDict, open_checkpoint
from attncli.record import Request
from attncli.text.tokens import Tokens

OF_A_HEAD = (-2, -1)  # axes of the norms ‖α v W_O‖ `[layer, head, query, key]`, whose sizes differ between heads
P = TypeVar("P", bound=Peers)


class CompareWay(NamedTuple, Generic[P]):
    """A code path: the options that it covers, and a function that yields its differences.

    exact: the tolerance is 0. single: see `Peers.allowed`. Differences of weights are absolute, those of vectors are
    shares of the vector's size (`vector_difference`). One tolerance serves both.
    """

    of: str
    differences: Callable[[P], Iterable[float]]
    exact: bool = False
    single: bool = False


def compare_ways(peers: P, ways: Mapping[str, CompareWay[P]]) -> Iterator[Comparison]:
    """Compare each code path, in order."""
    for name, way in ways.items():
        difference, note = None, ""
        with no_notices():  # they were shown before
            try:
                difference = worst(way.differences(peers))
            except NothingToCompare as error:
                note = str(error)
            except RequestError as error:
                difference, note = math.nan, str(error)
        allowed = 0.0 if way.exact else peers.allowed(way.single)
        same = difference is None or difference <= allowed
        yield Comparison(name, way.of, difference, allowed, same, note)


# --- in every network -----------------------------------------------------------------------------------


def under_mask(peers: Peers, mask: str) -> Iterator[float]:
    """Compare weights and vectors under a mask, without and with [PAD], and the keys that the record's mask hides.

    Hidden keys must have weight 0.
    """
    try:
        peers.model.usual_mask(mask)
    except RequestError as error:
        raise NothingToCompare(str(error)) from error
    for text, one in peers.run_model([one for both in peers.padded() for one in both], mask=mask):
        yield peers.weight_difference(one, text, mask)
        theirs = peers.their_vectors(peers.theirs(text, mask))
        yield from peers.vector_differences(peers.our_vectors(text, mask), theirs, text)
        if isinstance(
            peers, EagerPeers
        ):  # a decoder's last vectors show whether it attends to [PAD] in the text that it reads
            with torch.inference_mode():
                last = peers.answering.last_hidden([text], mask)
            yield from peers.vector_differences(last, [peers.theirs(text, mask).last], text.output_tokens)
        rows = peers.mask_rows(text)
        hidden = peers.hidden(text, mask)[:, rows]
        masks = as_record(peers.model, one, Request(peers.layers, mask=mask)).masks[:, rows]
        yield float((torch.from_numpy(masks) == hidden).sum())
        yield float((one.weights[..., rows, :].cpu() * hidden[:, None]).abs().sum())


def norms(peers: OwnPeers) -> Iterator[float]:
    """Compare `--measure norm`, ‖α v W_O‖, of all heads in one walk, and of two heads alone."""
    expected = [peers.norms(text) for text in peers.plain]
    for heads in ("all", peers.outer_heads):
        made = peers.run_model(peers.plain, heads=heads, measure="norm")
        for (text, one), wanted in zip(made, expected, strict=True):
            rows = peers.rows(text)
            wanted_rows = wanted[:, one.selected.heads][..., rows, :]
            yield vector_difference(one.weights[..., rows, :], wanted_rows, OF_A_HEAD)


def logits(peers: Peers) -> Iterator[float]:
    """Compare the output head's logits for every token or for the text, for the last token alone, and for the likeliest
    tokens.

    `run` shows the last of these.
    """
    outputs = [(name, one) for name, one in peers.model.outputs().items() if name != "embedding"]
    if not outputs:
        raise NothingToCompare("it has no output head that attncli reads")
    name, output = outputs[0]
    for text in peers.texts:
        wanted, rows = peers.logits(text), text.output_tokens.real
        with torch.inference_mode():
            [last] = peers.model.last_hidden([text], peers.mask)
            [made] = output([last], [text])
            if output.of_text:
                yield vector_difference(made, wanted)
                continue
            [of_last] = output([last], [text], [rows[-1:]])
        yield vector_difference(made[rows], wanted[rows])
        yield vector_difference(of_last, wanted[rows[-1:]])
    if name == "next":
        yield from likeliest(peers)


def likeliest(peers: Peers) -> Iterator[float]:
    """Compare the logits of the likeliest next tokens of each text."""
    for text, one in peers.run_model(peers.texts, predict=True):
        if one.prediction is not None:  # a part of an encoder-decoder has none
            found = torch.tensor([answer.logit for answer in one.prediction.answers])
            last = peers.logits(text)[text.output_tokens.real[-1]].float().cpu()
            yield vector_difference(found, last.topk(len(found)).values)


# --- in attncli's own networks ----------------------------------------------------------------------------


def tokens(peers: OwnPeers) -> Iterator[float]:
    """Count the numbers of tokens, segments and [PAD] that differ from those of transformers' own tokenizer."""
    place = peers.model.place
    if place.origin == "random" or not any((place.path / name).is_file() for name in VOCABULARY_FILES):
        raise NothingToCompare("it has no tokenizer files")
    try:
        theirs = peer_tokenizer(place.path)
    except RequestError as error:
        raise NothingToCompare(str(error)) from error
    side = "left" if peers.model.tokenizer.pads_left else "right"
    padding: dict[str, Any] = {} if peers.pad_to is None else {"padding": "max_length", "padding_side": side}
    length = peers.pad_to or peers.model.config.max_tokens
    for one, ours in zip(peers.inputs, peers.whole, strict=True):
        found = theirs(one.text, one.pair, truncation=True, max_length=length, **padding)
        parts = {"input_ids": ours.ids, "attention_mask": [int(not pad) for pad in ours.padding]}
        if "token_type_ids" in found and peers.reference.uses_segments:
            parts["token_type_ids"] = ours.segments
        for name, mine in parts.items():
            yield abs(len(found[name]) - len(mine))
            yield sum(a != b for a, b in zip(found[name], mine, strict=False))


class _InNumpy(Instant):
    """The network in NumPy, with results as tensors."""

    def take(
        self, texts: Iterable[Tokens], request: Request = Request(), taps: Sequence[Tap] = ()
    ) -> Iterator[TextResult]:
        for one in super().take(texts, request, taps):
            weights, query, key = map(as_tensor, (one.weights, *one.vectors))
            terms = {name: as_tensor(term) for name, term in one.terms.items()}
            yield one._replace(weights=weights, vectors=(query, key), terms=terms)

    def hidden_states(self, tokens: Tokens, mask: str | None = None, positions: bool = True) -> list[Tensor]:
        return list(map(as_tensor, super().hidden_states(tokens, mask, positions)))


def in_numpy(peers: OwnPeers) -> OwnPeers:
    """Return peers that run the network in NumPy instead of the model, with memory-mapped weights if it has files."""
    model, why = peers.model, why_not(peers.model.config)
    if why is not None:
        raise NothingToCompare(f"there is no network in NumPy: {why}")
    if is_half(model.dtype):
        raise NothingToCompare("the network in NumPy computes in float32")
    place, config, checkpoint = model.place, model.config, model.checkpoint
    if model.sha256 and all(path.suffix == ".safetensors" for path in weight_files(place.path)):
        checkpoint = open_checkpoint(place.path, config.family.prefixes, "mapped")
    else:
        tensors = {name: as_numpy(file.read(known)) for name, (file, known) in checkpoint.files.items()}
        checkpoint = Checkpoint([StateDict(tensors)], checkpoint.where)
    network = _InNumpy(place, config, model.tokenizer, checkpoint, model.sha256, lambda: model)
    beside = copy(peers)
    beside.answering = network.silencing(model.silenced_heads)
    return beside


def instant(peers: OwnPeers) -> Iterator[float]:
    """Compare the network in NumPy, which runs short texts: masks, norms, and the likeliest tokens."""
    beside = in_numpy(peers)
    for mask in MASKS:
        yield from under_mask(beside, mask)
    yield from norms(beside)
    if beside.answering.predictor(beside.texts):
        yield from likeliest(beside)


# --- in networks of transformers --------------------------------------------------------------------------


def hidden_states(peers: EagerPeers) -> Iterator[float]:
    """Compare the vectors after the embeddings and after every layer of the part that reads the text (`probe`,
    `explain`).
    """
    if peers.model.part not in ("encoder", peers.model.parts[0]):
        raise NothingToCompare("an encoder-decoder has hidden states only in its encoder: use --which encoder")
    for text in peers.texts:
        ours, made = peers.model.hidden_states(text.plain, peers.mask), peers.theirs(text).made
        theirs = made.encoder_hidden_states if peers.model.paired else made.hidden_states
        yield from peers.vector_differences(ours, [one[0] for one in theirs], text.plain)


# --- all of them ----------------------------------------------------------------------------------------


OF_MASKS: dict[str, CompareWay[Any]] = {
    f"mask {name}": CompareWay(f"--mask {name}, without [PAD] and with it", partial(under_mask, mask=name))
    for name in MASKS
}
WAYS: dict[str, CompareWay[OwnPeers]] = {
    "tokens": CompareWay("transformers' own tokenizer", tokens, exact=True),
    **OF_MASKS,
    "norms": CompareWay("--measure norm", norms),
    "logits": CompareWay("the next token", logits),
    "instant": CompareWay("short texts, in NumPy", instant, single=True),
}
WAYS_OF_EAGER: dict[str, CompareWay[EagerPeers]] = {
    **OF_MASKS,
    "logits": CompareWay("its output head, --at", logits),
    "hidden states": CompareWay("probe", hidden_states),
}
