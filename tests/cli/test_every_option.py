"""Every option of every command, in each way of using it, changes something or is refused: none is ignored.

A way is a call that works. Each option is added to it with a value that is not its default; then the call is refused in
one line, or something else is printed, written or said than without.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from checkpoints import make_checkpoint
from cli.commands import LIVE, commands, is_flag
from matplotlib.text import Text
from own_attention import MINE
from pictures import check_nothing_overlaps
from sentences import NORMALIZE, pooling, write_modules

from attncli import load_model, save_records
from attncli.base.files import PICTURES
from attncli.cli.help import long_name
from attncli.features import find_measure
from attncli.features.compare import ways
from attncli.report.figure import drawing

TEXT = "the cat sat on the unbelievable cat"
OTHER = "it sat on the big cat"
AS_LONG = "it sat on the big cat the cat too"  # in tokens of the model here, as TEXT
PAIR = ("--pair", "it is big")
LINES = "the cat sat on it\n\nit is too big and it sat\n" + "the cat sat on the big cat " * 8 + "\n"
GENERAL = {"help", "debug", "quiet", "install_completion", "show_completion"}

# What is tried: something else than the default, that the texts and the model here have room for.
VALUES: dict[str, tuple[str, ...]] = {
    "action": ("show",),
    "text": ("the big cat",),
    "pair": PAIR[1:],
    "file": ("one.txt",),
    "batch": ("batch.json",),
    "saved": ("maps.npz",),
    "model": ("other",),
    "layer": ("1",),
    "head": ("2",),
    "mask": ("causal",),
    "pad_to": ("24",),
    "measure": ("norm",),
    "vectors": ("0.0",),
    "top_k": ("1",),
    "answer": ("the mat",),
    "each": ("token",),
    "draws": ("2",),
    "kinds": ("kinds.json",),  # which is not there
    "device": ("abacus",),  # is refused wherever something is computed; ignored, it would do nothing
    "dtype": ("bfloat16",),
    "engine": ("transformers",),
    "which": ("decoder",),
    "target": ("a cat",),
    "output_path": ("other",),  # with the suffix of the way, or refused
    "query": ("big",),
    "tokens": ("1-4",),
    "unit": ("sentence",),
    "part": ("notes=one.txt",),
    "key": ("big",),
    "segments": ("AB",),
    "style": ("lines",),
    "vmax": ("0.9",),
    "scale": ("root",),
    "cmap": ("viridis",),
    "width": ("5cm",),
    "font": ("DejaVu Serif",),
    "font_size": ("5",),
    "dpi": ("60",),
    "title": ("another title",),
    "start": ("matrix",),
    "threshold": ("0.3",),
    "method": ("rollout",),
    "models": ("tiny,other",),
    "masks": ("none,causal",),
    "measures": ("weight,norm",),
    "what": ("mine.py:attention",),
    "first": (OTHER,),
    "second": (OTHER,),
    "top": ("3",),
    "files": ("one.txt",),
    "limit": ("1",),
    "stride": ("5",),
    "by": ("distance",),
    "field": ("words",),
    "state": ("state",),
    "workers": ("2",),
    "on": ("abacus",),
    "worker_gpus": ("1",),
    "test": ("other.conllu",),
    "treebank": ("trees.conllu",),
    "against": ("torch",),
    "weights": ("random",),
    "temperature": ("0.5",),
    "top_p": ("0.5",),
    "max_tokens": ("2",),
    "design": ("causal-window",),
    "reach": ("1",),
    "seed": ("7",),
    "attention": ("dot",),
    "name": ("tiny",),
    "sample": ("0.5",),
    "copy": (".",),
    "similar_to": (OTHER,),
    "ask": ("logit",),
    "at": ("big",),
    "task": ("words",),
    "way": ("mean",),
    "reference": ("one.txt",),
    "without": ("0.1",),
    "pool": ("last",),
    "edges": ("cat", "sat"),
    "into": ("cat",),
    "out_of": ("cat",),
    "permutations": ("2",),
    "rankings": ("121",),
    "apart": ("0,2",),
    "nowhere": ("nan",),
    "seconds": ("0.01",),
    "gigabytes": ("0.1",),
}


def way(line: str) -> tuple[str, ...]:
    """The arguments of a line; @, @@ and @@@ stand for the texts, so that it can be split at its spaces."""
    return tuple({"@": TEXT, "@@": OTHER, "@@@": AS_LONG}.get(word, word) for word in line.split())


M = "-m tiny"
WAYS = {
    "run": [
        f"run {M} @", f"run {M} -l 0 -H 1 @", f"run {M} -l all @", f"run {M} --json @", f"run {M} -o a.npz @",
        f"run {M} -o a.csv --json @", f"run {M} --words @", f"run {M} --measure norm @", "run --from maps.npz",
        f"run {M} --unit part --part a=one.txt @", f"run {M} --query LAST --json @",
        "run --from maps.npz -l 1 -H 0", "run --from maps.npz --json",
        "run --from terms.safetensors -l 1 -H 2", "run --from terms.safetensors -l 1 -H 2 --json",
        "run -m gpt2 --lens @",
    ],
    "view": [f"view {M} -o a.html @", "view --from maps.npz -o a.html", "view --from masks.safetensors -o a.html"],
    "heatmap": [
        f"heatmap {M} -o a.svg @", f"heatmap {M} -o a.png -H 1 @", f"heatmap {M} --style lines -o a.svg @",
        "heatmap --from maps.npz -o a.svg", "heatmap --from maps.npz --style lines --mean -l 0,1 -o a.svg",
        "heatmap --from terms.safetensors -l 1 -H 2 -o a.svg",
    ],
    "explain": [f"explain {M} @", f"explain {M} --json @", f"explain {M} -o a.svg @", f"explain {M} -o a.csv @",
        f"explain {M} --block @", f"explain {M} --block --json @", "explain -m gpt2 --logit --json @",
        "explain --from vectors.safetensors", "explain --from vectors.safetensors -o a.svg",
    ],
    "mask": [f"mask {M} @", f"mask {M} --json @", f"mask {M} -o a.svg @", f"mask {M} --json -o a.svg @",
        f"mask {M} -o a.csv @", "mask -m gpt2 @", "mask -m t5 --json @",
    ],
    "mechanisms": [
        f"mechanisms {M} --json @", f"mechanisms {M} @", f"mechanisms {M} -o a.csv @",
        f"mechanisms {M} --design alibi --json @", f"mechanisms {M} --design window @",
        f"mechanisms {M} --design grouped -o a.csv @", f"mechanisms {M} --mistakes @", f"mechanisms {M} --all @",
        f"mechanisms {M} --mistakes -o a.csv @", f"mechanisms {M} --mistakes -o a.svg @",
    ],
    "align": ["align", "align --json", "align -o a.npz", "align --attention transformer -o a.svg", "align -o a.html",
        "align -o a.json",
    ],
    "find": [
        f"find {M} cat sat @", f"find {M} cat sat @ --json", f"find {M} --by content @", f"find {M} --by previous @",
        f"find {M} cat sat @ -o a.csv", "find cat sat --from maps.npz", f"find {M} cat sat -f lines.txt",
        "find -m gpt2 --by logit @", "find -m gpt2 --by logit --json @",
        f"find {M} * cat --part cat=one.txt --unit part @",
    ],
    "generate": [
        "generate -m gpt2 --max-tokens 4 @", "generate -m gpt2 --max-tokens 4 --sample --json @",
        "generate -m gpt2 --max-tokens 4 -o a.npz @", "generate -m gpt2 --max-tokens 4 -o a.html @",
        "generate -m gpt2 --max-tokens 4 --unit part --part cat=one.txt @", "generate -m gpt2 --max-tokens 4 --lens @",
        "generate -m gpt2 --max-tokens 4 --unit word --json @", "generate -m gpt2 --max-tokens 4 --lens --json @",
    ],
    "sources": [
        "sources -m gpt2 --max-tokens 3 --draws 1 @", "sources -m gpt2 --answer the,mat --draws 1 --json @",
        "sources -m gpt2 --answer the,mat --draws 1 -o a.svg @", "sources -m classes --draws 1 @",
        "sources -m gpt2 --answer the,mat --draws 1 --sentences -f tags.txt",
    ],
    "flow": [
        f"flow {M} @", f"flow {M} --json @", f"flow {M} -o a.npz @", f"flow {M} -o a.svg @", "flow --from maps.npz",
        "flow --from maps.npz -o a.csv", f"flow {M} -o a.npz --json @", f"flow {M} -o a.json @",
    ],
    "ablate": [
        f"ablate {M} @", f"ablate {M} --json --way resample @", f"ablate {M} -o a.svg @", f"ablate {M} -f lines.txt",
        f"ablate {M} -o a.html @", "ablate -m classes @ -o a.csv", "ablate -m classes --target LABEL_1 --json @",
    ],
    "cut": [
        f"cut {M} --cut cat sat @", f"cut {M} --into cat @", f"cut {M} --json @", f"cut {M} --out-of cat -o a.svg @",
        f"cut {M} --into cat -o a.html @", f"cut {M} --cut cat sat -o a.svg @", f"cut {M} --cut * cat --json @",
        f"cut {M} -o a.csv @", f"cut {M} --cut cat sat -l 2 --json @",
        f"cut {M} --unit part --part cat=one.txt --cut * cat @", f"cut {M} --unit word --json @",
        "cut -m classes --target LABEL_1 --cut cat sat --json @",
    ],
    "patch": [
        f"patch {M} @ @@@", f"patch {M} --by token --json @ @@@", f"patch {M} -o a.svg @ @@@",
        f"patch {M} --by layer @ @@@", f"patch {M} -o a.csv @ @@@",
        "patch -m classes --target LABEL_1 --json @ @@@",
    ],
    "trust": [
        f"trust {M} --permutations 3 --rankings 120 the,big,cat",
        "trust -m classes --permutations 3 --rankings 120 --json the,big,cat",
        "trust -m classes --target LABEL_1 --permutations 3 --rankings 120 -o a.csv the,big,cat",
        f"trust {M} -o a.svg the,big,cat",
    ],
    "similar": [
        "similar -m sentences @ @@", "similar -m sentences --words --json @ @@",
        "similar -m sentences -o a.csv @ @@", "similar -m sentences -f lines.txt", "similar -m sentences -o a.svg @ @@",
        "similar -m sentences -f lines.txt --apart 0,1", "similar -m sentences -o a.html @ @@",
        "similar -m sentences --maxsim @ @@",
    ],
    "check": [
        "check mine.py:attention", "check mine.py:attention --json", f"check mine.py:attention {M} @",
        f"check --batch batch.json {M} -o a.svg",
    ],
    "stats": [
        f"stats {M} lines.txt", f"stats {M} lines.txt --json", f"stats {M} lines.txt -o a.csv",
        f"stats {M} lines.txt -o a.svg", "stats --from stats.json", "stats --from stats.json --json",
        "stats --from stats.json -o a.csv", "stats --from stats.json -o a.svg", "stats --from maps.npz",
        "stats --from maps.npz --json", "stats -m gpt2 lines.txt --json", "stats -m t5 lines.txt --json",
    ],
    "kinds": [f"kinds {M}", f"kinds {M} lines.txt", f"kinds {M} lines.txt --json", f"kinds {M} -o a.csv",
        f"kinds {M} -o a.svg", f"kinds {M} -o a.html",
    ],
    "probe": [f"probe {M} trees.conllu", f"probe {M} trees.conllu --json", f"probe {M} trees.conllu -o a.svg",
        f"probe {M} trees.conllu -o a.csv", "probe -m t5 trees.conllu --json",
    ],
    "diff": [
        f"diff {M} @ @@", f"diff {M} --masks padding,causal @", f"diff {M} --measures weight,norm @",
        "diff --models tiny,other @", "diff maps.npz others.npz", f"diff {M} @ @@ --json", f"diff {M} @ @@@ -o a.svg",
        "diff maps.npz others.npz --json", f"diff {M} @ @@ -o a.csv", f"diff {M} @ @@ -o a.json",
        f"diff {M} @ @@ -o a.html", "diff maps.npz others.npz -o a.html",
    ],
    "compare": [f"compare {M} @", f"compare {M} --against torch @", f"compare {M} --json @",
        f"compare {M} --weights random @", f"compare {M} -o a.csv @",
    ],
    "models": ["models", "models --json", "models show other"],
    "samples": ["samples", "samples --json", "samples pair.txt", "samples --copy .", "samples --copy . --json"],
}  # fmt: skip
# Ways that are there for one option: without it they fail, or it would have nothing to do.
WAYS_FOR = [
    ("stats", way(f"stats {M} bad.txt"), "skip_bad"),
    ("stats", way(f"stats {M} objects.jsonl"), "field"),
    ("heatmap", way(f"heatmap {M} --pair it -o a.svg @"), "segments"),
    ("view", way(f"view {M} --pair it -o a.html @"), "segments"),
    ("run", way("run -m t5 @"), "which"),
    ("run", way("run -m t5 @"), "target"),
    ("explain", way("explain -m t5 --json @"), "which"),
    ("explain", way("explain -m t5 --json @"), "target"),
    ("mechanisms", way("mechanisms -m t5 --json @"), "which"),
    ("mechanisms", way("mechanisms -m t5 --json @"), "target"),
    ("mask", way("mask -m t5 --which decoder @"), "target"),
]
DRAWN = {".svg", ".png", ".html"}  # takes its time
APART = {"check"}  # starts a process
QUICK = {"run", "explain", "find", "samples", "models"}  # their first way
# What has no effect that shows, and why that is right.
SILENT = {
    "skip_bad": "is for corpora with bad lines, which has a way of its own",
    "workers": "says who computes; not a bit is another (tests/corpus/test_processes.py)",
    "engine": "says who computes; the numbers are the same but for rounding (tests/cli/test_engine.py)",
    "gigabytes": "shows only in what takes more (tests/cli/test_check.py)",
    "open_it": "opens a browser (tests/features/test_view.py)",
}
SILENT_HERE = {
    (f"run {M} -l all @", "dtype"): "rounding does not show in a bar of eight steps",
    (f"run {M} --measure norm @", "dtype"): "rounding does not show in two decimals",
    (f"probe {M} trees.conllu -o a.csv", "dtype"): "rounding changes no guess at so few words",
    ("stats -m t5 lines.txt --json", "stride"): "no text here is longer than what is read at once",
    (f"kinds {M}", "top"): "no head of a random network has a label",
    (f"kinds {M} lines.txt", "top"): "no head of a random network has a label",
    (f"kinds {M}", "dtype"): "rounding does not show in two decimals",
    (f"kinds {M} lines.txt", "dtype"): "rounding does not show in two decimals",
    (f"run {M} --words @", "top_k"): "under a small map there is room for one long word",
}


def test_every_command_has_its_ways():
    assert set(commands()) - LIVE == set(WAYS)


def test_every_option_has_something_to_try():
    options = {
        one.name for name in WAYS for one in commands()[name].params if not is_flag(one) if one.name not in GENERAL
    }
    assert options <= set(VALUES)


def cases() -> list[Any]:
    found = []
    for name, lines in WAYS.items():
        for line in lines:
            base = way(line)
            for option in commands()[name].params:
                taken = set(option.opts) & set(base) or option.param_type_name == "argument"
                if option.name in GENERAL or option.name in SILENT or (line, option.name) in SILENT_HERE or taken:
                    continue
                slow = drawn(base) or name not in QUICK or line != lines[0]
                found.append(pytest.param(base, option, id=f"{line} + {long_name(option)}", marks=slow_if(slow)))
    for name, base, option_name in WAYS_FOR:
        [option] = [one for one in commands()[name].params if one.name == option_name]
        found.append(
            pytest.param(
                base, option, id=f"{' '.join(base)} + {long_name(option)}", marks=slow_if(drawn(base) or name in APART)
            )
        )
    return found


def drawn(base: list[str]) -> bool:
    return bool(DRAWN & {Path(word).suffix for word in base})


def slow_if(slow: bool) -> list[Any]:
    return [pytest.mark.slow] if slow else []


@pytest.fixture(scope="module")
def place(tiny, tmp_path_factory):
    """A folder with a checkpoint, texts, trees and records of every kind that the ways need."""
    from foreign_checkpoints import make_foreign
    from shell import in_process

    folder = tmp_path_factory.mktemp("ways")
    (folder / "tiny").symlink_to(tiny("bert"))
    (folder / "other").symlink_to(tiny("bert", seed=1))
    (folder / "classes").symlink_to(tiny("bert", head="ForSequenceClassification"))
    write_modules(make_checkpoint(folder / "sentences"), pooling("mean_tokens"), NORMALIZE)
    for family in ("gpt2", "t5"):
        (folder / family).mkdir()
        make_foreign(folder / family, family)
    (folder / "one.txt").write_text("the big cat is on it\n", encoding="utf-8")
    (folder / "lines.txt").write_text(LINES, encoding="utf-8")
    (folder / "tags.txt").write_text("<a> the cat sat. it is big. </a> <b> the dog </b> it is", encoding="utf-8")
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    (folder / "batch.json").write_text('{"input_ids": [[5, 6, 7, 8], [9, 7, 6, 5]]}', encoding="utf-8")
    (folder / "bad.txt").write_bytes(b"the cat\nde\xffad\nit sat\n")
    objects = '{"text": "the big cat", "words": "it sat"}\n'
    (folder / "objects.jsonl").write_text(objects, encoding="utf-8")
    trees = (Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu").read_text(encoding="utf-8").split("\n\n")
    (folder / "trees.conllu").write_text("\n\n".join(trees[:4]) + "\n\n", encoding="utf-8")
    (folder / "other.conllu").write_text("\n\n".join(trees[4:7]) + "\n\n", encoding="utf-8")
    for line in (
        f"run {M} -l all -o maps.npz @", f"run {M} -l all -o others.npz @@", f"stats {M} lines.txt -o stats.json",
    ):  # fmt: skip
        assert in_process(list(way(line)), folder).code == 0, line
    model = load_model(str(folder / "tiny"), "cpu")
    masks = [model.attend(TEXT, mask=mask) for mask in ("padding", "causal")]
    save_records(masks, folder / "masks.safetensors")
    model.attend(TEXT, vectors="all").save(folder / "vectors.safetensors")
    load_model(str(tiny("mpnet")), "cpu").attend(TEXT, vectors="all").save(folder / "terms.safetensors")
    return folder


@pytest.fixture(scope="module")
def known():
    """The outputs of the commands without the option, computed once."""
    return {}


def outcome(attncli, folder: Path, arguments: tuple[str, ...]) -> Any:
    """The exit code, what was printed and said, and the files that were made, by name; the folder is as before."""
    before = set(folder.iterdir())
    result = attncli(*arguments)
    made = {path.name: content_of(path) for path in sorted(set(folder.iterdir()) - before)}
    for path in set(folder.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return result, made


def content_of(path: Path) -> Any:
    if path.is_dir():
        return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}
    return path.read_bytes()


@pytest.mark.parametrize("base, option", cases())
def test_an_option_changes_something_or_is_refused(base, option, attncli, place, known, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setattr(ways, "WAYS", {"tokens": ways.WAYS["tokens"]})
    if base not in known:
        known[base] = outcome(attncli, place, base)
    value = () if is_flag(option) else VALUES[option.name]
    if option.name == "mask" and "gpt2" in base:  # causal is what it was trained with
        value = ("none",)
    if option.name == "output_path":
        value = ("other" + next((Path(one).suffix for one in base if one.startswith("a.")), ".svg"),)
    opts = [name for name in option.opts if name.startswith("--")]
    result, made = outcome(attncli, place, (*base, opts[0], *value))
    plain, plain_made = known[base]
    if result.code == 2:
        assert result.out == "" and result.err.splitlines()[-1].startswith("attncli: error: "), result
        assert "bug in attncli" not in result.err
    else:
        said, said_plainly = (one.err.replace("other", "a") for one in (result, plain))
        assert (result.code, result.out, said, made) != (plain.code, plain.out, said_plainly, plain_made)


def offered():
    """Each way with each kind of file that it can be saved as; one kind of picture a way, as one writer draws all."""
    every = [line for lines in WAYS.values() for line in lines if "-o" not in line and "--json" not in line]
    for number, line in enumerate(every):
        saves = find_measure(line.split()[0]).saves if line.split()[0] not in ("samples", "models") else ()
        pictures = [suffix for suffix in saves if suffix in PICTURES]
        for suffix in saves:
            if suffix not in pictures or suffix == pictures[number % len(pictures)]:
                yield pytest.param(line, suffix, id=f"{line} -o a{suffix}")


@pytest.mark.slow
@pytest.mark.parametrize("line, suffix", offered())
def test_what_the_help_offers_is_saved(line, suffix, attncli, place, monkeypatch):
    """Every command saves what it does as every kind of file that its help names; some options have no effect there."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(ways, "WAYS", {"tokens": ways.WAYS["tokens"]})
    result, made = outcome(attncli, place, (*way(line), "-o", f"a{suffix}"))
    if "has no effect" not in result.err and attncli(*way(line)).code == 0:
        assert result.code == 0 and made[f"a{suffix}"], result.err


