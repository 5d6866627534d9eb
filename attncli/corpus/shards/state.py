"""What a folder of sums says of itself: what was asked of which inputs, and what later runs do as the first one did."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.printable import first_line, printable, shorten
from attncli.base.schema import anything, each, fields, name, text, whole
from attncli.base.untrusted import parse_json
from attncli.corpus.inputs.files import Input
from attncli.corpus.shards.folder import Folder
from attncli.corpus.shards.work import VERSION

PLAN = "plan.json"
INPUT = fields({"at": name(), "bytes": whole(), "digest": text(200), "stamp": text(200)})
FIXED = fields(  # of which each work has some
    {"shard_bytes": whole(1)},
    {
        "threads": whole(1, 64),
        "batch_tokens": whole(1, 2**24),
        "block_weights": whole(1, 2**34),
        "laid_out": whole(0, 1),
    },
)
ABOUT = fields({"version": whole(), "asked": anything, "fixed": FIXED, "inputs": each(INPUT)})


def no_plan(folder: str | None, error: Exception) -> str:
    """What is said of a plan that can't be one."""
    return f"{folder}/{PLAN} is no plan ({first_line(error)}): name another folder"


class State:
    """The plan that is kept in a folder; None where the folder is new.

    Raises RequestError for a folder with something else in it.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        content = folder.read(PLAN)
        self.about: dict[str, Any] | None = None
        if content is not None:
            try:
                self.about = parse_json(content)
                ABOUT(self.about, "it")
                fields({}, dict.fromkeys(self.about["asked"], anything))(self.about["asked"], "asked")
            except (ValueError, TypeError) as error:
                raise RequestError(no_plan(folder.name, error)) from error

    @property
    def fixed(self) -> dict[str, int] | None:
        """What the first run has fixed: how much goes through the network at once."""
        return None if self.about is None else self.about["fixed"]

    @property
    def stamps(self) -> dict[tuple[str, str], str]:
        """Of each input, by where it was and what it looked like, the digest that it had."""
        inputs = [] if self.about is None else self.about["inputs"]
        return {(one["at"], one["stamp"]): one["digest"] for one in inputs}

    def check(self, asked: dict[str, Any]) -> None:
        """Raises RequestError where something else was asked before, with what differs."""
        if self.about is None:
            return
        if self.about["version"] != VERSION:
            raise self.differs("version of attncli")
        before, now = self.about["asked"], json.loads(json.dumps(asked))
        for option in {**now, **before}:
            if before.get(option) != now.get(option):
                raise self.differs(option)

    def agree(self, asked: dict[str, Any], fixed: Mapping[str, int], inputs: Sequence[Input]) -> None:
        """Keep what is asked, fixed and read; or see that the same is read. Raises RequestError, with what differs."""
        if self.about is None:
            kept = [{"at": one.at, "bytes": one.size, "digest": one.digest, "stamp": one.stamp} for one in inputs]
            about = {"version": VERSION, "asked": asked, "fixed": dict(fixed), "inputs": kept}
            self.folder.write(PLAN, json.dumps(about, indent=1).encode())
            return
        for place, (one, other) in enumerate(zip(inputs, self.about["inputs"], strict=False)):
            if one.digest != other["digest"]:
                raise RequestError(
                    f"{self.folder.name} is of another corpus: input {place + 1}, {printable(one.name)}, is not what "
                    f"{printable(other['at'])} was; put it back, or name another folder"
                )
        if len(inputs) != len(self.about["inputs"]):
            raise RequestError(
                f"{self.folder.name} is of another corpus: it had {len(self.about['inputs'])} inputs, and here are "
                f"{len(inputs)}; name the same, or another folder"
            )

    def differs(self, what: str) -> RequestError:
        other = shorten(printable(what), 50)
        return RequestError(
            f"{self.folder.name} was begun with another {other}: ask for the same, or name another folder"
        )
