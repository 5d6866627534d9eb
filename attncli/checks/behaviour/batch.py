"""Check a batch that the caller gives: does a document see another one, does any token see [PAD] or the future?

What a token may see follows from the batch: the documents of a row, [PAD], and in a decoder the order. It is checked in
two ways. By behaviour: the embeddings of tokens that must not matter are changed, and no other output may move. By
inspection: `attncli.models.capture` records every attention, and no weight may lie where the batch allows none.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attncli.base.arrays import Bools, Floats
from attncli.base.errors import RequestError
from attncli.base.printable import first_line, quoted, shorten
from attncli.checks.behaviour.laws import Behaviour, Outcome, compare, judge
from attncli.checks.behaviour.model import ModelSubject, RecordedRun, vectors_of
from attncli.checks.machine import one_thread
from attncli.models.capture import Capture, capture
from attncli.models.transformers_place import is_of_transformers

IGNORED = -100  # the label of a token that does not count in the loss
DOCUMENTS = ("document_ids", "doc_ids", "seq_idx", "sequence_ids", "segment_ids")
LENGTHS = ("cu_seqlens", "cu_seq_lens", "cu_seqlens_q", "cu_seq_lens_q")
CUTS = 16  # the future is changed at no more than this many positions
NAMED = 40  # a message lists documents in at most this many characters
LEAST = 1e-6  # smaller weights are ignored
MOST_CELLS = 2**30  # no weights are recorded of a pass with more
LISTED = 100  # the result has at most this many leaked cells
HEADS = 16  # the assumed number, if the configuration does not say


class LeakedCell(NamedTuple):
    """A cell with weight where the batch allows none. text: its row in the batch."""

    layer: int
    head: int
    text: int
    query: int
    key: int
    weight: float


@dataclass(frozen=True)
class BatchMask:
    """The tokens that each token of a batch may see.

    ids, document: int `[text, token]`; document numbers the documents of a row. real: bool `[text, token]`, False for
    [PAD]. allowed: bool `[text, query, key]`. Rows of [PAD] may see nothing, as nobody reads them. problems: the
    mistakes of its padding mask, in words; None without a padding mask. notes: facts that the batch does not state.
    """

    ids: Tensor
    real: Tensor
    document: Tensor
    allowed: Tensor
    problems: Sequence[str] | None = None
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, batch: Mapping[str, Tensor], causal: bool, pad: int | None, end: int | None) -> "BatchMask":
        """Read the documents and [PAD] of a batch. pad, end: ids of [PAD] and of the end of a text, if known.

        Raises RequestError for ids that are not `[text, token]`.
        """
        ids = batch.get("input_ids")
        if ids is None or ids.dim() != 2 or ids.is_floating_point():
            raise RequestError("the batch has no input_ids [text, token]")
        mask = batch.get("attention_mask")
        if mask is not None and (mask.dim() != 2 or mask.shape != ids.shape):
            mask = None  # a mask of pairs is itself to be checked, so it can't say what is allowed
        real, problems = _real_tokens(ids, mask, pad, end)
        document, stated = _documents(batch, mask, ids, real)
        allowed = (document[:, :, None] == document[:, None, :]) & real[:, :, None] & real[:, None, :]
        if causal:
            allowed &= torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
        notes = []
        inside = (ids[:, :-1] == end) & real[:, :-1] & real[:, 1:] if end is not None else torch.zeros(0)
        if not stated and inside.any():
            notes.append(
                f"{_tokens(int(inside.sum()), 'end')} inside rows, and nothing says where documents begin: if rows "
                "are packed, give position_ids that begin at 0 in each document"
            )
        elif not stated and "position_ids" in batch:
            notes.append("position_ids never restart at 0, so each row counts as one document")
        if not real[:, 0].all() and "position_ids" not in batch:
            notes.append("[PAD] is on the left, and there are no position_ids: learned positions then count [PAD]")
        return cls(ids, real, document, allowed, None if mask is None else problems, notes)


def _real_tokens(ids: Tensor, mask: Tensor | None, pad: int | None, end: int | None) -> tuple[Tensor, list[str]]:
    """Return the tokens that are not [PAD], and what is wrong with the padding mask.

    [PAD] is a run of its id at the beginning or the end of a row. If its id also ends texts, the first token of the
    run is the end of the text.
    """
    if pad is None:
        return torch.ones_like(ids, dtype=torch.bool) if mask is None else mask != 0, []
    is_pad = ids == pad
    right = is_pad.flip(1).cumprod(1).flip(1).bool()
    if pad == end:
        right &= right.roll(1, 1) & (torch.arange(ids.shape[1]) > 0)
    runs = right | is_pad.cumprod(1).bool()
    if mask is None:
        return ~runs, []
    hidden, problems = mask == 0, []
    lost, shown = hidden & ~is_pad, runs & ~hidden
    if lost.any():
        text, token = lost.nonzero()[0].tolist()
        problems.append(
            f"attention_mask hides {_tokens(int(lost.sum()), 'real')}; the first is token {token} of text {text}"
        )
    if shown.any():
        text, token = shown.nonzero()[0].tolist()
        problems.append(
            f"attention_mask shows {_tokens(int(shown.sum()), '[PAD]')}; the first is token {token} of text {text}"
        )
    if lost.any() and torch.equal(hidden, ~runs):
        problems.append("it is inverted: 1 should show a token, and 0 hide it")
    elif lost.any() and torch.equal(hidden, runs.flip(1)):
        problems.append("it is the mask of texts that are padded on the other side")
    return ~(runs | (hidden & is_pad)), problems


def _tokens(number: int, kind: str) -> str:
    return f"{number} {kind} token{'s' if number > 1 else ''}"


def _documents(batch: Mapping[str, Tensor], mask: Tensor | None, ids: Tensor, real: Tensor) -> tuple[Tensor, bool]:
    """Return the number of each token's document, and whether the batch says where documents begin."""
    for name in DOCUMENTS:
        if name in batch and batch[name].shape == ids.shape:
            return batch[name].long(), True
    for name in LENGTHS:
        if name in batch:
            places = torch.arange(ids.numel())
            ends = batch[name].flatten().long().cpu()
            return torch.searchsorted(ends, places, right=True).reshape(ids.shape), True
    if mask is not None and mask.dtype != torch.bool and int(mask.max()) > 1:
        return mask.long(), True
    positions = batch.get("position_ids")
    if positions is not None and positions.dim() == 2:
        positions = positions.expand_as(ids).long()
        begins = torch.zeros_like(real)
        for row in range(len(ids)):
            places = real[row].nonzero()[:, 0]
            there = positions[row, places]
            begins[row, places[1:]] = there[1:] <= there[:-1]
        return begins.cumsum(1), bool(begins.any())
    return torch.zeros_like(ids), False


