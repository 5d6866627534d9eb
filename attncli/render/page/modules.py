"""The modules of JavaScript beside this file, as one script.

Each is an ordinary module with `import` and `export`, to be read by itself. A page is one file without addresses,
in which nothing can be imported; so every module becomes a function that returns what it exports, after those that
it imports:

    const $units = (() => { const { page, weightsOf } = $data; ...; return { axes, shownWeights }; })();
"""

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
MAIN = "main"

IMPORT = re.compile(r'^import (?P<names>\{[^}]*\}|\* as \w+) from "\./(?P<module>\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|let|function|class) (?P<name>\w+))", re.MULTILINE)


@cache
def script(main: str = MAIN) -> str:
    """All modules that the module `main` needs, each after those that it imports itself."""
    done: dict[str, str] = {}
    add(main, done)
    return '"use strict";\n' + "\n".join(done.values())


def add(name: str, done: dict[str, str]) -> None:
    """Append module `name` to `done`, after what it imports."""
    source = (FOLDER / f"{name}.js").read_text(encoding="utf-8")
    for match in IMPORT.finditer(source):
        if match["module"] not in done:
            add(match["module"], done)
    exported = EXPORT.sub("", source), [match["name"] for match in EXPORT.finditer(source)]
    body, names = IMPORT.sub(bind, exported[0]), ", ".join(exported[1])
    done[name] = f"const ${name} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"


def bind(match: re.Match[str]) -> str:
    """An import as a constant: `{ page }` of a module, or all of it."""
    names = match["names"].removeprefix("* as ")
    return f"const {names} = ${match['module']};"
