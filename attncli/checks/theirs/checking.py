"""`check`: is it right, and if not, which mistake is it?"""

from collections.abc import Mapping
from typing import Any

from attncli.base import choices
from attncli.base.arguments import check_instance, check_optional_text
from attncli.checks.code.subject import Subject
from attncli.checks.theirs.attention.check import RealLayers, check_attention
from attncli.checks.theirs.found import Found, Wanted
from attncli.checks.timing import one_thread


def check(
    thing: Any,
    layout: str | None = None,
    means: choices.MaskMeans | None = None,
    map: Mapping[str, str] | None = None,
    give: Mapping[str, Any] | None = None,
    nowhere: choices.Nowhere = "any",
) -> Found:
    """A function of (query, key, value[, mask]), a module's class or a module, checked beside the formula.

        assert (found := attncli.check(MyAttention)).right, found

    `Wanted` says what the others mean.

    Raises RequestError when it can't be checked, with what would settle it; TypeError for arguments of other types.
    """
    check_optional_text("layout", layout)
    for name, given in (("map", map), ("give", give)):
        if given is not None:
            check_instance(name, given, Mapping, "give a dictionary with the names of parameters")
    return check_subject(Subject(thing), Wanted(layout, means, map or {}, give or {}, nowhere))


def check_subject(subject: Subject, wanted: Wanted, real: RealLayers | None = None) -> Found:
    """Check a subject on one thread. real: as for `check_attention`.

    Raises RequestError as `check` does, and for a name that is no choice.
    """
    choices.check("nowhere", wanted.nowhere, choices.Nowhere)
    if wanted.means is not None:
        choices.check("meaning of a mask", wanted.means, choices.MaskMeans)
    with one_thread():
        return check_attention(subject, wanted, real)
