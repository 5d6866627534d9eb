"""Make the table of the laws that model types of the installed transformers keep, on each backend, on small models.

`python tests/table_of_backends.py` checks them all and writes the table into attncli/checks/README.md, between its
markers. `python tests/table_of_backends.py llama t5` prints the rows of these types and writes nothing.
"""

import sys
import warnings
from pathlib import Path

import torch
import transformers

from attncli.base.errors import RequestError
from attncli.checks.behaviour.laws import AGREE, BACKENDS, LAWS, NOT_PROMISED, Behaviour, Outcome, examine
from attncli.checks.behaviour.opening import open_named

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
KNOWN = {("mamba", "cached steps"), ("jamba", "cached steps")}  # limitations that transformers' source names
HEAD = """{count} model types, transformers {transformers}, torch {torch}.
"-": the law does not apply, the backend is the first one, or the model fails. "note": transformers does not promise it.
"known": a limitation that transformers' source names (see above). A backend without a row is not available there. Flash
attention was never checked.
"""


def measure(model_type: str) -> Behaviour:
    opened = open_named(f"transformers:{model_type}")
    return examine(model_type, opened.kind, opened.make)


def cell(model_type: str, outcome: Outcome) -> str:
    """Return a cell of the table: the result, and whether the README has a note on it."""
    if outcome.note.startswith(NOT_PROMISED):
        return "yes, note" if outcome.holds else "note"
    known = outcome.holds is False and (model_type, outcome.law) in KNOWN
    return CELLS[outcome.holds] + (", known" if known else "")


def table(behaviours: list[Behaviour]) -> str:
    """Return a row for each backend that ran."""
    laws = [law for law in (*LAWS, AGREE) if "," not in law]  # documents are packed in one of three ways
    lines = [f"| model type | backend | {' | '.join(laws)} |", f"|{' --- |' * (len(laws) + 2)}"]
    for one in behaviours:
        cells = {(outcome.backend, outcome.law): cell(one.name, outcome) for outcome in one.outcomes}
        for backend in BACKENDS:
            if backend not in one.missing:
                row = [one.name, SHORT[backend], *(cells[backend, law] for law in laws)]
                lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


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
        head = HEAD.format(count=len(behaviours), transformers=transformers.__version__, torch=torch.__version__)
        write(f"{head}\n{table(behaviours)}")


if __name__ == "__main__":
    main(sys.argv[1:])
