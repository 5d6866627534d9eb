"""Run one head with every score and in other designs, plant known mistakes in it, and measure published claims.

`head` is a head within its layer. `designs` has its maps under other scores, positions, windows and shared keys,
`claims` the claims of tutorials and papers, `mistakes` the mistakes that people make. They import torch, so they are
imported only when a head is measured. `document` has the fields of the document.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

from attncli.base import choices
from attncli.base.arrays import titled
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.features import options
from attncli.features.inputs import layers_or, open_tappable, opening_of, read_input
from attncli.features.measure import measure, no_effect
from attncli.features.mechanisms.document import (
    ClaimEntry,
    DesignEntry,
    MechanismsDocument,
    MistakesEntry,
    VariantEntry,
)
from attncli.features.options import MODEL, OUTPUT, choice, option
from attncli.record import AttentionRecord, Request
from attncli.record.display import drawn_map, hide_masked, model_name, record_size
from attncli.report import Cell, Column, MapAxis, Maps, NextCommand, Panel, Part, Report, Result, Table, TextLine
from attncli.report.parts import three_digits

if TYPE_CHECKING:
    from attncli.features.mechanisms.claims import Claim
    from attncli.features.mechanisms.designs import Design, Variant
    from attncli.features.mechanisms.head import Figures
    from attncli.features.mechanisms.mistakes import Mistakes, Moved

WINDOWS: tuple[choices.DesignName, ...] = ("window", "causal-window")  # designs that are masks and need no projections
SHARED: tuple[choices.DesignName, ...] = ("grouped", "multi-query")
COLDEST, HOTTEST = 0.001, 1000.0  # beyond these, every row is hard or uniform, and scores finally overflow
REACH = 2  # tokens of a window to each side


@measure(saves=(*PICTURES, *DOCUMENTS), saved_as="the result")
def mechanisms(
    model: options.ModelOption = None,
    text: options.Text = None,
    *,
    pair: options.Pair = None,
    file: options.File = None,
    whole: options.Whole = False,
    layer: options.ALayer = None,
    head: options.AHead = None,
    temperature: Annotated[
        float | None,
        option(
            MODEL,
            "--temperature",
            metavar="T",
            help="Temperature of softmax: below 1 sharper, above 1 softer.",
            show_default="1.0",
        ),
    ] = None,
    design: Annotated[
        choices.DesignName | None, choice(MODEL, choices.DesignName, "--design", help="Only one design, with its map: ")
    ] = None,
    mistakes: Annotated[
        bool, option(MODEL, "--mistakes", help="Show only the effects of known mistakes on the head.")
    ] = False,
    everything: Annotated[
        bool, option(OUTPUT, "--all", help="Show all numbers, scores and designs.", only_shown=True)
    ] = False,
    reach: Annotated[
        int | None,
        option(
            MODEL,
            "--reach",
            rare=True,
            metavar="N",
            min=0,
            help="Tokens to each side of a window.",
            show_default=str(REACH),
        ),
    ] = None,
    seed: Annotated[
        int | None,
        option(
            MODEL,
            "--seed",
            rare=True,
            metavar="N",
            min=0,
            max=2**63 - 1,
            help="The seed of random parameters.",
            show_default="0",
        ),
    ] = None,
    which: options.Which = None,
    target: options.Target = None,
    mask: options.MaskOption = None,
    pad_to: options.PadTo = None,
    device: Annotated[str | None, options.DEVICE] = None,
) -> "HeadMechanisms | HeadDesign | HeadMistakes":
    """Run one head with other scores and in other designs.

    Designs are other positions, windows and shared keys. Parameters that this model never learned are random and
    labelled "untrained". Claims of tutorials and papers are measured; one that fails is a finding (exit code 0).

    \b
    Examples:
      attncli mechanisms "The cat sat on the mat." -l 2 -H 9 --temperature 0.5
      attncli mechanisms "The cat sat on the mat." -l 4 -H 3 --design alibi
    """
    if mistakes:
        changed = {"design": design, "temperature": temperature, "reach": reach, "seed": seed}
        no_effect("with --mistakes, which are planted in the unchanged head", **changed, everything=everything)
    if design is not None:
        choices.check("design", design, choices.DesignName)
        no_effect("with --design, which is shown in full", everything=everything)
        if design not in WINDOWS:
            no_effect(f"with --design {design}, which has no window", reach=reach)
        if design in SHARED:
            no_effect(f"with --design {design}, which is not random", seed=seed)
    if temperature is not None and not COLDEST <= temperature <= HOTTEST:  # refuses NaN too
        raise RequestError(
            f"--temperature must be from {COLDEST:g} to {HOTTEST:g}, got {temperature:g}; 1 changes nothing"
        )
    one = read_input(text, pair, file, whole, "give one as TEXT")
    # In float32: claims that two formulas are equal compare their difference with its rounding.
    engine = open_tappable(opening_of(model, device=device), which)
    from attncli.features.mechanisms.claims import ClaimTrial, check_claims
    from attncli.features.mechanisms.designs import designs, variants
    from attncli.features.mechanisms.head import HeadInLayer
    from attncli.models.head import head_of_text

    number = None if head is None else str(head)
    request = Request(layers_or("-1", layer, number), number or "0", mask, pad_to=pad_to, which=which, target=target)
    taken = head_of_text(engine, one, request)
    in_full = everything or any(one is not None for one in (temperature, reach, seed))
    how_measured = 1.0 if temperature is None else temperature, REACH if reach is None else reach, seed or 0
    if mistakes:
        from attncli.features.mechanisms.mistakes import make_mistakes

        return HeadMistakes(taken.record, *how_measured, make_mistakes(engine, taken))
    known, to_itself = taken.x is not None, taken.record.key_tokens is None
    if design is not None and not to_itself:
        raise RequestError(
            f"--design {design} is for self-attention, and this is cross-attention: omit --design, or use --which "
            "encoder or decoder"
        )
    if design is not None and not known and design not in WINDOWS:
        raise RequestError(
            f"--design {design} needs a layer's projections, which are unknown in {engine.place.name} because "
            f"transformers runs it: use --design {' or '.join(WINDOWS)}"
        )
    inside = HeadInLayer.of(engine, taken)
    temperature, reach, seed = how_measured
    made = designs(inside, reach, temperature, seed, design) if to_itself else []
    if design is None:
        claims = check_claims(ClaimTrial(taken, seed))
        scores = variants(taken, temperature, seed)
        return HeadMechanisms(taken.record, *how_measured, inside.own_figures, scores, made, claims, known, in_full)
    if not made:
        heads, _, d_k = inside.key.shape
        raise RequestError(
            f"--design {design} needs several heads of at least 2 elements; this layer has {heads} of {d_k}"
        )
    return HeadDesign(taken.record, *how_measured, inside.own_figures, made[0])


# --- results --------------------------------------------------------------------------------------------

OWN_SCORE = "scaled_dot"
ROUNDING = 1e-6  # of a scale
SEEN = 5e-4  # share of a row's weight that is visible in three decimals
NAMES = {  # of scores and normalisers that have other names in print
    "dot": "dot product", "scaled_dot": "scaled dot product", "qk_norm": "normalised q, k", "entmax15": "1.5-entmax",
    "relu_norm": "normalised ReLU", "hard_max": "hard max", "hard_sample": "hard sample",
}  # fmt: skip
FIGURES = (
    "entropy: in nats; 0 attends to one token. moved: the weight that must move to turn this map into the head's own "
    "(total variation). Both are means over queries. same strongest key: the share of queries with the same strongest "
    "key as in the head's own map. exactly 0: the share of visible keys with a weight of exactly 0. output: the "
    "change of the head's output, ‖changed - own‖ / ‖own‖. Rows of sigmoid can have any sum, so their entropy says "
    "little, and moved can be above 1."
)
CONTROLS = (
    "distance: mean distance of the weight, in tokens. moved: the weight that must move to turn this map into the "
    "head's own. In brackets: the mean of the controls. They have positions in shuffled orders, or, for shared keys, "
    "the keys of another head. nearer, further: compared with the unchanged head and with every control."
)
HARM = (
    "moved: the weight that must move to turn this map into the head's own, as a mean over queries. It is above 1 "
    "if a row sums to more than 1. In brackets: the mean of the layer's other heads. output: the change of the "
    "layer's output, ‖changed - own‖ / ‖own‖. A mistake above the control does more harm than exchanging the heads' "
    "maps. If a mistake has several variants, the first with an effect is listed."
)
MORE = "--all shows the numbers of every claim, all scores and all designs; --mistakes shows known mistakes."
LEFT_OUT = (
    "Left out: claims and designs that need a layer's input and projections. They are unknown in a network that "
    "transformers runs."
)


@dataclass(frozen=True, repr=False)
class MeasuredHead(Result):
    """The measurements of one head.

    record: its own map. temperature: of softmax. reach: of windows. seed: the random seed.
    """

    record: AttentionRecord
    temperature: float
    reach: int
    seed: int

    def __repr__(self) -> str:
        """<HeadDesign of minilm: layer 4 head 3, ALiBi, looks nearer>"""
        return titled(self, self.record.model.full_name, self._name, *self._facts())

    @property
    def _name(self) -> str:
        [layer], [head] = self.record.layers, self.record.heads
        return f"layer {layer} head {head}"

    def _facts(self) -> list[str]:
        """Return the facts of the line that describes it."""
        raise NotImplementedError

    def _document(
        self,
        variants: list[VariantEntry] | None = None,
        designs: list[DesignEntry] | None = None,
        claims: list[ClaimEntry] | None = None,
        mistakes: MistakesEntry | None = None,
    ) -> MechanismsDocument:
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
            "variants": variants or [],
            "designs": designs or [],
            "claims": claims or [],
            "mistakes": mistakes,
            "records": [self.record.document()],
        }

    def _report(
        self, parts: Sequence[Part], rows: Callable[[Any], Any], picture: Callable[[], Sequence[Part]] | None = None
    ) -> Report:
        record = self.record
        name, mask = model_name(record.model.full_name), f"mask {record.mask_name}"
        title = [name, *record.unusual, self._name, mask, record_size(record)]
        return Report(title, parts, self.document, rows, picture, next=NextCommand("explain", {}))

    def _maps(self, *panels: Panel) -> Maps:
        """Return the head's own map, then these panels."""
        return Maps([[Panel("as it is", self.record.weights[0, 0]), *panels]], *_axes(self.record))


