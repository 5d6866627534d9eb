"""Which laws the model types of the installed transformers keep: every law, on each backend, on a small random model.

`python tests/table_of_backends.py` measures them all and writes the table into attncli/checks/README.md, between its
markers. `python tests/table_of_backends.py llama t5` prints the rows of these types and writes nothing.
"""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
import transformers

from attncli.base.errors import RequestError
from attncli.checks.behaviour.examine import BACKENDS, examine
from attncli.checks.behaviour.laws import AGREE, LAWS
from attncli.checks.behaviour.opening import open_named
from attncli.checks.behaviour.report import Behaviour

README = Path(__file__).parents[1] / "attncli" / "checks" / "README.md"
MARKERS = "<!-- table of backends -->", "<!-- end of the table of backends -->"

TYPES = (
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "gemma", "gemma2",
    "gemma3_text", "gpt_oss", "gpt2", "gpt_neo", "gpt_neox", "gpt_bigcode", "gptj", "codegen", "falcon", "bloom", "mpt",
    "opt", "biogpt", "xglm", "phi", "phi3", "olmo", "olmo2", "olmo3", "smollm3", "deepseek_v3", "starcoder2", "granite",
    "cohere", "cohere2", "stablelm", "persimmon", "nemotron", "glm4", "exaone4", "doge", "diffllama", "bitnet",
    "helium", "arcee", "seed_oss", "lfm2", "jamba", "bamba", "mamba", "minimax", "modernbert-decoder", "apertus",
    "ernie4_5", "bert", "roberta", "distilbert", "electra", "modernbert", "mpnet", "deberta-v2", "albert", "esm",
    "eurobert",
    "t5", "bart", "marian", "mbart", "pegasus", "mt5",
)  # fmt: skip
SHORT = {"eager": "eager", "sdpa": "sdpa", "flex_attention": "flex", "flash_attention_2": "flash"}
CELLS = {True: "yes", False: "**NO**", None: "-"}


def measure(model_type: str) -> Behaviour:
    opened = open_named(f"transformers:{model_type}")
    return examine(model_type, opened.kind, opened.make)


def rows(behaviour: Behaviour) -> Iterator[str]:
    """Write one row for each backend that ran, and one for those that did not."""
    cells = {(one.backend, one.law): CELLS[one.holds] for one in behaviour.outcomes}
    for backend in BACKENDS:
        if backend not in behaviour.missing:
            laws = " | ".join(cells[backend, law] for law in (*LAWS, AGREE))
            yield f"| {behaviour.name} | {SHORT[backend]} | {laws} |"


def table(behaviours: list[Behaviour]) -> str:
    laws = [*LAWS, AGREE]
    head = f"| model type | backend | {' | '.join(laws)} |\n|{' --- |' * (len(laws) + 2)}"
    return "\n".join([head, *(row for one in behaviours for row in rows(one))])


def write(text: str) -> None:
    before, _, rest = README.read_text(encoding="utf-8").partition(MARKERS[0])
    _, _, after = rest.partition(MARKERS[1])
    README.write_text(f"{before}{MARKERS[0]}\n\n{text}\n\n{MARKERS[1]}{after}", encoding="utf-8")


def main(types: list[str]) -> None:
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    behaviours = []
    for model_type in types or TYPES:
        try:
            behaviours.append(measure(model_type))
        except RequestError as error:
            print(f"{model_type}: {error}", file=sys.stderr)
            continue
        print(behaviours[-1], flush=True)
    if types:
        print(table(behaviours))
    else:
        ran = f"{len(behaviours)} model types, transformers {transformers.__version__}, torch {torch.__version__}"
        write(f"{ran}; a backend without a row is not available there.\n\n{table(behaviours)}")


if __name__ == "__main__":
    main(sys.argv[1:])
