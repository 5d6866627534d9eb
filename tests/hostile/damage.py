"""Files of every kind that the program reads, damaged: one generator for each format.

Whatever it does with them, a call must end as `hostile.oracle` says.
"""

import gzip
import json
import struct
from collections.abc import Callable
from random import Random

import numpy as np
from hostile.case import Case
from hostile.documents import places, put
from hostile.members import archive_of, arrays, raw_members, zipped
from hostile.place import KEPT, KEPT_BY, Place, words

RECORD = ("run --from {} --json", "run --from {} -l 0 -H 1", "stats --from {} --json", "flow --from {} --json",
    "find cat sat --from {} --json", "run --from {} -o a.npz", "view --from {} -o a.html")  # fmt: skip
STATISTICS = ("stats --from {} --json", "stats --from {}", "stats --from {} -o a.csv")
VECTORS = ("explain --from {} --json", "explain --from {}", "run --from {} --json")
TEXTS = ("stats -m tiny --json {}", "stats -m tiny --skip-bad --json {}")
OBJECTS = tuple(line.replace("tiny", "tiny --field text") for line in TEXTS)
# Each file by its name in the place, with what reads it; {} is the damaged one.
READ_BY = {
    **dict.fromkeys(("maps.npz", "maps.safetensors", "maps.json", "foreign.npz", "norms.npz"), RECORD),
    **dict.fromkeys(("vectors.safetensors", "vectors.npz"), VECTORS),
    "stats.json": STATISTICS,
    **dict.fromkeys(("texts.parquet", "texts.arrow", "lines.txt.gz", "lines.txt.zst"), TEXTS),
    **dict.fromkeys(("texts.jsonl", "texts.jsonl.gz"), OBJECTS),
    "texts.safetensors": ("run --from {} --json", "stats --from {} --json", "view --from {} -o a.html"),
    "lines.txt": (*TEXTS, "run -m tiny -f {} --json"),
    "trees.conllu": ("probe -m tiny {} --json", "probe -m tiny other.conllu --test {} --json"),
    "tiny.gguf": ("run -m {} --json @", "models show {} --json"),
}
MODEL = ("run -m broken --json @", "run -m broken --engine transformers --json @", "models show broken --json",
    "stats -m broken one.txt --json")  # fmt: skip
CHECKPOINTS = (
    "tiny/config.json", "tiny/config.json", "gpt2/config.json", "t5/config.json", "tiny/tokenizer_config.json",
    "chat/tokenizer_config.json", "tiny/vocab.txt", "tiny/model.safetensors", "json/tokenizer.json",
    "sharded/model.safetensors.index.json", "bin/pytorch_model.bin",
)  # fmt: skip
VALUES = (
    "null", "true", "0", "-1", "1", "5", "99", "1e400", "NaN", "1.5", "1e-320", str(2**63), "1" * 400, '""', '"7"',
    '"x"', '"\\u001b[31mred"', '"\\ud800"', '"' + "a" * 5000 + '"', '"\\u0000"', '"../../etc/passwd"', "[]", "{}",
    "[[]]", "[null]", '{"a": 1}', '{"content": "<s>"}', "[1, 2, 3]", "...", "[NaN]", "-",
)  # fmt: skip


def make(seed: int, number: int, place: Place) -> Case:
    """The case of a number: the same whenever it is asked for."""
    random = Random(f"{seed} {number}")
    if random.random() < 0.3:
        name = random.choice([one for one in CHECKPOINTS if one.partition("/")[0] in place.names()])
        folder, _, file = name.partition("/")
        files = {f"broken/{file}": damaged(file, place.original(name), random)}
        return Case(tuple(words(random.choice(MODEL))), files, {"broken": folder}, note=f"of {name}")
    if random.random() < 0.1:  # sums of a corpus that an earlier run kept, damaged or under the name of others
        files = sorted(path.name for path in (place.folder / KEPT).iterdir())
        file, other = random.choice(files), random.choice(files)
        content = damaged(file, place.original(f"{KEPT}/{file}"), random)
        content = place.original(f"{KEPT}/{other}") if random.random() < 0.3 else content
        line = f"{KEPT_BY.replace(KEPT, 'broken')} --json"
        return Case(tuple(words(line)), {f"broken/{file}": content}, {"broken": KEPT}, note=f"of {KEPT}/{file}")
    name = random.choice(list(READ_BY))
    target = f"bad{name[name.index('.') :]}"
    line = random.choice(READ_BY[name]).format(target)
    return Case(tuple(words(line)), {target: damaged(name, place.original(name), random)}, note=f"of {name}")


def damaged(name: str, content: bytes, random: Random) -> bytes:
    """The file with something wrong in it, of what can be wrong in files of its kind."""
    ways: dict[str, Callable[[bytes, Random], bytes]] = {
        "npz": of_npz,
        "json": of_json,
        "safetensors": of_safetensors,
        "gguf": of_gguf,
        "gz": lambda inner, random: gzip.compress(of_lines(gzip.decompress(inner), random)),
        "zst": lambda inner, random: zstd(of_lines(unzstd(inner), random)),
        "txt": of_lines,
        "jsonl": of_lines,
        "conllu": of_lines,
    }
    way = ways.get(name.rpartition(".")[2], of_bytes)
    return (of_bytes if random.random() < 0.25 else way)(content, random)


