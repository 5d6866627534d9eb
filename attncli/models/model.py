"""Model: a checkpoint with its tokenizer, ready to be asked for the attention of texts."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attncli.base import choices
from attncli.base.arguments import check_optional_text, check_text, check_texts
from attncli.base.errors import Notice, RequestError
from attncli.models.attending import attend_heads
from attncli.models.config import ModelConfig
from attncli.models.engine import Engine
from attncli.models.hub import Place
from attncli.models.kernels import map_dtype
from attncli.models.linear import lay_out
from attncli.models.network import empty_network
from attncli.models.room import vector_bytes
from attncli.models.rows import Rows, as_rows, batches, read_ahead
from attncli.models.taken import Asked, Taken, as_record, take_batch
from attncli.models.walk import Attend, walk
from attncli.models.weights import Checkpoint, check_shapes, load_parameters
from attncli.record import AttentionRecord, ModelInfo, Request
from attncli.record.grouping import axes_of
from attncli.record.named_heads import NamedHeads, heads_list, select_heads
from attncli.record.selection import select
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from attncli.models.outputs.finding import Found
    from attncli.models.outputs.output import Output
    from attncli.models.outputs.predicting import Numbers, Prediction

EVERYTHING = Request()

# Tokens that go through the network together. On a CPU more of them make nothing faster: what lies between two layers
# should fit the cache. With half as many, short texts take 7% longer (Xeon, 33 MB of cache).
BATCH_TOKENS = {"cpu": 2048, "cuda": 16384, "mps": 8192}
OFTEN = 8  # walks: laying weights out takes about what so many lose without it (Xeon: 40 ms, and 5 ms each)


class Model(Engine):
    """An encoder of the BERT family. Layers are read from the checkpoint when a request first needs them."""

    name = "attncli"

    def __init__(
        self,
        place: Place,
        config: ModelConfig,
        tokenizer: Tokenizer,
        checkpoint: Checkpoint,
        sha256: str,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.place = place
        self.config = config
        self.tokenizer = tokenizer
        self.checkpoint = checkpoint
        self.sha256 = sha256
        self.device = device
        self.dtype = dtype
        self.network = empty_network(config)
        self.needed: Counter[str] = Counter()  # how often, by module; it is read when it first is
        self.surplus = check_shapes(checkpoint, self.network)  # tensors that are not used

    @property
    def parts(self) -> tuple[str, ...]:
        return ("encoder",)

    @property
    def silenced(self) -> list[tuple[int, int]]:
        return self.network.silenced

    def require_own(self) -> "Model":
        return self

    def info_of(self, which: str | None) -> ModelInfo:
        return ModelInfo(
            name=self.place.name,
            path=str(self.place.path),
            sha256=self.sha256,
            layers=self.config.layers,
            heads=self.config.heads,
            hidden_size=self.config.hidden_size,
            changes=f"without {heads_list(self.silenced)}" if self.silenced else "",
        )

    def without(self, heads: NamedHeads) -> "Model":
        """The same model with these heads silenced, "3.1" or [(3, 1)]: 0 stands in place of what they give. It shares
        the weights of this one.

        Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3.

        Raises RequestError for a head that is not there, and where none is named.
        """
        layers, of_layer = range(self.config.layers), range(self.config.heads)
        named = select_heads(heads, layers, of_layer, self.config.layers, self.config.heads)
        if not named:
            raise RequestError("--without names no head, and silences none: leave it out, or write 3.1")
        made = copy(self)
        made.__dict__.pop("found", None)
        made.network = copy(self.network)
        made.network.silenced = sorted({*self.silenced, *named})
        return made

    @property
    def dtype_name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    @property
    def map_dtype(self) -> torch.dtype:
        """What maps are made in."""
        return map_dtype(torch.empty(0, dtype=self.dtype, device=self.device))

    def check(self, request: Request) -> None:
        for option, value in (("--which", request.which), ("--target", request.target)):
            if value is not None:
                raise RequestError(
                    f"{option} is for encoder-decoders, and {self.place.name} is an encoder: leave it out"
                )
        if request.measure == "norm" and request.vectors not in (None, "none"):
            raise RequestError("q and k make weights and not norms: leave --vectors, --terms or --measure norm out")
        if self.silenced:
            self.check_silenced(request)
        if request.predict:
            from attncli.models.outputs.predicting import notices

            for notice in notices(self):
                warnings.warn(notice, Notice, stacklevel=2)

    def check_silenced(self, request: Request) -> None:
        """Raises RequestError where nothing that is asked for comes after a silenced head."""
        last = max(select(request.layers, self.config.layers, "layer"))
        says = request.predict and any(one.kind != "embedding" for one in self.outputs().values())
        if min(self.silenced)[0] >= last and not says:
            nothing = f"{self.info.changes} nothing changes in layers up to {last}"
            raise RequestError(f"{nothing}: ask for a later one, or leave --without out")

    def attend_tokens(
        self, texts: Iterable[Tokens], request: Request = EVERYTHING, inside: Attend = attend_heads
    ) -> Iterator[AttentionRecord]:
        """Neighbours go through the network together. inside: as `take` has it."""
        for taken in self.take(texts, request, inside):
            yield as_record(self, taken, request)

    def take(
        self, texts: Iterable[Tokens], request: Request = EVERYTHING, inside: Attend = attend_heads
    ) -> Iterator[Taken]:
        """What a request asks for, of each text in their order, on the model's device.

        Texts are read ahead, so that those of near length go through the network together. `inside` may change what
        happens where queries meet keys (`attncli.models.attending`), and knows a text by its number among those that go
        through together; what is kept is kept around it.
        """
        asked = self.asked(request)
        for group in read_ahead(texts, len(asked.layers) * len(asked.heads), self.batch_tokens):
            taken: dict[int, Taken] = {}
            for numbers in batches(group, self.batch_tokens):
                batch = [group[number] for number in numbers]
                taken.update(zip(numbers, take_batch(self, batch, asked, request, inside), strict=True))
            for number in range(len(group)):
                yield taken.pop(number)  # whoever drops a record has its memory back

    def asked(self, request: Request) -> Asked:
        """Raises RequestError for a layer or a head that is not there."""
        layers = select(request.layers, self.config.layers, "layer")
        heads = select(request.heads, self.config.heads, "head")
        return Asked(layers, heads, select_heads(request.vectors, layers, heads, self.config.layers, self.config.heads))

    def kept_units(self, tokens: Tokens, request: Request) -> int:
        return len(axes_of(request.grouping, tokens).queries)

    def vector_bytes(self, tokens: Tokens, request: Request) -> int:
        heads = self.asked(request).vectors if axes_of(request.grouping, tokens).apart else []
        terms = max((len(self.network.layer(layer).score.names) for layer, _ in heads), default=0)
        return vector_bytes(len(tokens), len(heads), self.config.head_dim, terms)

    def hidden_states(self, tokens: Tokens, mask: str = "padding", positions: bool = True) -> list[Tensor]:
        with torch.inference_mode():
            return [state for [state] in self.states([tokens], mask, positions=positions)]

    def last_hidden(
        self, texts: Sequence[Tokens], mask: str = "padding", attend: Attend = attend_heads
    ) -> list[Tensor]:
        """Of each text the vectors `[token, hidden_size]` after the last layer, on the model's device; all texts in one
        walk. With a gradient where whoever calls has not switched it off, and something in it has one.
        """
        for states in self.states(texts, mask, attend):
            last = states
        return last

    def states(
        self, texts: Sequence[Tokens], mask: str, attend: Attend = attend_heads, positions: bool = True
    ) -> Iterator[list[Tensor]]:
        """Of each text the vectors after the embeddings, and after every layer."""
        self.need(self.config.layers)
        rows = self.rows(texts, mask, positions)
        for x in walk(self.network, rows, attend):
            yield rows.texts(x)

    def outputs(self) -> dict[str, "Output"]:
        """What the checkpoint can say of a text, by name: "classes", "tokens", "span", "embedding", "words", or what
        its family has besides. The first is the one that it is for; each is read when it is first called.
        """
        return dict(self.found.outputs)

    def predict(
        self,
        text: str,
        pair: str | None = None,
        output: str | None = None,
        mask: str = "padding",
        pad_to: int | None = None,
    ) -> "Prediction":
        """What the checkpoint says of a text, or of a pair: by the `output` of this name, by default by that of words
        where there is a [MASK], else by the first.

        Raises RequestError where the checkpoint has none, or not this one; and as `attend` does.
        """
        from attncli.models.outputs.predicting import predict

        check_text("text", text, "predict each text by itself")
        check_optional_text("pair", pair)
        return predict(self, self.tokenizer.encode(text, pair, pad_to), output, mask)

    def embed(self, texts: Sequence[str]) -> "Numbers":
        """Sentence embeddings, `[text, size]`, as sentence-transformers makes them.

        Raises RequestError where the checkpoint's files don't say how; and as `attend` does.
        """
        from attncli.models.outputs.predicting import embed

        check_texts("texts", texts)
        return embed(self, texts)

    @cached_property
    def found(self) -> "Found":
        """These, and why others can't be had."""
        from attncli.models.outputs.finding import find_outputs

        return find_outputs(self)

    def rows(self, batch: Sequence[Tokens], mask: str, positions: bool = True) -> Rows:
        """Raises RequestError for an unknown mask."""
        choices.check("mask", mask, choices.Mask)
        return as_rows(batch, self.config, mask, self.device, positions)

    @property
    def batch_tokens(self) -> int:
        return BATCH_TOKENS.get(self.device.type, BATCH_TOKENS["cpu"])

    def too_large(self, what: str, layer: int, head: int) -> RequestError:
        return RequestError(
            f"layer {layer}, head {head} of {self.place.name} has {what} too large for "
            f"{self.dtype_name}: another --dtype has more room, or the weights are damaged"
        )

    def need(self, layers: int) -> None:
        """Read the embeddings and the first `layers` layers, unless that has happened; with all, what follows them.

        What is needed OFTEN is laid out then (`attncli.models.linear`).
        """
        for module in self.network.parts_of(layers):
            if not self.needed[module]:
                with torch.inference_mode(False):  # what is read in inference mode could have no gradient later
                    load_parameters(self.checkpoint, self.network, module, self.dtype, self.device)
            self.needed[module] += 1
            if self.needed[module] == OFTEN:
                lay_out(self.network.get_submodule(module))
