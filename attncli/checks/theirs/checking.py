"""`check`: is it right, and if not, which mistake is it?"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from attncli.base import choices
from attncli.base.arguments import check_instance, check_optional_text
from attncli.checks.theirs.attention.check import RealLayers, check_attention
from attncli.checks.theirs.found import Found, Wanted
from attncli.checks.theirs.idle import refuse_idle
from attncli.checks.theirs.layers.check import check_layer
from attncli.checks.theirs.masks.check import check_mask
from attncli.checks.theirs.positions.check import check_positions
from attncli.checks.theirs.subjects.here import Here
from attncli.checks.theirs.subjects.subject import Subject

KINDS: dict[choices.Checked, Callable[[Subject, Wanted], Found]] = {
    "attention": check_attention,
    "mask": check_mask,
    "positions": check_positions,
    "layer": check_layer,
}


def check(
    thing: Any,
    kind: choices.Checked = "attention",
    layout: str | None = None,
    means: choices.MaskMeans | None = None,
    map: Mapping[str, str] | None = None,
    give: Mapping[str, Any] | None = None,
    nowhere: choices.Nowhere = "zero-or-nan",
) -> Found:
    """A function of (query, key, value[, mask]), a module's class or a module, checked beside the formula.

        assert (found := attncli.check(MyAttention)).right, found

    kind: what it is checked as, one of attention, mask, positions, layer. `Wanted` says what the others mean.

    Raises RequestError when it can't be checked, with what would settle it; TypeError for arguments of other types.
    """
    check_optional_text("layout", layout)
    for name, given in (("map", map), ("give", give)):
        if given is not None:
            check_instance(name, given, Mapping, "give a dictionary with the names of parameters")
    return check_subject(Here(thing), Wanted(kind, layout, means, map or {}, give or {}, nowhere))


def check_subject(subject: Subject, wanted: Wanted, real: RealLayers | None = None) -> Found:
    """With one thread, as inputs are so small that several would wait for each other. real: as for `check_attention`.

    Raises RequestError as `check` does, and for a name that is no choice.
    """
    for name, value, kind in (("kind", wanted.kind, choices.Checked), ("nowhere", wanted.nowhere, choices.Nowhere)):
        choices.check(name, value, kind)
    if wanted.means is not None:
        choices.check("meaning of a mask", wanted.means, choices.MaskMeans)
    refuse_idle(wanted.kind, wanted.layout, wanted.means, wanted.nowhere)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return check_attention(subject, wanted, real) if real is not None else KINDS[wanted.kind](subject, wanted)
    finally:
        torch.set_num_threads(threads)
