"""Attention in the styles that people ship, on which `attncli check` is judged: thirty right ones, thirty wrong.

A wrong one is a right one with one place changed (`styles/mistakes.txt`). `test_styles_are_what_they_say.py` proves
each with torch alone; `styles_table.py` asks `check`.
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent / "styles"


class Style(NamedTuple):
    """`name` in `file`, with `old` replaced by `new` if it is wrong.

    options: what `check` may be told. adapter: what stands at the end of the file for `check`. mistake: the mistake in
    plain words. twin: the title of the right one. marker: the mistaken line. These are empty in a right one.
    """

    title: str
    file: str
    name: str
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    adapter: str = ""
    mistake: str = ""
    twin: str = ""
    old: str = ""
    new: str = ""
    marker: str = ""

    @property
    def right(self) -> bool:
        return not self.mistake

    @property
    def source(self) -> str:
        text = (HERE / self.file).read_text(encoding="utf-8")
        return text if self.right else text.replace(self.old, self.new, 1)

    @property
    def line(self) -> int | None:
        """The number of the mistaken line, from 1; None if the style is right."""
        if self.right:
            return None
        start = self.source.index(self.new)
        return self.source.count("\n", 0, self.source.index(self.marker, start)) + 1

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


def wrong() -> Iterator[Style]:
    """Read the wrong styles from `mistakes.txt`."""
    rights = {right.title: right for right in RIGHT}
    _, *blocks = (HERE / "mistakes.txt").read_text(encoding="utf-8").strip().split("\n\n")
    for block in blocks:
        first, *lines = block.splitlines()
        title, twin, mistake = first.split(" | ")
        put_in = [line for line in lines if line[0] in "+!"]
        yield rights[twin]._replace(
            title=title,
            mistake=mistake,
            twin=twin,
            old="".join(f"{line[1:]}\n" for line in lines if line[0] == "-"),
            new="".join(f"{line[1:]}\n" for line in put_in),
            marker=next((line for line in put_in if line[0] == "!"), put_in[0])[1:],
        )


WRONG = tuple(wrong())
STYLES = RIGHT + WRONG
