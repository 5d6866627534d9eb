"""Attention in the styles that people ship, on which `attncli check` is judged: thirty right ones, thirty wrong.

A wrong one is a right one with one place changed. `test_styles_are_what_they_say.py` proves each with torch alone;
`styles_table.py` asks `check`.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent / "styles"


class Style(NamedTuple):
    """`name` in `file`, with `old` replaced by `new` if it is wrong.

    mistake: the mistake in plain words, empty if it is right. options: what `check` may be told. adapter: what
    stands at the end of the file for `check`. marker: the text of the mistaken line, if that is not the first line of `new`.
    """

    title: str
    file: str
    name: str
    mistake: str = ""
    old: str = ""
    new: str = ""
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    adapter: str = ""
    marker: str = ""

    @property
    def right(self) -> bool:
        return not self.mistake

    @property
    def source(self) -> str:
        text = (HERE / self.file).read_text(encoding="utf-8")
        return text.replace(self.old, self.new, 1) if self.old else text

    @property
    def line(self) -> int | None:
        """The number of the mistaken line, from 1; None if the style is right."""
        if self.right:
            return None
        marker = self.marker or self.new.strip().splitlines()[0]
        [found] = [number for number, line in enumerate(self.source.splitlines(), 1) if marker.strip() in line]
        return found

    @property
    def checked(self) -> str:
        """The name that `check` is given."""
        return "Adapter" if self.adapter else self.name

    def write(self, folder: Path) -> Path:
        """Write the program that `check` is given, and return its path."""
        path = folder / self.file
        path.write_text(f"{self.source}\n\n{self.adapter}" if self.adapter else self.source, encoding="utf-8")
        return path

    def load(self, folder: Path, name: str | None = None) -> Any:
        """Write the program, import it, and return what it calls `name`, or else what `check` is given."""
        path = self.write(folder)
        called = f"style_{abs(hash((self.title, folder)))}"
        spec = importlib.util.spec_from_file_location(called, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[called] = module
        spec.loader.exec_module(module)
        return getattr(module, name or self.checked)


MINGPT = """class Adapter(CausalSelfAttention):
    def __init__(self, dim, heads):
        super().__init__(GPTConfig(n_embd=dim, n_head=heads))
"""
LLAMA = """class Adapter(LlamaReferenceAttention):
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__(ModelArgs(dim, n_heads, n_kv_heads))
"""
BERT = """class Adapter(BertSelfAttention):
    def __init__(self, dim, heads):
        super().__init__(BertConfig(dim, heads))
"""
COLUMNS = """class Adapter(ColumnSelfAttention):
    def __init__(self, dim):
        super().__init__(dim, dim, dim)

    def forward(self, x):
        return super().forward(x.mT).mT
"""
WINDOW = {"give": {"sliding_window": 3}}
SOFTCAP = {"give": {"attn_logit_softcapping": 2.0}}
HIDDEN = {"means": "forbidden"}

RIGHT = (
    Style("annotated attention", "annotated_transformer.py", "attention"),
    Style("annotated heads", "annotated_transformer.py", "MultiHeadedAttention"),
    Style("d2l additive", "d2l.py", "AdditiveAttention"),
    Style("d2l dot product", "d2l.py", "DotProductAttention"),
    Style("d2l heads, lazy", "d2l.py", "MultiHeadAttention"),
    Style("lucidrains context", "x_transformers.py", "Attention"),
    Style("lucidrains null key", "x_transformers.py", "CrossAttention"),
    Style("minGPT buffer", "gpt.py", "CausalSelfAttention", adapter=MINGPT),
    Style("GPT-2 cache", "gpt.py", "GPT2Attention"),
    Style("GPT-J float32 scale", "gpt.py", "GPTJAttention"),
    Style("causal and padding", "gpt.py", "PaddedCausalAttention"),
    Style("Llama freqs_cis", "llama.py", "LlamaReferenceAttention", adapter=LLAMA),
    Style("Llama rotary and cache", "llama.py", "LlamaAttention"),
    Style("Mistral window", "llama.py", "MistralAttention", options=WINDOW),
    Style("Gemma 2 softcap", "llama.py", "Gemma2Attention", options=SOFTCAP),
    Style("gpt-oss sinks", "llama.py", "GptOssAttention"),
    Style("Qwen3 norms", "llama.py", "Qwen3Attention"),
    Style("ALiBi", "biases.py", "AlibiAttention"),
    Style("T5 bias", "biases.py", "T5Attention"),
    Style("BERT head_mask", "encoders.py", "BertSelfAttention", adapter=BERT),
    Style("two masks, NaN", "encoders.py", "MultiheadAttention", options=HIDDEN),
    Style("xformers layout", "encoders.py", "MemEffAttention"),
    Style("einsum with bias", "encoders.py", "EinsumDenseAttention"),
    Style("flex_attention", "encoders.py", "FlexAttention"),
    Style("Bahdanau", "seq2seq.py", "BahdanauAttention"),
    Style("BART cached memory", "seq2seq.py", "BartAttention", options={"means": "added"}),
    Style("memory with its own mask", "seq2seq.py", "DecoderCrossAttention"),
    Style("flash in blocks", "kernels.py", "flash_attention"),
    Style("tokens in columns", "kernels.py", "ColumnSelfAttention", adapter=COLUMNS),
    Style("TensorFlow-like numpy", "tensorflow_like.py", "scaled_dot_product_attention", options=HIDDEN),
)

WRONG = (
    Style(
        "mask after softmax",
        "annotated_transformer.py",
        "attention",
        "hides keys after the softmax, so that the weights no longer sum to 1",
        """    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
