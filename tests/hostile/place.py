"""The folder that hostile calls are made in: small models, texts, and a file of every kind that the program reads."""

import gzip
import json
import multiprocessing
from functools import cache
from pathlib import Path

import numpy as np

TREES = Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu"
TEXT = "the cat sat on the unbelievable cat"
OTHER = "it sat on the big cat and the cat"  # as many tokens
LINES = "the cat sat on it\n\nit is too big and it sat\n" + "the cat sat on the big cat " * 8 + "\nand the end\n"

KEPT = "kept"  # a folder of sums
KEPT_BY = f"stats -m tiny lines.txt --state {KEPT}"
TABLE = ["the cat sat", "it is too big", "the end", "a big cat", "it"]
# Made by the program itself; @ and @@ stand for the two texts.
MADE = (
    "run -m tiny -l all -o maps.npz @",
    "run -m tiny -l all -o others.npz @@",
    "run -m tiny -l all -o maps.safetensors @",
    "run -m tiny -l all -f lines.txt -o texts.safetensors",
    "run -m tiny -l all --vectors all -o vectors.safetensors @",
    "run -m tiny -l all --vectors all -o vectors.npz @",
    "run -m tiny -l 0,1 -o maps.json @",
    "run -m tiny -l all --measure norm -o norms.npz @",
    "stats -m tiny lines.txt -o stats.json",
    KEPT_BY,
)
# Texts in other forms, by what `corpora` calls these.
CORPORA = {
    "texts.parquet": "a.parquet",
    "texts.arrow": "a.arrow",
    "lines.txt.gz": "a.txt.gz",
    "lines.txt.zst": "a.txt.zst",
}
FORMS = {"sharded": "sharded", "bin": "bin"}  # of the weights, beside one whole .safetensors


def words(line: str) -> list[str]:
    return [{"@": TEXT, "@@": OTHER}.get(word, word) for word in line.split()]


def make_models(folder: Path, foreign: bool = True) -> None:
    """foreign: with those that transformers runs."""
    from checkpoints import make_checkpoint
    from foreign_checkpoints import make_foreign
    from gguf_files import write_file

    for name, more in {"tiny": {}, "other": {"seed": 1}}.items():
        make_checkpoint(folder / name, **more)
    for name, form in FORMS.items():
        make_checkpoint(folder / name, form=form)
    make_checkpoint(folder / "json", "distilbert")  # has a tokenizer.json
    make_checkpoint(folder / "chat", "llama", "ForCausalLM")
    write_file(folder / "tiny.gguf", "llama")
    if foreign:
        for name in ("gpt2", "t5"):
            (folder / name).mkdir()
            make_foreign(folder / name, name)


def make_files(folder: Path) -> None:
    """Texts, and what the program itself makes of them, beside the models."""
    from shell import in_process

    from attncli import load_model, save_records

    (folder / "one.txt").write_text("the big cat is on it\n", encoding="utf-8")
    (folder / "lines.txt").write_text(LINES, encoding="utf-8")
    (folder / "bad.txt").write_bytes(b"the cat\nde\xffad\nit sat\n")
    objects = [{"text": TEXT, "more": [1, None]}, {"text": OTHER}, {"text": "the"}]
    (folder / "texts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")
    trees = TREES.read_text(encoding="utf-8").split("\n\n")
    (folder / "trees.conllu").write_text("\n\n".join(trees[:4]) + "\n\n", encoding="utf-8")
    (folder / "other.conllu").write_text("\n\n".join(trees[4:7]) + "\n\n", encoding="utf-8")
    for line in MADE:
        result = in_process(words(line), folder)
        assert result.code == 0, (line, result)
    (folder / "texts.jsonl.gz").write_bytes(gzip.compress((folder / "texts.jsonl").read_bytes()))
    making = multiprocessing.get_context("fork").Process(target=make_tables, args=(folder,))
    making.start()
    making.join()
    assert making.exitcode == 0
    model = load_model(str(folder / "tiny"), "cpu")
    save_records([model.attend(TEXT, mask=mask) for mask in ("padding", "causal")], folder / "masks.safetensors")
    maps = np.load(folder / "maps.npz")
    np.savez(folder / "foreign.npz", attentions=maps["weights"], tokens=maps["tokens"])  # as another program would


def make_tables(folder: Path) -> None:
    """Run in a process of its own, since pyarrow leaves a thread."""
    from corpora import FORMS

    for name, form in CORPORA.items():
        (folder / name).write_bytes(FORMS[form](TABLE))


class Place:
    """A place that was made; its files are read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.original = cache(self.read)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())