# --- running it -------------------------------------------------------------------------------------------


class BatchSubject(ModelSubject):
    """A model that is run on the batch, with other embeddings where a check asks for them."""

    def __init__(
        self, model: Any, batch: Mapping[str, Tensor], causal: bool, call: Callable[[Mapping[str, Tensor]], Any] | None
    ) -> None:
        parameters = list(model.parameters()) if isinstance(model, nn.Module) else []
        self.batch = {
            name: one.to(parameters[0].dtype) if parameters and one.is_floating_point() else one
            for name, one in batch.items()
        }
        ids = self.batch["input_ids"]
        run = call or self.run_model
        super().__init__(model, lambda texts, _: run({**self.batch, "input_ids": texts}), causal, int(ids.max()) + 2)
        self.config = getattr(model, "config", None)
        with torch.no_grad():
            self.find_places()

    def texts(self, count: int = 1, length: int | None = None) -> Tensor:
        return self.batch["input_ids"]

    def run_model(self, batch: Mapping[str, Tensor]) -> Any:
        """Run a transformers model on the entries that its `forward` takes, except labels; run any other on the ids."""
        if not is_of_transformers(self.model):
            return self.model(batch["input_ids"])
        taken = inspect.signature(self.model.forward).parameters
        every = any(one.kind is one.VAR_KEYWORD for one in taken.values())
        given = {name: one for name, one in batch.items() if name != "labels" and (every or name in taken)}
        if "use_cache" in taken:
            given["use_cache"] = False  # type: ignore[assignment]
        return vectors_of(self.model(**given))


@dataclass(frozen=True)
class CheckedBatch(Behaviour):
    """The results for a batch.

    cells: the first LISTED of the leaked cells. text: the row of the first leak, or 0. The other fields are about that
    row. seen: the largest weight over layers and heads, `[query, key]`; None if no attention was seen. allowed: what
    its tokens may see, `[query, key]`. tokens: their names.
    """

    cells: Sequence[LeakedCell] = ()
    text: int = 0
    seen: Floats | None = None
    allowed: Bools = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    tokens: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """Return the result in one sentence."""
        if self.broken:
            laws = dict.fromkeys(one.law for one in self.broken)
            return f"wrong: {len(laws)} {'check fails' if len(laws) == 1 else 'checks fail'}: {', '.join(laws)}"
        return "right: no token sees what the batch hides from it"

    def document(self) -> dict[str, Any]:
        """Return the results as JSON data."""
        return {**super().document(), "cells": [cell._asdict() for cell in self.cells]}


