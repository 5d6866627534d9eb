"""Documents have the fields that their features state (FIELDS), each of its type, and no others.

A command that prints a document has ways here that between them have every field.
"""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from checkpoints import make_checkpoint
from cli.commands import commands
from jsonschema import Draft4Validator
from made_up_family import FAMILY, made_up_checkpoint
from own_attention import MINE
from sentences import NORMALIZE, pooling, write_modules
from written_documents import paths, problems, unseen

from attncli import load_record
from attncli.base.files import flat
from attncli.features.compare import ways
from attncli.features.document import PLAIN, schema_of, sections
from attncli.models.families import FAMILIES
from attncli.record.record import CSV_HEADER

TEXT, OTHER = "the cat sat on the unbelievable cat", "it sat on the big cat it is"
TREES = Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu"

# Calls without --json; @ and @@ stand for the texts.
CALLS = {
    "run": [
        "run -m tiny @", "run -m tiny --measure norm -l all -H 0,2 -f lines.txt", "run -m tiny --pair it --words @",
        "run -m made-up -l all @", "run -m tiny --without 0.1 @", "run -m tiny --unit sentence @",
        "run -m tiny --query LAST @",
        "run -m gpt2 @", "run -m gpt_oss @", "run -m t5 @", "run -m t5 --which encoder @", "run --from written.npz",
        "run -m ./mpnet -l 1 -H 2 --terms @",
        "run -m gpt2 --lens @", "run -m ./classes @", "run -m ./tokens --words @", "run -m gpt_neo --dtype bfloat16 @",
    ],
    "find": [
        "find -m tiny cat sat @", "find -m tiny the cat -f lines.txt", "find -m tiny --by content @",
        "find -m gpt2 --by logit @",
        "find -m tiny --by previous -f lines.txt",
    ],
    "explain": [
        "explain -m tiny -l 0 -H 1 --query cat --block @", "explain -m tiny --mask causal @",
        "explain --from vectors.npz", "explain --from decoder.npz", "explain -m gpt_oss @", "explain -m t5 @",
        "explain -m gpt2 --logit @", "explain -m ./modernbert @", "explain -m ./mpnet @", "explain -m ./qwen3 @",
        "explain -m ./llama --pad-to 30 @",
    ],
    "mask": [
        "mask -m tiny @", "mask -m tiny -l 0 -H 0,2 -f lines.txt", "mask -m made-up @", "mask -m gpt2 @",
        "mask -m t5 @",
    ],
    "mechanisms": [
        "mechanisms -m tiny --design alibi @", "mechanisms -m tiny --mistakes @", "mechanisms -m tiny @",
        "mechanisms -m gpt_oss @",
    ],
    "align": ["align", "align --attention transformer -f dates.txt"],
    "generate": [
        "generate -m gpt2 --max-tokens 3 @", "generate -m gpt2 --max-tokens 3 --without 0.all @",
        "generate -m t5 --max-tokens 3 @", "generate -m gpt2 --max-tokens 3 --unit word @",
        "generate -m gpt2 --max-tokens 3 --lens @", "generate -m gpt2 --max-tokens 3 --lens --query cat @",
    ],
    "flow": [
        "flow -m tiny @", "flow -m tiny --query cat --method rollout -l all @", "flow -m tiny --measure norm @",
        "flow --from maps.npz --query big", "flow -m gpt_oss @",
    ],
    "check": [
        "check mine.py:MyAttention", "check mine.py:unscaled", "check mine.py:MyAttention -m tiny @",
        "check transformers:llama", "check --batch batch.json -m tiny",
    ],
    "ablate": [
        "ablate -m tiny @", "ablate -m classes --target LABEL_0 --way zero,mean -f four.txt",
    ],
    "cut": ["cut -m tiny --cut cat sat @", "cut -m tiny --cut cat * @", "cut -m t5 @", "cut -m tiny @"],
    "patch": ["patch -m tiny @ @@", "patch -m tiny --by token @ @@", "patch -m tiny --by layer @ @@"],
    "trust": [
        "trust -m tiny --permutations 2 @", "trust -m gpt_oss --permutations 2 @",
        "trust -m classes --permutations 2 @",
    ],
    "sources": [
        "sources -m gpt2 --max-tokens 3 --draws 2 @",
        "sources -m gpt2 --answer cat --each token --remove --sentences -f tags.txt",
        "sources -m gpt2 --answer cat --draws 1 -f twins.txt", "sources -m classes --target LABEL_0 --draws 1 @",
    ],
    "similar": [
        "similar -m ./sentences @ @@", "similar -m ./sentences --words @ @@",
        "similar -m ./sentences -f lines.txt", "similar -m ./sentences --maxsim @ @@",
        "similar -m ./sentences -f lines.txt --apart 0,1",
    ],
    "stats": [
        "stats -m tiny lines.txt", "stats --from stats.json",
        "stats -m t5 --which decoder lines.txt",
    ],
    "kinds": ["kinds -m minilm", "kinds -m gpt2 lines.txt"],
    "probe": [
        "probe -m tiny trees.conllu", "probe -m tiny trees.conllu --test other.conllu",
        "probe -m gpt2 trees.conllu",
    ],
    "diff": ["diff -m tiny @ @@", "diff -m tiny --masks padding,causal @", "diff -m t5 @ @"],
    "compare": [
        "compare -m tiny @", "compare -m tiny --against torch @", "compare -m electra-small --weights random @",
        "compare -m tiny --dtype bfloat16 @",
    ],
    "models": ["models"],
    "samples": ["samples", "samples coreference.txt", "samples --copy copies"],
    "models show": [
        "models show tiny", "models show ./modernbert", "models show ./gte",
        "models show gpt2", "models show t5", "models show odd", "models show small.gguf",
    ],
}  # fmt: skip
# A config.json with all that other families' have, some of it of other types.
ODD: dict[str, Any] = {
    **{"model_type": 5, "architectures": {}, "hidden_act": 0, "num_layers": "many", "num_heads": [1, 2]},
    **{"sliding_window": 4, "num_key_value_heads": 2, "decoder_attention_heads": 2},
    **{name: {"num_layers": 1} for name in ("encoder", "decoder", "text_config", "vision_config", "audio_config")},
}
APART = {"check"}  # starts a process
SLOW = {"compare", "kinds", "mechanisms", "similar", "stats", "trust", *APART}
NEVER_SAVED = {"check", "models", "samples", "models show"}  # `check` saves pictures alone
# Optional fields of a part that a command never has, and what only a trained model shows.
ABSENT = {
    "align": {"model.changes", "model.key_heads"},
    "sources": {"pairs.parts", "pairs.effect", "pairs.high"},
}
RECORDS = {"run", "align", "flow"}  # their .csv is that of records
# The list that is in a command's .csv, as its feature states it.
TABLES = {
    name: found[1]
    for name in CALLS
    if (found := re.search(r"a row\s+per entry of\s`(\w+)`", sections()[name].after)) and name != "stats"
}


