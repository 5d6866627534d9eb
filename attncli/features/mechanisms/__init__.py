"""Put one head under every score and in other designs, make known mistakes in it, and measure what is claimed.

`head` is a head among those of its layer, `designs` has its maps under other scores, positions, windows and shared
keys, `claims` the claims of tutorials and papers as data, `mistakes` the mistakes that people make. They compute with
torch and are imported when a report is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.features import options
from attncli.features.feature import Feature
from attncli.features.inputs import check_one, chosen_layers, open_tapped, read_inputs
from attncli.features.options import MODEL, OUTPUT, choice, option
from attncli.models.opening import Opening
from attncli.record import AttentionRecord, Request
from attncli.record.display import drawn_map, hide_masked, model_name, record_size
from attncli.report import Cell, Column, MapAxis, Maps, NextCommand, Panel, Part, Report, Table, TextLine
from attncli.report.parts import three_digits

if TYPE_CHECKING:
    from attncli.features.mechanisms.claims import Claim
    from attncli.features.mechanisms.designs import Design, Variant
    from attncli.features.mechanisms.head import Figures
    from attncli.features.mechanisms.mistakes import Mistakes, Moved
    from attncli.models.engine import Engine
    from attncli.models.head import OneHead

WINDOWS: tuple[choices.DesignName, ...] = ("window", "causal-window")  # designs that are masks and need no projections
SHARED: tuple[choices.DesignName, ...] = ("grouped", "multi-query")
COLDEST, HOTTEST = 0.001, 1000.0  # beyond, every row is hard or uniform, and at last scores overflow
REACH = 2  # of a window, to each side


@dataclass(eq=False)
class Mechanisms(Feature):
    """Run one head with other scores and in other designs.

    Designs are other positions, windows and shared keys. Parameters that this model never learned are random and
    labelled "untrained". Claims of tutorials and papers are measured; one that fails is a finding (exit code 0).

    \b
    Examples:
      attncli mechanisms "The cat sat on the mat." -l 2 -H 9 --temperature 0.5
      attncli mechanisms "The cat sat on the mat." -l 4 -H 3 --design alibi
    """

    group = "Understand"
    saves = (*PICTURES, *DOCUMENTS)
    saved_as = "what is measured"

    text: options.Text = None
    pair: options.Pair = None
    file: options.File = None
    whole: options.Whole = False
    layer: options.OneLayer = "-1"
    head: options.OneHeadOption = "0"
    model: options.ModelName = "minilm"
    temperature: Annotated[
        float, option(MODEL, "--temperature", metavar="T", help="Of softmax: below 1 is sharper, above 1 softer.")
    ] = 1.0
    design: Annotated[
        choices.DesignName | None, choice(MODEL, choices.DesignName, "--design", help="Only one design, with its map: ")
    ] = None
    mistakes: Annotated[bool, option(MODEL, "--mistakes", help="Only the effects of known mistakes on the head.")] = (
        False
    )
    everything: Annotated[
        bool, option(OUTPUT, "--all", help="Show all figures, scores and designs.", use="terminal")
    ] = False
    reach: Annotated[
        int, option(MODEL, "--reach", rare=True, metavar="N", min=0, help="Tokens to each side of a window.")
    ] = REACH
    seed: Annotated[
        int,
        option(MODEL, "--seed", rare=True, metavar="N", min=0, max=2**63 - 1, help="The seed of random parameters."),
    ] = 0
    which: options.Which = None
    target: options.Target = None
    mask: options.MaskOption = None
    pad_to: options.PadTo = None
    device: options.DeviceOption = "auto"

    def report(self) -> Report:
        if self.mistakes:
            why = "with --mistakes, which are made in the head as it is"
            self.refuse(why, "design", "temperature", "reach", "seed", "everything")
        if self.design is not None:
            self.refuse("with --design, which is shown in full", "everything")
        if self.design is not None and self.design not in WINDOWS:
            self.refuse(f"with --design {self.design}, which is no window", "reach")
        if self.design in SHARED:
            self.refuse(f"with --design {self.design}, where nothing is random", "seed")
        scores_only = self.path is not None and self.path.suffix.lower() != ".json" and not self.for_program
        if self.path is not None and scores_only and self.design is None:
            self.refuse(f"with -o {self.path.suffix}, which has scores and no designs", "reach")
        inputs = read_inputs(self.text, self.pair, self.file, whole=self.whole)
        check_one(len(inputs), "give the one to measure as TEXT")
        # In float32: where a claim says that two ways give the same, their difference is compared with its rounding.
        model = open_tapped(Opening(self.model, self.device, "float32"), self.which)
        from attncli.models.head import head_of_text

        request = Request(
            chosen_layers(self, "-1"), self.head, self.mask, pad_to=self.pad_to, which=self.which, target=self.target
        )
        taken = head_of_text(model, inputs[0], request)
        if not self.mistakes:
            found = measure(model, taken, self.temperature, self.seed, self.reach, self.design)
            return _report(found, self.everything or any(map(self.is_set, ("temperature", "seed", "reach"))))
        from attncli.features.mechanisms.head import HeadInLayer
        from attncli.features.mechanisms.mistakes import make_mistakes

        own = HeadInLayer.of(model, taken).own_figures
        return _report(_Measured(taken.record, own, mistakes=make_mistakes(model, taken)))


# --- results --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Measured:
    """The measurements on one head.

    own: figures of its map. variants, designs: its queries and keys under other scores and in other designs. claims:
    how they came out. temperature: of softmax. reach: of windows. seed: of what is random. mistakes: None where they
    were not asked for. projections: whether they are known; without them some designs and claims are left out.
    """

    record: AttentionRecord
    own: "Figures"
    temperature: float = 1.0
    reach: int = REACH
    seed: int = 0
    variants: "list[Variant]" = field(default_factory=list)
    designs: "list[Design]" = field(default_factory=list)
    claims: "list[Claim]" = field(default_factory=list)
    mistakes: "Mistakes | None" = None
    projections: bool = True

    def document(self) -> dict[str, Any]:
        """Return the document of --json."""
        [layer], [head] = self.record.layers, self.record.heads
        return {
            "model": self.record.model.document(),
            "layer": layer,
            "head": head,
            "mask": self.record.mask_name,
            "temperature": self.temperature,
            "reach": self.reach,
            "seed": self.seed,
            "tokens": self.record.tokens.text,
            "weights": self.record.map(layer, head).tolist(),
            "variants": [variant.document() for variant in self.variants],
            "designs": [design.document() for design in self.designs],
            "claims": [asdict(claim) for claim in self.claims],
            "mistakes": None if self.mistakes is None else self.mistakes.document(),
            "records": [self.record.document()],
        }


def measure(
    model: "Engine",
    head: "OneHead",
    temperature: float = 1.0,
    seed: int = 0,
    reach: int = REACH,
    design: str | None = None,
) -> _Measured:
    """Measure a head under every scoring function and normaliser, in other designs, and the claims on it; or in one
    design only.

    The model should compute in float32 or better, because differences are compared with the rounding of float32.

    Raises RequestError if softmax can't be computed at this temperature, and where this head can't be in that design.
    """
    from attncli.features.mechanisms.claims import ClaimTrial, check_claims
    from attncli.features.mechanisms.designs import designs, variants
    from attncli.features.mechanisms.head import HeadInLayer

    if not COLDEST <= temperature <= HOTTEST:  # NaN is not either
        raise RequestError(
            f"--temperature {temperature:g} is out of range: use {COLDEST:g} to {HOTTEST:g}; 1 changes nothing"
        )
    known, to_itself = head.x is not None, head.record.key_tokens is None
    if design is not None and not to_itself:
        raise RequestError(
            f"--design {design} is for a text's attention to itself, and this is cross-attention: leave --design out, "
            "or take --which encoder or decoder"
        )
    if design is not None and not known and design not in WINDOWS:
        raise RequestError(
            f"--design {design} needs a layer's projections, which are not known in {model.place.name}, because "
            f"transformers runs it: --design {' or '.join(WINDOWS)}"
        )
    inside = HeadInLayer.of(model, head)
    found = designs(inside, reach, temperature, seed, design) if to_itself else []
    result = _Measured(head.record, inside.own_figures, temperature, reach, seed, designs=found, projections=known)
    if design is None:
        claims = check_claims(ClaimTrial(head, seed))
        return replace(result, variants=variants(head, temperature, seed), claims=claims)
    if not found:
        heads, _, d_k = inside.key.shape
        raise RequestError(
            f"--design {design} needs several heads of at least 2 elements; this layer has {heads} of {d_k}"
        )
    return result


# --- the report -----------------------------------------------------------------------------------------

OWN_SCORE = "scaled_dot"
ROUNDING = 1e-6  # of a scale
SEEN = 5e-4  # of a row's weight: what three decimals show
ACROSS = 3  # mistakes, side by side
NORMALISERS_ACROSS = 4
FIGURES = (
    "entropy: in nats; 0 attends to one token. moved: the weight that must move to turn this map into the head's own "
    "(total variation). Both are means over queries. same strongest key: the share of queries that have the strongest "
    "key of the head's own map. exactly 0: the share of visible keys with a weight of exactly 0. output: the change of "
    "the head's output, ‖changed - own‖ / ‖own‖. Rows of sigmoid can have any sum: their entropy says little, and "
    "moved can be above 1."
)
CONTROLS = (
    "distance: how many tokens away the weight is. moved: the weight that must move to turn this map into the head's "
    "own. In brackets: the mean of the controls. They have positions in shuffled orders, or, for shared keys, the keys "
    "of each other head. nearer, further: compared with the head as it is and with every control."
)
HARM = (
    "moved: the weight that must move to turn this map into the head's own, as a mean over queries. It is above 1 "
    "where a row sums to more than 1. In brackets: the mean of the layer's other heads. output: the change of the "
    "layer's output, ‖changed - own‖ / ‖own‖. A mistake above the control harms more than exchanging the heads' maps. "
    "Of several ways to make a mistake, the first that shows is listed."
)
MORE = "--all shows the figures of every claim, all scores and all designs; --mistakes known mistakes."
LEFT_OUT = (
    "Left out: claims and designs that need a layer's input and projections. They are unknown in a network that "
    "transformers runs."
)


def _report(found: _Measured, everything: bool = False) -> Report:
    """Report mistakes only, one design only, the verdicts on all claims, or everything except mistakes."""
    record = found.record
    [layer], [head] = record.layers, record.heads
    title = [
        model_name(record.model.full_name), *record.unusual, f"layer {layer} head {head}", f"mask {record.mask_name}",
        record_size(record),
    ]  # fmt: skip
    axes = (
        MapAxis("query", record.tokens.shown, special=record.tokens.special),
        MapAxis("key", record.keys.shown, special=record.keys.special),
    )
    own = Panel("as it is", record.map(layer, head))
    picture: list[Part] | None = None
    parts: list[Part]
    if found.mistakes is not None:
        panels = [own]  # of mistakes that change the map so that it can be seen
        for mistake in found.mistakes.made:
            if mistake.weights is not None and mistake.moved is not None and not mistake.moved.own < SEEN:
                panels.append(Panel(mistake.mistake.name, mistake.weights))
        maps = Maps([panels[start : start + ACROSS] for start in range(0, len(panels), ACROSS)], *axes)
        about = TextLine("the head as it is, and with known mistakes in its layer", caption=True)
        parts = [about, maps, _mistakes(found.mistakes), TextLine(HARM)]
    elif not found.variants:
        [design] = found.designs
        made = Panel(design.name_shown, design.found.weights)
        control = Panel(f"control: {design.control}", design.controls[0].weights)
        parts = [
            TextLine(f"{design.name_shown}: {design.verdict}", caption=True),
            Maps([[own, made, control]], *axes),
            _designs(found.own, found.designs),
            TextLine(CONTROLS),
        ]
    else:
        maps, captions = _variant_maps(found, axes), [TextLine(words, caption=True) for words in _captions(found)]
        picture = [*captions, maps]
        holding = sum(claim.holds for claim in found.claims)
        parts = [TextLine(f"{holding} of {len(found.claims)} claims hold here")]
        if everything:
            rows = [[Panel("as it is", drawn_map(record, layer, head))], *maps.panels]
            with_own = replace(maps, panels=rows, headings=["the head's own map", *maps.headings])
            parts += [_claims(found.claims), *captions, with_own]
            parts += [_variants(found.variants, found.temperature), TextLine(FIGURES)]
            parts += [_designs(found.own, found.designs), TextLine(CONTROLS)] if found.designs else []
        else:
            verdicts: list[list[str | Cell]] = [
                [Cell("yes") if claim.holds else Cell("NO", "wrong"), claim.statement.partition(": ")[0]]
                for claim in found.claims
            ]
            parts += [Table([Column("holds here"), Column("claim", "prose")], verdicts), TextLine(MORE)]
        parts += [] if found.projections else [TextLine(LEFT_OUT)]

    def rows_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a .csv."""
        made = document["mistakes"]
        return list(made["made"] if made else document["variants"] or document["designs"])

    return Report(title, parts, found.document, rows_of, picture, next=NextCommand("explain", {}))


