"""What this server was started with: models under the names that a browser may know, texts, what is asked of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from attncli.base.printable import printable
from attncli.live.newest import Newest
from attncli.live.session import Session
from attncli.record import AttentionRecord
from attncli.record.request import Grouping, Input, Request

WHOLE_TEXT = Request(grouping=Grouping(stretches=True))  # what `view` asks for
PATH = re.compile(r"(?:^|[\s'\"(])(?:~?/|[A-Za-z]:[/\\]|\\\\)\w")  # of a file, in a sentence


@dataclass(frozen=True)
class Site:
    """texts: the first is shown at the start, the others are in the menu. request: of every text, under each mask.

    names: of the session's models, as the browser sees and says them; a directory's is its last part.
    """

    session: Session
    texts: Sequence[Input]
    request: Request = WHOLE_TEXT
    masks: tuple[str | None, ...] = (None,)
    names: dict[str, str] = field(init=False)
    workers: dict[str, Newest] = field(init=False)

    def __post_init__(self) -> None:
        shown: dict[str, str] = {}
        for model in self.session.models:
            shown[unlike(name_of(model), shown)] = model
        object.__setattr__(self, "names", shown)
        object.__setattr__(self, "workers", {model: Newest() for model in self.session.models})

    def shown(self, record: AttentionRecord) -> AttentionRecord:
        """The same record, which doesn't say where its model is."""
        shown = next((shown for shown, model in self.names.items() if model == record.model.name), None)
        name = name_of(record.model.name) if shown is None else shown
        return replace(record, model=replace(record.model, name=name, path=""))

    def said(self, message: str) -> str:
        """A message about a request that can't be met, without anything of this machine."""
        for shown, model in self.names.items():
            message = message.replace(model, shown)
        return "this can't be done here: the server's terminal may say more" if PATH.search(message) else message

    def close(self) -> None:
        """What is being done is not wanted any more."""
        for worker in self.workers.values():
            worker.close()


def name_of(model: str) -> str:
    """What of a model's name a browser may see: of a directory or an address the last part."""
    address = urlsplit(model)
    if address.scheme and address.netloc:
        parts = [part for part in (address.netloc, *address.path.split("/")) if part]
        return printable(parts[-1])
    apart = Path(model).is_absolute() or model.startswith((".", "~")) or model.count("/") > 1 or Path(model).is_dir()
    return printable(Path(model).expanduser().absolute().name or "model") if apart else printable(model)


def unlike(name: str, others: dict[str, str]) -> str:
    """The name, or, where another model is called so, with a number."""
    number, found = 1, name
    while found in others:
        number += 1
        found = f"{name} ({number})"
    return found