def _axes(record: AttentionRecord) -> tuple[MapAxis, MapAxis]:
    return (
        MapAxis("query", record.tokens.shown, special=record.tokens.special),
        MapAxis("key", record.keys.shown, special=record.keys.special),
    )


@dataclass(frozen=True, repr=False)
class HeadMistakes(MeasuredHead):
    """The effects of known mistakes on a head."""

    mistakes: "Mistakes"

    def _facts(self) -> list[str]:
        shown = sum(one.moved is not None for one in self.mistakes.made)
        return [f"{shown} of {len(self.mistakes.made)} mistakes show"]

    def document(self) -> MechanismsDocument:
        """Return what --json prints."""
        return self._document(mistakes=self.mistakes.document())

    def report(self) -> Report:
        """Show the maps that mistakes change visibly, and a row per mistake: first the control, then those that show
        here, then the others with what they need.
        """

        def harm(moved: "Moved") -> tuple[str, str]:
            """ "0.420 (0.409)", "0.95" """
            others = "" if moved.of_others is None else f" ({moved.of_others:.3f})"
            return f"{moved.own:.3f}{others}", f"{moved.output:.2f}"

        shown, hidden, panels = list[list[str] | None](), [], []
        if self.mistakes.exchanged is not None:
            exchanged = harm(self.mistakes.exchanged)
            shown += [["maps exchanged", *exchanged, "the control: heads have each other's maps"], None]
        for one in self.mistakes.made:
            name, about = one.mistake.name, f"{one.mistake.says}\n  {one.mistake.where}"
            if one.moved is not None:
                shown.append([name, *harm(one.moved), about])
                if one.weights is not None and not one.moved.own < SEEN:
                    panels.append(Panel(name, one.weights))
            else:
                why = f"shows only with {one.mistake.needs}" if one.mistake.needs else "does not show here"
                hidden.append([name, "-", "-", f"{why}\n  {about}"])
        columns = [
            Column("mistake"), Column("moved (other heads)"), Column("output"),
            Column("what it computes, and how it happens", "prose", drop=1),
        ]  # fmt: skip
        table = Table(columns, [*shown, None, *hidden])
        caption = TextLine("the unchanged head, and with known mistakes in its layer", caption=True)
        parts = [caption, self._maps(*panels), table, TextLine(HARM)]
        return self._report(parts, lambda document: document["mistakes"]["made"])


