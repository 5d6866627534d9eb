"""The networks that translate dates: recurrent ones with attention between encoder and decoder, and a Transformer.

The systems of Bahdanau et al. 2015 and Luong et al. 2015:

    the text's characters ── GRU in both directions ──► h_1 ... h_n, which attention looks at

    Bahdanau, attention before the step:            Luong, attention after the step:

        s_{i-1} ──► attend to h ──► c_i                 s_{i-1}, y_{i-1} ── GRU ──► s_i
        s_{i-1}, y_{i-1}, c_i ── GRU ──► s_i            s_i ──► attend to h ──► c_i
        s_i, y_{i-1}, c_i ──► y_i                       tanh(W_c [c_i; s_i]) ──► y_i

The Transformer (Vaswani et al. 2017), small, of the layers of `attncli.attention`:

    the text's characters + positions ── encoder layers ──► memory
    START and the output so far + positions ── decoder layers, which look at the memory ──► the next character
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attncli.align.characters import PAD, SOURCE, TARGET
from attncli.attention import (
    SCORES,
    SinusoidalPositions,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    attend,
    causal_mask,
    padding_mask,
)

SCORE_NAMES = {"additive": "additive", "dot": "dot", "general": "bilinear", "concat": "concat"}


class Decoded(NamedTuple):
    """The result of decoding.

    logits `[batch, query, characters]`: row i is the prediction after the first i + 1 characters. maps: weights by kind
    of attention. cross `[batch, layer, head, query, key]` leads from the output to the text. A Transformer also has its
    self-attentions: encoder `[batch, layer, head, key, key]`, decoder `[batch, layer, head, query, query]`.
    """

    logits: Tensor
    maps: dict[str, Tensor]


# --- recurrent -------------------------------------------------------------------------------------------


class Memory(NamedTuple):
    """The output of the encoder.

    keys `[batch, key, d_hidden]`: h_j = [→h_j; ←h_j]. ends `[batch, 2, d_hidden / 2]`: where the two directions ended,
    →h_n and ←h_1. mask `[batch, 1, key]`: True where there is no PAD.
    """

    keys: Tensor
    ends: Tensor
    mask: Tensor


class Recurrent(nn.Module):
    """Encoder and decoder. attention: additive is Bahdanau's system; dot, general and concat are Luong's.

    d_hidden: elements of h_j and s_i, both directions of the encoder together.
    Raises ValueError if `d_hidden` is odd.
    """

    def __init__(self, attention: str, d_embedding: int = 32, d_hidden: int = 96) -> None:
        super().__init__()
        self.encoder = RecurrentEncoder(d_embedding, d_hidden)
        decoder = BahdanauDecoder if attention == "additive" else LuongDecoder
        self.decoder = decoder(SCORE_NAMES[attention], d_embedding, d_hidden)

    def encode(self, source: Tensor) -> Memory:
        """Return the memory of texts `[batch, key]` that the decoder needs."""
        memory: Memory = self.encoder(source)
        return memory

    def decode(self, memory: Memory, previous: Tensor) -> Decoded:
        """previous `[batch, query]`: START and the output so far. No row sees what comes after it."""
        decoded: Decoded = self.decoder(memory, previous)
        return decoded


class RecurrentEncoder(nn.Module):
    """→h_j = GRU(x_j, →h_{j-1}),  ←h_j = GRU(x_j, ←h_{j+1}),  h_j = [→h_j; ←h_j]   (Bahdanau et al. 2015, 3.2)."""

    def __init__(self, d_embedding: int, d_hidden: int) -> None:
        super().__init__()
        if d_hidden % 2 != 0:
            raise ValueError(f"two directions share d_hidden: {d_hidden} is odd")
        self.embedding = nn.Embedding(len(SOURCE), d_embedding)
        self.gru = nn.GRU(d_embedding, d_hidden // 2, batch_first=True, bidirectional=True)

    def forward(self, source: Tensor) -> Memory:
        x, real = self.embedding(source), source != PAD  # [batch, key, d_embedding], [batch, key]
        # Packed, so that the way back begins at a text's own end and not in its padding.
        hidden, ends = self.gru(pack_padded_sequence(x, real.sum(dim=1), batch_first=True, enforce_sorted=False))
        keys, _ = pad_packed_sequence(hidden, batch_first=True, total_length=source.shape[1])
        return Memory(keys.contiguous(), ends.transpose(0, 1), real[:, None, :])


class BahdanauDecoder(nn.Module):
    """Attention before the step   (Bahdanau et al. 2015, section 3.1 and appendix A).

    e_ij = a(s_{i-1}, h_j),  α_i = softmax(e_i),  c_i = Σ_j α_ij h_j         (equations 5, 6)
    s_i = GRU([y_{i-1}; c_i], s_{i-1}),  s_0 = tanh(W_s ←h_1)                (appendix A.1.1, A.2.2)
    p(y_i) = softmax(W_o [s_i; y_{i-1}; c_i])                                (equation 4, where g has a maxout layer)
    """

    def __init__(self, score: str, d_embedding: int, d_hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(TARGET), d_embedding)
        self.first_state = nn.Linear(d_hidden // 2, d_hidden)
        self.score = SCORES[score](d_hidden)
        self.cell = nn.GRUCell(d_embedding + d_hidden, d_hidden)
        self.output = nn.Linear(d_hidden + d_embedding + d_hidden, len(TARGET))

    def forward(self, memory: Memory, previous: Tensor) -> Decoded:
        state = torch.tanh(self.first_state(memory.ends[:, 1]))  # s_0 [batch, d_hidden]
        logits, weights = [], []
        for y in self.embedding(previous).unbind(dim=1):  # y_{i-1} [batch, d_embedding]
            attention = attend(state[:, None], memory.keys, memory.keys, memory.mask, self.score)
            context = attention.output[:, 0]  # c_i [batch, d_hidden]
            state = self.cell(torch.cat([y, context], dim=-1), state)  # s_i
            logits.append(self.output(torch.cat([state, y, context], dim=-1)))
            weights.append(attention.weights)
        return Decoded(torch.stack(logits, dim=1), {"cross": torch.cat(weights, dim=1)[:, None, None]})


class LuongDecoder(nn.Module):
    """Attention after the step   (Luong et al. 2015, section 3.1; one layer, without input feeding).

    s_i = GRU(y_{i-1}, s_{i-1}),  s_0 = tanh(W_s [→h_n; ←h_1])
    α_i = softmax(score(s_i, h)),  c_i = Σ_j α_ij h_j                        (equation 7)
    ~h_i = tanh(W_c [c_i; s_i]),  p(y_i) = softmax(W_o ~h_i)                 (equations 5, 6)

    No step needs the attention of an earlier one, so the GRU runs over all steps together. (The paper's network is
    an LSTM of four layers.)
    """

    def __init__(self, score: str, d_embedding: int, d_hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(TARGET), d_embedding)
        self.first_state = nn.Linear(d_hidden, d_hidden)
        self.gru = nn.GRU(d_embedding, d_hidden, batch_first=True)
        self.score = SCORES[score](d_hidden)
        self.combine = nn.Linear(2 * d_hidden, d_hidden, bias=False)
        self.output = nn.Linear(d_hidden, len(TARGET))

    def forward(self, memory: Memory, previous: Tensor) -> Decoded:
        first = torch.tanh(self.first_state(memory.ends.flatten(1)))  # s_0 [batch, d_hidden]
        states, _ = self.gru(self.embedding(previous), first[None])  # s_i [batch, query, d_hidden]
        attention = attend(states, memory.keys, memory.keys, memory.mask, self.score)
        attentional = torch.tanh(self.combine(torch.cat([attention.output, states], dim=-1)))  # ~h_i
        return Decoded(self.output(attentional), {"cross": attention.weights[:, None, None]})


# --- the Transformer -------------------------------------------------------------------------------------


class TransformerMemory(NamedTuple):
    """The encoder's output `[batch, key, d_model]`, the mask that hides PAD `[batch, 1, 1, key]`, and the encoder's
    weights `[batch, layer, head, key, key]`."""

    output: Tensor
    mask: Tensor
    weights: Tensor


class Transformer(nn.Module):
    """Encoder and decoder of `layers` layers each; post-norm, as in the paper, without dropout.

    Raises ValueError if `d_model` is odd or not divisible by `heads`.
    """

    def __init__(self, d_model: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.source = nn.Embedding(len(SOURCE), d_model)
        self.target = nn.Embedding(len(TARGET), d_model)
        self.positions = SinusoidalPositions(d_model)
        self.encoder = nn.ModuleList(TransformerEncoderLayer(d_model, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(TransformerDecoderLayer(d_model, heads) for _ in range(layers))
        self.output = nn.Linear(d_model, len(TARGET))
        for table in (self.source, self.target):  # of size 1 once multiplied, as positions are
            nn.init.normal_(table.weight, std=d_model**-0.5)

    def encode(self, source: Tensor) -> TransformerMemory:
        mask = padding_mask((source != PAD).long())
        x = self.embed(self.source, source)  # [batch, key, d_model]
        weights = []
        for layer in self.encoder:
            x, attention = layer(x, mask)
            weights.append(attention.weights)
        return TransformerMemory(x, mask, torch.stack(weights, dim=1))

    def decode(self, memory: TransformerMemory, previous: Tensor) -> Decoded:
        mask = causal_mask(previous.shape[1], device=previous.device)
        x = self.embed(self.target, previous)  # [batch, query, d_model]
        own, cross = [], []
        for layer in self.decoder:
            step = layer(x, memory.output, mask, memory.mask)
            x = step.output
            own.append(step.attention.weights)
            cross.append(step.cross.weights)
        maps = {"cross": torch.stack(cross, dim=1), "encoder": memory.weights, "decoder": torch.stack(own, dim=1)}
        return Decoded(self.output(x), maps)

    def embed(self, table: nn.Embedding, numbers: Tensor) -> Tensor:
        """Return characters and their positions as vectors, the characters times √d_model (section 3.4)."""
        positions = torch.arange(numbers.shape[1], device=numbers.device)
        return table(numbers) * table.embedding_dim**0.5 + self.positions(positions)


Network = Recurrent | Transformer
