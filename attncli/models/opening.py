"""Which model to open, and how: what a command says of it, and what a process tells another."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.base.errors import RequestError
from attncli.models.hub import locate
from attncli.record.selection import heads_list

if TYPE_CHECKING:
    from attncli.models.engine import Engine


@dataclass(frozen=True)
class Opening:
    """A model that can be opened, here or in another process; without: heads to silence, "3.1,4.0" (`NamedHeads`).

    The other fields are `load_model`'s.
    """

    name: str
    device: str = "auto"
    dtype: str = "float32"
    engine: str = "auto"
    without: str | None = None

    @classmethod
    def of(cls, engine: "Engine") -> "Opening":
        """How a model that is open is opened again, in a process with another working directory too: a directory is
        named by its whole path.
        """
        place = engine.place
        name = str(place.path.absolute()) if place.origin == "directory" else place.name
        return cls(name, str(engine.device), engine.dtype_name, engine.name, heads_list(engine.silenced) or None)

    def open(self) -> "Engine":
        """Raises RequestError as `load_model` and `Engine.without` do."""
        place = locate(self.name)  # what is wrong with a name is said before torch is imported, which takes a second
        from attncli.models.loading import load_from

        loaded = load_from(place, self.device, self.dtype, self.engine)
        return loaded if self.without is None else loaded.without(self.without)

    def again(self, opened: "Engine | None", sha256: str) -> "Engine":
        """The one that is open already, or else opened here. Raises RequestError as `open` does, and where the weights
        are not those with this digest.
        """
        found = self.open() if opened is None else opened
        if found.sha256 != sha256:
            raise RequestError(f"{self.name} is another model here than where this was asked for")
        return found