def unzstd(content: bytes) -> bytes:
    import pyarrow  # after the settings that keep it from starting a thread

    return pyarrow.input_stream(pyarrow.py_buffer(content), "zstd").read()


def zstd(content: bytes) -> bytes:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def of_bytes(content: bytes, random: Random) -> bytes:
    """Flipped, cut, inserted, doubled or dropped; once or a few times."""
    made = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8))):
        at, size = random.randrange(len(made) + 1), random.choice((1, 2, 8, 300))
        match random.randrange(5):
            case 0 if made:
                made[min(at, len(made) - 1)] ^= 1 << random.randrange(8)
            case 1:
                del made[at:]
            case 2:
                made[at:at] = random.randbytes(size)
            case 3:
                del made[at : at + size]
            case _:
                made[at:at] = made[at : at + size]
    return bytes(made)


def of_lines(content: bytes, random: Random) -> bytes:
    """Lines in another place, away, or with something odd in a column."""
    lines = content.split(b"\n")
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    columns = lines[at].split(b"\t")
    odd = (b"", b"-1", b"99999999999", b"1e400", b"\xff\xfe", b"\x00", b"\x1b[31m", b"1-3", "\u202e".encode(), b"\r",
        b"x" * 3000, b'{"text": 5}', b'{"text": ' + b"[" * 100_000)  # fmt: skip
    columns[random.randrange(len(columns))] = random.choice(odd)
    lines[at] = random.choice((lines[other], b"\t".join(columns), b"\t".join(columns)))
    return b"\n".join(lines[: random.choice((len(lines), len(lines), other))])


def of_json(content: bytes, random: Random) -> bytes:
    """One value, list or object that is another one, or away."""
    text = content.decode("utf-8")
    every = [place for place in places(json.loads(text)) if not any("." in str(step) for step in place)]
    place = random.choice([one for one in every if len(one) <= 2] if random.random() < 0.5 else every)
    value = random.choice(VALUES if place else VALUES[:-1])
    return put(text, {".".join(map(str, place)): value}).encode("utf-8", "surrogatepass")


def of_npz(content: bytes, random: Random) -> bytes:
    """An array of another dtype, shape or value; a description with other JSON; a member that is damaged or away."""
    named, members = arrays(content), raw_members(content)
    name = random.choice(list(named))
    array = named[name]
    way = random.randrange(5)
    if way == 0:
        members[f"{name}.npy"] = random.choice((of_bytes(members[f"{name}.npy"], random), npy_header(random)))
        return zipped(list(members.items()))
    if array.ndim == 0 and array.dtype.kind == "U" and str(array).startswith(("{", "[")):
        named[name] = np.array(of_json(str(array).encode(), random).decode("utf-8", "replace"))
    elif way == 1:
        del named[name]
    elif way == 2:
        named[name] = random.choice((array[None], array.reshape(-1)[:0], np.array("\x1b[31m"), array[..., None]))
    elif array.dtype.kind in "US":
        named[name] = np.full_like(array, "\x1b[31m")
    else:
        with np.errstate(all="ignore"):
            named[name] = array.astype(random.choice(("<f8", "<f2", "<i8", "|b1", array.dtype.str, array.dtype.str)))
            if array.size:
                number = random.choice((np.nan, np.inf, -1, 5, 1e38, 0))
                named[name].flat[random.randrange(array.size)] = np.array(number).astype(named[name].dtype)
    return archive_of(named)


def npy_header(random: Random) -> bytes:
    """The header of an array that is not there: a huge one, one of objects, or one of a strange shape."""
    shape = random.choice(((10**9,), (2**62,), (-1,), (10**5, 10**5, 0), (1,) * 40))
    descr = random.choice(("<f4", "|O", "<i8", "<U1", "|V8", "x"))
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def of_safetensors(content: bytes, random: Random) -> bytes:
    """A header with another dtype, shape, place or description; another size of it; or one number among the data."""
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    about = header.get("__metadata__", {})
    described = [name for name, text in about.items() if text.startswith(("{", "["))]
    way = random.randrange(4)
    if way == 0 and described:
        name = random.choice(described)
        about[name] = of_json(about[name].encode(), random).decode("utf-8", "replace")
    elif way == 1:
        number = np.float32(random.choice((np.nan, np.inf, -1.0, 5.0, 1e38))).tobytes()
        at = 4 * random.randrange(len(data) // 4)
        data = data[:at] + number + data[at + 4 :]
    raw = json.dumps(header).encode()
    if way >= 2:
        raw = of_json(raw, random)
    size = random.choice((len(raw), len(raw), len(raw), 0, 2**63))
    return size.to_bytes(8, "little") + raw + data


def of_gguf(content: bytes, random: Random) -> bytes:
    """Another number in the header."""
    made = bytearray(content)
    names = ("block_count", "embedding_length", "attention.head_count", "attention.head_count_kv", "context_length",
        "rope.dimension_count", "vocab_size")  # fmt: skip
    key = f"llama.{random.choice(names)}".encode()
    at = made.find(struct.pack("<Q", len(key)) + key)
    if at >= 0:
        number = random.choice((0, 1, 3, 255, 10**6, 2**27, 2**31 - 1, 2**32 - 1))
        struct.pack_into("<I", made, at + 8 + len(key) + 4, number)
    return bytes(made)
