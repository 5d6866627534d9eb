"""AskingFeature: the options of every command that measures an output of a network."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.effects.asking import Asking
from attncli.features import options
from attncli.features.feature import Feature
from attncli.features.inputs import open_tapped
from attncli.models.opening import Opening

if TYPE_CHECKING:
    from attncli.models.engine import Engine


@dataclass(eq=False, kw_only=True)
class AskingFeature(Feature):
    """A feature that changes attention and measures an output: which output, and of which model."""

    pair: options.Pair = None
    similar_to: options.SimilarTo = None
    ask: options.Ask = None
    target: options.Label = None
    at: options.At = None
    task: options.Task = None
    model: options.ModelName = "minilm"
    mask: options.MaskOption = None
    which: options.Which = None
    device: options.Device = "auto"
    dtype: options.Dtype = "float32"

    @property
    def asking(self) -> Asking:
        """The output to measure."""
        return Asking(self.pair, self.similar_to, self.target, self.at, self.ask, self.task, self.mask, self.which)

    def open_model(self) -> "Engine":
        """Open the model. Raises RequestError as `open_tapped` does."""
        return open_tapped(Opening(self.model, self.device, self.dtype), self.which)
