"""Mistakes around attention, and its own, planted in an encoder's and in a decoder's layer."""

from checks.theirs.planted import Planted

FIRST = "x = self.norm1(x + self.dropout(self.attend(x, mask)))"
LAST = "self.norm2(x + self.dropout(self.down(hidden)))"
TWO = f"{FIRST}\n        hidden = torch.relu(self.up(x))\n        return self.norm2(x + "
SELF = "x = x + self.dropout(self.attend(self.self_attn, y, y, causal_mask))"
CROSS = "x = x + self.dropout(self.attend(self.cross_attn, y, memory, memory_mask))"
NETWORK = "return x + self.dropout(self.linear2(nn.functional.gelu(self.linear1(y))))"
FILLED = """        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
"""
SOFTMAX = "        heads = torch.softmax(scores, dim=-1) @ v\n"
TRANSPOSED = "heads.transpose(1, 2).flatten(2) @ self.output.weight + self.output.bias"
START = "    def forward(self, x, mask=None):\n"
POSITIONS = """        places = torch.arange(x.size(1), dtype=x.dtype)[:, None]
        angles = places / 10000 ** (torch.arange(0, x.size(2), 2) / x.size(2))
        x = x + 2 * torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
"""

AROUND = (
    Planted("residual forgotten", "encoder_layer", FIRST, "x = self.norm1(self.attend(x, mask))"),
    Planted("residual forgotten", "encoder_layer", LAST, "self.norm2(self.dropout(self.down(hidden)))"),
    Planted("residual forgotten", "decoder_layer", CROSS, CROSS.replace("x + ", "")),
    Planted(
        "residual from the wrong place",
        "encoder_layer",
        TWO,
        "start = x\n        " + TWO.replace("norm2(x", "norm2(start"),
    ),
    Planted("residual from the wrong place", "decoder_layer", SELF, SELF.replace("x + ", "y + ")),
    Planted("residual from the wrong place", "decoder_layer", NETWORK, NETWORK.replace("x + ", "y + ")),
    Planted("norm forgotten", "encoder_layer", FIRST, "x = x + self.dropout(self.attend(x, mask))"),
    Planted("norm forgotten", "encoder_layer", LAST, "x + self.dropout(self.down(hidden))"),
    Planted("norm forgotten", "decoder_layer", "y = self.norm2(x)", "y = x"),
    Planted("one norm used for both", "encoder_layer", "self.norm2(x +", "self.norm1(x +"),
    Planted("one norm used for both", "decoder_layer", "y = self.norm3(x)", "y = self.norm2(x)"),
    Planted(
        "norm before and after mixed",
        "encoder_layer",
        FIRST,
        "x = x + self.dropout(self.attend(self.norm1(x), mask))",
    ),
    Planted(
        "norm before and after mixed",
        "decoder_layer",
        "        y = self.norm3(x)\n        " + NETWORK,
        "        return self.norm3(x + self.linear2(nn.functional.gelu(self.linear1(x))))",
    ),
    Planted("activation forgotten", "encoder_layer", "torch.relu(self.up(x))", "self.up(x)"),
    Planted("activation forgotten", "decoder_layer", "nn.functional.gelu(self.linear1(y))", "self.linear1(y)"),
    Planted(
        "activation after the second linear",
        "encoder_layer",
        "hidden = torch.relu(self.up(x))\n        return self.norm2(x + self.dropout(self.down(hidden)))",
        "hidden = self.down(self.up(x))\n        return self.norm2(x + torch.relu(hidden))",
    ),
    Planted(
        "activation after the second linear",
        "decoder_layer",
        "self.linear2(nn.functional.gelu(self.linear1(y)))",
        "nn.functional.gelu(self.linear2(self.linear1(y)))",
    ),
    Planted("feed-forward bias forgotten", "encoder_layer", "self.down(hidden)", "hidden @ self.down.weight.T"),
    Planted(
        "feed-forward bias forgotten",
        "decoder_layer",
        "self.linear1(y)",
        "nn.functional.linear(y, self.linear1.weight)",
    ),
    Planted(
        "cross-attention's queries are the memory", "decoder_layer", "y, memory, memory_mask", "memory, y, memory_mask"
    ),
    Planted(
        "the self-attention's mask used for the memory",
        "decoder_layer",
        "y, memory, memory_mask",
        "y, memory, causal_mask",
    ),
    Planted(
        "the self-attention's mask used for the memory",
        "decoder_layer",
        SELF,
        SELF.replace("causal_mask", "memory_mask"),
    ),
    Planted(
        "not causal",
        "decoder_layer",
        "memory_mask=None, causal_mask=None):\n",
        "memory_mask=None):\n        causal_mask = None\n",
    ),
    Planted("position added twice", "encoder_layer", START, START + POSITIONS),
    Planted("dropout left on", "decoder_layer", NETWORK, NETWORK.replace("self.dropout", "nn.functional.dropout")),
)

INSIDE = (
    Planted(
        "mask after softmax",
        "encoder_layer",
        FILLED + SOFTMAX,
        SOFTMAX.replace(" @ v", "\n        heads = (heads if mask is None else heads * mask[:, None, None, :]) @ v"),
    ),
    Planted(
        "heads split by view",
        "encoder_layer",
        "layer(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)",
        "layer(x).view(x.size(0), self.n_heads, x.size(1), -1)",
    ),
    Planted("transposed W", "encoder_layer", "self.output(heads.transpose(1, 2).flatten(2))", TRANSPOSED),
    Planted("memory ignored", "decoder_layer", "y, memory, memory_mask", "y, y, memory_mask"),
    Planted("no scale", "decoder_layer", " / math.sqrt(q.size(-1))", ""),
    Planted("scale by d_model", "encoder_layer", "q.size(-1)", "x.size(-1)"),
    Planted("scale without root", "encoder_layer", "math.sqrt(q.size(-1))", "q.size(-1)"),
    Planted("softmax over heads", "encoder_layer", "softmax(scores, dim=-1)", "softmax(scores, dim=1)"),
    Planted("softmax over the batch", "decoder_layer", "softmax(scores, dim=-1)", "softmax(scores, dim=0)"),
    Planted("mask inverted", "encoder_layer", "~mask[:, None", "mask[:, None", ("--mask-means", "allowed")),
    Planted("mask multiplied", "decoder_layer", 'scores.masked_fill(~mask, float("-inf"))', "scores * mask"),
    Planted("-1e9 in half precision", "decoder_layer", 'float("-inf")', "-1e9"),
    Planted("fully masked rows uniform", "decoder_layer", 'float("-inf")', "torch.finfo(scores.dtype).min"),
    Planted(
        "no maximum subtracted",
        "encoder_layer",
        "torch.softmax(scores, dim=-1)",
        "(scores.exp() / scores.exp().sum(-1, keepdim=True))",
    ),
    Planted(
        "heads joined in the wrong order", "encoder_layer", "heads.transpose(1, 2).flatten(2)", "heads.reshape(x.shape)"
    ),
    Planted("q and k swapped", "encoder_layer", "q, k, v = (", "k, q, v = ("),
    Planted("keys as values", "decoder_layer", "dim=-1) @ v", "dim=-1) @ k"),
    Planted("values not projected", "decoder_layer", 'layers["v"](memory)', "memory"),
    Planted(
        "bias left out",
        "encoder_layer",
        "self.output(heads.transpose(1, 2).flatten(2))",
        "heads.transpose(1, 2).flatten(2) @ self.output.weight.T",
    ),
    Planted("temperature", "encoder_layer", "math.sqrt(q.size(-1))", "(3 * math.sqrt(q.size(-1)))"),
)
