"""Model: a checkpoint with its tokenizer, ready to be asked for the attention of texts."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from attncli.attention import causal_mask, combine_masks, padding_mask
from attncli.errors import Notice, RequestError
from attncli.models.config import ModelConfig
from attncli.models.encoder import Encoded, Encoder
from attncli.models.hub import Place, check_sha256, locate, weights_sha256
from attncli.models.layout import CONFIG_FILE, weight_files
from attncli.models.norms import norms
from attncli.models.weights import Checkpoint, check_shapes, load_parameters, open_checkpoint, some_of
from attncli.neurons import Neurons, select_neurons
from attncli.record import AttentionRecord, Floats, ModelInfo, Vectors
from attncli.selection import Selection, select
from attncli.text import Tokenizer, Tokens

MASKS = ("padding", "causal", "none")
ASKED_MEASURES = ("weight", "norm")
DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}

# Tokens that go through the network together. On a CPU more of them make nothing faster: what lies between
# two layers should fit the cache.
BATCH_TOKENS = {"cpu": 1024, "cuda": 16384, "mps": 8192}


def load_model(name: str = "minilm", device: str = "auto", dtype: str = "float32") -> "Model":
    """Load a model by alias, Hub repository id, or directory.

    device: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1", "mps"; dtype: "float32", "float64",
    "bfloat16", "float16".

    Raises RequestError when the name means nothing, the files can't be had, or they don't hold a model of the
    BERT family.
    """
    from attncli.models.reference import last_resort_tokenizer

    chosen, number = pick_device(device), pick_dtype(dtype)
    place = locate(name)
    config = ModelConfig.from_file(place.path / CONFIG_FILE)
    paths = weight_files(place.path)
    sha256 = weights_sha256(paths)
    check_sha256(place, sha256)
    tokenizer = Tokenizer.from_directory(
        place.path, config.max_tokens, config.vocab_size, config.pad_id, last_resort_tokenizer
    )
    return Model(place, config, tokenizer, open_checkpoint(place.path), sha256, chosen, number)


class Model:
    """An encoder of the BERT family. Layers are read from the checkpoint when a request first needs them."""

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

    def attend(
        self,
        text: str,
        pair: str | None = None,
        layers: Selection = "all",
        heads: Selection = "all",
        mask: str = "padding",
        pad_to: int | None = None,
        neurons: Neurons = None,
        measure: str = "weight",
    ) -> AttentionRecord:
        """The attention of one text, or of a pair of texts.

        layers, heads: "all", a number, numbers, or text such as "0-3,-1"; a negative layer counts from the end.
        mask: "padding" hides [PAD], "causal" hides [PAD] and the future, "none" hides nothing.
        pad_to: append [PAD] up to so many tokens.
        neurons: whose queries and keys to keep too, as `record.vectors`: text such as "4.7" or "4.0-3,-1.all", pairs
        (layer, head), "all"; None or "none" for nobody's. They are some of the layers and heads asked for.
        measure: "weight", or "norm" (`attncli.models.norms`), which keeps no queries and keys.

        Raises RequestError for an empty text, or a layer, head, neuron, mask, length or measure out of range.
        """
        return next(self.attend_many([text], [pair], layers, heads, mask, pad_to, neurons, measure))

    def attend_many(
        self,
        texts: Iterable[str],
        pairs: Iterable[str | None] | None = None,
        layers: Selection = "all",
        heads: Selection = "all",
        mask: str = "padding",
        pad_to: int | None = None,
        neurons: Neurons = None,
        measure: str = "weight",
    ) -> Iterator[AttentionRecord]:
        """The attention of many texts, in their order; neighbours of one length go through the network together.

        Arguments and errors as for `attend`.
        """
        yield from self.attend_tokens(self.tokenize_many(texts, pairs, pad_to), layers, heads, mask, neurons, measure)

    def attend_tokens(
        self,
        texts: Iterable[Tokens],
        layers: Selection = "all",
        heads: Selection = "all",
        mask: str = "padding",
        neurons: Neurons = None,
        measure: str = "weight",
    ) -> Iterator[AttentionRecord]:
        """`attend_many` for texts that are tokens already. Arguments and errors as for `attend`."""
        wanted_layers = select(layers, self.config.layers, "layer")
        wanted_heads = select(heads, self.config.heads, "head")
        wanted_neurons = select_neurons(neurons, wanted_layers, wanted_heads, self.config.layers, self.config.heads)
        check_mask_name(mask)
        check_measure(measure)
        for group in self.groups(texts):
            for record in self.attend_group(group, wanted_layers, wanted_heads, mask, wanted_neurons):
                yield norms(self, record) if measure == "norm" else record

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

    def tokenize_many(
        self, texts: Iterable[str], pairs: Iterable[str | None] | None, pad_to: int | None
    ) -> Iterator[Tokens]:
        if pairs is None:
            for text in texts:
                yield self.tokenizer.encode(text, None, pad_to)
        else:
            for text, pair in zip(texts, pairs, strict=True):
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
        neurons: Sequence[tuple[int, int]] = (),
    ) -> Iterator[AttentionRecord]:
        """Texts of one length, in one forward pass."""
        allowed = self.mask(group, mask)
        encoded = self.encode(group, allowed, layers, heads, neurons)
        kept = encoded.weights.to(device="cpu", dtype=torch.float32).numpy()
        vectors = encoded.vectors.to(device="cpu", dtype=torch.float32).numpy()
        self.check_finite(kept, layers, heads)
        self.check_vectors_finite(vectors, neurons)
        masks = allowed.expand(len(group), 1, *allowed.shape[-2:])[:, 0].cpu().numpy()
        length = len(group[0])
        for tokens, one, its_mask, query, key in zip(group, kept, masks, *vectors, strict=True):
            yield AttentionRecord(
                weights=one,
                layers=list(layers),
                heads=list(heads),
                tokens=tokens,
                mask=np.broadcast_to(its_mask, (length, length)),
                mask_name=mask,
                model=self.info,
                vectors=Vectors(list(neurons), query, key) if neurons else None,
            )

    def check_finite(self, weights: Floats, layers: Sequence[int], heads: Sequence[int]) -> None:
        """Raises RequestError when the weights are no numbers: a row that is NaN is so at its first key."""
        bad = np.argwhere(~np.isfinite(weights[..., 0]))
        if len(bad):
            _, layer, head, _ = bad[0]
            raise self.too_large("scores", layers[layer], heads[head])

    def check_vectors_finite(self, vectors: Floats, neurons: Sequence[tuple[int, int]]) -> None:
        """Raises RequestError when a query or a key is no number: at a token that the mask hides, no weight says so."""
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=(0, 1, 3, 4)))
        if len(bad):
            raise self.too_large("queries or keys", *neurons[bad[0]])

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
        neurons: Sequence[tuple[int, int]] = (),
    ) -> Encoded:
        """Weights and vectors of texts of one length, in the model's own dtype."""
        self.need(max(layers) + 1)
        inputs, shown = self.inputs(group), None if bool(mask.all()) else mask
        with torch.inference_mode():
            return self.encoder(*inputs, shown, list(layers), list(heads), neurons=neurons)

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
        """The mask of this name for texts of one length: bool `[1 or batch, 1, 1 or query, key]`."""
        check_mask_name(name)
        length = len(group[0])
        everything = torch.ones(1, 1, length, length, dtype=torch.bool, device=self.device)
        if name == "none":
            return everything
        real = torch.tensor([[not pad for pad in tokens.padding] for tokens in group], device=self.device)
        future = causal_mask(length, device=self.device) if name == "causal" else None
        mask = combine_masks(everything, padding_mask(real), future)
        assert mask is not None
        return mask

    def need(self, layers: int) -> None:
        """Read the embeddings and the first `layers` layers, unless that has happened."""
        for module in ("embeddings", *(f"layers.{number}" for number in range(layers))):
            if module not in self.loaded:
                load_parameters(self.checkpoint, self.encoder, self.config, module, self.dtype, self.device)
                self.loaded.add(module)


