"""Files that are damaged: bytes, lines, members of archives, leaves of JSON, headers of tensors."""

import json
import re
import struct
import zipfile
from collections.abc import Callable
from random import Random

import numpy as np
from hostile.documents import places, put, value_at
from hostile.members import archive_of, arrays, member, raw_members, with_member, zipped

ODD_JSON = (
    "null", "true", "0", "-1", "1", "5", "99", "1e400", "-1e400", "NaN", "Infinity", "1.5", "-0.0", "1e-320",
    str(2**31), str(2**63), str(2**64), "1" * 400, '""', '"7"', '"x"', '"\\u001b[31mred"', '"\\u202eright"',
    '"\\ud800"', '"' + "a" * 5000 + '"', '"\\n"', '"\\u0000"', '"[CLS]"', '"../../etc/passwd"', '"=1"', "[]", "{}",
    "[[]]", "[null]", '{"a": 1}', "[1, 2, 3]", "...", '"layers"', "[NaN]", '"中"', "-3",
)  # fmt: skip


def damaged(name: str, content: bytes, random: Random) -> bytes:
    """The file with something wrong in it, of what can be wrong in files of its kind."""
    ways: list[Callable[[bytes, Random], bytes]] = [bytewise]
    if name.endswith(".npz") or content[:2] == b"PK":
        ways += [zip_surgery, zip_surgery] + ([npy_surgery, npy_surgery, inner_json] if name.endswith(".npz") else [])
    elif name.endswith(".json"):
        ways += [json_surgery] * 4
    elif name.endswith(".safetensors"):
        ways += [header_surgery] * 3 + [metadata_surgery] * 2
    else:
        ways += [linewise] * 2
    return random.choice(ways)(content, random)


# --- bytes and lines ------------------------------------------------------------------------------------


def bytewise(content: bytes, random: Random) -> bytes:
    """Flipped, cut, inserted, doubled or dropped; once or a few times."""
    made = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        at, size = random.randrange(len(made) + 1), random.choice((1, 1, 2, 8, 300))
        way = random.randrange(6)
        if way == 0 and made:
            made[min(at, len(made) - 1)] ^= 1 << random.randrange(8)
        elif way == 1:
            del made[at:]
        elif way == 2:
            made[at:at] = random.randbytes(size)
        elif way == 3:
            del made[at : at + size]
        elif way == 4:
            made[at:at] = made[at : at + size]
        else:
            made[at : at + size] = random.choice((b"\x00", b"\xff")) * size
    return bytes(made)


def linewise(content: bytes, random: Random) -> bytes:
    """Lines in another order, twice, away, without a column, or with something odd in a column."""
    lines = content.split(b"\n")
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    way = random.randrange(6)
    if way == 0:
        lines[at], lines[other] = lines[other], lines[at]
    elif way == 1:
        lines.insert(at, lines[other])
    elif way == 2:
        del lines[at]
    elif way == 3:
        columns = lines[at].split(b"\t")
        columns[random.randrange(len(columns))] = odd_text(random)
        lines[at] = b"\t".join(columns)
    elif way == 4:
        lines[at] = b"\t".join(lines[at].split(b"\t")[1:])
    else:
        lines[at] = odd_text(random)
    return b"\n".join(lines)


def odd_text(random: Random) -> bytes:
    return random.choice(
        (b"", b"-1", b"0", b"99999999999", b"1e400", b"\xff\xfe", b"\x00", b"\x1b[31m", b"1-3", b"1.1", b"_", b"\t\t\t",
         "\u202e".encode(), b"x" * 3000, b'{"text": 5}', b'{"text": ' + b"[" * 100_000, b"{}", b"\r", b"NaN")
    )  # fmt: skip


# --- JSON -----------------------------------------------------------------------------------------------


def json_surgery(content: bytes, random: Random) -> bytes:
    return other_json(content.decode("utf-8"), random).encode("utf-8", "surrogatepass")