def words(line: str) -> list[str]:
    return [{"@": TEXT, "@@": OTHER}.get(word, word) for word in line.split()]


@pytest.fixture(scope="module")
def place(tiny, tmp_path_factory):
    """A folder with models, texts, trees and files that the calls need."""
    from foreign_checkpoints import make_foreign
    from gguf_files import write_file
    from shell import in_process

    folder = tmp_path_factory.mktemp("documents")
    (folder / "tiny").symlink_to(tiny("bert"))
    for family in ("modernbert", "mpnet", "qwen3", "llama", "gte"):
        (folder / family).symlink_to(tiny(family))
    for name, head in (("classes", "ForSequenceClassification"), ("tokens", "ForTokenClassification")):
        make_checkpoint(folder / name, "bert", head)
    write_modules(make_checkpoint(folder / "sentences"), pooling("mean_tokens"), NORMALIZE)
    for family in ("gpt2", "gpt_neo", "gpt_oss", "t5"):
        (folder / family).mkdir()
        make_foreign(folder / family, family)
    write_file(folder / "small.gguf", "llama")
    made_up_checkpoint(folder / "made-up")
    (folder / "odd").mkdir()
    (folder / "odd" / "model.safetensors").symlink_to(folder / "tiny" / "model.safetensors")
    (folder / "odd" / "config.json").write_text(json.dumps(ODD), encoding="utf-8")
    (folder / "lines.txt").write_text(f"{TEXT}\n{OTHER}\n", encoding="utf-8")
    (folder / "tags.txt").write_text(
        '<doc id="1"> the cat sat </doc> <doc id="2"> it is big </doc> it is', encoding="utf-8"
    )
    (folder / "twins.txt").write_text("<a> cat </a> <b> cat </b> the", encoding="utf-8")
    (folder / "four.txt").write_text(f"{TEXT}\n{OTHER}\n" * 2, encoding="utf-8")
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    batch = {"input_ids": [[5, 6, 7, 0], [9, 7, 6, 5]], "attention_mask": [[1, 1, 1, 1], [1, 1, 1, 1]]}
    (folder / "batch.json").write_text(json.dumps(batch), encoding="utf-8")
    (folder / "dates.txt").write_text("3 March 2021\nhello world\n", encoding="utf-8")
    trees = TREES.read_text(encoding="utf-8").split("\n\n")
    (folder / "trees.conllu").write_text("\n\n".join(trees[:4]) + "\n\n", encoding="utf-8")
    (folder / "other.conllu").write_text(trees[4] + "\n\n", encoding="utf-8")
    for line in (
        "run -m tiny -l all -o maps.npz @@",
        "stats -m tiny -o stats.json lines.txt",
        "run -m tiny --vectors 1.2 -l all -o vectors.npz @",
        "generate -m gpt2 --max-tokens 3 -o written.npz @",
    ):
        assert in_process(words(line), folder).code == 0, line
    replace(load_record(folder / "vectors.npz"), kind="decoder").save(folder / "decoder.npz")
    return folder


