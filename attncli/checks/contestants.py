"""The programs that `attncli bench maps` lets run, on the same weights and the same texts.

- attncli, by the library call that yields the records: `Model.attend_tokens`, which decides for itself how many texts
  go through the network together;
- eager: transformers with `output_attentions`, all maps kept;
- sdpa: transformers on torch's fused kernel, which gives no maps; not of every architecture.

transformers is given texts of one length in one batch, and others as people do: in their order, so many at a time,
padded to the longest of them.
"""

import random
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.checks.timing import Run
from attncli.models.config import ModelConfig
from attncli.models.model import Model
from attncli.models.network import lay_out
from attncli.models.random import random_model
from attncli.models.rows import batches
from attncli.models.transformers_peer import has_sdpa, peer
from attncli.record import Request
from attncli.text.tokens import Tokens

EAGER, SDPA = PEERS = ("eager", "sdpa")
ALL_MAPS, FIRST_HEAD, LAST_HEAD, NO_MAPS = KEPT = ("all", "one, first layer", "one, last layer", "none")
BATCH = 16  # texts of several lengths that a peer takes together


class Shape(NamedTuple):
    """So many texts of so many tokens, computed in a dtype, run so many times.

    shortest: where there are texts of other lengths, the shortest's; they are evenly spread, in no order.
    """

    texts: int
    tokens: int
    rounds: int
    quick_rounds: int
    shortest: int | None = None
    dtype: str = "float32"

    @property
    def lengths(self) -> list[int]:
        """Of the texts in their order (seed 0)."""
        if self.shortest is None:
            return [self.tokens] * self.texts
        spread = range(self.shortest, self.tokens + 1)
        lengths = [spread[number * len(spread) // self.texts] for number in range(self.texts)]
        random.Random(0).shuffle(lengths)
        return lengths


class Contestants:
    """One architecture in all three programs, on the same random weights (seed 0)."""

    def __init__(self, name: str, config: dict[str, Any], device: str, dtype: str = "float32") -> None:
        self.model, reference = random_model(name, device, dtype)
        self.config = self.model.config
        eager = reference.network
        self.peers: dict[str, nn.Module] = {EAGER: eager}
        if has_sdpa(config):
            self.peers[SDPA] = peer(config, eager.state_dict(), SDPA).to(self.model.device, self.model.dtype)
        self.model.need(self.config.layers)
        lay_out(self.model.network)  # as for whoever asks often

    def runs(self, texts: Sequence[Tokens]) -> dict[str, Run]:
        """What each does with these texts, by the names in PEERS and KEPT."""
        together = len(texts) if len({len(tokens) for tokens in texts}) == 1 else BATCH
        given = padded(texts, together, self.config.pad_id, self.model.device)
        maps = {EAGER: {"output_attentions": True}, SDPA: {}}
        theirs = {name: partial(run_peer, network, given, **maps[name]) for name, network in self.peers.items()}
        return {
            **theirs,
            ALL_MAPS: lambda: list(self.model.attend_tokens(texts)),
            FIRST_HEAD: lambda: list(self.model.attend_tokens(texts, Request(layers=0, heads=0))),
            LAST_HEAD: lambda: list(self.model.attend_tokens(texts, Request(layers=-1, heads=0))),
            NO_MAPS: lambda: last_states(self.model, texts),
        }


def padded(
    texts: Sequence[Tokens], together: int, pad_id: int, device: torch.device
) -> list[tuple[Tensor, Tensor | None]]:
    """So many texts at a time in their order, padded to the longest of them: ids and whether they are no [PAD],
    `[text, token]`; None where all are none.
    """
    found: list[tuple[Tensor, Tensor | None]] = []
    for start in range(0, len(texts), together):
        batch = texts[start : start + together]
        spare = [max(map(len, batch)) - len(tokens) for tokens in batch]
        ids = [tokens.ids + [pad_id] * left for tokens, left in zip(batch, spare, strict=True)]
        real = [[1] * len(tokens) + [0] * left for tokens, left in zip(batch, spare, strict=True)]
        mask = torch.tensor(real, device=device) if any(spare) else None
        found.append((torch.tensor(ids, device=device), mask))
    return found


def run_peer(network: nn.Module, batches: Sequence[tuple[Tensor, Tensor | None]], **options: Any) -> list[Any]:
    with torch.inference_mode():
        return [network(ids, attention_mask=mask, **options) for ids, mask in batches]


def last_states(model: Model, texts: Sequence[Tokens]) -> list[Tensor]:
    """The last layer's vectors of each text, `[token, hidden_size]`; nothing else is kept."""
    states: dict[int, Tensor] = {}
    with torch.inference_mode():
        for numbers in batches(texts, model.batch_tokens):
            rows = model.rows([texts[number] for number in numbers], "padding")
            for x in model.walk(rows):
                last = x
            states.update(zip(numbers, rows.texts(last), strict=True))
    return [states[number] for number in range(len(texts))]


def random_texts(config: ModelConfig, shape: Shape) -> list[Tokens]:
    """Texts of random tokens (seed 0), none of them [PAD]."""
    source = torch.Generator().manual_seed(0)
    words = torch.tensor([number for number in range(config.vocab_size) if number != config.pad_id])
    return [
        Tokens(
            text=[str(number) for number in ids],
            ids=ids,
            segments=[0] * len(ids),
            words=list(range(len(ids))),
            offsets=[(0, 0)] * len(ids),
            special=[False] * len(ids),
            padding=[False] * len(ids),
        )
        for length in shape.lengths
        for ids in [words[torch.randint(len(words), (length,), generator=source)].tolist()]
    ]
