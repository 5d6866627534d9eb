"""Mistakes such as a careful programmer makes, by their text: what `plant_mistakes.py` plants, each alone.

They were chosen before any was run, and one that is missed stays in the list: it says which test is wanting. They are
found by their text and not by their file, so that code may move; whoever rewords a line that stands here rewords it
here too.
"""

from typing import NamedTuple


class Mistake(NamedTuple):
    """In place of `old`, which stands once in all of the package, `new`."""

    name: str
    old: str
    new: str


MISTAKES = (
    Mistake(
        "mask forgotten where no map is kept",
        "return attend_output(heads.query, heads.key, heads.value, heads.mask)",
        "return attend_output(heads.query, heads.key, heads.value)",
    ),
    Mistake(
        "hard_max hides with 0, not with -inf",
        "hidden = scores if mask is None else scores.masked_fill(~mask, -torch.inf)",
        "hidden = scores if mask is None else scores.masked_fill(~mask, 0.0)",
    ),
    Mistake(
        "second LayerNorm has torch's epsilon",
        "self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)",
        "self.feed_forward_norm = nn.LayerNorm(config.hidden_size)",
    ),
    Mistake("RoBERTa numbers [PAD] on", "real.cumsum(dim=1) * real +", "real.cumsum(dim=1) +"),
    Mistake("token between two windows counts twice", "(places < window.counted[1])", "(places <= window.counted[1])"),
    Mistake(
        "second text of RoBERTa's pair is in the first segment",
        "segments.append(max(kind, part if part is not None else segments[-1] if segments else 0))",
        "segments.append(kind)",
    ),
    Mistake("JSON has 4 digits", "decimals(self.map(layer, head))", "decimals(self.map(layer, head).round(4))"),
    Mistake(
        "[PAD] is taken for a separator",
        "separators = np.array(keys.special) & ~np.array(keys.padding)",
        "separators = np.array(keys.special)",
    ),
    Mistake(
        "rollout halves an empty row", "np.where(nowhere, own, 0.5 * means + 0.5 * own)", "0.5 * means + 0.5 * own"
    ),
    Mistake("words: mean over the key's pieces", "rows, axis=-2) / sizes[:, None]", "rows, axis=-2) / sizes"),
    Mistake("terminal: rows are numbered from 1", ", token in enumerate(tokens)]", ", token in enumerate(tokens, 1)]"),
    Mistake("figure: query is counted before tokens are left out", "return queries.index(token)", "return token"),
    Mistake("page: weights are not rounded", "np.rint(shares * np.float32(scale.levels))", "(shares * scale.levels)"),
    Mistake(
        "--limit counts in every file anew",
        "yield from islice(chain.from_iterable(every), self.limit)",
        "yield from chain.from_iterable(islice(some, self.limit) for some in every)",
    ),
    Mistake("law of [PAD] has no [PAD]", "model.hidden_states(padded, mask))", "model.hidden_states(tokens, mask))"),
    Mistake("first [END] ends all texts", "(written == END).any(dim=1).all()", "(written == END).any(dim=1).any()"),
    Mistake("run --json -o prints no record", "        records = iter(kept)\n", ""),
    Mistake(
        "compare --dtype float64 never ends with 1",
        'tells a mistake, which stays, from rounding, which goes")\n        raise typer.Exit(1)',
        'tells a mistake, which stays, from rounding, which goes")\n            raise typer.Exit(1)',
    ),
    Mistake(
        "Ctrl-C leaves a temporary file",
        "        yield folder\n    finally:\n        shutil.rmtree(folder, ignore_errors=True)\n",
        "        yield folder\n        shutil.rmtree(folder, ignore_errors=True)\n    except OSError:\n"
        "        shutil.rmtree(folder, ignore_errors=True)\n        raise\n    finally:\n",
    ),
    Mistake(
        "every layer has the first one's mask",
        "one: Bools = self.masks[self.layers.index(layer)]",
        "one: Bools = self.masks[0]",
    ),
    Mistake("isolates may reorder a line", r"\u202e\u2066\u2067\u2068\u2069\u200e", r"\u202e\u200e"),
)