def other_json(text: str, random: Random) -> str:
    """One leaf, list or object that is another, away, twice, or in another order."""
    document = json.loads(text)
    every = places(document)
    shallow = [place for place in every if len(place) <= 2]
    place = random.choice(shallow if random.random() < 0.5 else every)
    if any("." in str(step) for step in place):
        place = ()
    name, found = ".".join(map(str, place)), value_at(document, place)
    way = random.randrange(6)
    if way == 0 and place:
        return put(text, {name: "-"})
    if way == 1 and isinstance(found, list) and found:
        value = random.choice((found[::-1], found[:-1], found + found[-1:], found * 2))
        return put(text, {name: json.dumps(value)})
    if way == 2 and isinstance(found, dict):
        return put(text, {name: json.dumps({**found, "more": 1})})
    return put(text, {name: random.choice(ODD_JSON)})


# --- archives -------------------------------------------------------------------------------------------


def inner_json(content: bytes, random: Random) -> bytes:
    """The JSON that stands in a member, which is whole."""
    named = arrays(content)
    texts = [name for name, array in named.items() if array.ndim == 0 and array.dtype.kind == "U"]
    if not texts:
        return npy_surgery(content, random)
    name = random.choice(texts)
    try:
        return with_member(content, name, other_json(member(content, name), random))
    except UnicodeEncodeError:
        return with_member(content, name, "\x1b[31m")


