"""transformers' own networks with eager attention, in which heads and edges are changed by hooks on their modules."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

Head = tuple[int, int]  # (layer, head)
Edge = tuple[int, int]  # (query, key)

# By model type and part: the module that attends, and the one that multiplies the joined heads with W_O.
LLAMA = {"decoder": ("model.layers.{}.self_attn", "model.layers.{}.self_attn.o_proj")}
MODULES = {
    "gpt2": {"decoder": ("transformer.h.{}.attn", "transformer.h.{}.attn.c_proj")},
    "llama": LLAMA,
    "mistral": LLAMA,
    "gemma2": LLAMA,
    "gemma3_text": LLAMA,
    "gpt_oss": LLAMA,
    "opt": {"decoder": ("model.decoder.layers.{}.self_attn", "model.decoder.layers.{}.self_attn.out_proj")},
    "esm": {"encoder": ("esm.encoder.layer.{}.attention.self", "esm.encoder.layer.{}.attention.output.dense")},
    "t5": {
        "encoder": ("encoder.block.{}.layer.0.SelfAttention", "encoder.block.{}.layer.0.SelfAttention.o"),
        "decoder": ("decoder.block.{}.layer.0.SelfAttention", "decoder.block.{}.layer.0.SelfAttention.o"),
        "cross": ("decoder.block.{}.layer.1.EncDecAttention", "decoder.block.{}.layer.1.EncDecAttention.o"),
    },
    "bart": {
        "encoder": ("model.encoder.layers.{}.self_attn", "model.encoder.layers.{}.self_attn.out_proj"),
        "decoder": ("model.decoder.layers.{}.self_attn", "model.decoder.layers.{}.self_attn.out_proj"),
        "cross": ("model.decoder.layers.{}.encoder_attn", "model.decoder.layers.{}.encoder_attn.out_proj"),
    },
}


class Said(NamedTuple):
    """Return a network's logits and last vectors, `[token, size]` each; logits of classes `[class]`."""

    logits: Tensor
    last: Tensor

    @property
    def likely(self) -> Tensor:
        """The logarithms of probabilities."""
        return self.logits.double().log_softmax(dim=-1)