@dataclass(frozen=True, repr=False)
class HeadDesign(MeasuredHead):
    """A head's queries and keys in another design. own: figures of its own map."""

    own: "Figures"
    design: "Design"

    def _facts(self) -> list[str]:
        return [self.design.name_shown, self.design.verdict]

    def document(self) -> MechanismsDocument:
        """Return what --json prints."""
        return self._document(designs=[self.design.document()])

    def report(self) -> Report:
        """Show three maps, of the unchanged head, the design and a control, and the design's figures."""
        design = self.design
        made = Panel(design.name_shown, design.found.weights)
        control = Panel(f"control: {design.control}", design.controls[0].weights)
        parts = [
            TextLine(f"{design.name_shown}: {design.verdict}", caption=True),
            self._maps(made, control),
            _designs(self.own, [design]),
            TextLine(CONTROLS),
        ]
        return self._report(parts, itemgetter("designs"))


@dataclass(frozen=True, repr=False)
class HeadMechanisms(MeasuredHead):
    """A head's queries and keys under other scores and in other designs, and the claims about it.

    own: figures of its map. projections: whether they are known; without them some designs and claims are omitted.
    everything: whether to show all of it, instead of only the verdicts on the claims.
    """

    own: "Figures"
    variants: "list[Variant]"
    designs: "list[Design]"
    claims: "list[Claim]"
    projections: bool
    everything: bool

    def _facts(self) -> list[str]:
        return [self._holding]

    @property
    def _holding(self) -> str:
        return f"{sum(claim.holds for claim in self.claims)} of {len(self.claims)} claims hold here"

    def document(self) -> MechanismsDocument:
        """Return what --json prints."""
        return self._document(
            [one.document() for one in self.variants],
            [one.document() for one in self.designs],
            [
                {
                    "name": one.name,
                    "statement": one.statement,
                    "figures": one.figures,
                    "holds": one.holds,
                    "finding": one.finding,
                }
                for one in self.claims
            ],
        )

    def report(self) -> Report:
        """Show the verdicts on all claims, or everything; a picture has the maps under other scores."""
        record = self.record
        [layer], [head] = record.layers, record.heads
        maps, captions = self._variant_maps(), [TextLine(words, caption=True) for words in self._captions()]
        parts: list[Part] = [TextLine(self._holding)]
        if self.everything:
            rows = [[Panel("as it is", drawn_map(record, layer, head))], *maps.panels]
            with_own = replace(maps, panels=rows, headings=["the head's own map", *maps.headings])
            measured = []
            for claim in self.claims:
                verdict = Cell("holds") if claim.holds else Cell("DOES NOT HOLD here", "wrong")
                lines = [claim.statement, *_figures(claim.figures), *([claim.finding] if claim.finding else [])]
                measured.append([verdict, Cell("\n  ".join(lines))])
            parts += [Table([Column("verdict"), Column("claim", "prose")], measured), *captions, with_own]
            parts += [_variants(self.variants, self.temperature), TextLine(FIGURES)]
            parts += [_designs(self.own, self.designs), TextLine(CONTROLS)] if self.designs else []
        else:
            verdicts: list[list[str | Cell]] = [
                [Cell("yes") if claim.holds else Cell("NO", "wrong"), claim.statement.partition(": ")[0]]
                for claim in self.claims
            ]
            parts += [Table([Column("holds here"), Column("claim", "prose")], verdicts), TextLine(MORE)]
        parts += [] if self.projections else [TextLine(LEFT_OUT)]

        def only_scores() -> None:
            no_effect("on a table or a picture, which have scores and no designs", reach=given)

        def rows_of(document: Any) -> Any:
            only_scores()
            return document["variants"]

        def picture() -> Sequence[Part]:
            only_scores()
            return [*captions, maps]

        given = None if self.reach == REACH else self.reach
        return self._report(parts, rows_of, picture)

    def _captions(self) -> list[str]:
        """Describe which score is the head's own, and where untrained parameters come from."""
        untrained = f"untrained: the parameters are random (seed {self.seed})"
        vectors = self.record.vectors
        if vectors is not None:
            off = abs(float(vectors.scale[0]) * vectors.query.shape[-1] ** 0.5 - 1)
            if vectors.terms or not off < ROUNDING:  # its own score is not q·k / √d_k, or has terms added
                return [untrained]
        softmax = "its softmax" if self.temperature == 1 else "its softmax at T = 1"
        sink = ", except for its sink" if self.record.sinks else ""
        return [f"{NAMES[OWN_SCORE]} is the head's own score, and {softmax} is the head's own map{sink}", untrained]

    def _variant_maps(self) -> Maps:
        """Return rows of maps: a score with its normalisers, and the untrained scores under softmax."""
        mask = self.record.mask_of(self.record.layers[0])
        rows, headings = [], []
        for row in _by_score(self.variants):
            softmax, trained = _normaliser("softmax", self.temperature), row[0].trained
            names = [_normaliser(one.normaliser, self.temperature) if trained else _score(one.score) for one in row]
            rows.append(
                [Panel(name, hide_masked(one.found.weights, mask)) for name, one in zip(names, row, strict=True)]
            )
            headings.append(_score(row[0].score) if trained else f"untrained, {softmax}")
        return Maps(rows, *_axes(self.record), headings=headings)