def _captions(found: _Measured) -> list[str]:
    """Say which score is the head's own, and where untrained parameters come from."""
    untrained = f"untrained: parameters that the model never learned, drawn from seed {found.seed}"
    vectors = found.record.vectors
    if vectors is not None:
        off = abs(float(vectors.scale[0]) * vectors.query.shape[-1] ** 0.5 - 1)
        if vectors.terms or not off < ROUNDING:  # its own score is not q·k / √d_k, or has something added to it
            return [untrained]
    softmax = "its softmax" if found.temperature == 1 else "its softmax at T = 1"
    sink = ", except for its sink" if found.record.sinks else ""
    return [f"{OWN_SCORE} is the head's own score, and {softmax} is the head's own map{sink}", untrained]


def _by_score(variants: "Sequence[Variant]") -> "list[list[Variant]]":
    """Return the variants of each score, and those of all untrained scores together."""
    return [list(row) for _, row in groupby(variants, key=lambda one: one.score if one.trained else None)]


def _normaliser(name: str, temperature: float) -> str:
    """Return a normaliser's name, with its temperature if that is not 1."""
    return f"softmax, T = {temperature:g}" if name == "softmax" and temperature != 1 else name


def _variant_maps(found: _Measured, axes: tuple[MapAxis, MapAxis]) -> Maps:
    """Return rows of maps: a score with its normalisers, and the untrained scores under softmax."""
    mask = found.record.mask_of(found.record.layers[0])
    rows, headings = [], []
    for row in _by_score(found.variants):
        softmax, trained = _normaliser("softmax", found.temperature), row[0].trained
        names = [_normaliser(one.normaliser, found.temperature) if trained else one.score for one in row]
        panels = [Panel(name, hide_masked(one.found.weights, mask)) for name, one in zip(names, row, strict=True)]
        for start in range(0, len(panels), NORMALISERS_ACROSS):
            rows.append(panels[start : start + NORMALISERS_ACROSS])
            headings.append(row[0].score if trained else f"untrained scores, {softmax}")
    return Maps(rows, *axes, headings=headings)