# In what `attncli compare` has to find by itself, on minilm and one sentence.
FOR_COMPARE = (
    # where queries meet keys
    Mistake("q and k swapped where the walk ends", "query, key = projected[:2]", "key, query = projected[:2]"),
    Mistake(
        "q and k swapped in stats",
        "some = heads.some_queries(block.queries)",
        "some = heads._replace(query=heads.key, key=heads.query).some_queries(block.queries)",
    ),
    Mistake(
        "scaled_dot without its scale", "return dot(query / query.shape[-1] ** 0.5, key)", "return dot(query, key)"
    ),
    Mistake(
        "stored maps without the scale",
        "torch.matmul(queries / query.shape[-1] ** 0.5, keys",
        "torch.matmul(queries, keys",
    ),
    Mistake(
        "K for V in the fused kernel",
        "        return F.scaled_dot_product_attention(query, key, value)\n",
        "        return F.scaled_dot_product_attention(query, key, key)\n",
    ),
    Mistake(
        "K for V in the fused kernel, masked",
        "(query, key, value, attn_mask=mask)",
        "(query, key, key, attn_mask=mask)",
    ),
    Mistake("K for V where maps are stored", "    return (weights @ values).to", "    return (weights @ keys).to"),
    Mistake("mask forgotten in the fused kernel", "(query, key, value, attn_mask=mask)", "(query, key, value)"),
    Mistake(
        "mask forgotten where maps are stored",
        "        weights.masked_fill_(~mask, -torch.inf)\n",
        "        pass\n",
    ),
    Mistake(
        "hidden weights are not 0 in the formula",
        "weights = torch.softmax(warm.masked_fill(~mask, -torch.inf), dim=-1, dtype=wide)",
        "weights = torch.softmax(warm, dim=-1, dtype=wide)",
    ),
    # masks
    Mistake("mask padding hides nothing", '"padding": (no_padding,)', '"padding": ()'),
    Mistake("mask causal forgets [PAD]", '"causal": (no_padding, no_future)', '"causal": (no_future,)'),
    Mistake(
        "mask causal shows the next token",
        "tril(diagonal=key_len - query_len)",
        "tril(diagonal=key_len - query_len + 1)",
    ),
    Mistake(
        "texts of a run share the first one's mask", "real = real[:1] if bool(real.all()) else real", "real = real[:1]"
    ),
    # tokens and embeddings
    Mistake(
        "tokenizer drops the last token",
        "        self.check(tokens, text)\n        return tokens",
        "        tokens = Tokens(**{name: part[:-1] for name, part in vars(tokens).items()})\n        return tokens",
    ),
    Mistake(
        "[PAD] is not said to be padding",
        "padding=tokens.padding + [True] * more",
        "padding=tokens.padding + [False] * more",
    ),
    Mistake("segments forgotten", "x = x + self.segments(segments)", "x = x + self.segments(segments * 0)"),
    Mistake(
        "positions are counted from 1",
        "torch.arange(ids.shape[1], device=ids.device)",
        "torch.arange(1, 1 + ids.shape[1], device=ids.device)",
    ),
    Mistake("positions forgotten", "            x = x + self.positions(positions)\n", "            pass\n"),
    # heads, layers and texts
    Mistake(
        "heads are split the other way",
        "return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)",
        "return x.unflatten(-1, (self.head_dim, -1)).permute(0, 3, 1, 2)",
    ),
    Mistake(
        "heads are joined in another order", "copy_(output.transpose(1, 2))", "copy_(output.flip(1).transpose(1, 2))"
    ),
    Mistake(
        "another head's projection where the walk ends",
        "(attention.heads, -1))[list(heads)].flatten(0, 1)",
        "(attention.heads, -1))[[0] * len(heads)].flatten(0, 1)",
    ),
    Mistake("bias forgotten where the walk ends", "return F.linear(x, weight, bias)", "return F.linear(x, weight)"),
    Mistake(
        "the layer's input is kept, not its output",
        "        x = layer.after(x, attended)\n",
        "        layer.after(x, attended)\n",
    ),
    Mistake(
        "texts come back the shortest first",
        "return [parts[text] for text in sorted(parts)]",
        "return list(parts.values())",
    ),
    Mistake("residual forgotten", "x = self.attention_norm(x + attended)", "x = self.attention_norm(attended)"),
    Mistake(
        "second LayerNorm has torch's epsilon",
        "self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)",
        "self.feed_forward_norm = nn.LayerNorm(config.hidden_size)",
    ),
    Mistake("GELU is the one with tanh", '"gelu": ("gelu", "none")}', '"gelu": ("gelu", "tanh")}'),
    # vectors, norms, one head
    Mistake("keys are kept for queries", "= heads.query[:, place]\n", "= heads.key[:, place]\n"),
    Mistake(
        "W_O transposed in norms",
        "output = attention.output.weight.unflatten",
        "output = attention.output.weight.T.unflatten",
    ),
    Mistake("norms with another head's W_O", "output[:, head].T).norm", "output[:, place].T).norm"),
    Mistake(
        "one head: another head's rows of W",
        "part_of = slice(head * attention.head_dim, (head + 1)",
        "part_of = slice((head + 1) * attention.head_dim, (head + 2)",
    ),
    Mistake("one head: another head's values", "heads.value[:, heads.numbers.index(self.head)]", "heads.value[:, 0]"),
    # sums and records
    Mistake("entropy without its minus", "entropy = -logarithms.log_()", "entropy = logarithms.log_()"),
    Mistake(
        "norms are not divided by their sum", "        if lengths is not None:\n            divide_rows(weights)\n", ""
    ),
    Mistake(
        "the strongest weight of uncounted queries counts",
        "(strongest * counts).sum(-1, True)",
        "strongest.sum(-1, True)",
    ),
    Mistake(
        "sums of the first text for every text",
        "np.ix_(run.texts[heads.texts],",
        "np.ix_(run.texts[:1],",
    ),
    Mistake(
        "distances of the first layer only",
        "made[head] for head in product(range(layers)",
        "made[0, head[1]] for head in product(range(layers)",
    ),
    Mistake(
        "records are rounded to half a precision",
        'taken.weights.to(device="cpu", dtype=torch.float32)',
        'taken.weights.to(device="cpu", dtype=torch.float16).float()',
    ),
)
