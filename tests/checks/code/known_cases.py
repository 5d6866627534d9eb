"""Attention on which `attncli check` is judged, as data in `cases/`.

`RIGHT`, `PLANTED` and `PAIRS` are small programs. `STYLES` is code as people ship it. A wrong case is a right one with
some lines replaced, as the two files mistakes.txt say.
"""

import importlib.util
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from checks.code.composed import program, style_of

import attncli

CASES = Path(__file__).parent / "cases"


class Case(NamedTuple):
    """`name` in `file` (or in its part `part`, or in `text`), where each `old` of edits is replaced by its `new`.

    options: the options of `check`. adapter: code that follows the file. mistakes: what is wrong, empty if nothing is.
    These are the names that `check` has for them, or plain words for a style. marker: the mistaken line.
    """

    title: str
    file: str
    name: str
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    part: str = ""
    text: str = ""
    adapter: str = ""
    mistakes: tuple[str, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    marker: str = ""

    @property
    def right(self) -> bool:
        return not self.mistakes

    @property
    def base(self) -> str:
        """The program without the mistakes."""
        text = self.text or (CASES / self.file).read_text(encoding="utf-8")
        if not self.part:
            return text
        imports, *parts = re.split(r"^# --- (\w+)\n", text, flags=re.MULTILINE)
        return imports + dict(zip(parts[::2], parts[1::2], strict=True))[self.part]

    @property
    def source(self) -> str:
        text = self.base
        for old, new in self.edits:
            text = text.replace(old, new)
        return text

    def load(self, folder: Path, name: str | None = None) -> Any:
        """Write the program to the folder, import it, and return `name` of it, or else what `check` is given."""
        path = folder / Path(self.file).name
        path.write_text(f"{self.source}\n\n{self.adapter}" if self.adapter else self.source, encoding="utf-8")
        called = f"case_{abs(hash((self.title, folder)))}"
        spec = importlib.util.spec_from_file_location(called, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[called] = module
        spec.loader.exec_module(module)
        return getattr(module, name or ("Adapter" if self.adapter else self.name))


# --- small programs ---------------------------------------------------------------------------------------

COMPOSED = {
    "with_torch_einsum": {"core": "einsum", "mask": True},
    "tokens_before_heads": {"tokens first": True, "core": "einsum", "mask": True},
    "fused_kernel_of_tokens_before_heads": {"tokens first": True, "core": "sdpa"},
    "blocked": {"mask": True, "means": "forbidden"},
    "added": {"mask": True, "means": "added"},
    "key_padding": {"padding": True, "means": "forbidden"},
    "two_masks": {"mask": True, "padding": True, "core": "einsum"},
    "scaled_queries": {"mask": True, "scale": "query"},
    "causal": {"causal": True},
    "MultiHeadAttention": {"inputs": "q k v", "names": "W_q W_k W_v W_o", "mask": True, "dropout": True},
    "ProjAttention": {"bias": True, "mask": True, "means": "added", "weights": True, "scale": "query"},
    "CrossAttention": {"inputs": "memory", "names": "wq wk wv wo", "core": "sdpa"},
    "LinearQ": {"inputs": "q k v", "names": "linear_q linear_k linear_v linear_o", "bias": True},
    "QLinear": {"inputs": "q k v", "names": "q_linear k_linear v_linear out", "mask": True, "weights": True},
    "UnifyHeads": {"names": "toqueries tokeys tovalues unifyheads"},
    "ValuesFirst": {"inputs": "v k q", "names": "queries keys values fc_out", "mask": True, "core": "einsum"},
    "Interleaved": {"turns": True, "names": "lin_q lin_k lin_v lin_out"},
    "MultiQuery": {"key_heads": 1, "names": "Wq Wk Wv Wo", "mask": True},
    "EncoderSelfAttention": {"names": "query key value dense", "bias": True, "padding": True},
    "ThreeHeadsDim": {"fused": "three h d", "bias": True, "scale": "query"},
    "HeadsThreeDim": {"fused": "h three d", "bias": True, "mask": True},
    "HeadsDimThree": {"fused": "h d three", "mask": True},
    "MatricesBehind": {"matrices": True, "names": "W_Q W_K W_V W_O"},
    "TokenFirst": {"tokens first": True, "names": "q k v o", "mask": True, "means": "added"},
}


def composed(title: str, chosen: dict[str, Any]) -> Case:
    module = title[0].isupper()
    style = style_of(kind="module" if module else "function", **chosen)
    return Case(title, "composed.py", "Attention" if module else "attention", text=program(style))


def definitions(file: str) -> Iterator[Case]:
    """Return a right case for each function and class of a file, without helpers."""
    found = re.findall(r"^(?:def|class) (\w+)", (CASES / file).read_text(encoding="utf-8"), re.MULTILINE)
    return (Case(name, file, name) for name in found if name not in ("HandBackward", "softmax"))


TUTORIALS = tuple(
    case._replace(mistakes=("mask never used",) if case.title.startswith("First") else ())
    for case in definitions("tutorials.py")
)
# The parts of bases.py and bases_numpy.py, and what they define.
BASE_NAMES = """
separate:MultiHeadAttention einsums:EinsumAttention fused:FusedAttention function:attention padded:masked_attention
arrays:attention array_class:NumpyAttention head_by_head:HeadByHead rearranged:Attention
causal_buffer:CausalSelfAttention causal_function:causal_attention causal_arrays:masked_attention causal_loop:decode
causal_places:MaskedSelfAttention grouped_module:GroupedQueryAttention grouped_function:grouped_attention
grouped_arrays:grouped_query_attention grouped_loop:GroupedHeads grouped_einsum:attend_in_groups
"""
BASES = {
    part: Case(part, "bases_numpy.py" if "array" in part else "bases.py", name, part=part)
    for part, name in re.findall(r"(\w+):(\w+)", BASE_NAMES)
}
RIGHT = (
    *(case for file in ("functions", "numpy", "modules") for case in definitions(f"right_{file}.py")),
    Case("MultiheadAttention", "right_modules.py", "MultiheadAttention"),
    *(composed(title, chosen) for title, chosen in COMPOSED.items()),
    *BASES.values(),
)
# These are mistakes only if the user says what is meant.
SAID = {one: {"nowhere": "zero-or-nan"} for one in ("-1e9 in half precision", "fully masked rows uniform")}
MODULE = "class Adapter({}):\n    def forward(self, {}, allowed=None): return super().forward({}, allowed)\n"
ALLOWED = {  # by the part in which a mask is inverted
    "separate": MODULE.format("MultiHeadAttention", "q, k, v", "q, k, v"),
    "einsums": MODULE.format("EinsumAttention", "x, memory=None", "x, memory"),
    "fused": MODULE.format("FusedAttention", "x", "x"),
    "function": "def Adapter(q, k, v, allowed=None): return attention(q, k, v, allowed)\n",
    "arrays": "def Adapter(q, k, v, allowed=None): return attention(q, k, v, allowed)\n",
}


def planted() -> Iterator[Case]:
    """Read the mistakes in `BASES`."""
    for line in (CASES / "mistakes.txt").read_text(encoding="utf-8").splitlines()[2:]:
        edit = re.fullmatch(r"  (\w+): `(.*)` → `(.*)`", line)
        if edit is None:
            mistake = line
        else:
            part, old, new = (text.replace("\\n", "\n") for text in edit.groups())
            yield BASES[part]._replace(
                title=f"{mistake}, {part}",
                options=SAID.get(mistake, {}),
                adapter=ALLOWED[part] if mistake == "mask inverted" else "",
                mistakes=(mistake,),
                edits=((old, new),),
            )


PLANTED = tuple(planted())


def pairs() -> Iterator[Case]:
    """Join two mistakes in one program."""
    by_title = {case.title: case for case in PLANTED}
    for line in PAIRED.strip().splitlines():
        part, names = line.split(": ")
        one, other = (by_title[f"{name}, {part}"] for name in names.split(" + "))
        title, mistakes = f"{names}, {part}", one.mistakes + other.mistakes
        yield one._replace(title=title, mistakes=mistakes, edits=one.edits + other.edits)


# The part of the bases, and two mistakes in it.
PAIRED = """
separate: no scale + no W_O
separate: no scale + mask never used
separate: scale by d_model + heads joined in the wrong order
separate: q and k swapped + bias left out
einsums: no scale + softmax over queries
einsums: transposed W + heads joined in the wrong order
fused: scale by d_model + [PAD] hidden as query
function: no scale + q and k swapped
function: no scale + mask after softmax
arrays: keys as values + softmax over heads
arrays: no scale + mask multiplied
head_by_head: keys as values + no W_O
rearranged: heads split by view + heads joined in the wrong order
array_class: values not projected + no W_O
"""
PAIRS = tuple(pairs())

# --- code as people ship it -------------------------------------------------------------------------------

CONSTRUCTOR = """class Adapter({}):
    def __init__(self, dim, heads{}):
        super().__init__({})
"""
ADAPTERS = {
    "minGPT buffer": CONSTRUCTOR.format("CausalSelfAttention", "", "GPTConfig(n_embd=dim, n_head=heads)"),
    "Llama freqs_cis": CONSTRUCTOR.format("LlamaReferenceAttention", ", kv_heads", "ModelArgs(dim, heads, kv_heads)"),
    "BERT head_mask": CONSTRUCTOR.format("BertSelfAttention", "", "BertConfig(dim, heads)"),
    "TensorFlow-like numpy": "def Adapter(q, k, v, forbidden=None):\n"
    "    return scaled_dot_product_attention(q, k, v, forbidden)\n",
    "BART cached memory": "class Adapter(BartAttention):\n"
    "    def forward(self, hidden_states, key_value_states=None, past_key_value=None, added=None):\n"
    "        return super().forward(hidden_states, key_value_states, past_key_value, added)\n",
}
# File: title = name; title = name.
STYLE_NAMES = """
annotated_transformer: annotated attention = attention; annotated heads = MultiHeadedAttention
d2l: d2l additive = AdditiveAttention; d2l dot product = DotProductAttention; d2l heads, lazy = MultiHeadAttention
x_transformers: lucidrains context = Attention; lucidrains null key = CrossAttention
gpt: minGPT buffer = CausalSelfAttention; GPT-2 cache = GPT2Attention; GPT-J float32 scale = GPTJAttention
gpt: causal and padding = PaddedCausalAttention
llama: Llama freqs_cis = LlamaReferenceAttention; Llama rotary and cache = LlamaAttention
llama: Mistral window = MistralAttention; Gemma 2 softcap = Gemma2Attention; gpt-oss sinks = GptOssAttention
llama: Qwen3 norms = Qwen3Attention
biases: ALiBi = AlibiAttention; T5 bias = T5Attention
encoders: BERT head_mask = BertSelfAttention; two masks, NaN = MultiheadAttention; xformers layout = MemEffAttention
encoders: einsum with bias = EinsumDenseAttention; flex_attention = FlexAttention
seq2seq: Bahdanau = BahdanauAttention; BART cached memory = BartAttention
seq2seq: memory with its own mask = DecoderCrossAttention
kernels: flash in blocks = flash_attention; tokens in columns = ColumnSelfAttention
tensorflow_like: TensorFlow-like numpy = scaled_dot_product_attention
"""
RIGHT_STYLES = tuple(
    Case(title, f"styles/{file}.py", name, adapter=ADAPTERS.get(title, ""))
    for file, styles in (line.split(": ") for line in STYLE_NAMES.strip().splitlines())
    for title, name in (style.split(" = ") for style in styles.split("; "))
)


def wrong_styles() -> Iterator[Case]:
    """Read the wrong styles from `styles/mistakes.txt`."""
    rights = {right.title: right for right in RIGHT_STYLES}
    _, *blocks = (CASES / "styles/mistakes.txt").read_text(encoding="utf-8").strip().split("\n\n")
    for block in blocks:
        first, *lines = block.splitlines()
        title, twin, mistake = first.split(" | ")
        old = "".join(f"{line[1:]}\n" for line in lines if line[0] == "-")
        put_in = [line for line in lines if line[0] in "+!"]
        new = "".join(f"{line[1:]}\n" for line in put_in)
        marker = next((line for line in put_in if line[0] == "!"), put_in[0])[1:]
        yield rights[twin]._replace(title=title, mistakes=(mistake,), edits=((old, new),), marker=marker)


WRONG_STYLES = tuple(wrong_styles())
STYLES = RIGHT_STYLES + WRONG_STYLES

# --- what check says of them ------------------------------------------------------------------------------


class Result(NamedTuple):
    """The verdict on a case: "right", "wrong" or "refused". names, line: the mistakes that were named, and the line."""

    verdict: str
    said: str
    names: tuple[str, ...] = ()
    line: int | None = None


@cache
def result_of(title: str) -> Result:
    """Let `check` judge a case of `EVERY`."""
    case = EVERY[title]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = attncli.check(case.load(Path(folder)), **case.options)
        except attncli.RequestError as error:
            return Result("refused", str(error))
    line = next((one.line for one in found.diagnosis if one.line), None)
    return Result("right" if found.right else "wrong", str(found), tuple(x.mistake for x in found.diagnosis), line)


EVERY = {case.title: case for case in (*RIGHT, *TUTORIALS, *PLANTED, *PAIRS, *STYLES)}