# --- tables ---------------------------------------------------------------------------------------------


def _by_score(variants: "Sequence[Variant]") -> "list[list[Variant]]":
    """Return the variants of each score, and those of all untrained scores together."""
    return [list(row) for _, row in groupby(variants, key=lambda one: one.score if one.trained else None)]


def _score(name: str) -> str:
    return NAMES.get(name, name)


def _normaliser(name: str, temperature: float) -> str:
    """Return a normaliser's name, with its temperature if that is not 1."""
    return f"softmax, T = {temperature:g}" if name == "softmax" and temperature != 1 else NAMES.get(name, name)


def _variants(variants: "Sequence[Variant]", temperature: float) -> Table:
    """Return a row per variant: its entropy, and its distance from the head's own map."""
    rows: list[list[str] | None] = []
    for row in _by_score(variants):
        for one in row:
            figures = [f"{one.found.entropy:.2f}", f"{one.found.moved:.3f}", f"{one.found.same_key:.0%}"]
            figures += [f"{one.zero:.0%}", f"{one.output:.2f}", "" if one.trained else "untrained"]
            rows.append([_score(one.score), _normaliser(one.normaliser, temperature), *figures])
        rows.append(None)
    columns = [
        Column("score"), Column("normaliser", "name"), Column("entropy"), Column("moved"),
        Column("same strongest key", drop=2), Column("exactly 0", drop=3), Column("output"),
        Column("parameters", drop=1),
    ]  # fmt: skip
    return Table(columns, rows)


def _designs(own: "Figures", designs: "Sequence[Design]") -> Table:
    """Return the unchanged head, then a row per design: its numbers, its controls, and how the two compare."""
    rows: list[list[str] | None] = [
        ["as it is", f"{own.entropy:.2f}", f"{own.distance:.2f}", f"{own.moved:.3f}", ""],
        None,
    ]
    for one in designs:
        entry = one.document()
        distance = f"{entry['distance']:.2f} ({entry['control_distance']:.2f})"
        moved = f"{entry['moved']:.3f} ({entry['control_moved']:.3f})"
        rows.append([one.name_shown, f"{one.found.entropy:.2f}", distance, moved, one.verdict])
    columns = [
        Column("design"), Column("entropy", drop=1), Column("distance (control)"),
        Column("moved (control)", drop=2), Column("verdict", "name"),
    ]  # fmt: skip
    return Table(columns, rows)


def _figures(figures: dict[str, float]) -> list[str]:
    """Return figures, on a line for each group.

    Names such as "d_k 4, q·k" and "d_k 4, / √d_k" are combined: "q·k -> / √d_k d_k 4: 3.94 -> 0.985 16: ...". The name
    before a colon is that of a group, as in "8 keys: d_k 4, least".
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