class ByHand:
    """A network of transformers with eager attention, one part of which is changed by hooks.

    changes: outputs by head, a number, or a tensor `[head_dim]` or `[token, head_dim]`. hidden: by head the edges that
    are cut; keep_rest: by a weight of 0, else by a score of -inf.
    """

    def __init__(self, path: Path, part: str, dtype: torch.dtype) -> None:
        config = transformers.AutoConfig.from_pretrained(path)
        [name] = config.architectures
        kind = getattr(transformers, name)
        self.network = kind.from_pretrained(path, attn_implementation="eager", dtype=dtype).eval()
        self.network.config.use_cache = False
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.part = part
        self.paired = config.is_encoder_decoder
        self.modules = self.find(0)
        self.projections = self.find(1)
        self.inside: int | None = None
        self.changes: Mapping[Head, Any] = {}
        self.hidden: Mapping[Head, Sequence[Edge]] = {}
        self.keep_rest = False
        self.forced: tuple[int, int] | None = None
        self.seen: dict[int, Tensor] = {}
        self.answers: dict[tuple[int, ...], list[int]] = {}
        self.heads = self.count_heads(config)
        for layer, (module, projection) in enumerate(zip(self.modules, self.projections, strict=True)):
            module.register_forward_pre_hook(lambda *_, layer=layer: setattr(self, "inside", layer))
            module.register_forward_hook(lambda *_: setattr(self, "inside", None))
            projection.register_forward_pre_hook(lambda _, inputs, layer=layer: (self.joined(layer, inputs[0]),))

    def find(self, which: int) -> list[Any]:
        """The modules of all layers: those that attend, or those that multiply with W_O."""
        name = MODULES[self.network.config.model_type][self.part][which]
        there = dict(self.network.named_modules())
        return [there[name.format(layer)] for layer in range(len(there)) if name.format(layer) in there]

    def count_heads(self, config: Any) -> int:
        if self.network.config.model_type == "bart":
            return int(config.encoder_attention_heads if self.part == "encoder" else config.decoder_attention_heads)
        return int(config.num_attention_heads)

    def joined(self, layer: int, given: Tensor) -> Tensor:
        """Record the outputs of the heads that go into W_O, `[token, head, head_dim]`, and put in changed ones."""
        heads = given.unflatten(-1, (self.heads, -1)).clone()
        self.seen[layer] = heads[0].clone()
        for (of, head), output in self.changes.items():
            if of == layer:
                heads[..., head, :] = output
        return heads.flatten(-2)

    @contextmanager
    def softmax_changed(self) -> Iterator[None]:
        plain = F.softmax

        def softmax(scores: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            if self.forced is not None and scores.dim() == 4 and self.inside == self.forced[0]:
                weights = torch.zeros_like(plain(scores, *args, **kwargs))
                weights[..., self.forced[1]] = 1.0
                return weights
            edges = {head: edges for (layer, head), edges in self.hidden.items() if layer == self.inside}
            if self.inside is None or scores.dim() != 4 or not edges:
                return plain(scores, *args, **kwargs)
            gone = torch.zeros_like(scores, dtype=torch.bool)
            for head, some in edges.items():
                for query, key in some:
                    gone[:, head, query, key] = True
            if self.keep_rest:
                return plain(scores, *args, **kwargs).masked_fill(gone, 0.0)
            masked = scores < torch.finfo(scores.dtype).min / 2  # stays hidden where all else is cut
            return plain(scores.masked_fill(gone | masked, -torch.inf), *args, **kwargs).nan_to_num(0.0)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(F, "softmax", softmax)
            yield

    def run(
        self,
        ids: Sequence[int],
        fed: Sequence[int] | None = None,
        changes: Mapping[Head, Any] = {},
        hidden: Mapping[Head, Sequence[Edge]] = {},
        keep_rest: bool = False,
        **more: Any,
    ) -> Said:
        """Run a text. fed: what the decoder of an encoder-decoder is fed; by default what it writes greedily."""
        inputs = {"input_ids": torch.tensor([list(ids)]), **more}
        if self.paired:
            fed = self.written(ids)[:-1] if fed is None else fed
            inputs["decoder_input_ids"] = torch.tensor([list(fed)])
        self.changes, self.hidden, self.keep_rest, self.seen = changes, hidden, keep_rest, {}
        with torch.inference_mode(), self.softmax_changed():
            made = self.network(**inputs, output_hidden_states=True)
        states = made.decoder_hidden_states if self.paired else made.hidden_states
        self.changes, self.hidden = {}, {}
        return Said(made.logits[0], states[-1][0])

    def written(self, ids: Sequence[int]) -> list[int]:
        """Return the decoder's own greedy output, from its start token to the end."""
        if tuple(ids) in self.answers:
            return self.answers[tuple(ids)]
        longest = 64 if self.network.config.model_type == "t5" else self.network.config.max_position_embeddings
        with torch.inference_mode():
            made = self.network.generate(
                torch.tensor([list(ids)]), do_sample=False, num_beams=1, max_new_tokens=min(64, longest)
            )
        self.answers[tuple(ids)] = made[0].tolist()
        return self.answers[tuple(ids)]

    def maps(self, ids: Sequence[int], fed: Sequence[int] | None = None) -> Tensor:
        """The maps of the part, `[layer, head, query, key]`."""
        inputs = {"input_ids": torch.tensor([list(ids)])}
        if self.paired:
            inputs["decoder_input_ids"] = torch.tensor([list(self.written(ids)[:-1] if fed is None else fed)])
        with torch.inference_mode():
            made = self.network(**inputs, output_attentions=True)
        return torch.cat(getattr(made, f"{self.part}_attentions" if self.paired else "attentions"))

    def norms(self, ids: Sequence[int], fed: Sequence[int] | None = None) -> Tensor:
        """The norms ‖α v W_O‖, `[layer, head, query, key]`.

        A head's output is v of a key where all its weight is on that key; so its part of W_O's output is made.
        """
        maps, found = self.maps(ids, fed), []
        for layer, projection in enumerate(self.projections):
            weight = projection.weight if isinstance(projection, torch.nn.Linear) else projection.weight.T
            by_head = weight.detach().unflatten(1, (self.heads, -1))
            lengths = []
            for key in range(maps.shape[-1]):
                self.forced = layer, key
                self.run(ids, fed)
                self.forced = None
                lengths.append(torch.einsum("hd,rhd->hr", self.seen[layer][0], by_head).norm(dim=-1))
            found.append(maps[layer] * torch.stack(lengths, dim=1)[:, None])
        return torch.stack(found)

    def outputs(self, ids: Sequence[int], fed: Sequence[int] | None = None) -> Tensor:
        """The outputs of all heads, `[layer, token, head, head_dim]`."""
        self.run(ids, fed)
        return torch.stack([self.seen[layer] for layer in range(len(self.modules))])
