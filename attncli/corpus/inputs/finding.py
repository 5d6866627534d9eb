"""From what somebody named to the files of a corpus, in a fixed order: files, folders, patterns, addresses."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from attncli.base.errors import Notice, RequestError
from attncli.base.untrusted import parse_json
from attncli.corpus.inputs.files import STDIN, BadFile, Input, shown
from attncli.corpus.inputs.kinds import TEXTS, Kinds, suffix
from attncli.corpus.inputs.stores import MAGIC, Found, Store, store_of
from attncli.corpus.inputs.tables import parts_of

AT_ONCE = 8  # tables whose footers are read at once
# Of a folder that `datasets` wrote (save_to_disk), what it says of itself; of one with several such in it, which.
STATE, SPLITS = "state.json", "dataset_dict.json"
CHOSEN = ("_indices_files", "_indices_data_files")  # in the state, where not all rows are the dataset's (before 2.0)


def find_inputs(names: Sequence[str], kinds: Kinds = TEXTS, skip_bad: bool = False) -> list[Input]:
    """The files that are named, in the order of the names; one that is named twice is there twice.

    A name is "-" (stdin), a file, whatever it is called, a folder, of which all files of the kinds are read that are
    not hidden, sorted by path, a pattern (`*`, `?`, `[...]`, `**` for folders in folders), sorted, or a folder that
    `datasets` wrote. All but stdin may be addresses. What is there is no pattern.

    skip_bad: a table that can't be read is told of in a Notice and left out.

    Raises RequestError for what is not there, or has no such file in it; BadFile for a table that can't be read.
    """
    found = [one for name in names for one in named(name, kinds)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tables = pool.map(with_parts, [one for one in found if kinds.is_table(one.name)])
        return list(readable((next(tables) if kinds.is_table(one.name) else one for one in found), skip_bad))


def named(name: str, kinds: Kinds) -> list[Input]:
    """What one name means."""
    if name == STDIN:
        return [Input(STDIN, STDIN, 0)]
    store = store_of(name)
    file = store.file(name)
    if file is not None:
        return [file]
    folder = store.folder(name)
    if folder is not None:
        return inside(name, folder, store, kinds)
    if not MAGIC.search(name):
        raise store.missing(name)
    files = store.matching(name)
    if not files:
        raise RequestError(f"no file matches {shown(name)}")
    return files


def inside(name: str, folder: list[Found], store: Store, kinds: Kinds) -> list[Input]:
    """The files of a folder that are read. A Notice says what is not."""
    top = {found.parts[0]: found.file for found in folder if len(found.parts) == 1}
    if kinds.tables and SPLITS in top:
        splits = said_by(top[SPLITS], store).get("splits")
        known = [f"{name.rstrip('/')}/{split}" for split in splits] if isinstance(splits, list) else []
        raise RequestError(f"{shown(name)} has several datasets: name one: {shown(', '.join(known))}")
    if kinds.tables and STATE in top:
        return check_files(data_files(top, store))
    files = [found.file for found in folder if kinds.has(found.parts[-1])]
    if not files:
        raise RequestError(f"{shown(name)} has no {kinds.what} in it: {kinds.suffixes} (or compressed, .gz .zst)")
    check_files(files)
    others = sorted({suffix(found.parts[-1]) or found.parts[-1] for found in folder if not kinds.has(found.parts[-1])})
    if others:
        count = len(folder) - len(files)
        left_out = f"{count:,} file{'s' if count > 1 else ''} of other kinds ({shown(', '.join(others))})"
        warnings.warn(f"{shown(name)}: left out {left_out}", Notice, stacklevel=2)
    return files


def check_files(files: list[Input]) -> list[Input]:
    """Return files of a folder. Raises RequestError for one that is a pipe, which nobody has named."""
    for file in files:
        if file.is_stream:
            raise RequestError(f"{file.shown} is a pipe, or a link that leads nowhere: name the files that are meant")
    return files


def data_files(top: dict[str, Input], store: Store) -> list[Input]:
    """Those of a dataset, in its order."""
    state = top[STATE]
    about = said_by(state, store)
    if any(about.get(name) for name in CHOSEN):
        raise BadFile(f"{state.shown}: only some rows are the dataset's: save it anew, after flatten_indices()")
    try:
        return [top[entry["filename"]] for entry in about["_data_files"]]
    except (KeyError, TypeError) as error:
        raise BadFile(f"{state.shown} is of no dataset, or names a file that is not there") from error


def said_by(file: Input, store: Store) -> dict[str, Any]:
    """A small JSON document."""
    try:
        found = parse_json(store.content(file))
    except ValueError as error:
        raise BadFile(f"{file.shown} is no JSON") from error
    return found if isinstance(found, dict) else {}


def with_parts(one: Input) -> Input | BadFile:
    """A table with its parts, or why it can't be read."""
    if one.is_stream:
        raise RequestError(f"{one.shown}: a table is read from a file, not from a pipe")
    try:
        return replace(one, parts=parts_of(one))
    except BadFile as error:
        return error


def readable(found: Iterable[Input | BadFile], skip_bad: bool) -> Iterator[Input]:
    """Those that can be read."""
    for one in found:
        if isinstance(one, Input):
            yield one
        elif skip_bad:
            warnings.warn(f"skipped: {one}", Notice, stacklevel=2)
        else:
            raise one
