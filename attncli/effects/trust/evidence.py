"""Is attention an explanation of one output of one text? Everything that is measured of it, put together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attncli.analysis.effects import LEVEL, Answer
from attncli.analysis.kendall import tau
from attncli.analysis.luck import fewest_draws
from attncli.analysis.trust import MEASURES, Erased, Shuffles, Trust, widened
from attncli.base.arguments import check_instance
from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.base.progress import Progress, silent
from attncli.effects.asking import Asking, merge_asking, question
from attncli.effects.questions import Divergence, Question, Target
from attncli.effects.trust import limits
from attncli.effects.trust.aopc import aopc, as_good, order, sizes
from attncli.effects.trust.erasing import Erasing, Places, leave_one_out, ways
from attncli.effects.trust.rankings import GRADIENT, drawn, importances, read
from attncli.effects.trust.shuffling import reordered, shuffled
from attncli.models.engine import Engine, check_model
from attncli.models.output import SIGMOID
from attncli.models.tapped import require_tapped

LEAST_TOKENS = 2  # of fewer there is no order


@dataclass(frozen=True)
class Controls:
    """permutations: of the weights, and orders of the tokens; rankings: random ones, of which more are drawn where they
    leave a verdict open; beam: chains that the search for limits keeps, as `limits.width` takes it; seed: of all that
    is drawn.
    """

    permutations: int = 100
    rankings: int = 200
    beam: int | None = None
    seed: int = 0


def trust(
    model: Engine,
    text: str,
    asking: Asking | None = None,
    controls: Controls | None = None,
    progress: Progress = silent,
    *,
    pair: str | None = None,
    similar_to: str | None = None,
    target: str | None = None,
    at: str | None = None,
    kind: str | None = None,
    output: str | None = None,
    mask: str | None = None,
    which: str | None = None,
    permutations: int = Controls.permutations,
    rankings: int = Controls.rankings,
    beam: int | None = Controls.beam,
    seed: int = Controls.seed,
) -> Trust:
    """Put other weights in, erase tokens, and hold rankings of them against random ones (`attncli/effects/README.md`).

    Where a text has one prediction and no question is named, it is asked for the probability of the likeliest label.
    Of two texts (a cosine) other weights are put into both, and tokens of the first are ranked and erased.
    asking: what to ask, as an `Asking`; or say so by its fields, as in similar_to="Another text." and target="it".
    permutations, rankings, beam, seed: of `Controls`, which may be given as such instead.
    progress: is told of every way of erasing, every layer with other weights, and every step of a search.

    Raises RequestError as `question` does, and for a text of fewer than two tokens that can be erased.
    """
    asking = merge_asking(
        asking, pair=pair, similar_to=similar_to, target=target, at=at, kind=kind, output=output, mask=mask, which=which
    )
    check_model(model)
    model = require_tapped(model, model.to_itself(asking.which))
    named = Controls(permutations, rankings, beam, seed)
    if controls is None:
        controls = named
    check_instance("controls", controls, Controls, "give attncli's Controls, or its fields by name, as in seed=1")
    if named not in (Controls(), controls):
        raise TypeError("permutations, rankings, beam and seed are fields of controls too: give one of both")
    asked = likeliest(question(model, text, asking), asking)
    erasings = [Erasing(asked, way) for way in ways(model)]
    places = erasings[0].erasable
    if len(places) < LEAST_TOKENS:
        raise RequestError(
            f"a ranking needs {LEAST_TOKENS} tokens that can be erased, this text has {len(places)}: give a longer one"
        )
    counts = sizes(len(places))
    width = limits.width(len(places), counts, controls.beam)
    searches = 0 if width is None else len(MEASURES) * limits.steps(counts, width)
    found = {name: values[places] for name, values in importances(asked).items()}
    most = max(controls.rankings, fewest_draws(LEVEL / len(found)))
    random = drawn(len(places), most, controls.seed)
    layers = model.select_layers("all")
    with progress(3 + len(layers) + len(erasings) * (1 + searches), "steps") as advance:
        shuffles = Shuffles(
            layers,
            *shuffled(asked, controls.permutations, controls.seed, advance),
            reordered(asked, places, controls.permutations, controls.seed),
        )
        advance()
        ranked = [*found.values(), *random[: controls.rankings]]
        erased = [erase(one, ranked, width, advance) for one in erasings]
        made = Trust(
            model=model.info,
            answer=Answer(asked.kind, asked.about, asked.value, asked.texts[0].mask),
            tokens=asked.texts[0].tokens,
            read=read(asked),
            erasable=places,
            sizes=counts,
            shuffles=shuffles,
            importances=found,
            taus=taus(ranked, erased, found),
            erased=erased,
            beam=width,
        )
        if width == 0:
            shares = as_good(erasings, [order(importance) for importance in found.values()], made.rounding)
            made = replace(made, exact=shares)
        elif made.open:
            ranked = [*found.values(), *random]
            more = [rank(one, ranked, before) for one, before in zip(erasings, erased, strict=True)]
            made = replace(made, taus=taus(ranked, more, found), erased=more)
        advance()
    return made


def likeliest(asked: Question, asking: Asking) -> Question:
    """The probability of the label that is predicted, where a text has one and nothing is said of what to ask."""
    if asking.kind is not None or not isinstance(asked, Divergence) or asked.output.kind == "span":
        return asked
    if asked.places is not None and len(asked.places) != 1:
        return asked
    likely = asked.before[..., 0] if asked.output.function == SIGMOID else asked.before
    place = None if asked.places is None else asked.places[0]
    return Target(asked.texts[0], asked.output, "probability", int(likely.argmax()), place)


def erase(erasing: Erasing, ranked: list[Doubles], width: int | None, advance: Callable[[], None]) -> Erased:
    """What the rankings are worth by one way of erasing."""
    every = frozenset(erasing.erasable)
    worth = rank(erasing, ranked, Erased(erasing.way, leave_one_out(erasing), {}, {}))
    advance()

    def others(kept: Sequence[Places]) -> Doubles:
        return erasing.changes([every - places for places in kept])

    ends = {}
    if width is not None:
        for measure, changes in zip(MEASURES, (erasing.changes, others), strict=True):
            sought = limits.limits(changes, erasing.erasable, sizes(len(every)), width, advance)
            ends[measure] = (sought.least, sought.most)
    return widened(replace(worth, limits=ends))


def rank(erasing: Erasing, ranked: list[Doubles], erased: Erased) -> Erased:
    """Measure these rankings in place of others, and leave the rest as it is."""
    found = aopc(erasing, [order(importance) for importance in ranked])
    return widened(replace(erased, aopc=dict(zip(MEASURES, found, strict=True))))


def taus(ranked: list[Doubles], erased: list[Erased], found: Mapping[str, Doubles]) -> dict[str, Doubles]:
    """Of every ranking with what each token by itself changes, and with gradient x input: by their sizes, as Jain and
    Wallace 2019 have it, section 4.1; maps know no sign.
    """
    given = np.abs(ranked)
    others = {one.way: one.alone for one in erased} | ({"gradient": found[GRADIENT]} if GRADIENT in found else {})
    return {name: tau(np.abs(values), given) for name, values in others.items()}
