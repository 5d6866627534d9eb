"""Corpora in every form, damaged or not, under odd names; and how they are asked for, in ways nobody would."""

import gzip
from random import Random

import zstandard
from hostile.case import Case
from hostile.kinds.damage import bytewise, json_surgery, linewise
from hostile.place import DATASET, Place, words

FILES = ("texts.parquet", "texts.arrow", "texts.jsonl.gz", "lines.txt.gz", "lines.txt.zst", "texts.jsonl", "lines.txt")
NUMBERS = ("0", "1e-9", "1e300", "nan", "inf", "-inf", "-1", "1", "0.5", "1e400", "", "x", "0x1", "9" * 400, "0.00005")
WHERE = ("here", "", "abacus", "Ray", "ray:/", "ray://\x1b[31m", "a" * 5000, "here ", "\u202e", "dask", "-")
# By the name of an option, what it is given.
VALUES = {
    "--sample": NUMBERS, "--shard-mb": NUMBERS, "--worker-gpus": (*NUMBERS, "1.5"), "--seed": NUMBERS,
    "--workers": (*NUMBERS, "9007199254740992", "9007199254740993"),
    "--field": ("text", "id", "more", "", "\x1b[31m", "a" * 5000, "\u202e", "a.b", "0"),
    "--jsonl": ("text", "id"), "--limit": ("1", "2", "0", "9007199254740992"), "--on": WHERE, "--stride": ("5",),
    "--state": ("st", "", "lines.txt", "nowhere://x", "://", "file://", "memory://x::y", "a" * 300, "lines.txt/a",
        "/dev/null", "/proc/a", "\x1b[31m", "s t/\u202e", "memory://st", "MEMORY://st/x"),
}  # fmt: skip
FLAGS = ("--skip-bad", "--paragraphs", "--distances", "--words")
NAMES = ("*.parquet", "**", "[", "[a", "*", "?" * 300, "*[!x].txt", "missing*", "**/**/**/*.txt", "[\x1b]*", "{a,b}",
    ".", "/dev/null", "/dev/zero", "texts.parquet/x", "nowhere://x", "file://lines.txt", "s3:/x", "memory://a*",
    "a::b", "://", "-", "lines.txt::x", "", "\x1b[31m*", "zip://x::lines.txt", "file:///dev/zero", "/proc/self/mem",
    "a" * 300, "*/" * 2000, "~", "$HOME", "lines.txt/", "./lines.txt", "http://\x1b", "hf://", "gs://", "github://a",
)  # fmt: skip


def make(random: Random, place: Place) -> Case:
    files, copies, stdin = {}, {}, None
    way = random.randrange(4)
    if way == 0:
        name = random.choice(FILES)
        target = f"bad{name[name.index('.') :]}"
        files[target] = damaged(name, place.original(name), random)
    elif way == 1:
        target, copies = "bad", {"bad": DATASET}
        name = random.choice(place.inside(DATASET))
        spoilt = json_surgery if name.endswith(".json") and random.random() < 0.7 else bytewise
        files[f"bad/{name}"] = spoilt(place.original(f"{DATASET}/{name}"), random)
    elif way == 2:
        target = random.choice(NAMES)
        stdin = b"the cat\n" if target == "-" else None
    else:
        target = random.choice(FILES)
    more = [option for name in random.sample(list(VALUES), random.choice((0, 1, 1, 2, 3)))
        for option in (f"{name}={random.choice(VALUES[name])}",)]  # fmt: skip
    more += [flag for flag in FLAGS if random.random() < 0.15]
    typed = (*words("stats -m tiny --json"), *more, "--", target)
    return Case("corpora", typed, files, copies, environment(typed), stdin, note=f"{target[:40]} {more}")


def environment(typed: tuple[str, ...]) -> dict[str, str]:
    """Something, where it starts processes: these are started from a program, and not from what forks here."""
    return {"PYTHONHASHSEED": "0"} if any(word.startswith("--workers") for word in typed) else {}


def damaged(name: str, content: bytes, random: Random) -> bytes:
    """Damage the stored bytes, or the content before it is compressed, or pass one format under the name of another."""
    way = random.randrange(4)
    if way == 0 and name.endswith(".gz"):
        return gzip.compress(linewise(gzip.decompress(content), random))
    if way == 0 and name.endswith(".zst"):
        return zstandard.compress(linewise(zstandard.decompress(content), random))
    if way == 1:
        bomb = bytes(300 << 20)
        return random.choice((b"", b"\n", gzip.compress(content), zstandard.compress(bomb), b"PAR1PAR1", content * 2))
    return bytewise(content, random)
