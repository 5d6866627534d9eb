"""Model: a checkpoint with its tokenizer, ready to be asked for the attention of texts."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from attncli.attention import MASKS
from attncli.base import choices
from attncli.base.arrays import Floats
from attncli.base.errors import Notice, RequestError
from attncli.models.config import ModelConfig
from attncli.models.encoder import Encoded, Encoder
from attncli.models.engine import Engine
from attncli.models.hub import Place
from attncli.models.norms import value_lengths
from attncli.models.weights import Checkpoint, check_shapes, load_parameters, some_of
from attncli.record import AttentionRecord, Input, ModelInfo, Request, Vectors
from attncli.record.named_heads import select_heads
from attncli.record.selection import select
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

EVERYTHING = Request()

# Tokens that go through the network together. On a CPU more of them make nothing faster: what lies between
# two layers should fit the cache.
BATCH_TOKENS = {"cpu": 1024, "cuda": 16384, "mps": 8192}


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
        with torch.device("meta"):  # no memory yet
            self.encoder = Encoder(config)
        self.encoder.requires_grad_(False)
        self.loaded: set[str] = set()
        surplus = check_shapes(checkpoint, self.encoder, config.family)
        if surplus:
            warnings.warn(f"{checkpoint.where}: not used: {some_of(surplus)}", Notice, stacklevel=2)

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            name=self.place.name,
            path=str(self.place.path),
            sha256=self.sha256,
            layers=self.config.layers,
            heads=self.config.heads,
            hidden_size=self.config.hidden_size,
        )

    @property
    def dtype_name(self) -> str:
        """What it computes in, as --dtype says it."""
        return str(self.dtype).removeprefix("torch.")

    def answer(self, inputs: Iterable[Input], request: Request) -> Iterator[AttentionRecord]:
        """Neighbours of one length go through the network together."""
        self.check(request)
        yield from self.attend_tokens(self.tokenize(inputs, request.pad_to), request)

    def check(self, request: Request) -> None:
        for option, value in (("--which", request.which), ("--target", request.target)):
            if value is not None:
                raise RequestError(
                    f"{option} is for encoder-decoders, and {self.place.name} is an encoder: leave it out"
                )
        if request.measure == "norm" and request.vectors not in (None, "none"):
            raise RequestError("q and k make weights and not norms: leave --vectors or --measure norm out")

    def attend_tokens(self, texts: Iterable[Tokens], request: Request = EVERYTHING) -> Iterator[AttentionRecord]:
        """`answer` for texts that are tokens already."""
        layers = select(request.layers, self.config.layers, "layer")
        heads = select(request.heads, self.config.heads, "head")
        vectors = select_heads(request.vectors, layers, heads, self.config.layers, self.config.heads)
        for group in self.groups(texts):
            for record in self.attend_group(group, layers, heads, request.mask, vectors):
                yield self.norms(record) if request.measure == "norm" else record

    def norms(self, record: AttentionRecord) -> AttentionRecord:
        """A record of this model's with ‖α f(x)‖ in place of each weight α (`attncli.models.norms`).

        Rows do not sum to 1, and a norm may be more than 1.
        """
        _, states = self.hidden_states(record.tokens, self.mask([record.tokens], record.mask_name))
        with torch.inference_mode():
            lengths = torch.stack(
                [
                    value_lengths(self.encoder.layer(layer).attention, states[layer], record.heads)
                    for layer in record.layers
                ]
            )
        weights = record.weights * lengths.float().cpu().numpy()[:, :, None]
        return replace(record, weights=weights, measure="norm", vectors=None)

    def groups(self, texts: Iterable[Tokens]) -> Iterator[list[Tokens]]:
        """Neighbours of one length, as many at a time as go through the network together."""
        group: list[Tokens] = []
        for tokens in texts:
            if group and (len(tokens) != len(group[0]) or (len(group) + 1) * len(tokens) > self.batch_tokens):
                yield group
                group = []
            group.append(tokens)
        if group:
            yield group

    def tokenize(self, inputs: Iterable[Input], pad_to: int | None) -> Iterator[Tokens]:
        """Raises RequestError as `Tokenizer.encode` does."""
        for text, pair in inputs:
            yield self.tokenizer.encode(text, pair, pad_to)

    @property
    def batch_tokens(self) -> int:
        return BATCH_TOKENS.get(self.device.type, BATCH_TOKENS["cpu"])

    def attend_group(
        self,
        group: Sequence[Tokens],
        layers: Sequence[int],
        heads: Sequence[int],
        mask: str,
        vectors: Sequence[tuple[int, int]] = (),
    ) -> Iterator[AttentionRecord]:
        """Texts of one length, in one forward pass."""
        allowed = self.mask(group, mask)
        encoded = self.encode(group, allowed, layers, heads, vectors)
        kept = encoded.weights.to(device="cpu", dtype=torch.float32).numpy()
        queries_and_keys = encoded.vectors.to(device="cpu", dtype=torch.float32).numpy()
        self.check_finite(kept, layers, heads)
        self.check_vectors_finite(queries_and_keys, vectors)
        masks = allowed.expand(len(group), 1, *allowed.shape[-2:])[:, 0].cpu().numpy()
        length = len(group[0])
        for tokens, one, its_mask, query, key in zip(group, kept, masks, *queries_and_keys, strict=True):
            yield AttentionRecord(
                weights=one,
                layers=list(layers),
                heads=list(heads),
                tokens=tokens,
                masks=np.broadcast_to(its_mask, (length, length)),
                mask_name=mask,
                model=self.info,
                vectors=Vectors(list(vectors), query, key) if vectors else None,
            )

    def check_finite(self, weights: Floats, layers: Sequence[int], heads: Sequence[int]) -> None:
        """Raises RequestError when the weights are no numbers: a row that is NaN is so at its first key."""
        bad = np.argwhere(~np.isfinite(weights[..., 0]))
        if len(bad):
            _, layer, head, _ = bad[0]
            raise self.too_large("scores", layers[layer], heads[head])

    def check_vectors_finite(self, vectors: Floats, heads: Sequence[tuple[int, int]]) -> None:
        """Raises RequestError when a query or a key is no number: at a token that the mask hides, no weight says so."""
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=(0, 1, 3, 4)))
        if len(bad):
            raise self.too_large("queries or keys", *heads[bad[0]])

    def too_large(self, what: str, layer: int, head: int) -> RequestError:
        return RequestError(
            f"layer {layer}, head {head} of {self.place.name} has {what} too large for "
            f"{self.dtype_name}: another --dtype has more room, or the weights are damaged"
        )

    def encode(
        self,
        group: Sequence[Tokens],
        mask: Tensor,
        layers: Sequence[int],
        heads: Sequence[int],
        vectors: Sequence[tuple[int, int]] = (),
    ) -> Encoded:
        """Weights and vectors of texts of one length, in the model's own dtype."""
        self.need(max(layers) + 1)
        inputs, shown = self.inputs(group), None if bool(mask.all()) else mask
        with torch.inference_mode():
            return self.encoder(*inputs, shown, list(layers), list(heads), vectors=vectors)

    def hidden_states(
        self, tokens: Tokens, mask: Tensor, layers: Sequence[int] = (), positions: bool = True
    ) -> tuple[Tensor, list[Tensor]]:
        """Of one text: weights `[layer, head, query, key]` of all heads of the `layers` asked for, and the
        vectors `[token, hidden_size]` after the embeddings and after every layer.
        """
        self.need(self.config.layers)
        with torch.inference_mode():
            encoded = self.encoder(
                *self.inputs([tokens]),
                mask,
                list(layers),
                range(self.config.heads),
                hidden=True,
                positions=positions,
            )
        return encoded.weights[0], [state[0] for state in encoded.hidden]

    def inputs(self, group: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        """ids and segments, `[batch, token]`; a network of one kind of segment is told of no other."""
        ids = torch.tensor([tokens.ids for tokens in group], device=self.device)
        if self.config.family in ("bert", "electra") and self.config.segments > 1:
            return ids, torch.tensor([tokens.segments for tokens in group], device=self.device)
        return ids, torch.zeros_like(ids)

    def mask(self, group: Sequence[Tokens], name: str) -> Tensor:
        """The mask of this name for texts of one length: bool `[1 or batch, 1, query, key]`."""
        choices.check("mask", name, choices.Mask)
        real = torch.tensor([[not pad for pad in tokens.padding] for tokens in group], device=self.device)
        mask = MASKS[name](real)
        return mask.expand(*mask.shape[:2], real.shape[1], real.shape[1])

    def need(self, layers: int) -> None:
        """Read the embeddings and the first `layers` layers, unless that has happened."""
        for module in ("embeddings", *(f"layers.{number}" for number in range(layers))):
            if module not in self.loaded:
                load_parameters(self.checkpoint, self.encoder, self.config, module, self.dtype, self.device)
                self.loaded.add(module)