""",
        """    p_attn = scores.softmax(dim=-1)
    if mask is not None:
        p_attn = p_attn.masked_fill(mask == 0, 0.0)
""",
        marker="p_attn.masked_fill(mask == 0, 0.0)",
    ),
    Style(
        "q and k swapped",
        "annotated_transformer.py",
        "MultiHeadedAttention",
        "keys ask, and queries are looked at",
        "attention(query, key, value, mask=mask",
        "attention(key, query, value, mask=mask",
    ),
    Style(
        "additive without tanh",
        "d2l.py",
        "AdditiveAttention",
        "leaves out tanh, so that the query no longer matters",
        "        features = torch.tanh(features)\n        scores = self.w_v(features).squeeze(-1)",
        "        scores = self.w_v(features).squeeze(-1)",
    ),
    Style(
        "valid_lens off by one",
        "d2l.py",
        "DotProductAttention",
        "shows one token of padding to every query",
        "device=X.device)[None, :] < valid_len[:, None]",
        "device=X.device)[None, :] <= valid_len[:, None]",
    ),
    Style(
        "dropout in eval",
        "x_transformers.py",
        "Attention",
        "drops weights in evaluation too",
        "attn = self.dropout(attn)",
        "attn = F.dropout(attn, self.dropout.p)",
    ),
    Style(
        "key heads in another order",
        "x_transformers.py",
        "CrossAttention",
        "splits keys and values by another order of heads than queries",
        '(rearrange(t, "b n (h d) -> b h n d", h=h) for t in (k, v))',
        '(rearrange(t, "b n (d h) -> b h n d", h=h) for t in (k, v))',
    ),
    Style(
        "buffer of the wrong corner",
        "gpt.py",
        "CausalSelfAttention",
        "takes the last rows of the buffer, which hide nothing, so that tokens look ahead",
        "self.bias[:, :, :T, :T] == 0",
        "self.bias[:, :, -T:, :T] == 0",
        adapter=MINGPT,
    ),
    Style(
        "tril without the offset",
        "gpt.py",
        "GPT2Attention",
        "counts queries from 0 after a cache, so that they see only the first keys",
        "self.bias[:, :, key_length - query_length : key_length, :key_length]",
        "self.bias[:, :, :query_length, :key_length]",
    ),
    Style(
        "causal or padding",
        "gpt.py",
        "PaddedCausalAttention",
        "joins the masks by 'or', so that real tokens look ahead",
        "allowed = allowed & attention_mask",
        "allowed = allowed | attention_mask",
    ),
    Style(
        "positions from 0 after a cache",
        "llama.py",
        "LlamaAttention",
        "counts positions from 0 after a cache, so that angles and mask do not fit the cached keys",
        "torch.arange(past_len, past_len + q_len, device",
        "torch.arange(q_len, device",
    ),
    Style(
        "interleaved angles on halves",
        "llama.py",
        "LlamaAttention",
        "gives neighbours the same angle, and turns elements that are half a head apart",
        "emb = torch.cat((freqs, freqs), dim=-1)",
        "emb = torch.repeat_interleave(freqs, 2, dim=-1)",
    ),
    Style(
        "rotary on values",
        "llama.py",
        "LlamaReferenceAttention",
        "turns the values too",
        "        xq, xk = apply_rotary_emb(xq, xk, freqs_cis)\n",
        """        xq, xk = apply_rotary_emb(xq, xk, freqs_cis)
        xv, _ = apply_rotary_emb(xv, xv, freqs_cis)
""",
        adapter=LLAMA,
        marker="xv, _ = apply_rotary_emb(xv, xv, freqs_cis)",
    ),
    Style(
        "window off by one",
        "llama.py",
        "MistralAttention",
        "shows one token more than the window has",
        "(kv_idx > q_idx - self.sliding_window)",
        "(kv_idx >= q_idx - self.sliding_window)",
        options=WINDOW,
    ),
    Style(
        "softcap after the mask",
        "llama.py",
        "Gemma2Attention",
        "caps the masked scores, so that tokens look ahead",
        """        attn_weights = attn_weights / self.attn_logit_softcapping
        attn_weights = torch.tanh(attn_weights)
        attn_weights = attn_weights * self.attn_logit_softcapping
        attn_weights = attn_weights.masked_fill(future, float("-inf"))
""",
        """        attn_weights = attn_weights.masked_fill(future, float("-inf"))
        attn_weights = attn_weights / self.attn_logit_softcapping
        attn_weights = torch.tanh(attn_weights)
        attn_weights = attn_weights * self.attn_logit_softcapping