@pytest.fixture
def call(attncli, place, monkeypatch):
    """`call("run -m tiny @", "--json")` -> what it printed, in the folder with everything, small."""
    monkeypatch.chdir(place)
    monkeypatch.setitem(FAMILIES, "made-up", FAMILY)
    monkeypatch.setattr(ways, "WAYS", {"tokens": ways.WAYS["tokens"]})

    def run(line: str, *more: str) -> str:
        result = attncli(*words(line), *more)
        assert result.code in (0, 1), result
        return result.out

    return run


@pytest.fixture(scope="module")
def known():
    """Documents by the calls that printed them, each printed once."""
    return {}


@pytest.fixture
def printed(call, known):
    """`printed("run -m tiny @")` -> the document."""

    def document(line: str) -> Any:
        if line not in known:
            known[line] = json.loads(call(line, "--json"))
        return known[line]

    return document


def marked(names: Any) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in names]


# --- what is written down -------------------------------------------------------------------------------


def test_every_command_with_a_document_has_its_section_and_its_calls():
    options = {name: {opt for one in command.params for opt in one.opts} for name, command in commands().items()}
    printing = {name for name, names in options.items() if "--json" in names}
    assert printing - {"capture"} == {name.split()[0] for name in CALLS}  # whose options stand before a program
    assert set(CALLS) <= set(sections())
    assert {name for name in CALLS if "-o" not in options[name.split()[0]]} == NEVER_SAVED - {"check"}


def test_fields_have_a_known_type_and_a_shape():
    for name, section in sections().items():
        for one in section.fields:
            for kind in one.type.removesuffix("?").split(" or "):
                assert kind.strip("[]{}") in {*PLAIN, "object", *sections()}, (name, one)
            assert one.unit or one.type.removesuffix("?") not in {"[str]", "[int]", "[float]", "[[float]]"}, (name, one)
        Draft4Validator.check_schema(schema_of(name))


def test_a_schema_finds_what_is_wrong():
    model = {"name": "a", "path": None, "sha256": None, "layers": 1, "heads": 1, "hidden_size": 4}
    head = {"layer": 0, "head": 0, "weights": [[1]]}
    record = {"tokens": ["a"], "segments": [0], "mask": "none", "attention": [head]}
    assert problems("run", {"model": model, "records": [record]}) == []
    for wrong, said in (
        ({"model": model}, "run: 'records' is a required property"),
        ({"model": {**model, "layers": 1.0}, "records": []}, "run.model.layers: 1.0"),
        ({"model": model, "records": [{**record, "more": 1}]}, "run.records[0]: Additional properties"),
        ({"model": model, "records": [{**record, "attention": [{}]}]}, "run.records[0].attention[0]: 'weights'"),
        ({"model": model, "records": [{**record, "tokens": [0]}]}, "run.records[0].tokens[0]: 0 is not"),
    ):
        assert any(line.startswith(said) for line in problems("run", wrong)), said


