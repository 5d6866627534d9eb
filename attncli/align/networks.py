"""The networks that translate dates: recurrent ones with attention between encoder and decoder (Bahdanau et al. 2015,
Luong et al. 2015), and a small Transformer (Vaswani et al. 2017).

Every network maps `source`, texts as numbers `[batch, key]`, and `previous`, START and the output so far
`[batch, query]`, to `Decoded`. No row depends on later ones.
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
    of attention. "cross" `[batch, layer, head, query, key]` attends from the output to the text. A Transformer also has
    its self-attentions: "encoder" `[batch, layer, head, key, key]`, "decoder" `[batch, layer, head, query, query]`.
    """

    logits: Tensor
    maps: dict[str, Tensor]


# --- recurrent -------------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    """Encoder and decoder. attention: additive is Bahdanau's system; dot, general and concat are Luong's.

    d_hidden: the size of h_j and s_i, counting both directions of the encoder.
    """

    def __init__(self, attention: str, d_embedding: int, d_hidden: int) -> None:
        super().__init__()
        self.encoder = RecurrentEncoder(d_embedding, d_hidden)
        decoder = BahdanauDecoder if attention == "additive" else LuongDecoder
        self.decoder = decoder(SCORE_NAMES[attention], d_embedding, d_hidden)

    def forward(self, source: Tensor, previous: Tensor) -> Decoded:
        keys, ends = self.encoder(source)
        decoded: Decoded = self.decoder(keys, ends, (source != PAD)[:, None, :], previous)
        return decoded


class RecurrentEncoder(nn.Module):
    """→h_j = GRU(x_j, →h_{j-1}),  ←h_j = GRU(x_j, ←h_{j+1}),  h_j = [→h_j; ←h_j]   (Bahdanau et al. 2015, 3.2)."""

    def __init__(self, d_embedding: int, d_hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(SOURCE), d_embedding)
        self.gru = nn.GRU(d_embedding, d_hidden // 2, batch_first=True, bidirectional=True)

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return h `[batch, key, d_hidden]`, and the last →h_n and ←h_1, `[batch, 2, d_hidden / 2]`."""
        # Packed, so that the backward direction begins at a text's end, not in its padding.
        lengths = (source != PAD).sum(dim=1)
        x = pack_padded_sequence(self.embedding(source), lengths, batch_first=True, enforce_sorted=False)
        hidden, ends = self.gru(x)
        keys, _ = pad_packed_sequence(hidden, batch_first=True, total_length=source.shape[1])
        return keys.contiguous(), ends.transpose(0, 1)


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

    def forward(self, keys: Tensor, ends: Tensor, mask: Tensor, previous: Tensor) -> Decoded:
        state = torch.tanh(self.first_state(ends[:, 1]))  # s_0 [batch, d_hidden]
        logits, weights = [], []
        for y in self.embedding(previous).unbind(dim=1):  # y_{i-1} [batch, d_embedding]
            attention = attend(state[:, None], keys, keys, mask, self.score)
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

    No step depends on the attention of an earlier one, so the GRU runs over all steps at once. (The paper's network is
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

    def forward(self, keys: Tensor, ends: Tensor, mask: Tensor, previous: Tensor) -> Decoded:
        first = torch.tanh(self.first_state(ends.flatten(1)))  # s_0 [batch, d_hidden]
        states, _ = self.gru(self.embedding(previous), first[None])  # s_i [batch, query, d_hidden]
        attention = attend(states, keys, keys, mask, self.score)
        attentional = torch.tanh(self.combine(torch.cat([attention.output, states], dim=-1)))  # ~h_i
        return Decoded(self.output(attentional), {"cross": attention.weights[:, None, None]})


# --- the Transformer -------------------------------------------------------------------------------------


class Transformer(nn.Module):
    """Encoder and decoder of `layers` layers each; post-norm, as in the paper, without dropout."""

    def __init__(self, d_model: int, heads: int, layers: int) -> None:
        super().__init__()
        self.source = nn.Embedding(len(SOURCE), d_model)
        self.target = nn.Embedding(len(TARGET), d_model)
        self.positions = SinusoidalPositions(d_model)
        self.encoder = nn.ModuleList(TransformerEncoderLayer(d_model, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(TransformerDecoderLayer(d_model, heads) for _ in range(layers))
        self.output = nn.Linear(d_model, len(TARGET))
        for table in (self.source, self.target):  # standard deviation 1 after scaling; positions have a similar size
            nn.init.normal_(table.weight, std=d_model**-0.5)

    def forward(self, source: Tensor, previous: Tensor) -> Decoded:
        visible, causal = padding_mask((source != PAD).long()), causal_mask(previous.shape[1])
        maps: dict[str, list[Tensor]] = {"cross": [], "encoder": [], "decoder": []}
        memory = self.embed(self.source, source)  # [batch, key, d_model]
        for layer in self.encoder:
            memory, attention = layer(memory, visible)
            maps["encoder"].append(attention.weights)
        x = self.embed(self.target, previous)  # [batch, query, d_model]
        for layer in self.decoder:
            x, attention, cross = layer(x, memory, causal, visible)
            maps["decoder"].append(attention.weights)
            maps["cross"].append(cross.weights)
        return Decoded(self.output(x), {kind: torch.stack(weights, dim=1) for kind, weights in maps.items()})

    def embed(self, table: nn.Embedding, numbers: Tensor) -> Tensor:
        """Return the sum of position vectors and character embeddings, the latter times √d_model (section 3.4)."""
        return table(numbers) * table.embedding_dim**0.5 + self.positions(torch.arange(numbers.shape[1]))


AlignNetwork = Recurrent | Transformer
