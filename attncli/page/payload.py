"""Describe the records of a page as JSON and chunks of numbers, as data.js reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.analysis.edges import Edge, Usual, edges, sinks, written_tokens
from attncli.analysis.patterns import summarise
from attncli.base import __version__
from attncli.base.arrays import Bools, Floats
from attncli.base.errors import RequestError
from attncli.base.printable import printable, shorten, visible
from attncli.page.packing import PLAIN, TEXTS, Chunks, pack_layer, pack_layers, pick_levels
from attncli.page.vectors import store
from attncli.record import AttentionRecord
from attncli.record.display import HEAD_COLOURS, WEIGHTS, notes, pool
from attncli.text.tokens import Tokens, word_groups, word_texts

# --- pages with the full maps of only some heads ------------------------------------------------------

WHOLE, SMALL = 1023, 255  # levels of weights in full maps and in small maps
SIDES = (64, 48, 32, 24, 16)  # sizes of a small map in cells, to try in this order
SMALL_SHARE = 0.3  # share of the room that small maps may take


@dataclass(frozen=True)
class FullHeads:
    """The heads whose full maps a small page stores. The page opens at the first.

    heads: as (layer, head). side: the maximum size of the small maps of all heads, in cells. A cell is the largest
    weight of its block.
    """

    heads: list[tuple[int, int]]
    side: int

    @classmethod
    def within(cls, record: AttentionRecord, ranked: Sequence[tuple[int, int]], room: int) -> "FullHeads":
        """Choose what fits into `room` characters: the finest small maps, then full maps in the order of `ranked`."""
        taken, side = 0, SIDES[-1]
        for side in SIDES:
            taken = sum(map(len, pack_layers(small_maps(record, side), SMALL)))
            if taken <= SMALL_SHARE * room:
                break
        heads = []
        for layer, head in ranked:
            taken += len(pack_layer(record.map(layer, head)[None], WHOLE))
            if taken > room:
                break
            heads.append((layer, head))
        return cls(heads, side)

    def of_layer(self, layer: int) -> list[int]:
        """Return the heads of a layer that have full maps."""
        return sorted(head for of, head in self.heads if of == layer)

    def opening(self) -> dict[str, Any]:
        """Return the selection if the URL has no hash: the first head with a full map, or else all heads."""
        if not self.heads:
            return {"view": "model"}
        layer, head = self.heads[0]
        return {"layer": layer, "head": head, "heads": [head]}


def small_maps(record: AttentionRecord, side: int) -> list[Floats]:
    """Return the small maps of each layer, `[head, query, key]`, at most `side` x `side`."""
    return [np.stack([pool(one, side, side) for one in layer]) for layer in record.weights]


# --- the description ----------------------------------------------------------------------------------

LONGEST_TITLE = 60
LONG, THUMBNAIL = (
    256,
    96,
)  # texts of more than LONG tokens also get small maps of THUMBNAIL cells, to draw all heads quickly
VECTORS = "vectors"  # prefix of the names of chunks with q and k
MOST_FINDINGS = 24  # heads that the page lists
NO_VECTORS: dict[str, Any] = {"heads": [], "size": 0, "terms": []}


def payload(
    records: Sequence[AttentionRecord], start: dict[str, Any], kept: FullHeads | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the description of a page of these records, and its chunks by name.

    Consecutive records of the same tokens under different masks are one text. start: the initial state of the page.
    kept: the heads whose full maps it stores, if not all.

    Raises RequestError without records, and for records of different models, layers or heads.
    """
    chunks = Chunks(TEXTS)
    return fill(chunks, records, start, kept), chunks.by_name