def _variants(variants: "Sequence[Variant]", temperature: float) -> Table:
    """Return a row a variant: how broad it is, and how far from the head's own map."""
    rows: list[list[str] | None] = []
    for row in _by_score(variants):
        for one in row:
            figures = [f"{one.found.entropy:.2f}", f"{one.found.moved:.3f}", f"{one.found.same_key:.0%}"]
            figures += [f"{one.zero:.0%}", f"{one.output:.2f}", "" if one.trained else "untrained"]
            rows.append([one.score, _normaliser(one.normaliser, temperature), *figures])
        rows.append(None)
    columns = [
        Column("score"), Column("normaliser", "name"), Column("entropy"), Column("moved"),
        Column("same strongest key", leaves=2), Column("exactly 0", leaves=3), Column("output"),
        Column("parameters", leaves=1),
    ]  # fmt: skip
    return Table(columns, rows)


def _designs(own: "Figures", designs: "Sequence[Design]") -> Table:
    """Return the head as it is, then a row a design: its figures, its controls, and how the two compare."""
    rows: list[list[str] | None] = [
        ["as it is", f"{own.entropy:.2f}", f"{own.distance:.2f}", f"{own.moved:.3f}", ""],
        None,
    ]
    for one in designs:
        document = one.document()
        distance, moved = (
            f"{document[name]:.{digits}f} ({document[f'control_{name}']:.{digits}f})"
            for name, digits in (("distance", 2), ("moved", 3))
        )
        rows.append([one.name_shown, f"{one.found.entropy:.2f}", distance, moved, one.verdict])
    columns = [
        Column("design"), Column("entropy", leaves=1), Column("distance (control)"),
        Column("moved (control)", leaves=2), Column("verdict", "name"),
    ]  # fmt: skip
    return Table(columns, rows)


