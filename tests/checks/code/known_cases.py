"""Attention on which `attncli check` is judged, as data in `cases/`. `test_proofs.py` proves each with torch alone.

`RIGHT` and `PLANTED` with `PAIRS` are small programs, and `STYLES` is code as people ship it. A wrong case is a
right one with some lines replaced, as the two files mistakes.txt say.

    python tests/checks/code/known_cases.py             what check says of all of them, some minutes
    python tests/checks/code/known_cases.py "no scale"  of those with these words in their title
"""

import importlib.util
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import attncli

CASES = Path(__file__).parent / "cases"


class Case(NamedTuple):
    """`name` in `file`, or in its part `part`, where each `old` of edits is replaced by its `new`.

    options: the options of `check`. adapter: code that follows the file. mistakes: what is wrong, empty if nothing is.
    These are the names that `check` has for them, or plain words for a style. twin: the title of the same style
    without the mistake. marker: the mistaken line.
    """

    title: str
    file: str
    name: str
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    part: str = ""
    adapter: str = ""
    mistakes: tuple[str, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    twin: str = ""
    marker: str = ""

    @property
    def right(self) -> bool:
        return not self.mistakes

    @property
    def base(self) -> str:
        """The program without the mistakes."""
        text = (CASES / self.file).read_text(encoding="utf-8")
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

HELPERS = {"HandBackward", "softmax", "GPTConfig", "Head"}


def definitions(file: str) -> list[str]:
    """Return the functions and classes of a file, without helpers."""
    found = re.findall(r"^(?:def|class) (\w+)", (CASES / file).read_text(encoding="utf-8"), re.MULTILINE)
    return [name for name in found if name not in HELPERS]


RIGHT = (
    *(Case(name, "right_functions.py", name) for name in definitions("right_functions.py")),
    *(Case(name, "right_numpy.py", name) for name in definitions("right_numpy.py")),
    *(Case(name, "right_modules.py", name) for name in (*definitions("right_modules.py"), "MultiheadAttention")),
)
TUTORIALS = tuple(
    Case(name, "tutorials.py", name, mistakes=("mask never used",) if name.startswith("First") else ())
    for name in definitions("tutorials.py")
)
# What each part of bases.py and bases_numpy.py defines.
BASES = {
    part: Case(part, "bases_numpy.py" if "array" in part else "bases.py", name, part=part)
    for part, name in {
        "separate": "MultiHeadAttention",
        "einsums": "EinsumAttention",
        "fused": "FusedAttention",
        "function": "attention",
        "padded": "masked_attention",
        "arrays": "attention",
        "array_class": "NumpyAttention",
        "head_by_head": "HeadByHead",
        "rearranged": "Attention",
        "causal_buffer": "CausalSelfAttention",
        "causal_function": "causal_attention",
        "causal_arrays": "masked_attention",
        "causal_loop": "decode",
        "causal_places": "MaskedSelfAttention",
        "grouped_module": "GroupedQueryAttention",
        "grouped_function": "grouped_attention",
        "grouped_arrays": "grouped_query_attention",
        "grouped_loop": "GroupedHeads",
        "grouped_einsum": "attend_in_groups",
    }.items()
}
# These are mistakes only if the user says what is meant.
SAID = {
    "mask inverted": {"means": "allowed"},
    "-1e9 in half precision": {"nowhere": "zero-or-nan"},
    "fully masked rows uniform": {"nowhere": "zero-or-nan"},
}


def planted() -> Iterator[Case]:
    """Read the mistakes in `BASES`."""
    _, *blocks = (CASES / "mistakes.txt").read_text(encoding="utf-8").split("\n\n")
    for block in blocks:
        mistake, edits = block.split("\n", 1)
        for part, *edit in re.findall(r"^  (\w+): `(.*)`\s+→ `(.*)`$", edits, re.MULTILINE):
            old, new = (text.replace("\\n", "\n") for text in edit)
            yield BASES[part]._replace(
                title=f"{mistake}, {part}", options=SAID.get(mistake, {}), mistakes=(mistake,), edits=((old, new),)
            )


PLANTED = tuple(planted())


def pair(part: str, first: str, second: str) -> Case:
    one, other = (next(case for case in PLANTED if case.title == f"{name}, {part}") for name in (first, second))
    return one._replace(title=f"{first} and {second}, {part}", mistakes=(first, second), edits=one.edits + other.edits)


PAIRS = (
    pair("separate", "no scale", "no W_O"),
    pair("separate", "no scale", "mask never used"),
    pair("separate", "scale by d_model", "heads joined in the wrong order"),
    pair("separate", "q and k swapped", "bias left out"),
    pair("einsums", "no scale", "softmax over queries"),
    pair("einsums", "transposed W", "heads joined in the wrong order"),
    pair("fused", "scale by d_model", "[PAD] hidden as query"),
    pair("function", "no scale", "q and k swapped"),
    pair("function", "no scale", "mask after softmax"),
    pair("arrays", "keys as values", "softmax over heads"),
    pair("arrays", "no scale", "mask multiplied"),
    pair("head_by_head", "keys as values", "no W_O"),
    pair("rearranged", "heads split by view", "heads joined in the wrong order"),
    pair("array_class", "values not projected", "no W_O"),
)

# --- code as people ship it -------------------------------------------------------------------------------

CONSTRUCTOR = """class Adapter({}):
    def __init__(self, dim, heads{}):
        super().__init__({})
"""
COLUMNS = """class Adapter(ColumnSelfAttention):
    def __init__(self, dim):
        super().__init__(dim, dim, dim)

    def forward(self, x):
        return super().forward(x.mT).mT
"""
ADAPTERS = {
    "minGPT buffer": CONSTRUCTOR.format("CausalSelfAttention", "", "GPTConfig(n_embd=dim, n_head=heads)"),
    "Llama freqs_cis": CONSTRUCTOR.format("LlamaReferenceAttention", ", kv_heads", "ModelArgs(dim, heads, kv_heads)"),
    "BERT head_mask": CONSTRUCTOR.format("BertSelfAttention", "", "BertConfig(dim, heads)"),
    "tokens in columns": COLUMNS,
}
OPTIONS = {
    "Mistral window": {"give": {"sliding_window": 3}},
    "Gemma 2 softcap": {"give": {"attn_logit_softcapping": 2.0}},
    "two masks, NaN": {"means": "forbidden"},
    "BART cached memory": {"means": "added"},
    "TensorFlow-like numpy": {"means": "forbidden"},
}
RIGHT_STYLES = tuple(
    Case(title, f"styles/{file}.py", name, OPTIONS.get(title, {}), adapter=ADAPTERS.get(title, ""))
    for file, styles in {
        "annotated_transformer": {"annotated attention": "attention", "annotated heads": "MultiHeadedAttention"},
        "d2l": {
            "d2l additive": "AdditiveAttention",
            "d2l dot product": "DotProductAttention",
            "d2l heads, lazy": "MultiHeadAttention",
        },
        "x_transformers": {"lucidrains context": "Attention", "lucidrains null key": "CrossAttention"},
        "gpt": {
            "minGPT buffer": "CausalSelfAttention",
            "GPT-2 cache": "GPT2Attention",
            "GPT-J float32 scale": "GPTJAttention",
            "causal and padding": "PaddedCausalAttention",
        },
        "llama": {
            "Llama freqs_cis": "LlamaReferenceAttention",
            "Llama rotary and cache": "LlamaAttention",
            "Mistral window": "MistralAttention",
            "Gemma 2 softcap": "Gemma2Attention",
            "gpt-oss sinks": "GptOssAttention",
            "Qwen3 norms": "Qwen3Attention",
        },
        "biases": {"ALiBi": "AlibiAttention", "T5 bias": "T5Attention"},
        "encoders": {
            "BERT head_mask": "BertSelfAttention",
            "two masks, NaN": "MultiheadAttention",
            "xformers layout": "MemEffAttention",
            "einsum with bias": "EinsumDenseAttention",
            "flex_attention": "FlexAttention",
        },
        "seq2seq": {
            "Bahdanau": "BahdanauAttention",
            "BART cached memory": "BartAttention",
            "memory with its own mask": "DecoderCrossAttention",
        },
        "kernels": {"flash in blocks": "flash_attention", "tokens in columns": "ColumnSelfAttention"},
        "tensorflow_like": {"TensorFlow-like numpy": "scaled_dot_product_attention"},
    }.items()
    for title, name in styles.items()
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
        yield rights[twin]._replace(title=title, mistakes=(mistake,), edits=((old, new),), twin=twin, marker=marker)


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


def main(words: Sequence[str]) -> None:
    results = {}
    for title, case in EVERY.items():
        if not words or any(word in title for word in words):
            results[title] = it = result_of(title)
            right, said = "right" if case.right else "wrong", ", ".join(it.names) or it.said.splitlines()[0]
            mark = {right: " ", "refused": "?"}.get(it.verdict, "✗")
            print(f"{mark} {title:60} {it.verdict:8} {said}"[:200], flush=True)
    for right in (True, False):
        some = [it.verdict for title, it in results.items() if EVERY[title].right == right]
        print(f"{len(some)} {'right' if right else 'wrong'}: {', '.join(f'{some.count(x)} {x}' for x in set(some))}")
    named = [sorted(it.names) == sorted(EVERY[title].mistakes) for title, it in results.items() if EVERY[title].part]
    print(f"{sum(named)} of {len(named)} planted mistakes are named, and nothing else with them")


if __name__ == "__main__":
    main(sys.argv[1:])
