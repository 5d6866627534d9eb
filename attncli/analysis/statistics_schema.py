"""What files of statistics have to hold, in tables; what their figures can be is in `attncli.analysis.ranges`."""

from attncli.analysis.statistics import BROAD, FIGURES, LINEAR, PATTERNS
from attncli.base import choices
from attncli.base.schema import anything, each, fields, flag, maybe, one_of, real, whole
from attncli.record.schema import MODEL

OF = {
    "model": MODEL,
    "mask": one_of(choices.names(choices.Mask)),
    "texts": whole(1),
    "tokens": whole(1),
    "partial": flag(),
    "entropy_limit": anything,  # a number, or one for each of the model's layers
}
# Which older files don't say.
MORE = {"kind": one_of(choices.names(choices.Itself)), "measure": one_of(("weight", "share of norm")), "words": flag()}

ABOUT = fields(OF, MORE)  # what a .npz says beside its arrays
FIGURE_EACH = fields(dict.fromkeys(FIGURES, real()))
HEAD = fields(
    {
        "layer": whole(),
        "head": whole(),
        "label": one_of((*PATTERNS, BROAD)),
        "strength": real(),
        "figures": FIGURE_EACH,
        "spread": FIGURE_EACH,
    }
)
DISTANCES = fields({"divergence": each(each(real())), "embedding": each(each(real(), 2)), "clusters": each(whole())})

# What `stats --json` prints. What follows from its figures is worked out anew: labels, strengths, patterns.
DOCUMENT = fields(
    {**OF, "heads": each(HEAD)},
    {
        **MORE,
        "alike": maybe(each(fields(dict.fromkeys(LINEAR, real())))),
        "patterns": anything,
        "distances": DISTANCES,
    },
)
