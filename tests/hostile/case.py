"""One hostile call of the program: what is typed, what lies beside it, what its streams are, what disturbs it.

A case is rebuilt from its number (`hostile.damage`), or read from a small file (tests/hostile/cases/), where
the content of a file, and what is typed, is a text, or one of

    {"base64": "..."}                                      bytes
    {"repeat": "a ", "times": 500000}                      a text that is too long to be written down
    {"of": "stats.json", "put": {"heads.0.layer": "99"}}   one of the place's own files with other JSON in it as it is
    {"of": "maps.npz", "member": "labels", "put": {...}}   written; "..." stands for 100,000 brackets
    {"of": "maps.npz", "member": "weights", "raw": "x"}    with other bytes in the place of a whole member
    {"of": "stats.json", "swap": ["heads.0", "heads.5"]}   with two places of it exchanged
"""

import base64
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hostile.documents import put, swapped
from hostile.members import member, raw_members, with_member, zipped

Original = Callable[[str], bytes]  # the content of one of the place's own files


@dataclass(frozen=True)
class Case:
    """arguments: what is typed after `attncli`. files: by their names, beside those of the place.

    copies: folders of the place that are there once more, under another name, for `files` to change; or links ("-> x"),
    a pipe ("|"), an empty folder ("/").
    environment: variables that are read when the program is started.
    streams: of stdin, stdout, stderr those that are no files: closed, full or broken.
    disturbed: a signal, at which shares of the time that it would take; or a folder that is gone.
    expects: "refused", "done", or "any". same_as: what else gives the same output, unless this is refused.
    differs_from: what must not give the same, unless this is refused.
    """

    arguments: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    stdin: bytes | None = None
    streams: dict[str, str] = field(default_factory=dict)
    disturbed: dict[str, Any] = field(default_factory=dict)
    expects: str = "any"
    same_as: tuple[str, ...] | None = None
    differs_from: tuple[str, ...] | None = None
    note: str = ""

    def save(self, path: Path) -> None:
        """Write the case with its bytes, so that it stays the same when generators change."""
        document = {name: value for name, value in asdict(self).items() if value not in ({}, None, "", "any")}
        for name in ("files", "stdin"):
            if name in document:
                found = document[name]
                document[name] = {one: as_json(content) for one, content in found.items()} if name == "files" else (
                    as_json(found)
                )  # fmt: skip
        path.write_text(json.dumps(document, indent=1, ensure_ascii=True) + "\n", encoding="ascii")

    @classmethod
    def load(cls, path: Path, original: Original) -> "Case":
        document = json.loads(path.read_text(encoding="utf-8"))
        document["files"] = {name: content(one, original) for name, one in document.get("files", {}).items()}
        if "stdin" in document:
            document["stdin"] = content(document["stdin"], original)
        for name in ("arguments", "same_as", "differs_from"):
            if name in document:
                document[name] = tuple(
                    content(word, original).decode("utf-8", "surrogateescape") for word in document[name]
                )
        return cls(**document)


def as_json(found: bytes) -> Any:
    try:
        text = found.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(found).decode("ascii")}
    return text


def content(written: Any, original: Original) -> bytes:
    """Return the bytes of a file as a case describes them."""
    if isinstance(written, str):
        return written.encode("utf-8", "surrogateescape")
    if "base64" in written:
        return base64.b64decode(written["base64"])
    if "repeat" in written:
        return (written["repeat"] * written["times"]).encode("utf-8")
    whole = original(written["of"])
    if "swap" in written:
        return swapped(whole.decode("utf-8"), *written["swap"]).encode("utf-8")
    if "member" not in written:
        return put(whole.decode("utf-8"), written["put"]).encode("utf-8")
    name = written["member"]
    if "raw" in written:
        members = {**raw_members(whole), f"{name}.npy": content(written["raw"], original)}
        return zipped(list(members.items()))
    return with_member(whole, name, put(member(whole, name), written["put"]))