def zip_surgery(content: bytes, random: Random) -> bytes:
    """Members renamed, away, twice, said to be encrypted or of another size, or far larger than the file."""
    members = list(raw_members(content).items())
    at = random.randrange(len(members))
    name, found = members[at]
    way = random.randrange(9)
    if way == 0:
        members[at] = random.choice(("../" + name, "/" + name, name.upper(), "", name * 50, "\x1b[31m.npy")), found
    elif way == 1:
        del members[at]
    elif way == 2:
        members.append((name, random.choice(members)[1]))
    elif way == 3:
        members[at] = name, bytewise(found, random)
    elif way == 4:
        members[at] = name, random.choice((b"", b"\x93NUMPY", found[:20], b"\x93NUMPY\x09\x00" + found[8:]))
    elif way == 5:
        members[at] = name, bomb(random)
    elif way == 6:
        return zipped(members, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))
    elif way == 7:
        random.shuffle(members)
    made = bytearray(zipped(members))
    if way == 8:  # what the directory at the end says of a member
        starts = [found.start() for found in re.finditer(b"PK\x01\x02", made)]
        start = random.choice(starts)
        offset, size = random.choice(((8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (42, 4)))
        value = random.choice((1, 9, 0, 12, 93, 0xFFFF, 2 ** (8 * size) - 1))
        made[start + offset : start + offset + size] = value.to_bytes(size + 2, "little")[:size]
    return bytes(made)


def bomb(random: Random) -> bytes:
    """Zeros that take a thousandth of their size in the archive: an array, or no array."""
    size = random.choice((50, 300)) << 20
    header = npy_header("<f4", (size // 4,)) if random.random() < 0.7 else b""
    return header + bytes(size)


def npy_header(descr: str, shape: tuple[int, ...], fortran: bool = False) -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}".encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def npy_surgery(content: bytes, random: Random) -> bytes:
    """An array of another dtype, order, shape or value, under its name; or a header that lies."""
    named = arrays(content)
    name = random.choice(list(named))
    array = named[name]
    way = random.randrange(8)
    if way in (0, 1):
        members = raw_members(content)
        shape = random.choice(((10**9,), (2**62,), (-1,), (0,), (), (10**5, 10**5, 0), array.shape[::-1], (1,) * 40))
        descr = random.choice(
            ("<f4", ">f4", "<f8", "|O", "<i8", "|b1", "<U1", "<c16", "|V8", "<M8[s]", "|S0", "<f2", "x")
        )
        members[f"{name}.npy"] = npy_header(descr, shape, random.random() < 0.3) + array.tobytes()[:4096]
        return zipped(list(members.items()))
    with np.errstate(all="ignore"):
        named[name] = other_array(array, random)
    return archive_of(named)


def other_array(array: np.ndarray, random: Random) -> np.ndarray:
    way = random.randrange(8)
    if array.dtype.kind in "US":
        return random.choice((np.array("\x1b[31m"), np.array([]), np.array(["a"] * 3), np.array(5), array[..., None]))
    if way == 0:
        return array.astype(random.choice(("<f8", ">f4", "<f2", "<i8", "|u1", "|b1", "<U8", "<c8")))
    if way == 1:
        return np.asfortranarray(array) if array.ndim > 1 else array[::-1]
    if way == 2:
        return array[tuple(slice(None, None, -1) if random.random() < 0.5 else slice(None) for _ in array.shape)]
    if way == 3:
        return array.reshape(-1) if random.random() < 0.5 else array[None]
    if way == 4:
        return array[:0] if array.ndim else array[None]
    if way == 5:
        return np.concatenate([array, array]) if array.ndim else array
    made = array.astype(np.float64) if random.random() < 0.2 else array.copy()
    value = random.choice((np.nan, np.inf, -1, 5, 1e38, 0, -5, 99, 2**31))
    if made.size:
        made.flat[random.randrange(made.size)] = np.array(value).astype(made.dtype)
    return made


# --- safetensors ----------------------------------------------------------------------------------------


def parts_of(content: bytes) -> tuple[dict, bytes]:
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def put_together(header: str, data: bytes) -> bytes:
    raw = header.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(8, "little") + raw + data


def header_surgery(content: bytes, random: Random) -> bytes:
    """A tensor of another dtype, shape or place in the file, away or twice; or one number among the data."""
    header, data = parts_of(content)
    names = [name for name in header if name != "__metadata__"]
    name, other = random.choice(names), random.choice(names)
    one = header[name]
    way = random.randrange(9)
    if way == 0:
        one["dtype"] = random.choice(("F64", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "X", "", None, 5))
    elif way == 1:
        one["shape"] = random.choice(
            ([], [0], one["shape"][::-1], [-1], [2**62], [2**31, 2**33], [1, *one["shape"]], "x")
        )
    elif way == 2:
        at, end = one["data_offsets"]
        one["data_offsets"] = random.choice(
            ([at, end + 4], [end, at], [-4, end], [at, 2**63], [0, 0], [at], header[other]["data_offsets"])
        )
    elif way == 3:
        del header[name]
    elif way == 4:
        header[name], header[other] = header[other], header[name]
    elif way == 5:
        header[random.choice(("", name.upper(), "\x1b[31m", "x" * 5000))] = header.pop(name)
    elif way == 6:
        return other_json_of(header, data, random)
    else:
        at, end = one["data_offsets"]
        number = random.choice((np.nan, np.inf, -1.0, 5.0, 1e38, 0.0))
        if end - at >= 4:
            place = at + 4 * random.randrange((end - at) // 4)
            data = data[:place] + np.float32(number).tobytes() + data[place + 4 :]
    return put_together(json.dumps(header), data)


def other_json_of(header: dict, data: bytes, random: Random) -> bytes:
    size = random.choice((0, 7, 2**20, 2**63, 2**64 - 1))
    raw = json.dumps(header).encode()
    return random.choice(
        (size.to_bytes(8, "little") + raw + data, put_together(other_json(json.dumps(header), random), data))
    )


def metadata_surgery(content: bytes, random: Random) -> bytes:
    """Change the metadata of a file, which is JSON inside JSON."""
    header, data = parts_of(content)
    about = header.get("__metadata__")
    if not about:
        return header_surgery(content, random)
    name = random.choice(list(about))
    try:
        about[name] = other_json(about[name], random)
    except ValueError:
        about[name] = random.choice(("", "pt", "\x1b[31m", "attncli-99", "attncli-1"))
    return put_together(json.dumps(header), data)