""",
        options=SOFTCAP,
        marker="attn_weights = torch.tanh(attn_weights)",
    ),
    Style(
        "sinks not in the denominator",
        "llama.py",
        "GptOssAttention",
        "drops the sinks before the softmax, so that they take nothing",
        """        probs = F.softmax(combined_logits, dim=-1, dtype=combined_logits.dtype)
        scores = probs[..., :-1]  # we drop the sink here
""",
        """        scores = F.softmax(combined_logits[..., :-1], dim=-1, dtype=combined_logits.dtype)
""",
    ),
    Style(
        "repeat of key heads",
        "llama.py",
        "Qwen3Attention",
        "repeats the key heads one after the other, so that queries meet the wrong ones",
        """key_states.repeat_interleave(self.num_key_value_groups, 1)
        value_states = value_states.repeat_interleave(self.num_key_value_groups, 1)
""",
        """key_states.repeat(1, self.num_key_value_groups, 1, 1)
        value_states = value_states.repeat(1, self.num_key_value_groups, 1, 1)
""",
    ),
    Style(
        "scaled twice",
        "llama.py",
        "Qwen3Attention",
        "scales by hand, and again in scaled_dot_product_attention",
        "F.scaled_dot_product_attention(query_states, key_states, value_states, is_causal",
        "F.scaled_dot_product_attention(query_states * self.head_dim**-0.5, key_states, value_states, is_causal",
    ),
    Style(
        "inverted mask",
        "gpt.py",
        "PaddedCausalAttention",
        "hides what should be seen, and the other way round",
        "attn_mask=allowed",
        "attn_mask=~allowed",
    ),
    Style(
        "heads merged without transpose",
        "gpt.py",
        "GPTJAttention",
        "mixes tokens and heads, as it puts heads together without a transpose",
        "attn_output.permute(0, 2, 1, 3).reshape(batch, length, -1)",
        "attn_output.reshape(batch, length, -1)",
    ),
    Style(
        "slopes reversed",
        "biases.py",
        "AlibiAttention",
        "gives the slope of the first head to the last",
        'self.register_buffer("slopes", slopes.view',
        'self.register_buffer("slopes", slopes.flip(0).view',
    ),
    Style(
        "[PAD] hidden as query",
        "encoders.py",
        "BertSelfAttention",
        "hides padding as query and shows it as key",
        "attention_mask[:, None, None, :].to",
        "attention_mask[:, None, :, None].to",
        adapter=BERT,
    ),
    Style(
        "mask of the first text",
        "encoders.py",
        "MultiheadAttention",
        "uses the padding of the first text for all texts",
        "key_padding_mask[:, None, None, :]",
        "key_padding_mask[0]",
        options=HIDDEN,
    ),
    Style(
        "one mask or the other",
        "encoders.py",
        "MultiheadAttention",
        "ignores padding if there is another mask",
        "        if key_padding_mask is not None:",
        "        elif key_padding_mask is not None:",
        options=HIDDEN,
    ),
    Style(
        "scale of the model's size",
        "encoders.py",
        "MemEffAttention",
        "scales by the size of the model, not of a head",
        "self.scale = (dim // num_heads) ** -0.5",
        "self.scale = dim**-0.5",
    ),
    Style(
        "output bias forgotten",
        "encoders.py",
        "EinsumDenseAttention",
        "has a bias of the output and never adds it",
        "self.output_kernel) + self.output_bias",
        "self.output_kernel)",
        marker="attention_output, self.output_kernel)",
    ),
    Style(
        "mask by head",
        "encoders.py",
        "FlexAttention",
        "takes the padding of text h for head h, which runs where there are as many texts as heads",
        "mask[b, kv_idx]",
        "mask[h, kv_idx]",
    ),
    Style(
        "mask of the query",
        "seq2seq.py",
        "DecoderCrossAttention",
        "hides keys of the memory by the padding of the text that asks",
        """        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask""",
        """        if x_mask is not None:
            scores = scores.masked_fill(~x_mask""",
        marker="~x_mask",
    ),
    Style(
        "query changed in place",
        "kernels.py",
        "flash_attention",
        "scales the caller's query in place",
        "    q = q * q.shape[-1] ** -0.5",
        "    q *= q.shape[-1] ** -0.5",
    ),
    Style(
        "softmax over queries",
        "kernels.py",
        "ColumnSelfAttention",
        "normalises over the queries, as in code that has tokens in rows",
        "torch.softmax(scores, dim=-2)",
        "torch.softmax(scores, dim=-1)",
        adapter=COLUMNS,
    ),
    Style(
        "mask added with the wrong sign",
        "tensorflow_like.py",
        "scaled_dot_product_attention",
        "adds a large number to what is hidden",
        "scaled_attention_logits += mask * -1e9",
        "scaled_attention_logits -= mask * -1e9",
        options=HIDDEN,
    ),
)

STYLES = RIGHT + WRONG