def _mistakes(mistakes: "Mistakes") -> Table:
    """Return the control, then a row a mistake: those that show here, and those that don't with what they need."""

    def harm(moved: "Moved") -> tuple[str, str]:
        """ "0.420 (0.409)", "0.95" """
        others = "" if moved.of_others is None else f" ({moved.of_others:.3f})"
        return f"{moved.own:.3f}{others}", f"{moved.output:.2f}"

    shown, hidden = list[list[str] | None](), []
    if mistakes.exchanged is not None:
        shown += [["maps exchanged", *harm(mistakes.exchanged), "the control: heads have each other's maps"], None]
    for one in mistakes.made:
        name, about = one.mistake.name, f"{one.mistake.says}\n  {one.mistake.where}"
        if one.moved is not None:
            shown.append([name, *harm(one.moved), about])
        else:
            why = f"shows only with {one.mistake.needs}" if one.mistake.needs else "does not show here"
            hidden.append([name, "-", "-", f"{why}\n  {about}"])
    columns = [
        Column("mistake"), Column("moved (other heads)"), Column("output"),
        Column("this is attention ..., and where people make it", "prose", leaves=1),
    ]  # fmt: skip
    return Table(columns, [*shown, None, *hidden])


def _claims(claims: "Sequence[Claim]") -> Table:
    """Return the verdict on each claim, and its figures."""
    rows = []
    for claim in claims:
        verdict = Cell("holds") if claim.holds else Cell("DOES NOT HOLD here", "wrong")
        lines = [claim.statement, *_figures(claim.figures), *([claim.finding] if claim.finding else [])]
        rows.append([verdict, Cell("\n  ".join(lines))])
    return Table([Column("verdict"), Column("claim", "prose")], rows)


