"""Check any printed document: its fields are those documented, and its numbers are possible."""

from collections.abc import Iterator
from typing import Any

from written_documents import problems

from attncli.features.document import sections

SHARES = {"self", "previous", "next", "first", "cls", "separator", "punctuation", "same_word", "strongest"}
ROUNDING = 1e-4  # what float32 makes of a sum, and more than that is no rounding
SUBCOMMANDS = {"models show"}


def untrue(typed: tuple[str, ...], document: Any) -> str | None:
    """Return what can't be true of a document; None if all can."""
    name = " ".join(typed[:2]) if " ".join(typed[:2]) in SUBCOMMANDS else typed[0]
    if name not in sections():
        return None
    return next(iter(problems(name, document)), None) or next(impossible(typed, document), None)


def impossible(typed: tuple[str, ...], document: dict[str, Any]) -> Iterator[str]:
    for record in document.get("records", []):
        if isinstance(record, dict) and "attention" in record:
            yield from bad_record(record, cut="--no-special" in typed)
    if typed[0] == "stats":
        yield from bad_statistics(document)


def bad_record(record: dict[str, Any], cut: bool) -> Iterator[str]:
    """Rows of weights sum to 1, or to 0 where nothing may be attended to; none is negative; none is hidden.

    cut: without the columns of special tokens, so that they sum to less.
    """
    queries, keys = len(record["tokens"]), len(record.get("key_tokens") or record["tokens"])
    pairs = [(one["layer"], one["head"]) for one in record["attention"]]
    if len(set(pairs)) < len(pairs):
        yield "a head is there twice"
    if len(record["segments"]) != queries:
        yield "not every token has a segment"
    shared = record.get("measure", "weight") != "norm"
    for one in record["attention"]:
        rows = one["weights"]
        if len(rows) != queries or any(len(row) != keys for row in rows):
            yield "weights of another shape than the tokens"
            return
        if any(weight < 0 for row in rows for weight in row):
            yield "a weight is negative"
        if not shared:
            continue
        for query, row in enumerate(rows):
            total = sum(row)
            if not (near(total, 1.0) or near(total, 0.0) or (cut and total < 1)):
                yield f"a row sums to {total:.4g}"
                return
            if record["mask"] == "causal" and keys == queries and any(weight > 0 for weight in row[query + 1 :]):
                yield "a weight where the mask forbids any"
                return


def near(found: float, wanted: float) -> bool:
    return abs(found - wanted) < 0.02  # as in bfloat16


def bad_statistics(document: dict[str, Any]) -> Iterator[str]:
    model = document["model"]
    for field in ("texts", "tokens"):
        if document[field] < 1 and not document["partial"]:
            yield f"{field} are {document[field]}"
    if document["tokens"] < document["texts"]:
        yield f"{document['tokens']} tokens in {document['texts']} texts"
    limits = document["entropy_limit"]
    limits = limits if isinstance(limits, list) else [limits] * model["layers"]
    wanted = [(layer, head) for layer in range(model["layers"]) for head in range(model["heads"])]
    if [(one["layer"], one["head"]) for one in document["heads"]] != wanted:
        yield "its heads are not those of the model, in their order"
        return
    for one in document["heads"]:
        figures, spread = one["figures"], one["spread"]
        if not -ROUNDING <= figures["entropy"] <= limits[one["layer"]] + ROUNDING:
            yield f"an entropy is {figures['entropy']}"
        for name in SHARES & figures.keys():
            if not -ROUNDING <= figures[name] <= 1 + ROUNDING:
                yield f"{name} is {figures[name]}"
        if figures["distance"] < -ROUNDING or min(spread.values()) < -ROUNDING:
            yield "a distance or a spread is negative"
