"""How large a page will be, from the shapes of its records and a part of their weights: known before it is built."""

from collections.abc import Sequence

from attncli.analysis.shares import row_shares
from attncli.record import AttentionRecord
from attncli.render.page.modules import FOLDER, script
from attncli.render.page.pack import ROWS, pack_layers, pick_scale, some_rows
from attncli.render.page.vectors import LEAST, MOST, ROOM

ENOUGH = 5_000_000  # weights that are packed to find out how much all take: other layers of each text
# Characters that a page takes for what is not weights, as they were measured.
TOKEN, KIND, CHUNK = 32, 52, 110  # a token, what a head does, the element around packed numbers


def expected_size(records: Sequence[AttentionRecord]) -> int:
    """About how many characters `page` makes of these records, to a fifth.

    Weights take most of it. How small they become depends on them, and is tried on a part of them.
    """
    maps = [row_shares(record).weights for record in records]
    step = -(-sum(one[:, :, :ROWS].size for one in maps) // ENOUGH)
    places = [(text, layer) for text, one in enumerate(maps) for layer in range(len(one)) if (text + layer) % step == 0]
    samples = [some_rows(maps[text][layer]) for text, layer in places]
    share = sum(map(len, pack_layers(samples, pick_scale(maps)))) / sum(layer.size for layer in samples)
    frame = len(script()) + sum(
        len((FOLDER / name).read_text("utf-8")) for name in ("style.css", "frame.html", "template.html")
    )
    weights = share * sum(one.size for one in maps)
    return round(frame + weights + sum(map(without_weights, records)) + vectors_size(records, weights))


def vectors_size(records: Sequence[AttentionRecord], weights: float) -> float:
    """The characters of q and k in a page whose weights take so many (`attncli.render.page.vectors.store`)."""
    numbers = sum(record.vectors.size for record in records if record.vectors is not None)
    return max(LEAST * numbers, min(MOST * numbers, max(weights, ROOM)))


def without_weights(record: AttentionRecord) -> float:
    """The characters of a record beside its weights, q and k: tokens, what each head does."""
    layers, heads = record.weights.shape[:2]
    tokens = len(record.tokens) + (0 if record.key_tokens is None else len(record.key_tokens))
    return TOKEN * tokens + KIND * layers * heads + CHUNK * (layers + 2)
