"""A subject made and filled, ready to be asked."""

from attncli.base.errors import RequestError
from attncli.checks.code.subject import Description, Subject
from attncli.checks.theirs.attention.fitting import Asked
from attncli.checks.theirs.calling import drawing
from attncli.checks.theirs.calling.making import Sizes, arguments, heads_of
from attncli.checks.theirs.calling.readings import PART_ROLES, Reading, readings
from attncli.checks.theirs.calling.roles import KNOWN, roles_of
from attncli.checks.theirs.found import Wanted
from attncli.checks.theirs.idle import refuse_masks, refuse_names, refuse_roles


def make(subject: Subject, description: Description, wanted: Wanted, sizes: Sizes) -> Asked:
    """The subject made and filled with weights that are drawn, and the ways to read them."""
    refuse_roles(wanted.map, dict.fromkeys([*KNOWN, *PART_ROLES]))
    roles = roles_of(description.call, dict(wanted.map))
    given = arguments(description, sizes, wanted.give)
    made = subject.make(given)
    refuse_names(wanted.map, [one.name for one in description.call], made.weights)
    if not roles.masks:
        refuse_masks(description.name, wanted.means, wanted.nowhere)
    weights = drawing.draw_weights(made)
    subject.fill(weights)
    ways: list[Reading] = []
    if made.weights:
        ways = readings(made, heads_of(made, given), wanted.map)
        if not ways:
            raise RequestError(
                f"the weights of {description.name} don't fit together as W_Q, W_K, W_V and W_O: "
                "--map NAME=query says which is which"
            )
    return Asked(subject, roles, ways, made, weights, wanted.layout, wanted.means)