def check_batch(
    model: Any,
    batch: Mapping[str, Any],
    *,
    call: Callable[[Mapping[str, Tensor]], Any] | None = None,
    causal: bool | None = None,
    name: Callable[[int], str | None] = str,
) -> CheckedBatch:
    """Check what the tokens of a batch see in a model. The model is not changed.

    batch: tensors by the names that the model takes: `input_ids`, and `attention_mask`, `position_ids`, `labels`,
    `seq_idx`, `cu_seqlens`. call: runs the model on a batch, and returns vectors or logits `[text, token, size]`.
    causal: by default as the configuration says, else True. name: names a token by its id.

    Raises RequestError if the batch has no ids, if the model is an encoder-decoder, in training mode or fails on the
    batch, and if nothing can be checked.
    """
    if getattr(model, "training", False):
        raise RequestError("the model is in training mode, where dropout changes every output: call its .eval() first")
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        raise RequestError("a batch of an encoder-decoder can't be checked: give the encoder, or the decoder")
    if causal is None:
        from attncli.checks.behaviour.opening import kind_of

        causal = config is None or kind_of(config) != "encoder"
    tensors = _tensors(batch)
    mask = BatchMask.of(tensors, causal, _token_id(config, "pad_token_id"), _token_id(config, "eos_token_id"))
    outcomes: list[Outcome] = []
    if mask.problems is not None:
        outcomes.append(Outcome(not mask.problems, "; ".join(mask.problems), law="attention_mask"))
    with one_thread(), torch.no_grad():
        try:
            subject = BatchSubject(model, tensors, causal, call)
        except RequestError:
            raise
        except Exception as error:  # the model's code may raise anything
            why = f"{type(error).__name__}: {first_line(error)}"
            raise RequestError(f"the model fails on this batch: {why}") from error
        size = mask.allowed.numel() * len(subject.places) * getattr(config, "num_attention_heads", HEADS)
        outcomes += [one._replace(law=law) for law, one in _behaviour(subject, mask, subject.run(mask.ids))]
        with capture(model if isinstance(model, nn.Module) else None) as captured:
            if size <= MOST_CELLS:  # in a pass of its own: capture runs torch's encoders twice
                subject.call(mask.ids, None)
    cells, seen = _leaks(captured, mask)
    where, note = cells[0].text if cells else 0, ""
    if size > MOST_CELLS:
        note = "the maps of this batch take too much memory: give fewer texts"
    elif not captured.calls:
        note = f"{captured.missed[0] if captured.missed else 'no attention was seen'}: only the outputs were checked"
    elif cells:
        worst = max(cells, key=lambda cell: cell.weight)
        key = f"the later token {worst.key}"
        if not mask.real[worst.text, worst.key]:
            key = f"[PAD] {worst.key}"
        elif mask.document[worst.text, worst.query] != mask.document[worst.text, worst.key]:
            key = f"token {worst.key} of another document"
        note = (
            f"{len(cells)} cells{' or more' if len(cells) >= LISTED * 10 else ''} carry weight that the batch forbids. "
            f"The largest is in layer {worst.layer}, head {worst.head}: token {worst.query} of text {worst.text} gives "
            f"{worst.weight:.2g} to {key}"
        )
    outcomes.append(Outcome(False if cells else None if note else True, note, law="attention weights"))
    outcomes += _labels(tensors.get("labels"), mask, config is not None and causal)
    outcomes += [Outcome(None, note, law="documents and positions") for note in mask.notes]
    if all(one.holds is None for one in outcomes):
        raise RequestError(f"nothing in this batch could be checked: {outcomes[0].note}")
    names = [name(one) or str(one) for one in mask.ids[where].tolist()]
    kind = f"a batch of {len(mask.ids)} texts, {mask.ids.shape[1]} tokens each"
    return CheckedBatch(
        type(model).__name__, kind, tuple(outcomes), {}, cells[:LISTED], where,
        None if seen is None else seen[where] * mask.real[where, :, None].numpy(), mask.allowed[where].numpy(), names,
    )  # fmt: skip


def _tensors(batch: Mapping[Any, Any]) -> dict[str, Tensor]:
    """Convert the numeric entries of a batch to tensors, and drop the others, such as the texts themselves."""
    found = {}
    for name, one in batch.items():
        if isinstance(one, Tensor | np.ndarray | list):
            with suppress(TypeError, ValueError):
                found[str(name)] = torch.as_tensor(one)
    return found


def _token_id(config: Any, name: str) -> int | None:
    number = getattr(config, name, None)
    return number if isinstance(number, int) and number >= 0 else None