def plain_payload(
    records: Sequence[AttentionRecord], start: dict[str, Any], prefix: str = ""
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the payload for a page that requests one text at a time, with uncompressed chunks as bytes.

    Decompressing would take longer than sending the bytes. prefix: of the chunks' names.

    Raises RequestError as `payload` does.
    """
    chunks = Chunks(PLAIN, prefix)
    return fill(chunks, records, start, None), chunks.by_name


def fill(
    chunks: Chunks[Any], records: Sequence[AttentionRecord], start: dict[str, Any], kept: FullHeads | None
) -> dict[str, Any]:
    """Add the numbers of these records to the chunks, and return the description. Raises RequestError as `payload`."""
    check_compatible(records)
    first = records[0]
    levels = WHOLE if kept else pick_levels([record.weights for record in records])
    groups = by_text(records)
    texts = [text_entry(group, levels, chunks, kept) for group in groups]
    masks = (mask for text in texts for mask in text["masks"])
    # q and k of every head that has them, with as many levels as fit into the room.
    fine, every = store([one for group in groups for one in group], chunks.room, chunks.form.one)
    for mask, stored in zip(masks, every, strict=True):
        mask["vectors"] = NO_VECTORS
        if stored is not None:
            names = {layer: chunks.add(one, VECTORS) for layer, one in stored.of_layers.items()}
            mask["vectors"] = stored.entry(names, fine)
    description = describe(first, texts, start)
    if kept is not None:
        description["whole"] = [kept.of_layer(layer) for layer in first.layers]
    return description


def describe(record: AttentionRecord, texts: list[dict[str, Any]], start: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a page: model, layers, heads, texts, and how it opens.

    record: any record of the page. The field `chosen` has the heads of each layer if layers have different heads.
    """
    model = record.model
    chosen = {} if record.pairs is None else {"chosen": [sorted(record.heads_of(layer)) for layer in record.layers]}
    return {
        "version": __version__,
        "model": {
            "name": printable(model.full_name),
            "sha256": printable(model.sha256),
            "layers": model.layers,
            "heads": model.heads,
        },
        "layers": record.layers,
        "heads": record.heads,
        **chosen,
        "measure": record.measure,
        "colours": list(HEAD_COLOURS),
        "ramp": list(WEIGHTS),
        "texts": texts,
        "start": start,
    }


def check_compatible(records: Sequence[AttentionRecord]) -> None:
    """Raise RequestError if the records can't share a page."""
    if not records:
        raise RequestError("a page needs at least one record")
    for record in records[1:]:
        for what, one, other in (
            ("models", record.model.full_name, records[0].model.full_name),
            ("weights", record.model.sha256, records[0].model.sha256),
            ("layers", record.layers, records[0].layers),
            ("heads", record.heads, records[0].heads),
            ("heads", str(record.choice), str(records[0].choice)),
            ("measure", record.measure, records[0].measure),
        ):
            if one != other:
                raise RequestError(
                    f"all texts of a page need the same {what}, but these have {other} and {one}: make two pages"
                )


def by_text(records: Sequence[AttentionRecord]) -> list[list[AttentionRecord]]:
    """Group consecutive records of the same tokens under different masks."""
    groups: list[list[AttentionRecord]] = []
    for record in records:
        last = groups[-1] if groups else []
        same = last and (last[0].tokens, last[0].keys, last[0].kind) == (record.tokens, record.keys, record.kind)
        if same and record.mask_name not in [one.mask_name for one in last]:
            last.append(record)
        else:
            groups.append([record])
    return groups


def text_entry(
    group: Sequence[AttentionRecord], levels: int, chunks: Chunks[Any], kept: FullHeads | None = None
) -> dict[str, Any]:
    """Describe one text, with its maps under every mask.

    `keys` is null if the keys are the same tokens as the queries. `note` is empty if no token of the text is missing.
    """
    first = group[0]
    return {
        "title": shorten(title_of(first), LONGEST_TITLE),
        **tokens_entry(first.tokens),
        "keys": None if first.key_tokens is None else tokens_entry(first.key_tokens),
        "attention": first.kind,
        "note": "; ".join(notes(first)),
        "masks": [mask_entry(record, levels, chunks, kept) for record in group],
    }


def tokens_entry(tokens: Tokens) -> dict[str, Any]:
    """Describe the tokens along one side, and their words, each as [word, positions of its pieces]."""
    groups = word_groups(tokens)
    return {
        "tokens": [visible(token) for token in tokens.shown],
        "segments": tokens.segments,
        "special": tokens.special,
        "words": [[visible(word), group] for word, group in zip(word_texts(tokens, groups), groups, strict=True)],
    }


def title_of(record: AttentionRecord) -> str:
    """Return a record's text for the menu of texts. For a decoder or cross-attention, also name the kind."""
    title = text_of(record.tokens if record.crosses else record.keys)
    if record.key_tokens is not None and record.crosses:
        title = f"{text_of(record.key_tokens)} → {title}"
    return title if record.kind == "encoder" else f"{record.kind}: {title}"


def text_of(tokens: Tokens) -> str:
    """Return a text, or a pair of texts, on one line as written.

    If that is unknown, return its words without the tokenizer's marks, with the spaces of the text.
    """
    parts = [""] * (max(tokens.segments) + 1)
    for segment, written in zip(tokens.segments, tokens.written, strict=True):
        parts[segment] += written
    if as_written := printable(" ".join(" ".join(parts).split())):
        return as_written
    text, reached = "", 0
    groups = word_groups(tokens)
    for pieces, word in zip(groups, word_texts(tokens, groups), strict=True):
        if not tokens.special[pieces[0]]:
            start, end = tokens.offsets[pieces[0]][0], tokens.offsets[pieces[-1]][1]
            joined = start == reached < end  # tokens that were given without a text have no offsets
            joined = joined and not tokens.shown[pieces[0]].startswith(" ")  # its offsets include the space
            text += ("" if joined or not text else " ") + printable(word)
            reached = end
    return text or "(no words)"


def mask_entry(record: AttentionRecord, levels: int, chunks: Chunks[Any], kept: FullHeads | None) -> dict[str, Any]:
    """Describe the maps of one text under one mask: weights, mask, and the pattern of each head."""
    summaries = summarise(record)
    known = {} if record.kinds is None else record.kinds.heads
    return {
        "name": printable(record.mask_name),
        "levels": levels,
        **maps_entry(record, levels, chunks, kept),
        "allowed": allowed_entry(record.compact_masks, chunks),
        "hides": not record.compact_masks.all(),
        "findings": findings_entry(record, kept),
        "measured": "" if record.kinds is None else record.kinds.origin,
        "kinds": [
            [
                {
                    "label": summaries[layer, head].label.replace("_", " "),
                    "share": round(summaries[layer, head].strength, 4),
                    "entropy": round(summaries[layer, head].entropy, 4),
                    "measured": list(known.get((layer, head), [])),
                }
                if head in record.heads_of(layer)
                else None
                for head in record.heads
            ]
            for layer in record.layers
        ],
    }


def findings_entry(record: AttentionRecord, kept: FullHeads | None = None) -> dict[str, Any]:
    """Describe the heads that stand out, each with its word-to-word edge farthest above the usual weight.

    heads: `[layer, head, query, key, weight, usual]`, the farthest above first; in a small page only heads with full
    maps. count: the number of heads with such an edge. texts: the number of texts over which the usual weight is a
    mean.
    For a text that a model wrote, there are two more fields. steps: for each written token its query, its probability,
    the likeliest tokens, and the strong edge of its query farthest above usual. shares: `[token, share, uniform]` for
    each token of the prompt: its share of the attention of all these queries, over all layers and heads and without
    sinks, and its share under uniform attention.
    """
    over = Usual.of_text(record)
    of_heads = edges(record, over)
    found = [edge for edge, *_ in of_heads]
    shown = [edge for edge in found if kept is None or (edge.layer, edge.head) in kept.heads]
    steps = [] if record.written is None else written_tokens(record, of_heads)
    written = [
        {
            "query": token.query,
            "token": token.place,
            "probability": None if token.probability is None else round(token.probability, 4),
            "likely": [[visible(label), round(probability, 4)] for label, probability in token.likely.items()],
            "edge": _edge_entry(token.edges[0]) if token.edges else None,
        }
        for token in steps
    ]
    return {
        **({"steps": written, "shares": prompt_shares(record, [token.query for token in steps])} if steps else {}),
        "heads": list(map(_edge_entry, shown[:MOST_FINDINGS])),
        "count": len(found),
        "texts": over.texts,
    }


def prompt_shares(record: AttentionRecord, rows: Sequence[int]) -> list[list[float]]:
    """Return the shares of the prompt's tokens in the attention of these rows, as in `findings_entry`."""
    without = ~sinks(record)
    means = record.weights[:, :, rows].mean(axis=(0, 1, 2), dtype=np.float64) * without
    visible = np.mean([record.mask_of(layer)[rows] for layer in record.layers], axis=0) * without  # [row, key]
    uniform = (visible / np.maximum(visible.sum(axis=1, keepdims=True), 1)).mean(axis=0)
    end = len(record.keys) if record.crosses else rows[0] + 1
    shares = means / (means.sum() or 1)
    return [
        [place, round(float(shares[place]), 6), round(float(uniform[place]), 6)]
        for place in np.flatnonzero(without[:end]).tolist()
    ]


def _edge_entry(edge: Edge) -> list[Any]:
    return [edge.layer, edge.head, edge.query, edge.key, round(edge.weight, 4), round(edge.usual, 4)]


def maps_entry(record: AttentionRecord, levels: int, chunks: Chunks[Any], kept: FullHeads | None) -> dict[str, Any]:
    """Store the full maps of each layer, of all heads or of those in `kept`.

    With `kept`, and for long texts, also store small maps.
    """
    whole = list(record.weights)
    if kept is not None or record.pairs is not None:
        of_layer = record.heads_of if kept is None else kept.of_layer
        whole = [
            layer[[record.heads.index(head) for head in sorted(of_layer(number))]]
            for number, layer in zip(record.layers, record.weights, strict=True)
        ]
    entry: dict[str, Any] = {"maps": chunks.add_layers(whole, levels)}
    if kept is not None or max(record.weights.shape[2:]) > LONG:
        side = THUMBNAIL if kept is None else kept.side
        maps, masks = small_maps(record, side), record.compact_masks.astype(np.float32)
        # A cell of a small map is visible if any cell of its block is.
        allowed = pool(masks, side, side) if masks.ndim == 2 else np.stack([pool(one, side, side) for one in masks])
        entry["small"] = {
            "maps": chunks.add_layers(maps, SMALL),
            "levels": SMALL,
            "rows": maps[0].shape[1],
            "columns": maps[0].shape[2],
            "allowed": allowed_entry(allowed > 0, chunks),
        }
    return entry


def allowed_entry(masks: Bools, chunks: Chunks[Any]) -> str | list[str]:
    """Store masks with one bit per cell: one mask `[query, key]` for all layers, or one per layer."""
    if masks.ndim == 3:
        return [chunks.add(chunks.form.one(np.packbits(mask).tobytes())) for mask in masks]
    return chunks.add(chunks.form.one(np.packbits(masks).tobytes()))