DRAWN_WAYS = [line for lines in WAYS.values() for line in lines if "-o a.svg" in line]


def test_every_command_that_saves_a_picture_has_a_way_that_does():
    with_width = {name for name in WAYS if "width" in {option.name for option in commands()[name].params}}
    assert with_width == {line.split()[0] for line in DRAWN_WAYS}


@pytest.mark.slow
@pytest.mark.parametrize("width", [8, 17])
@pytest.mark.parametrize("line", DRAWN_WAYS)
def test_a_printed_picture_has_its_width_and_no_letter_below_six_points(line, width, attncli, place, monkeypatch):
    monkeypatch.chdir(place)
    figures = []
    monkeypatch.setattr(drawing, "save_figure", lambda figure, path, dpi, title: figures.append((figure, dpi)))
    assert attncli(*way(line), "--width", f"{width}cm").code == 0
    [(figure, dpi)] = figures
    assert dpi == 300
    assert figure.get_size_inches()[0] == pytest.approx(width / 2.54)
    check_nothing_overlaps(figure)
    assert min(text.get_size() for text in figure.findobj(Text) if text.get_text().strip()) >= 6 - 1e-6


def test_the_options_of_pictures_are_refused_where_there_is_no_picture(refused):
    for option in (("--width", "8cm"), ("--font", "DejaVu Sans"), ("--title", "A"), ("--dpi", "40")):
        assert f"{option[0]} has no effect without a picture: add -o FILE.pdf" in refused("mask", *option, TEXT)