def _behaviour(subject: BatchSubject, mask: BatchMask, plain: RecordedRun) -> Iterator[tuple[str, Outcome]]:
    """Yield each law with its outcome: change what must not matter, and compare all outputs that must not move."""
    real, places = mask.real, torch.arange(mask.ids.shape[1])

    def change(changed: Tensor, equal: Tensor) -> Outcome:
        return compare(plain, subject.run(mask.ids, changed=changed & real), equal & real)

    outcomes: dict[str, Outcome] = {}
    numbers, places_of = mask.document.unique(return_inverse=True)
    for bit, side in product(range((len(numbers) - 1).bit_length()), (0, 1)):  # any two documents differ in a bit
        inside = (places_of >> bit) % 2 == side
        if ((inside & real).any(1) & (~inside & real).any(1)).any():
            changed = [str(int(one)) for one in mask.document[inside & real].unique()]
            some = f"document{'s' if len(changed) > 1 else ''} {shorten(', '.join(changed), NAMED)}"
            outcomes[f"changing {some} of a row moves the others"] = change(inside, ~inside)
    if outcomes:
        broken = [(change, one) for change, one in outcomes.items() if not one.holds]
        yield "documents apart", judge(dict(broken[:1]) or outcomes)  # one of them is enough to say
    if not real.all():
        moved = compare(plain, subject.run(mask.ids, changed=~real), real)
        yield "padding", judge({"changing [PAD] moves real tokens": moved})
    last = len(places) - 1
    if subject.causal and last:
        cuts = sorted({round(1 + step * (last - 1) / (CUTS - 1)) for step in range(CUTS)})
        futures = {f"tokens from {cut} on move earlier ones": change(places >= cut, places < cut) for cut in cuts}
        yield "look-ahead", judge(futures)


def _leaks(captured: Capture, mask: BatchMask) -> tuple[list[LeakedCell], Floats | None]:
    """Return the cells with weight where none is allowed, and the largest weight of each cell `[text, query, key]`."""
    texts, tokens = mask.ids.shape
    forbidden = (~mask.allowed & mask.real[:, :, None]).numpy()
    cells: list[LeakedCell] = []
    seen: Floats | None = None
    for one in captured.calls:
        if one.weights.shape[0] != texts or one.weights.shape[2:] != (tokens, tokens) or one.kind == "cross":
            continue
        weights = np.float32(one.weights)
        largest = weights.max(axis=1)
        seen = largest if seen is None else np.maximum(seen, largest)
        for text, head, query, key in np.argwhere((weights > LEAST) & forbidden[:, None])[: LISTED * 10].tolist():
            cells.append(LeakedCell(one.layer, head, text, query, key, float(weights[text, head, query, key])))
    return cells, seen


def _labels(labels: Tensor | None, mask: BatchMask, shifts: bool) -> Iterator[Outcome]:
    """Check the labels. shifts: the model shifts them by one itself."""
    if labels is None or labels.shape != mask.ids.shape:
        return
    counted = labels != IGNORED
    on_pads = int((counted & ~mask.real).sum())
    note = f"{on_pads} of {int(counted.sum())} labels are on [PAD]: set them to {IGNORED}" if on_pads else ""
    if shifts and not note:
        both = counted[:, :-1] & mask.real[:, 1:]
        same, shifted = labels == mask.ids, labels[:, :-1] == mask.ids[:, 1:]
        if both.any() and shifted[both].all() and not same[counted].all():
            note = "labels are the next tokens already, and the model shifts them again: give the ids themselves"
    yield Outcome(not note, note, law="labels")
    first = torch.zeros_like(mask.real)
    first[:, 1:] = mask.real[:, 1:] & mask.real[:, :-1] & (mask.document[:, 1:] != mask.document[:, :-1])
    if shifts and bool((first & counted).any()):
        count = int((first & counted).sum())
        yield Outcome(
            None,
            f"{count} first tokens of documents are predicted from the document before",
            law="labels across documents",
        )
    if shifts and bool((mask.real == counted)[mask.real].all()) and not note:
        yield Outcome(
            None, "every token counts in the loss: so does the prompt, if there is one", law="labels of the prompt"
        )


# --- files ---------------------------------------------------------------------------------------------------


def read_batch(path: Path) -> dict[str, Tensor]:
    """Read a batch: a .pt of tensors by name, a .safetensors, or a .json of lists. Nothing in it is run.

    Raises RequestError for another suffix, and for a file that can't be read.
    """
    try:
        if path.suffix == ".pt":
            found = torch.load(path, weights_only=True, map_location="cpu")
        elif path.suffix == ".safetensors":
            from safetensors.torch import load_file

            found = load_file(path)
        elif path.suffix == ".json":
            found = json.loads(path.read_text(encoding="utf-8"))
        else:
            raise RequestError(f"{quoted(str(path))} is no batch: give a .pt, .safetensors or .json")
        if not isinstance(found, Mapping):
            raise RequestError(f"{quoted(str(path))} has no tensors by name: save a dict, as the collator returns it")
        return _tensors(found)
    except RequestError:
        raise
    except Exception as error:  # torch raises errors of many kinds for a damaged file
        raise RequestError(f"{quoted(str(path))} can't be read as a batch: {first_line(error)}") from error
