"""Describe the records of a page as JSON and chunks of numbers, as data.js reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.analysis.edges import Edge, Usual, edges, written_tokens
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

# --- records of which some heads are kept -------------------------------------------------------------

WHOLE, SMALL = 1023, 255  # levels of the weights of whole heads and of small maps
SIDES = (64, 48, 32, 24, 16)  # of a small map, in cells
SMALL_SHARE = 0.3  # of the room, for small maps


@dataclass(frozen=True)
class FullHeads:
    """The heads of a record that a small page holds in full.

    heads: (layer, head) of each; the page opens at the first. side: the largest side of the small maps of the others,
    in which a cell is the largest of the weights that fall into it.
    """

    heads: list[tuple[int, int]]
    side: int

    @classmethod
    def within(cls, record: AttentionRecord, ranked: Sequence[tuple[int, int]], room: int) -> "FullHeads":
        """Keep what `room` characters hold of a record: the finest small maps, then heads as they are ranked."""
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
        """Return the heads of a layer that are kept in full."""
        return sorted(head for of, head in self.heads if of == layer)

    def opening(self) -> dict[str, Any]:
        """Return the state where an address says nothing: the first head in full, or else all heads."""
        if not self.heads:
            return {"view": "model"}
        layer, head = self.heads[0]
        return {"layer": layer, "head": head, "heads": [head]}


def small_maps(record: AttentionRecord, side: int) -> list[Floats]:
    """Return the small maps of each layer, `[head, query, key]`, at most `side` x `side`."""
    return [np.stack([pool(one, side, side) for one in layer]) for layer in record.weights]


# --- the description ----------------------------------------------------------------------------------

LONGEST_TITLE = 60
LONG, THUMBNAIL = 256, 96  # tokens; decoding all heads of longer texts takes longer than looking at them all may
VECTORS = "vectors"  # how the names of chunks of q and k begin
MOST_FINDINGS = 24  # heads that stand out
NO_VECTORS: dict[str, Any] = {"heads": [], "size": 0, "terms": []}


def payload(
    records: Sequence[AttentionRecord], start: dict[str, Any], kept: FullHeads | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the description of a page of these records, and its chunks by name.

    Neighbours of the same tokens under different masks are one text. start: the state that the page opens with. kept:
    the part of the weights that it holds, where that is not all.

    Raises RequestError when there is no record, or they are not all of one model, layers and heads.
    """
    chunks = Chunks(TEXTS)
    return fill(chunks, records, start, kept), chunks.there


def plain_payload(
    records: Sequence[AttentionRecord], start: dict[str, Any], prefix: str = ""
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the payload of a page that asks for its texts one after the other: its chunks are bytes.

    Their names begin with `prefix`. They are not compressed: undoing that takes longer than sending a few numbers.

    Raises RequestError as `payload` does.
    """
    chunks = Chunks(PLAIN, prefix)
    return fill(chunks, records, start, None), chunks.there


def fill(
    chunks: Chunks[Any], records: Sequence[AttentionRecord], start: dict[str, Any], kept: FullHeads | None
) -> dict[str, Any]:
    """Add the numbers of these records to the chunks, and return the description. Raises RequestError as `payload`."""
    check_alike(records)
    first = records[0]
    levels = WHOLE if kept else pick_levels([record.weights for record in records])
    groups = by_text(records)
    texts = [text_entry(group, levels, chunks, kept) for group in groups]
    masks = (mask for text in texts for mask in text["masks"])
    # q and k of every head that has them, as finely as the weights leave room for.
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
    """Return the part of the description that pages of records have: model, layers, heads, texts, and how it opens.

    record: one of the page. chosen: the heads of each layer, if these are not the same.
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


def check_alike(records: Sequence[AttentionRecord]) -> None:
    """Raises RequestError when the records can't stand in one page."""
    if not records:
        raise RequestError("there is no record to make a page of")
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
                raise RequestError(f"a page has the same {what} for all texts, not {other} and {one}: make two pages")


def by_text(records: Sequence[AttentionRecord]) -> list[list[AttentionRecord]]:
    """Group neighbours of the same tokens under different masks."""
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

    `keys` is null where they are the tokens of the queries; the note is empty where each token of the text is there.
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
    """Describe the tokens along one side, and the words among them: [the word, its pieces]."""
    groups = word_groups(tokens)
    return {
        "tokens": [visible(token) for token in tokens.shown],
        "segments": tokens.segments,
        "special": tokens.special,
        "words": [[visible(word), group] for word, group in zip(word_texts(tokens, groups), groups, strict=True)],
    }


def title_of(record: AttentionRecord) -> str:
    """Return a text as it was written, for the menu of texts; for a decoder or a cross-attention, name that too."""
    title = text_of(record.tokens)
    if record.key_tokens is not None:
        title = f"{text_of(record.key_tokens)} → {title}"
    return title if record.kind == "encoder" else f"{record.kind}: {title}"


def text_of(tokens: Tokens) -> str:
    """Return a text, or a pair of texts, on one line as it was written; where that is not known, its words."""
    parts = [""] * (max(tokens.segments) + 1)
    for segment, written in zip(tokens.segments, tokens.written, strict=True):
        parts[segment] += written
    return printable(" ".join(" ".join(parts).split())) or words_of(tokens)


def words_of(tokens: Tokens) -> str:
    """Return the words of a text without the tokenizer's own marks, with spaces where the text had any."""
    text, reached = "", 0
    groups = word_groups(tokens)
    for pieces, word in zip(groups, word_texts(tokens, groups), strict=True):
        if not tokens.special[pieces[0]]:
            start, end = tokens.offsets[pieces[0]][0], tokens.offsets[pieces[-1]][1]
            joined = start == reached < end  # tokens that no text was cut into have no offsets
            joined = joined and not tokens.shown[pieces[0]].startswith(" ")  # whose offsets begin with the space
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
    """Describe the heads that stand out: the edge between words of each that is farthest above its usual weight.

    heads: `[layer, head, query, key, weight, usual]`, the farthest above first; of a small page those that it has in
    full. count: the number of heads with such an edge. texts: the number of texts that the usual weight is a mean over.
    steps: of a text that a model wrote, each written token's row, probability, the most likely ones, and the farthest
    edge of its row.
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
        **({} if record.written is None else {"steps": written}),
        "heads": list(map(_edge_entry, shown[:MOST_FINDINGS])),
        "count": len(found),
        "texts": over.texts,
    }


def _edge_entry(edge: Edge) -> list[Any]:
    return [edge.layer, edge.head, edge.query, edge.key, round(edge.weight, 4), round(edge.usual, 4)]


def maps_entry(record: AttentionRecord, levels: int, chunks: Chunks[Any], kept: FullHeads | None) -> dict[str, Any]:
    """Store the weights of every layer, or of the heads that are kept; beside these, and for long texts, small maps."""
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
        # A cell may be attended to where any cell that falls into it may.
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
    """Store the masks, a bit a cell: one for all layers where they have one mask `[query, key]`, else one for each."""
    if masks.ndim == 3:
        return [chunks.add(chunks.form.one(np.packbits(mask).tobytes())) for mask in masks]
    return chunks.add(chunks.form.one(np.packbits(masks).tobytes()))