# --- what is printed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", marked(CALLS))
def test_documents_are_as_written(printed, name):
    found: set[str] = set()
    for line in CALLS[name]:
        assert problems(name, printed(line)) == [], line
        found |= set(paths(printed(line)))
    assert unseen(name, {name: found}) == ABSENT.get(name, set())


@pytest.mark.slow
def test_no_part_has_a_field_that_is_nowhere(printed):
    found = {
        name: {path for line in CALLS[name] for path in paths(printed(line))}
        for name in ("run", "explain", "find", "flow", "diff", "probe", "stats", "models show", "trust")
    }
    for part in set(sections()) - {*CALLS, "capture", "head"}:  # a head is in `pattern`, a part itself
        never = {"dtype"} if part == "record" else set()  # on a CPU maps are made in float32 or float64
        assert unseen(part, found) == never, part


# --- what is saved --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        line
        for name in CALLS
        if name not in {*NEVER_SAVED, "generate"}  # its .json is a record
        for line in CALLS[name]
        if "--terms" not in line
    ],
)
def test_a_file_holds_what_is_printed(call, printed, line, tmp_path):
    call(line, "-o", str(tmp_path / "x.json"))
    assert json.loads((tmp_path / "x.json").read_text(encoding="ascii")) == printed(line)


def test_both_at_once(call, printed, tmp_path):
    line = CALLS["flow"][1]
    for name in ("x.json", "x.npz"):
        assert json.loads(call(line, "--json", "-o", str(tmp_path / name))) == printed(line)
    assert json.loads((tmp_path / "x.json").read_text(encoding="ascii")) == printed(line)


@pytest.mark.parametrize("name", marked(TABLES))
def test_a_table_is_a_list_of_the_document(call, printed, name, tmp_path):
    """Every field but lists."""
    line = CALLS[name][-1]
    call(line, "-o", str(tmp_path / "x.csv"))
    entries = printed(line)[TABLES[name]]
    rows = read(tmp_path / "x.csv")
    for row, entry in zip(rows, entries, strict=True):
        assert row == {key: "" if value is None else str(value) for key, value in flat(entry).items()}


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_maps_have_a_row_a_cell(call, printed, name, tmp_path):
    line = CALLS[name][0]
    call(line, "-o", str(tmp_path / "x.csv"))
    rows = read(tmp_path / "x.csv")
    assert tuple(rows[0]) == CSV_HEADER and f"`{','.join(CSV_HEADER)}`" in sections()["run"].after
    weights = [
        weight
        for record in printed(line)["records"]
        for one in record["attention"]
        for row in one["weights"]
        for weight in row
    ]
    assert [float(row["weight"]) for row in rows] == weights


# --- in a pipe ------------------------------------------------------------------------------------------

DRAWN = ["heatmap -m tiny -o a.svg @", "view -m tiny -o a.html @"]
QUICK = ["samples", "stats --from stats.json"]  # which import no torch
PIPED = [lines[0] for lines in CALLS.values()] + [line for line in QUICK if line not in CALLS["samples"]]


def quick_first(lines: list[str], *more: str) -> list[Any]:
    return [
        pytest.param(f"{line} {option}".strip(), marks=[] if line in QUICK else [pytest.mark.slow])
        for line in lines
        for option in more
    ]


@pytest.fixture
def started(place):
    """`started("run -m tiny @ --json")` -> a process of its own, in the folder with everything."""
    from forked import FORKING, STARTING, Process

    def start(line: str) -> Process:
        if line.startswith(tuple(QUICK)):
            return Process(words(line), place, how=STARTING, ATTNCLI_QUIET="1")
        return Process(words(line), place, how=FORKING, ATTNCLI_QUIET="1")

    return start


@pytest.mark.parametrize("line", [*quick_first(PIPED, "", "--help"), *quick_first(DRAWN, "", "--help")])
def test_who_reads_one_line_ends_nothing_badly(started, line):
    """Read one line and close the pipe, like `| head -1`."""
    process = started(line)
    assert process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        said = process.stderr.read()
    assert (process.wait(), said) == (0, "")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
