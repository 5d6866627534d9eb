"""The numbers of a page in chunks, by name: as text that stands in its file, or as bytes that are sent to it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from attncli.base.arrays import Floats
from attncli.render.page.levels import Scale, layer_bytes
from attncli.render.page.pack import largest, pack_layers, packed
from attncli.render.page.threads import of_each

Packed = TypeVar("Packed", str, bytes)


@dataclass(frozen=True)
class Form(Generic[Packed]):
    """How numbers are written.

    layers: the weights `[head, query, key]` of each layer; one: anything else; small: whether there is little room.
    """

    layers: Callable[[Sequence[Floats], Scale], list[Packed]]
    one: Callable[[bytes], Packed]
    small: bool


def plain_layers(layers: Sequence[Floats], scale: Scale) -> list[bytes]:
    """Each layer's weights as bytes, as levels.js reads them."""
    return of_each(lambda layer: b"".join(layer_bytes(layer, scale)), layers, largest(layers))


TEXTS: Form[str] = Form(pack_layers, packed, small=True)
PLAIN: Form[bytes] = Form(plain_layers, bytes, small=False)


class Chunks(Generic[Packed]):
    """Numbers by name; of those that stand in a page a name is the id of their element. prefix: how names begin."""

    def __init__(self, form: Form[Packed], prefix: str = "") -> None:
        self.form: Form[Packed] = form
        self.prefix = prefix
        self.there: dict[str, Packed] = {}

    def add(self, one: Packed, kind: str = "chunk") -> str:
        """Gives its name."""
        name = f"{self.prefix}{kind}{len(self.there)}"
        self.there[name] = one
        return name

    def add_layers(self, layers: Sequence[Floats], scale: Scale) -> list[str]:
        """Gives the name of each layer's."""
        return [self.add(one) for one in self.form.layers(layers, scale)]

    @property
    def room(self) -> float:
        """What q and k may take beside what is there."""
        return sum(map(len, self.there.values())) if self.form.small else math.inf
