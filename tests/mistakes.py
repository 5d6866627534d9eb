"""Mistakes such as a careful programmer makes, by their text: what `plant_mistakes.py` plants, each alone.

They were chosen before any was run, and one that is missed stays in the list: it says which test is wanting. They are
found by their text and not by their file, so that code may move; whoever rewords a line that stands here rewords it
here too.
"""

from typing import NamedTuple


class Mistake(NamedTuple):
    """In place of `old`, which stands once in all of the package, `new`.

    family: what `compare` runs on, a small random checkpoint of it (`checkpoints.py`, `foreign_checkpoints.py`); minilm
    where there is none. dtype: what `compare` runs it in. options: more of its options.
    known: the one of `attncli.attention.mistakes` that it is, if it is one, with whose name it begins then.
    """

    name: str
    old: str
    new: str
    family: str | None = None
    known: str | None = None
    dtype: str = "float32"
    options: str = ""


MISTAKES = (
    Mistake(
        "mask never used where no map is kept",
        "attend_output(query, key, value, mask, part.scale)",
        "attend_output(query, key, value, None, part.scale)",
        known="mask never used",
    ),
    Mistake(
        "hard_max hides with 0, not with -inf",
        "hidden = scores if mask is None else scores.masked_fill(~mask, -torch.inf)",
        "hidden = scores if mask is None else scores.masked_fill(~mask, 0.0)",
    ),
    Mistake(
        "second LayerNorm has torch's epsilon",
        "self.feed_forward_norm = layer_norm(config, size)",
        "self.feed_forward_norm = nn.LayerNorm(size, bias=config.biases.norms)",
    ),
    Mistake("RoBERTa numbers [PAD] on", "real.cumsum(dim=1) * real +", "real.cumsum(dim=1) +"),
    Mistake("token between two windows counts twice", "(places < window.counted[1])", "(places <= window.counted[1])"),
    Mistake(
        "second text of RoBERTa's pair is in the first segment",
        "segments.append(max(kind, part if part is not None else segments[-1] if segments else 0))",
        "segments.append(kind)",
    ),
    Mistake(
        "ablate: what is changed is taken for what is not",
        "(asked[:-1] - asked[-1]).cpu()",
        "(asked[-1] - asked[:-1]).cpu()",
    ),
    Mistake(
        "ablate: a copy has its neighbour's change",
        "of_layer.get(text, (None",
        "of_layer.get(text - 1, (None",
    ),
    Mistake(
        "ablate: copies begin a layer late",
        "first = min(layer for layer, _ in change.heads)",
        "first = min(layer + 1 for layer, _ in change.heads) % len(texts[0].states)",
    ),
    Mistake(
        "ablate: the mean is over heads too",
        "return self.outputs.mean(dim=1)",
        "return self.outputs.mean(dim=(1, 2)).unsqueeze(1).expand(-1, self.outputs.shape[2], -1)",
    ),
    Mistake(
        "ablate: the order is made by the texts that it is measured on",
        "for one in asked[MEASURING]",
        "for one in asked[ORDERING]",
    ),
    Mistake(
        "ablate: files are measured on the texts that make the order",
        'places = np.stack([texts["shard"], texts["number"]], axis=1)[MEASURING]',
        'places = np.stack([texts["shard"], texts["number"]], axis=1)[::2]',
    ),
    Mistake(
        "ablate: shards that read the same share a file of rows",
        "json.dumps([request, self.number, read])",
        "json.dumps([request, read])",
    ),
    Mistake(
        "--without silences the next layer's head",
        "Gates(dict.fromkeys(network.silenced, 0.0))",
        "Gates({(layer + 1, head): 0.0 for layer, head in network.silenced})",
    ),
    Mistake(
        "similar: the bias of Dense is forgotten",
        "return made if module.bias is None else made + shares(poolings, parts)[:, None] * module.bias",
        "return made",
    ),
    Mistake(
        "similar: rows are the second text's",
        "cells = credit_vectors(one, output) @ credit_vectors(other, output).T",
        "cells = credit_vectors(other, output) @ credit_vectors(one, output).T",
    ),
    Mistake(
        "similar: the references' terms are no part of the sum",
        "0.0 if self.references is None else self.references.sum",
        "0.0",
    ),
    Mistake(
        "similar: [CLS] has another reference",
        "own if special else model.tokenizer.pad_id",
        "model.tokenizer.pad_id",
    ),
    Mistake("JSON has 4 digits", "decimals(self.map(layer, head))", "decimals(self.map(layer, head).round(4))"),
    Mistake(
        "[PAD] is taken for a separator",
        "special = np.array(record.keys.special) & ~np.array(record.keys.padding)",
        "special = np.array(record.keys.special)",
    ),
    Mistake(
        "the same word counts over queries that have none",
        "(seen[name].any(axis=1) if name == SAME_WORD else counted).sum()",
        "counted.sum()",
    ),
    Mistake(
        "rollout halves an empty row", "np.where(nowhere, own, 0.5 * means + 0.5 * own)", "0.5 * means + 0.5 * own"
    ),
    Mistake(
        "rollout: the residual has a larger share",
        "np.where(nowhere, own, 0.5 * means + 0.5 * own)",
        "np.where(nowhere, own, 0.4 * means + 0.6 * own)",
    ),
    Mistake("previous is two before", '"previous": rows - 1 == keys', '"previous": rows - 2 == keys'),
    Mistake(
        "words: mean over the key's pieces",
        "np.add.reduceat(rows, starts, axis=along, dtype=rows.dtype)",
        "np.add.reduceat(rows, starts, axis=along, dtype=rows.dtype)"
        " / (np.diff(starts, append=rows.shape[-1]) if along == -1 else 1)",
    ),
    Mistake("stretches: the last counts as if it were long", "/ sizes[self.units]", "/ sizes.max()"),
    Mistake(
        "long texts: a block's last query is in no block",
        "yield slice(start, min(start + together, queries))",
        "yield slice(start, max(start + 1, min(start + together, queries) - 1))",
    ),
    Mistake(
        "long texts: a unit in two blocks is of the last",
        "self.kept[text][layer, where, units, key_units] += sums",
        "self.kept[text][layer, where, units, key_units] = sums",
    ),
    Mistake(
        "terminal: rows are numbered from 1",
        'Axis("", tokens.shown, range(len(tokens)))',
        'Axis("", tokens.shown, range(1, len(tokens) + 1))',
    ),
    Mistake("cut: query and key swapped", "made[:, :, queries, keys] = True", "made[:, :, keys, queries] = True"),
    Mistake("cut: the rest is not kept", "if self.keep_rest else Hide", "if not self.keep_rest else Hide"),
    Mistake(
        "cut: in layers counted from 0",
        "for layer in layers for head in self.record",
        "for layer in range(len(layers)) for head in self.record",
    ),
    Mistake(
        "patch: heads in another order",
        "source[layer, ..., head, :] for layer, head in heads",
        "source[layer, ..., sorted(heads)[place][1], :] for place, (layer, head) in enumerate(heads)",
    ),
    Mistake("patch: of the token before", "= source[layer, token, head]", "= source[layer, token - 1, head]"),
    Mistake("patch: the second text is patched too", "effects(changes, [ours], a", "effects(changes, None, a"),
    Mistake("figure: query is counted before tokens are left out", "return queries.index(token)", "return token"),
    Mistake(
        "page: weights are not rounded",
        "np.rint(np.minimum(exact, BELOW * scale.parts))",
        "np.minimum(exact, BELOW * scale.parts)",
    ),
    Mistake(
        "page: of a row only the strongest weight is exact",
        "last = min(scale.strongest, levels.shape[-1]) - 1",
        "last = 0",
    ),
    Mistake(
        "--limit counts in every file anew",
        "            left -= count\n",
        "",
    ),
    Mistake(
        "law of [PAD] has no [PAD]",
        'engine.hidden_states(padded, "padding"))',
        'engine.hidden_states(tokens, "padding"))',
    ),
    Mistake("first [END] ends all texts", "(written == END).any(dim=1).all()", "(written == END).any(dim=1).any()"),
    Mistake(
        "compare --dtype float64 never ends with 1",
        "        holds=found.same,\n",
        "        holds=found.same or not found.may_be_rounding,\n",
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
    Mistake(
        "permuted weights reach hidden keys", "hidden.masked_fill(~allowed, 2.0)", "hidden.masked_fill(~allowed, 0.0)"
    ),
    Mistake("every layer has the same permutation", "self.seed * 1009 + block.layer", "self.seed * 1009"),
    Mistake("ALTI forgets the residual", "queries.start] += of_queries", "queries.start] += 0 * of_queries"),
    Mistake("relevance below 0 counts", "weights.double()).clamp(min=0).mean", "weights.double()).mean"),
    Mistake("sufficiency erases what it is to keep", "*(every - places for places in first)", "*first"),
    Mistake(
        "a ranking is not counted among the random ones",
        "(1 + self.hits) / (1 + self.random)",
        "self.hits / self.random",
    ),
    Mistake("limits mix chains", "sums[inner] for inner in _smaller(one, within)", "sums[inner] for inner in sums"),
    Mistake("a beam counts every step", "(values[one] if size in counts else 0.0)", "values[one]"),
    Mistake(
        "a label stays where its token was",
        "return self.places.index(place) if self.deleted else place",
        "return place",
    ),
)

# Our place inside networks that transformers runs: what tests find and what `attncli compare` finds, on the families of
# foreign_checkpoints.py.
IN_TRANSFORMERS = (
    Mistake(
        "in transformers: key heads in another order",
        "key.repeat_interleave(shared, dim=1), value.repeat_interleave(shared, dim=1)",
        "key.repeat(1, shared, 1, 1), value.repeat(1, shared, 1, 1)",
        "llama",
    ),
    Mistake(
        "in transformers: values of another key head",
        "value.repeat_interleave(shared, dim=1)",
        "value.repeat(1, shared, 1, 1)",
        "llama",
    ),
    Mistake(
        "in transformers: scale twice",
        "scale=size**-0.5 if scaling is None else scaling,",
        "scale=size**-0.5 if scaling is None else scaling * size**-0.5,",
        "gpt2",
    ),
    Mistake(
        "in transformers: sinks forgotten",
        'sinks=more.get("s_aux", getattr(module, "sinks", None)),',
        "sinks=None,",
        "gpt_oss",
    ),
    Mistake(
        "in transformers: sinks of other heads",
        "block.sinks[list(block.numbers)]",
        "block.sinks[: len(block.numbers)]",
        "gpt_oss",
    ),
    Mistake("in transformers: softcap forgotten", 'softcap=more.get("softcap"),', "softcap=None,", "gemma2"),
    Mistake(
        "in transformers: softcap not less the product in terms",
        "self.softcap * tanh(products / self.softcap) - products",
        "self.softcap * tanh(products / self.softcap)",
        "gemma2",
    ),
    Mistake(
        "in transformers: softcap forgotten where weights are stored",
        "weights.div_(softcap).tanh_().mul_(softcap)",
        "weights.div_(1.0)",
        "gemma2",
    ),
    Mistake("in transformers: position bias forgotten", 'if more.get("position_bias") is not None:', "if False:", "t5"),
    Mistake(
        "in transformers: position bias of keys in reverse",
        '= more["position_bias"][..., -queries:, :]',
        '= more["position_bias"][..., -queries:, :].flip(-1)',
        "t5",
        options="--which encoder",
    ),
    Mistake(
        "in transformers: position bias of other heads",
        "some = some[:, list(block.numbers)] if",
        "some = some[:, : len(block.numbers)] if",
        "t5",
        options="--which decoder",
    ),
    Mistake(
        "in transformers: mask ignored",
        "mask=None if shown is None else LayerMask(shown, None),",
        "mask=None,",
        "llama",
    ),
    Mistake(
        "in transformers: mask off by one",
        "shown = self_mask(current.real, *MASKS[current.mask])",
        "shown = self_mask(current.real, *MASKS[current.mask]).roll(1, -1)",
        "esm",
        options="--mask causal",
    ),
    Mistake(
        "in transformers: windows left out", "if mask is not None and mask.shown is not None:", "if False:", "mistral"
    ),
    Mistake(
        "in transformers: the first layer's mask in all layers",
        "mask=current.masks[id(attention_mask)][1],",
        "mask=next(iter(current.masks.values()))[1],",
        "gemma3",
    ),
    Mistake("in transformers: future hidden whatever the mask", "trained | trained.mT if", "trained if", "gpt2"),
    Mistake(
        "in transformers: padding shown to decoders",
        "shown = self_mask(current.real, *MASKS[current.mask])",
        "shown = self_mask(current.real | True, *MASKS[current.mask])",
        "gemma3",
    ),
    Mistake(
        "in transformers: padding shown",
        "seen = self_mask(real, *for_all_queries(mask))[:, 0, 0].expand(real.shape).int()",
        "seen = torch.ones_like(real).int()",
        "bart",
        options="--which encoder",
    ),
    Mistake(
        "in transformers: padding of what is read shown in cross-attention",
        'if current.part == "cross":\n        return mask\n',
        'if current.part == "cross":\n        return None\n',
        "bart",
    ),
    Mistake(
        "in transformers: bool mask inverted",
        "return (None if bool(mask.all()) else mask), None",
        "return (None if bool(mask.all()) else ~mask), None",
        "llama",
    ),
    Mistake(
        "in transformers: causal mask left to the function",
        "return sdpa_mask(*shape, allow_is_causal_skip=False, **more)",
        "return sdpa_mask(*shape, allow_is_causal_skip=allow_is_causal_skip, **more)",
        "bart",
        options="--which cross",
    ),
    Mistake(
        "in transformers: cross taken for decoder",
        'part = "decoder" if block.run.keys == decoder_tokens else "cross"',
        'part = "decoder"',
        "bart",
        options="--which decoder",
    ),
    Mistake(
        "in transformers: layers from the last on",
        "numbers_of([names[id(one)] for one in modules])",
        "numbers_of([names[id(one)] for one in modules[::-1]])",
        "bart",
        options="--which cross",
    ),
    Mistake(
        "in transformers: layers one off",
        "return layers[call % len(layers)]",
        "return layers[call % len(layers)] + 1",
        "gpt2",
    ),
    Mistake(
        "in transformers: shared module always its first layer",
        "return layers[call % len(layers)]",
        "return layers[0]",
        "albert",
        options="--engine transformers",
    ),
    Mistake(
        "in transformers: output not transposed",
        "return output.transpose(1, 2).contiguous(), None",
        "return output.contiguous().view(output.shape[0], output.shape[2], output.shape[1], -1), None",
        "gpt2",
    ),
    Mistake(
        "in transformers: heads put together in reverse",
        "return output.transpose(1, 2).contiguous(), None",
        "return output.flip(1).transpose(1, 2).contiguous(), None",
        "gpt2",
    ),
    Mistake(
        "in transformers: projection transposed",
        "weight = module.weight if isinstance(module, nn.Linear) else module.weight.T",
        "weight = module.weight.T if isinstance(module, nn.Linear) else module.weight.T",
        "llama",
    ),
    Mistake(
        "in transformers: Conv1D not transposed",
        "weight = module.weight if isinstance(module, nn.Linear) else module.weight.T",
        "weight = module.weight",
        "gpt2",
    ),
    Mistake(
        "in transformers: projection of interleaved heads",
        "by: Tensor = weight.unflatten(1, (len(block.numbers), -1))",
        "by: Tensor = weight.unflatten(1, (-1, len(block.numbers))).mT",
        "llama",
    ),
    Mistake("in transformers: pass never ends early", "if layer == current.last:", "if False:", "gpt2"),
    Mistake(
        "in transformers: pass ends a layer too soon",
        "current.last, current.values = ending.layer, ending.values",
        "current.last, current.values = max(ending.layer - 1, 0), ending.values",
        "gpt2",
    ),
    Mistake(
        "in transformers: taps offered every part",
        "        if part != current.part:\n            return None\n",
        "",
        "bart",
        options="--which cross",
    ),
    Mistake(
        "in transformers: --without silences nothing",
        "taps = [*taps, Gates(dict.fromkeys(self.gone, 0.0))]\n        first",
        "taps = [*taps]\n        first",
        "llama",
    ),
    Mistake(
        "in transformers: hidden states under the usual mask",
        "rows = self.of_part(part).rows([tokens], mask)",
        "rows = self.of_part(part).rows([tokens], None)",
        "esm",
        options="--mask causal",
    ),
)

# In what `attncli compare` has to find by itself, on minilm and one sentence.
FOR_COMPARE = (
    # where queries meet keys
    Mistake(
        "q and k swapped where the walk ends",
        "query, key = projected[:2]",
        "key, query = projected[:2]",
        known="q and k swapped",
    ),
    Mistake(
        "q and k swapped in stats",
        "within = block.some_queries(counted.queries)",
        "within = block._replace(query=block.key, key=block.query).some_queries(counted.queries)",
        known="q and k swapped",
    ),
    Mistake(
        "no scale in scaled_dot",
        "return dot(query / query.shape[-1] ** 0.5, key)",
        "return dot(query, key)",
        known="no scale",
    ),
    Mistake(
        "no scale where maps are stored",
        "scaled = queries / query.shape[-1] ** 0.5 if scale is None else queries * scale",
        "scaled = queries",
        known="no scale",
    ),
    Mistake(
        "keys as values in the fused kernel",
        "        return F.scaled_dot_product_attention(query, key, value, scale=scale)\n",
        "        return F.scaled_dot_product_attention(query, key, key, scale=scale)\n",
        known="keys as values",
    ),
    Mistake(
        "keys as values in the fused kernel, masked",
        "(query, key, value, attn_mask=mask, scale=scale)",
        "(query, key, key, attn_mask=mask, scale=scale)",
        known="keys as values",
    ),
    Mistake(
        "keys as values where maps are stored",
        "    return (weights @ values).to",
        "    return (weights @ keys).to",
        known="keys as values",
    ),
    Mistake(
        "mask never used in the fused kernel",
        "(query, key, value, attn_mask=mask, scale=scale)",
        "(query, key, value, scale=scale)",
        known="mask never used",
    ),
    Mistake(
        "mask never used where maps are stored",
        "        weights.masked_fill_(~mask, -torch.inf)\n",
        "        pass\n",
        known="mask never used",
    ),
    Mistake(
        "mask after softmax in the formula",
        "weights = torch.softmax(warm.masked_fill(~mask, -torch.inf), dim=-1, dtype=wide)",
        "weights = torch.softmax(warm, dim=-1, dtype=wide)",
        known="mask after softmax",
    ),
    Mistake(
        "scale a ten thousandth too large",
        "scale=layer.score.scale(query.shape[-1])",
        "scale=1.0001 * layer.score.scale(query.shape[-1])",
    ),
    Mistake(
        "scale a tenth too large in bfloat16",
        "scale=layer.score.scale(query.shape[-1])",
        "scale=1.1 * layer.score.scale(query.shape[-1])",
        dtype="bfloat16",
    ),
    Mistake(
        "scale a fiftieth too large in bfloat16",
        "scale=layer.score.scale(query.shape[-1])",
        "scale=1.02 * layer.score.scale(query.shape[-1])",
        dtype="bfloat16",
    ),
    # masks
    Mistake(
        "mask never used: padding hides nothing", '"padding": (no_padding,)', '"padding": ()', known="mask never used"
    ),
    Mistake("mask causal forgets [PAD]", '"causal": (no_padding, no_future)', '"causal": (no_future,)'),
    Mistake(
        "causal off by one in the rule of masks",
        "tril(diagonal=key_len - query_len)",
        "tril(diagonal=key_len - query_len + 1)",
        known="causal off by one",
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
        "heads joined in the wrong order: split in turns",
        "return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)",
        "return x.unflatten(-1, (self.head_dim, -1)).permute(0, 3, 1, 2)",
        known="heads joined in the wrong order",
    ),
    Mistake(
        "heads joined in the wrong order: the last one first",
        "copy_(output.transpose(1, 2))",
        "copy_(output.flip(1).transpose(1, 2))",
        known="heads joined in the wrong order",
    ),
    Mistake(
        "another head's projection where the walk ends",
        "weight[needed].flatten(0, 1)",
        "weight[[0] * len(needed)].flatten(0, 1)",
    ),
    Mistake("bias left out where the walk ends", ".flatten(0, 1), bias)", ".flatten(0, 1))", known="bias left out"),
    Mistake(
        "the layer's input is kept, not its output",
        "        after = by_rows(layer.after, x, attended)\n",
        "        by_rows(layer.after, x, attended)\n        after = x.clone()\n",
    ),
    Mistake(
        "texts come back the shortest first",
        "return [parts[text] for text in sorted(parts)]",
        "return list(parts.values())",
    ),
    Mistake("residual forgotten", "x = self.attention_norm(x + attended)", "x = self.attention_norm(attended)"),
    Mistake(
        "second LayerNorm has torch's epsilon",
        "self.feed_forward_norm = layer_norm(config, size)",
        "self.feed_forward_norm = nn.LayerNorm(size, bias=config.biases.norms)",
    ),
    Mistake("GELU is the one with tanh", '"gelu": ("gelu", "none")}', '"gelu": ("gelu", "tanh")}'),
    # heads in another order, silenced heads, gradients, many texts
    Mistake(
        "heads given out of order are kept in order",
        "kept[:, where, part.queries, part.keys] = of_dtype(",
        "kept[:, sorted(where), part.queries, part.keys] = of_dtype(",
    ),
    Mistake(
        "heads given out of order are taken in order where the walk ends",
        "own = list(heads) if part is attention.query else",
        "own = sorted(heads) if part is attention.query else",
    ),
    Mistake(
        "--without silences the head before",
        "Gates(dict.fromkeys(network.silenced, 0.0))",
        "Gates({(layer, head - 1): 0.0 for layer, head in network.silenced})",
    ),
    Mistake(
        "--without silences the next layer's head",
        "Gates(dict.fromkeys(network.silenced, 0.0))",
        "Gates({(layer + 1, head): 0.0 for layer, head in network.silenced})",
    ),
    Mistake(
        "mask never used in gradients",
        "made = attend(query, key, value, mask, score, normalise)",
        "made = attend(query, key, value, None, score, normalise)",
        known="mask never used",
    ),
    Mistake(
        "texts beyond the cache get the first texts' mask",
        "self.mask.some_texts(texts)",
        "self.mask.some_texts(slice(0, len(self.query[texts])))",
    ),
    Mistake(
        "rows beyond the cache come first",
        "return made[0] if len(made) == 1 else torch.cat(made)",
        "return made[0] if len(made) == 1 else torch.cat(made[::-1])",
    ),
    Mistake(
        "rows beyond the cache come the last one first",
        "return made[0] if len(made) == 1 else torch.cat(made)",
        "return torch.cat([made[0], *(part.flip(0) for part in made[1:])])",
    ),
    Mistake(
        "maps are kept in half precision",
        "STORAGE.empty(shape, map_like)",
        "STORAGE.empty(shape, map_like.half())",
    ),
    Mistake(
        "maps of half-precision vectors are made in half precision",
        "return torch.float32 if halves else like.dtype",
        "return like.dtype",
    ),
    # vectors, norms, one head
    Mistake("keys are kept for queries", "= block.query[:, place]\n", "= block.key[:, place]\n"),
    Mistake(
        "transposed W in norms: W_O",
        "return self.output.weight.unflatten",
        "return self.output.weight.T.unflatten",
        known="transposed W",
    ),
    Mistake("norms with another head's W_O", "projection[:, head].T", "projection[:, place - 1].T"),
    Mistake(
        "one head: another head's rows of W",
        "slice(at * attention.head_dim, (at + 1)",
        "slice((at + 1) * attention.head_dim, (at + 2)",
    ),
    Mistake("one head: another head's values", "block.value[:, block.numbers.index(self.head)]", "block.value[:, 0]"),
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
        "np.ix_(part.text_numbers,",
        "np.ix_(part.run.texts[:1] * len(sums),",
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
    # windows, rotary positions, pre-norm
    Mistake(
        "window of one more to each side",
        'values.count("local_attention", least=2) // 2 ',
        'values.count("local_attention", least=2) // 2 + 1 ',
        "modernbert",
    ),
    Mistake(
        "window of one less to each side",
        'values.count("local_attention", least=2) // 2 ',
        'values.count("local_attention", least=2) // 2 - 1 ',
        "modernbert",
    ),
    Mistake(
        "window of one more to each side, at the published width",
        'values.count("local_attention", least=2) // 2 ',
        'values.count("local_attention", least=2) // 2 + 1 ',
        "modernbert that is as wide as published",
    ),
    Mistake(
        "window of one less to each side, at the published width",
        'values.count("local_attention", least=2) // 2 ',
        'values.count("local_attention", least=2) // 2 - 1 ',
        "modernbert that is as wide as published",
    ),
    Mistake(
        "some queries of a window after the other see one key too few",
        "max(min(queries.stop + self.reach, keys.stop), start)",
        "max(min(queries.stop + self.reach - 1, keys.stop), start)",
        "modernbert that is as wide as published",
    ),
    Mistake(
        "window that looks back only",
        "everything.triu(first - reach).tril(first + reach)",
        "everything.triu(first - reach).tril(first)",
        "modernbert",
    ),
    Mistake(
        "global layers have the local base",
        "{kind: turned_in(values, kind) for kind in set(kinds)}",
        "{kind: turned_in(values, LOCAL) for kind in set(kinds)}",
        "modernbert",
    ),
    Mistake(
        "pairs are the other layout's",
        "Rotary(**asdict(positions))",
        'Rotary(**{**asdict(positions), "interleaved": not positions.interleaved})',
        "modernbert",
    ),
    Mistake(
        "vectors are turned the other way",
        "(first * cos - second * sin, second * cos + first * sin)",
        "(first * cos + second * sin, second * cos - first * sin)",
        "modernbert",
    ),
    Mistake(
        "norm before the attention forgotten",
        "self.attention_norm(x) if self.norm_first else x",
        "x",
        "modernbert",
    ),
    Mistake(
        "first layer normalised as the others",
        "self.attention_norm(x) if self.norm_first else x",
        "nn.functional.layer_norm(x, x.shape[-1:]) if isinstance(self.attention_norm, nn.Identity) else "
        "self.attention_norm(x) if self.norm_first else x",
        "modernbert",
    ),
    Mistake(
        "gate and values swapped",
        "opened, values = self.up(x).chunk",
        "values, opened = self.up(x).chunk",
        "modernbert",
    ),
    Mistake("norm after the last layer forgotten", "x = network.final_norm(x)", "pass", "modernbert"),
    Mistake(
        "normalised before the first layer as BERT is",
        "if config.embedding_norm else nn.Identity()",
        "if config.embedding_norm else nn.LayerNorm(size, elementwise_affine=False)",
        "megatron-bert",
    ),
    Mistake(
        "the two norms of a layer swapped",
        'whole("encoder.layer.{n}.attention.ln")',
        'whole("encoder.layer.{n}.ln")',
        "megatron-bert",
    ),
    Mistake(
        "the feed-forward part's norm is the attention's",
        'whole("encoder.layer.{n}.attention.self_attn_layer_norm")',
        'whole("encoder.layer.{n}.LayerNorm")',
        "xlm-roberta-xl",
    ),
    Mistake(
        "the last norm is the first one",
        '"final_norm": whole("LayerNorm")',
        '"final_norm": whole("embeddings.LayerNorm")',
        "roberta-prelayernorm",
    ),
    Mistake("the task's vector forgotten", "x = x + self.tasks.weight[0]", "pass", "ernie"),
    Mistake("the task is the second one", "self.tasks.weight[0]", "self.tasks.weight[1]", "ernie"),
    # rotary positions of RoFormer
    Mistake("pairs are halves", "interleaved=True, values=", "interleaved=False, values=", "roformer"),
    Mistake("another base", "BASE = 10_000.0", "BASE = 160_000.0", "roformer"),
    Mistake("values are not turned", '"value" in layer.score.turned and', "False and", "roformer that turns values"),
    Mistake(
        "values are turned as keys are, where they are not",
        '"value" in layer.score.turned and',
        '"key" in layer.score.turned and',
        "roformer",
    ),
    # heads that share keys, norms without the mean
    Mistake(
        "key heads in the wrong order: in turns",
        "x.repeat_interleave(self.heads // self.key_heads, dim=1)",
        "x.repeat(1, self.heads // self.key_heads, 1, 1)",
        "eurobert",
        known="key heads in the wrong order",
    ),
    Mistake(
        "key heads in the wrong order of one head",
        "return head * self.key_heads // self.heads",
        "return head % self.key_heads",
        "eurobert",
        known="key heads in the wrong order",
    ),
    Mistake(
        "norms take the mean away",
        "return RMSNorm(size, config.layer_norm_eps)",
        "return nn.LayerNorm(size, config.layer_norm_eps, bias=False)",
        "eurobert",
    ),
    Mistake(
        "norms have another epsilon",
        "return RMSNorm(size, config.layer_norm_eps)",
        "return RMSNorm(size, 1e-3)",
        "eurobert",
    ),
    Mistake("rotary base is the default one", 'stated.get("rope_theta", base)', "base", "eurobert"),
    Mistake(
        "values for the gate",
        '        "layers.{n}.feed_forward.up": fuse("layers.{n}.mlp.gate_proj", "layers.{n}.mlp.up_proj")',
        '        "layers.{n}.feed_forward.up": fuse("layers.{n}.mlp.up_proj", "layers.{n}.mlp.gate_proj")',
        "eurobert",
    ),
    Mistake(
        "norms of a layer swapped",
        '"layers.{n}.attention_norm": whole("layers.{n}.input_layernorm")',
        '"layers.{n}.attention_norm": whole("layers.{n}.post_attention_layernorm")',
        "eurobert",
    ),
    # rotary positions of all layers alike, files as published
    Mistake(
        "positions are not stretched",
        "Rotary(**asdict(positions))",
        'Rotary(**{**asdict(positions), "stretch": 1.0})',
        "gte",
    ),
    Mistake(
        "positions are multiplied with the stretch",
        "/ self.rotated) / self.stretch",
        "/ self.rotated) * self.stretch",
        "gte",
    ),
    Mistake(
        "the base is not the file's",
        'values.data.get("rope_scaling") or values.data.get("rope_parameters")',
        "None",
        "jina_embeddings_v3",
    ),
    Mistake(
        "the gate is the other half of what was published",
        'fuse("encoder.layers.{n}.mlp.fc12", "encoder.layers.{n}.mlp.fc11")',
        'fuse("encoder.layers.{n}.mlp.fc11", "encoder.layers.{n}.mlp.fc12")',
        "nomic_bert",
    ),
    Mistake("halves are not swapped", "Source((name,), (1, 0), 2)", "Source((name,), (0, 1), 2)", "gte"),
    Mistake(
        "one norm of a published layer is the other",
        'whole("encoder.layer.{n}.attn_ln")',
        'whole("encoder.layer.{n}.mlp_ln")',
        "gte",
    ),
    Mistake(
        "segments of a published file forgotten",
        '"segments": values.count("segments", least=0),\n        "position_table": False,',
        '"segments": 0,\n        "position_table": False,',
        "gte",
    ),
    Mistake("only a tensor's first part is taken", "if len(self.taken) == 1:", "if True:", "gte"),
    # biases by distance
    Mistake("furthest bucket from 64 on", "BUCKETS, FURTHEST = 32, 128", "BUCKETS, FURTHEST = 32, 64", "mpnet"),
    Mistake("buckets of before and behind swapped", "(offsets > 0) * half", "(offsets < 0) * half", "mpnet"),
    Mistake("distance 0 is behind", "(offsets > 0) * half", "(offsets >= 0) * half", "mpnet"),
    Mistake("far buckets begin one later", "far = (near + (share", "far = (1 + near + (share", "mpnet"),
    Mistake("every head has the first one's bias", "bias if heads == list", "bias[:1] if heads == list", "mpnet"),
    # layers that are one
    Mistake("a layer is of the next group", "int(step / (", "int((step + 1) % steps / (", "albert"),
    Mistake("all layers are the first", "[made[key] for key in keys]", "[made[keys[0]] for _ in keys]", "albert"),
    Mistake(
        "gelu_new is gelu",
        '"gelu_new": lambda x: F.gelu(x, approximate="tanh")',
        '"gelu_new": lambda x: F.gelu(x)',
        "albert",
    ),
    # one matrix by head
    Mistake("rows are cut for all heads at once", "heads=source.heads or self.heads", "heads=1", "deberta"),
    Mistake(
        "keys are queries",
        'split_by_head(f"{SELF}.in_proj", 1, 3)',
        'split_by_head(f"{SELF}.in_proj", 0, 3)',
        "deberta",
    ),
    Mistake("queries have the bias of values", 'bias=f"{SELF}.q_bias"', 'bias=f"{SELF}.v_bias"', "deberta"),
    # disentangled attention
    Mistake("offsets end one early", ".clamp(0, 2 * self.span - 1)", ".clamp(1, 2 * self.span - 1)", "deberta"),
    Mistake(
        "scale without the 1 of 1 + terms", "(d_k * (1 + len(self.names)))", "(d_k * len(self.names))", "deberta-v2"
    ),
    Mistake(
        "position to content has its sign turned",
        '("query", head_dim)[heads][:, self.rows(behind)]',
        '("query", head_dim)[heads][:, self.rows(-behind)]',
        "deberta-v2",
    ),
    Mistake("content to position has its sign turned", "self.rows(behind.flip(0))", "self.rows(behind)", "deberta-v2"),
    Mistake("terms are not scaled", "query * scale @ of_offset.mT", "query @ of_offset.mT", "deberta-v2"),
    Mistake(
        "vectors of offsets are not normalised",
        "self.vectors.weight if self.norm is None else self.norm(self.vectors.weight)",
        "self.vectors.weight",
        "deberta-v2",
    ),
    Mistake(
        "buckets are rounded down", "torch.ceil(share * (mid - 1))", "torch.floor(share * (mid - 1))", "deberta-v2"
    ),
    Mistake("offsets are counted one by one", "if self.near else offsets", "if False else offsets", "deberta-v2"),
    Mistake(
        "queries project for keys where they are shared",
        'self.projections = {"query": query, "key": key}',
        'self.projections = {"query": key, "key": query}',
        "deberta-v2 that shares",
    ),
    Mistake("the convolution is forgotten", "y + self.function(self.conv(x.mT).mT)", "y", "deberta-v2 that shares"),
    Mistake("the convolution sees [PAD]", "x = x if shown is None else x * shown", "pass", "deberta-v2 that shares"),
)
