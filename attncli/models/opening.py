"""A model to open and its options, passed from a command or to another process."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.record.selection import heads_list

if TYPE_CHECKING:
    from attncli.models.engine import Engine


@dataclass(frozen=True)
class Opening:
    """A model to open, here or in another process. without: heads to silence, "3.1,4.0" (`NamedHeads`).

    The other fields are those of `load_model`.
    """

    name: str
    device: str = "auto"
    dtype: str = "float32"
    engine: str = "auto"
    without: str | None = None

    @classmethod
    def of(cls, engine: "Engine") -> "Opening":
        """Describe how to open an open model again, also from another directory: paths of files are absolute."""
        place = engine.place
        path = place.path if place.gguf is None else place.gguf
        name = str(path.absolute()) if place.origin in ("directory", "file") else place.name
        return cls(name, str(engine.device), engine.dtype_name, engine.name, heads_list(engine.silenced_heads) or None)

    def open(self) -> "Engine":
        """Open the model. Raises RequestError as `load_model` and `Engine.without` do."""
        from attncli.models.hub import locate
        from attncli.models.loading import load_from

        # a wrong name is reported before torch is imported
        return self._without(load_from(locate(self.name), self.device, self.dtype, self.engine))

    def open_for_answers(self) -> "Engine":
        """Open the model for records of short texts: in NumPy, without importing torch, if possible.

        Other requests then open the model in torch. Raises RequestError as `open` does.
        """
        from attncli.models.hub import locate
        from attncli.models.loading import load_from, load_instant

        place = locate(self.name)
        if (self.engine, self.dtype) == ("auto", "float32") and self.device in ("auto", "cpu"):
            instant = load_instant(place, self.device)
            if instant is not None:
                return self._without(instant)
        return self._without(load_from(place, self.device, self.dtype, self.engine))

    def _without(self, engine: "Engine") -> "Engine":
        return engine if self.without is None else engine.without(self.without)
