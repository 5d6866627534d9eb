"""The document of `mechanisms`."""

from typing import Annotated, TypedDict

from attncli.base import choices
from attncli.record.parts import ModelDocument, RecordDocument


class VariantEntry(TypedDict):
    """The head's queries and keys with every scoring function and normaliser; scores with random parameters have
    softmax only.
    """

    score: Annotated[str, "the scoring function"]
    normaliser: str
    trained: Annotated[bool, "false: parameters of the score are random"]
    weights: Annotated[list[list[float]], "", "`[query][key]`"]
    entropy: Annotated[float, "mean over queries", "nats"]
    moved: Annotated[float, "weight that must move to get the head's own map", "share of the weight"]
    same_key: Annotated[float, "queries with the same strongest key as in the head's own map", "share of queries"]
    zero: Annotated[float, "keys with a weight of exactly 0", "share of visible keys"]
    output: Annotated[float, "change of the head's output, ‖changed - own‖ / ‖own‖"]


class DesignEntry(TypedDict):
    """The head's queries and keys in other designs, with controls."""

    name: Annotated[str, "as in `--design`"]
    described: Annotated[str, "in words"]
    trained: Annotated[bool, "false: some parameters are random"]
    weights: Annotated[list[list[float]], "", "`[query][key]`"]
    entropy: Annotated[float, "mean over queries", "nats"]
    distance: Annotated[float, "mean distance of the weight, over queries", "tokens"]
    moved: Annotated[float, "as in `variants`", "share of the weight"]
    same_key: Annotated[float, "as in `variants`", "share of queries"]
    control: Annotated[str, "a description of the controls"]
    control_distance: Annotated[float, "mean over the controls", "tokens"]
    control_moved: Annotated[float, "mean over the controls", "share of the weight"]
    control_weights: Annotated[list[list[float]], "the first control's map", "`[query][key]`"]
    verdict: Annotated[str, "its numbers compared with those of the head and the controls"]


class ClaimEntry(TypedDict):
    """The claims of tutorials and papers."""

    name: str
    statement: Annotated[str, "in words"]
    figures: Annotated[dict[str, float], "the measured numbers, by name"]
    holds: Annotated[bool, "true if the numbers agree with the claim"]
    finding: Annotated[str, "further findings, in words; otherwise empty"]


class ExchangedEntry(TypedDict):
    """The control: heads of the layer exchange their maps; null if the layer has one head."""

    moved: Annotated[float, "as below, mean over all exchanges", "share of the weight"]
    others_moved: Annotated[float, "as below, mean over all exchanges", "share of the weight"]
    output: Annotated[float, "as below, mean over all exchanges"]


class PlantedEntry(TypedDict):
    """Each mistake, in its first variant that changes something here."""

    name: str
    says: Annotated[str, 'completes "this computes attention"']
    where: Annotated[str, "where people make it"]
    remedy: Annotated[str, "how to fix it"]
    needs: Annotated[str | None, "what a text needs to show it; null: every text shows it"]
    moved: Annotated[
        float | None,
        "as in `variants`, above 1 if a row sums to more; null, as the next three, if it does not show here or gives "
        "NaN",
        "share of the weight",
    ]
    others_moved: Annotated[float | None, "the same for the layer's other heads, mean", "share of the weight"]
    output: Annotated[float | None, "for the layer's attention, ‖changed - own‖ / ‖own‖"]
    weights: Annotated[list[list[float]] | None, "the head's map", "`[query][key]`"]


class MistakesEntry(TypedDict):
    """With `--mistakes`: the effect of known mistakes on the head."""

    exchanged: ExchangedEntry | None
    made: list[PlantedEntry]


class MechanismsDocument(TypedDict):
    """With `--design` the document has only that entry of `designs`, and with `--mistakes` only `mistakes`. `.csv`: a
    row per entry of `variants`, with `--design` of `designs`, with `--mistakes` of `mistakes.made`.
    """

    model: ModelDocument
    layer: Annotated[int, "layer of the head"]
    head: int
    mask: Annotated[str, choices.one_of(choices.MaskName)]
    temperature: Annotated[float, "of softmax"]
    reach: Annotated[int, "of windows, to each side", "tokens"]
    seed: Annotated[int, "random seed"]
    tokens: Annotated[list[str], "", "`[token]`"]
    weights: Annotated[list[list[float]], "the head's own map", "`[query][key]`"]
    variants: list[VariantEntry]
    designs: list[DesignEntry]
    claims: list[ClaimEntry]
    mistakes: MistakesEntry | None
    records: Annotated[list[RecordDocument], "the record of the head's own map"]