def check_mask_name(name: str) -> None:
    if name not in MASKS:
        raise RequestError(f"no mask {name!r}: it is one of {', '.join(MASKS)}")


def check_measure(name: str) -> None:
    if name not in ASKED_MEASURES:
        raise RequestError(f"no measure {name!r}: it is one of {', '.join(ASKED_MEASURES)}")


def pick_dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise RequestError(f"no dtype {name!r}: it is one of {', '.join(DTYPES)}")
    return DTYPES[name]


def pick_device(name: str) -> torch.device:
    """The device of this name; "auto" is a GPU where there is one. Raises RequestError for one that is not here."""
    counts: dict[str, Callable[[], int]] = {
        "cuda": torch.cuda.device_count,
        "mps": lambda: int(torch.backends.mps.is_available()),
        "cpu": lambda: 1,
    }
    if name == "auto":
        name = next(kind for kind, count in counts.items() if count())
    kind = name.partition(":")[0]
    try:
        device = torch.device(name)
        count = counts[kind]()
    except (RuntimeError, KeyError) as error:
        raise RequestError(f"no device {name!r}: it is one of auto, {', '.join(sorted(counts))}") from error
    if (device.index or 0) >= count:
        raise RequestError(f"device {name!r} is not on this machine; --device auto takes what there is")
    return device
