"""Files of every kind that the program reads, damaged, and the commands that read them."""

from random import Random

from hostile.case import Case
from hostile.kinds.damage import damaged
from hostile.place import Place, words
from hostile.running import FOLDER, LINK, PIPE

# Each file by its name in the place, with what reads it; {} is the damaged one.
RECORD = (
    "run --from {} --json", "run --from {} -l 0 -H 1", "stats --from {} --json", "flow --from {} --json",
    "find cat sat --from {} --json", "run --from {} -o a.csv", "run --from {} -o a.npz",
)  # fmt: skip
READ_BY = {
    "maps.npz": (
        *RECORD,
        "heatmap --from {} -o a.svg -l 0 -H 0",
        "diff {} others.npz --json",
        "view --from {} -o a.html",
    ),
    "maps.safetensors": (*RECORD, "diff others.npz {} --json"),
    "texts.safetensors": ("run --from {} --json", "stats --from {} --json", "view --from {} -o a.html"),
    "maps.json": RECORD,
    "foreign.npz": RECORD,
    "norms.npz": RECORD,
    "vectors.safetensors": ("explain --from {} --json", "explain --from {}", "run --from {} --json"),
    "vectors.npz": ("explain --from {} --json", "view --from {} -o a.html"),
    "stats.json": ("stats --from {} --json", "stats --from {}", "stats --from {} -o a.csv", "stats --from {} -o a.npz"),
    "stats.npz": ("stats --from {} --json", "stats --from {}", "stats --from {} -o a.json"),
    "lines.txt": (
        "stats -m tiny {} --json",
        "run -m tiny -f {} --json",
        "stats -m tiny --paragraphs --skip-bad {} --json",
    ),
    "texts.jsonl": ("stats -m tiny --jsonl text {} --json", "stats -m tiny --jsonl text --skip-bad {} --json"),
    "trees.conllu": ("probe -m tiny {} --json", "probe -m tiny other.conllu --test {} --json", "probe -m tiny {}"),
}
MODEL = ("run -m broken --json @", "run -m broken @", "models show broken --json", "stats -m broken one.txt --json")
# Of a checkpoint: its folder in the place, the file, how often it is taken.
CHECKPOINTS = (
    ("tiny", "config.json", 4), ("tiny", "tokenizer_config.json", 1), ("tiny", "vocab.txt", 2),
    ("tiny", "model.safetensors", 3), ("json", "tokenizer.json", 4), ("sharded", "model.safetensors.index.json", 2),
    ("bin", "pytorch_model.bin", 2),
)  # fmt: skip
IRREGULAR = (PIPE, FOLDER, f"{LINK}/dev/zero", f"{LINK}/dev/full", f"{LINK}/dev/null", f"{LINK}.")


def make(random: Random, place: Place) -> Case:
    if random.random() < 0.1:
        return irregular(random)
    if random.random() < 0.7:
        name = random.choice(list(READ_BY))
        target = f"bad{name[name.index('.') :]}"
        line = random.choice(READ_BY[name]).format(target)
        content = damaged(name, place.original(name), random)
        return Case("files", tuple(words(line)), {target: content}, note=f"of {name}")
    folder, name, _ = random.choices(CHECKPOINTS, [weight for *_, weight in CHECKPOINTS])[0]
    content = damaged(name, place.original(f"{folder}/{name}"), random)
    line = random.choice(MODEL)
    return Case(
        "files", tuple(words(line)), {f"broken/{name}": content}, {"broken": folder}, note=f"of {folder}/{name}"
    )


def irregular(random: Random) -> Case:
    """A pipe, a device or a folder in the place of a file. Pipes with texts, which may be meant, are not among them."""
    what = random.choice(IRREGULAR)
    if random.random() < 0.5:
        folder, name, _ = random.choice(CHECKPOINTS)
        typed, copies = random.choice(MODEL), {"broken": folder, f"broken/{name}": what}
    else:
        name = random.choice([name for name in READ_BY if name.endswith((".npz", ".safetensors", ".json"))])
        target = f"bad{name[name.index('.') :]}"
        typed, copies = random.choice(READ_BY[name]).format(target), {target: what}
    return Case("files", tuple(words(typed)), {}, copies, expects="refused", note=f"{name} is {what}")
