"""Folders of sums: damaged, lying, of another request, or with something else in the place of their files.

What is damaged or lies is counted again, and the figures are those of one go; a plan that can't be is refused.
"""

import hashlib
import json
from random import Random

import numpy as np
from hostile.case import Case
from hostile.documents import DEEP, put
from hostile.kinds.damage import bytewise, header_surgery, json_surgery, metadata_surgery, parts_of, put_together
from hostile.place import KEPT, KEPT_BY, Place, shards_of, words
from hostile.running import FOLDER, LINK, PIPE

RED = '"\\u001b[31mred"'
LINE = KEPT_BY.replace(KEPT, "lie") + " --json"
SAME = LINE.replace("--state lie ", "")
PLAN = "lie/plan.json"
# What a plan can't say, by the place where it stands.
PLANS = {
    "version": ("0", "1", "1.5", '"1"', "null", "1e400"),
    "asked.--mask": ('"causal"', "5", RED, "null", "-", '"' + "a" * 5000 + '"'),
    "asked.model": ('"another"', "null", "[]", "-"),
    "asked.--stride": ("5", "1e400", "..."),
    "asked.\u001b[31m" + "more" * 100: ("1", RED),
    "asked": ("[]", "5", "...", '"x"', "{}", "-"),
    "fixed": ("[]", "5", "...", "{}", "-"),
    "fixed.threads": ("0", "-1", "1e400", "1000000", "9007199254740991", "null", "-", "true"),
    "fixed.shard_bytes": ("0", "-5", "1.5", '"7"', "-", "1" * 400),
    "fixed.batch_tokens": ("0", "-1", "1e400", "-", '"x"'),
    "fixed.block_weights": ("0", "-1", "NaN", "-"),
    "fixed.laid_out": ("7", "-1", '"x"', "true"),
    "fixed.more": ("1",),
    "inputs": ("[]", "5", "{}", "...", "-"),
    "inputs.0": ("5", "null", "[]", "-"),
    "inputs.0.digest": ('"0"', "5", "null", "-", '"' + "a" * 5000 + '"'),
    "inputs.0.at": ("5", "null", "-"),
    "inputs.0.stamp": ("5", "[]", "-"),
    "inputs.0.bytes": ("-1", "1e400", '"5"', "-"),
    "": ("[]", "...", "5", "null", '"x"', "{}"),
}
SUMS = {
    "queries": ("0", '"7"', "-5", "1e400", "NaN", "1.5", "...", "-"),
    "texts": ("-3", "0", "1e400", '"7"', "1000000", "true"),
    "more": ("1",),
    "": ("[]", "5", "...", "null"),
}
ODD = (PIPE, FOLDER, f"{LINK}/dev/zero", f"{LINK}/dev/full", f"{LINK}missing", f"{LINK}.", f"{LINK}/proc/self/mem")
OTHERS = ("--mask causal", "--words", "--distances", "--limit 1", "--stride 5", "--sample 0.5", "--measure norm",
    "--dtype float64", "-m other", "--paragraphs")  # fmt: skip


def make(random: Random, place: Place) -> Case:
    return random.choice((plan, plan, damaged_plan, sums, sums, damaged_sums, damaged_sums, odd, another))(
        random, place
    )


def case(files: dict[str, bytes], note: str, expects: str, more: dict[str, str] | None = None) -> Case:
    """Make a case in a folder of sums with other files in it. It must give what one uninterrupted run gives."""
    return Case(
        "states", tuple(words(LINE)), files, {"lie": KEPT, **(more or {})}, expects=expects, same_as=tuple(words(SAME)),
        note=note,
    )  # fmt: skip


def plan(random: Random, place: Place) -> Case:
    """Draw a plan with a false value."""
    name = random.choice(list(PLANS))
    value = random.choice(PLANS[name])
    made = put(place.original(f"{KEPT}/plan.json").decode(), {name: value})
    return case({PLAN: made.encode()}, f"{name[:40]}: {value[:40]}", "refused")


def damaged_plan(random: Random, place: Place) -> Case:
    content = place.original(f"{KEPT}/plan.json")
    way = random.choice((json_surgery, json_surgery, bytewise))
    typed = tuple(words(LINE))
    made = random.choice((way(content, random), way(content, random), DEEP.encode(), b"", b"\xff\xfe"))
    return Case("states", typed, {PLAN: made}, {"lie": KEPT}, note="a damaged plan")


def sealed(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def sums(random: Random, place: Place) -> Case:
    """A file as it was written, digest and all, that says what can't be."""
    name = random.choice(shards_of(place.folder / KEPT))
    inside = place.original(f"{KEPT}/{name}").partition(b"\n")[2]
    header, data = parts_of(inside)
    if random.random() < 0.5:
        field = random.choice(list(SUMS))
        value = random.choice(SUMS[field])
        header["__metadata__"]["about"] = put(header["__metadata__"]["about"], {field: value})
        note = f"{field}: {value}"
    else:
        array, value = random.choice(("totals", "squares", "means", "limit")), random.choice((np.nan, np.inf, -1e6))
        at, end = header[array]["data_offsets"]
        at += 8 * random.randrange((end - at) // 8)
        data = data[:at] + np.float64(value).tobytes() + data[at + 8 :]
        note = f"{array} have {value}"
    return case({f"lie/{name}": sealed(put_together(json.dumps(header), data))}, note, "done")


def damaged_sums(random: Random, place: Place) -> Case:
    """A file that is not as it was written; or one that is, and is no file of sums at all."""
    name = random.choice(shards_of(place.folder / KEPT))
    content = place.original(f"{KEPT}/{name}")
    if random.random() < 0.2:
        other = random.choice(shards_of(place.folder / KEPT))
        exchanged = {f"lie/{name}": place.original(f"{KEPT}/{other}"), f"lie/{other}": content}
        return case(exchanged, "two files exchanged", "done")
    if random.random() < 0.5:
        made = random.choice((bytewise(content, random), b"", b"\n", content[:65], b"x" * 10**7))
        return case({f"lie/{name}": made}, "damaged sums", "done")
    way = random.choice((header_surgery, metadata_surgery, bytewise))
    made = sealed(way(content.partition(b"\n")[2], random))
    return Case("states", tuple(words(LINE)), {f"lie/{name}": made}, {"lie": KEPT}, note="other sums")


def odd(random: Random, place: Place) -> Case:
    """Pipes, folders, devices and links under the names of its files, and of those that it has for a while."""
    name = random.choice((*shards_of(place.folder / KEPT)[:2], "plan.json", "lock", "under-way", "0" * 40, "more"))
    what = random.choice((*ODD, f"{LINK}{name}"))
    return case({}, f"{name} is {what}", "any", {f"lie/{name}": what})


def another(random: Random, place: Place) -> Case:
    """Another request, or another corpus."""
    if random.random() < 0.2:
        files = {"lines.txt": random.choice((b"the big cat\n", b"the cat\nit is on it\nand it sat\n", b"", b"\xff"))}
        return Case("states", tuple(words(LINE)), files, {"lie": KEPT}, expects="refused", note="another corpus")
    typed = tuple(words(f"{LINE} {random.choice(OTHERS)}"))
    return Case("states", typed, {}, {"lie": KEPT}, expects="refused", note="another request")
