"""Model: a checkpoint with its tokenizer, ready to be asked for the attention of texts."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from attncli.base import choices
from attncli.base.arrays import Floats
from attncli.base.errors import Notice, RequestError
from attncli.models.attending import KeepLengths, KeepMaps, KeepTerms, KeepVectors, attend_heads
from attncli.models.config import ModelConfig
from attncli.models.engine import Engine
from attncli.models.hub import Place
from attncli.models.kernels import map_dtype
from attncli.models.linear import lay_out
from attncli.models.network import empty_network
from attncli.models.rows import Rows, as_rows, batches, read_ahead
from attncli.models.taken import Asked, Taken, of_layers
from attncli.models.walk import Attend, Ending, walk
from attncli.models.weights import Checkpoint, check_shapes, load_parameters
from attncli.record import AttentionRecord, ModelInfo, Request, Vectors
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
        self.surplus = check_shapes(checkpoint, self.network, config.family)  # tensors that are not used

    @property
    def parts(self) -> tuple[str, ...]:
        return ("encoder",)

    def info_of(self, which: str | None) -> ModelInfo:
        return ModelInfo(
            name=self.place.name,
            path=str(self.place.path),
            sha256=self.sha256,
            layers=self.config.layers,
            heads=self.config.heads,
            hidden_size=self.config.hidden_size,
            changes=f"without {heads_list(self.network.silenced)}" if self.network.silenced else "",
        )

    def without(self, heads: NamedHeads) -> "Model":
        """The same model with these heads silenced, "3.1" or [(3, 1)]: 0 stands in place of what they give. It shares
        the weights of this one.

        Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3.

        Raises RequestError for a head that is not there.
        """
        layers, of_layer = range(self.config.layers), range(self.config.heads)
        named = select_heads(heads, layers, of_layer, self.config.layers, self.config.heads)
        made = copy(self)
        made.__dict__.pop("found", None)
        made.network = copy(self.network)
        made.network.silenced = sorted({*self.network.silenced, *named})
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
        last = max(select(request.layers, self.config.layers, "layer"))
        says = request.predict and any(one.kind != "embedding" for one in self.outputs().values())
        if self.network.silenced and min(self.network.silenced)[0] >= last and not says:
            raise RequestError(
                f"{self.info.changes} nothing changes in layers up to {last}: ask for a later one, or leave --without out"
            )
        if request.predict:
            from attncli.models.outputs.predicting import notices

            for notice in notices(self):
                warnings.warn(notice, Notice, stacklevel=2)

    def attend_tokens(self, texts: Iterable[Tokens], request: Request = EVERYTHING) -> Iterator[AttentionRecord]:
        """Neighbours go through the network together."""
        for taken in self.take(texts, request):
            yield self.record(taken, request)

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
                taken.update(zip(numbers, self.take_batch(batch, asked, request, inside), strict=True))
            for number in range(len(group)):
                yield taken.pop(number)  # whoever drops a record has its memory back

    def asked(self, request: Request) -> Asked:
        """Raises RequestError for a layer or a head that is not there."""
        layers = select(request.layers, self.config.layers, "layer")
        heads = select(request.heads, self.config.heads, "head")
        return Asked(layers, heads, select_heads(request.vectors, layers, heads, self.config.layers, self.config.heads))

    def take_batch(self, batch: Sequence[Tokens], asked: Asked, request: Request, inside: Attend) -> list[Taken]:
        """In one walk, which ends where nothing more is asked for."""
        norms = request.measure == "norm"
        ending: Ending | None = Ending(max(asked.layers), asked.heads, values=norms or inside is not attend_heads)
        if request.predict:
            from attncli.models.outputs.predicting import answering, said

            ending = None if any(answering(self, tokens) for tokens in batch) else ending
        self.need(self.config.layers if ending is None else ending.layer + 1)
        rows = self.rows(batch, request.mask)
        like = torch.empty(0, dtype=self.dtype, device=self.device)
        vectors = KeepVectors(rows, asked.vectors, like, self.config.head_dim, inside)
        terms = KeepTerms(rows, asked.vectors, like, vectors)
        lengths = KeepLengths(rows, asked.layers if norms else [], asked.heads, like, terms)
        maps = KeepMaps(rows, asked.layers, asked.heads, like.to(self.map_dtype), lengths)
        with torch.inference_mode():
            for x in walk(self.network, rows, maps, ending):
                last = x
            spoken = said(self, batch, rows.texts(last)) if ending is None else [None] * len(batch)
            taken = []
            for run in rows.runs:
                weights = maps.kept[run.number]
                if norms:
                    weights *= lengths.kept[run.number][..., None, :]
                masks = of_layers([run.masks[layer] for layer in asked.layers], len(run.texts), run.length, self.device)
                added = terms.kept[run.number]
                of_each = [{name: term[place] for name, term in added.items()} for place in range(len(run.texts))]
                of_texts = zip(weights, vectors.kept[run.number].transpose(0, 1), of_each, masks, strict=True)
                of_run = zip(run.texts, of_texts, strict=True)
                taken.append([Taken(batch[one], asked, *kept, spoken[one]) for one, kept in of_run])
        return rows.in_order(taken)

    def record(self, taken: Taken, request: Request) -> AttentionRecord:
        """Raises RequestError when the numbers are no numbers."""
        weights = taken.weights.to(device="cpu", dtype=torch.float32).numpy()
        heads = taken.asked.vectors
        query, key = taken.vectors.to(device="cpu", dtype=torch.float32).numpy()
        terms = {name: term.to(device="cpu", dtype=torch.float32).numpy() for name, term in taken.terms.items()}
        norms = request.measure == "norm"
        self.check_finite("norms" if norms else "scores", weights, taken.asked)
        self.check_vectors_finite([query, key, *terms.values()], heads)
        scale = np.array([self.network.layer(layer).score.scale(self.config.head_dim) for layer, _ in heads])
        return AttentionRecord(
            weights=weights,
            layers=list(taken.asked.layers),
            heads=list(taken.asked.heads),
            tokens=taken.tokens,
            masks=taken.masks.cpu().numpy(),
            mask_name=request.mask,
            model=self.info,
            vectors=Vectors(list(heads), query, key, scale, terms) if heads and not norms else None,
            measure=request.measure,
            prediction=taken.said,
        )

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

        return predict(self, self.tokenizer.encode(text, pair, pad_to), output, mask)

    def embed(self, texts: Sequence[str]) -> "Numbers":
        """Sentence embeddings, `[text, size]`, as sentence-transformers makes them.

        Raises RequestError where the checkpoint's files don't say how; and as `attend` does.
        """
        from attncli.models.outputs.predicting import embed

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

    def check_finite(self, what: str, weights: Floats, asked: Asked) -> None:
        """Raises RequestError when the weights are no numbers: a row of them that is NaN is so at its first key."""
        bad = np.argwhere(~np.isfinite(weights[..., 0] if what == "scores" else weights.max(axis=-1)))
        if len(bad):
            layer, head, _ = bad[0]
            raise self.too_large(what, asked.layers[layer], asked.heads[head])

    def check_vectors_finite(self, arrays: Sequence[Floats], heads: Sequence[tuple[int, int]]) -> None:
        """Raises RequestError when a query, a key or a term of theirs, `[head, ...]` each, is no number: at a token
        that the mask hides, no weight says so.
        """
        for array in arrays:
            bad = np.flatnonzero(~np.isfinite(array).all(axis=(1, 2)))
            if len(bad):
                raise self.too_large("queries or keys", *heads[bad[0]])

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
                family = self.config.family
                with torch.inference_mode(False):  # what is read in inference mode could have no gradient later
                    load_parameters(self.checkpoint, self.network, family, module, self.dtype, self.device)
            self.needed[module] += 1
            if self.needed[module] == OFTEN:
                lay_out(self.network.get_submodule(module))