def _figures(figures: dict[str, float]) -> list[str]:
    """Return figures, on a line for each group.

    Names such as "d_k 4, q·k" and "d_k 4, / √d_k" stand together: "q·k -> / √d_k   d_k 4: 3.94 -> 0.985   16: ...";
    before a colon stands the name of a group, as in "8 keys: d_k 4, least".
    """
    groups: dict[str, dict[str, list[str]]] = {}
    steps: list[str] = []
    for name, value in figures.items():
        group, _, rest = name.rpartition(": ")
        size, _, step = rest.partition(", ")
        groups.setdefault(group, {}).setdefault(size, []).append(three_digits(value))
        steps += [step] if step and step not in steps else []
    lines: list[str] = []
    for group, by_size in groups.items():
        found = [f"{size}: {' -> '.join(values)}" for size, values in by_size.items()]
        found[1:] = [one.removeprefix("d_k ") for one in found[1:]]
        heading = " -> ".join(steps) if steps and not lines else ""
        lines.append("   ".join(part for part in (heading, group, *found) if part))
    return lines


# The fields of its document (`attncli.features.document`).
FIELDS = """
### mechanisms

model | model
layer | int | | layer of the head
head | int
mask | MaskName
temperature | float | | of softmax
reach | int | tokens | of windows, to each side
seed | int | | of everything random
tokens | [str] | `[token]`
weights | [[float]] | `[query][key]` | the head's own map
variants | [object] | | its queries and keys with every scoring function and normaliser; scores with random
    parameters have softmax only
variants.score | str | | the scoring function
variants.normaliser | str
variants.trained | bool | | false: parameters of the score are random
variants.weights | [[float]] | `[query][key]`
variants.entropy | float | nats | mean over queries
variants.moved | float | share of the weight | weight that would have to move to get the head's own map
variants.same_key | float | share of queries | queries with the same strongest key as in the head's own map
variants.zero | float | share of visible keys | keys with a weight of exactly 0
variants.output | float | | change of the head's output, ‖changed - own‖ / ‖own‖
designs | [object] | | its queries and keys in other designs, with controls
designs.name | str | | as in `--design`
designs.described | str | | in words
designs.trained | bool | | false: some parameters are random
designs.weights | [[float]] | `[query][key]`
designs.entropy | float | nats | mean over queries
designs.distance | float | tokens | mean distance of the weight, over queries
designs.moved | float | share of the weight | as in `variants`
designs.same_key | float | share of queries | as in `variants`
designs.control | str | | a description of the controls
designs.control_distance | float | tokens | mean over the controls
designs.control_moved | float | share of the weight | mean over the controls
designs.control_weights | [[float]] | `[query][key]` | the first control's map
designs.verdict | str | | its figures compared with those of the head and the controls
claims | [object] | | the claims of tutorials and papers
claims.name | str
claims.statement | str | | in words
claims.figures | {float} | | the measured figures, by name
claims.holds | bool | | true if the figures agree with the claim
claims.finding | str | | further findings, in words; otherwise empty
mistakes | object or null | | with `--mistakes`: the effect of known mistakes on the head
mistakes.exchanged | object or null | | the control: heads of the layer exchange their maps; null if the layer has
    one head
mistakes.exchanged.moved | float | share of the weight | as below, mean over all exchanges
mistakes.exchanged.others_moved | float | share of the weight | as below, mean over all exchanges
mistakes.exchanged.output | float | | as below, mean over all exchanges
mistakes.made | [object] | | each mistake, in its first variant that changes something here
mistakes.made.name | str
mistakes.made.says | str | | continues "this is attention"
mistakes.made.where | str | | where people make it
mistakes.made.remedy | str | | how to fix it
mistakes.made.needs | str or null | | what a text needs to show it; null: every text shows it
mistakes.made.moved | float or null | share of the weight | as in `variants`, above 1 if a row sums to more; null,
    as the next three, if it does not show here or gives NaN
mistakes.made.others_moved | float or null | share of the weight | the same for the layer's other heads, mean
mistakes.made.output | float or null | | for the layer's attention, ‖changed - own‖ / ‖own‖
mistakes.made.weights | [[float]] or null | `[query][key]` | the head's map
records | [record] | | the record of the head's own map

With `--design` the document has only that entry of `designs`, and with `--mistakes` only `mistakes`. `.csv`: a row
per entry of `variants`, with `--design` of `designs`, with `--mistakes` of `mistakes.made`.
"""
