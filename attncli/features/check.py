"""Check somebody's attention: is it right, and if not, which mistake does it have? Or a model: which laws does it keep?

Code runs in a process of its own with limits (`attncli.checks.code.process`), on many kinds of inputs, masks and
precisions, and is compared with softmax(Q Kᵀ / √d_k) V (Vaswani et al. 2017, equation 1). A model of transformers is
checked by its behaviour (`attncli.checks.behaviour`): change what must not matter, and see which outputs move.
"""

import ast
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.printable import printable, quoted
from attncli.base.progress import progress
from attncli.features import options
from attncli.features.feature import Feature
from attncli.features.inputs import chosen_layers, notify, read_inputs
from attncli.features.options import MORE, SELECTION, argument, choice, option
from attncli.report import Column, MapAxis, Maps, Panel, Part, Report, Table, TextLine
from attncli.report.parts import Cell

SHORTEST, LONGEST = 0.1, 86_400.0  # seconds
SMALLEST, LARGEST = 0.1, 10_000.0  # gigabytes
ABOUT_CODE = ("means", "layout", "map", "give", "nowhere", "text", "layer", "head", "seconds", "gigabytes")
WRONG = Cell("WRONG", "wrong")
VERDICTS: dict[bool | None, str | Cell] = {True: "right", False: WRONG, None: "not checked"}
NOT_PROMISED = "not promised"  # begins a note


@dataclass(eq=False)
class Check(Feature):
    """Check your own attention, and find the mistake.

    Your code runs on many inputs, masks and precisions, and is compared with the formula: in a process of its own, to
    which files and the network are open. A known mistake is named. Of a model: does it look ahead, does [PAD] leak, are
    cached steps right? Exit code 1: wrong, 2: can't be checked.

    \b
    An adapter at the end of the file, if names don't explain how to call it:
      class Adapter(MyAttention):
          def __init__(self, dim, heads): super().__init__({"n": heads, "d": dim})
          def forward(self, x): return super().forward({"x": x})["out"]

    \b
    Examples:
      attncli check transformers:llama
      attncli check my_attention.py:MyAttention
      attncli check my_attention.py:MyAttention -m minilm -l 3 -H 1 "The cat sat."
    """

    group = "Understand"
    saves: ClassVar[tuple[str, ...]] = ()

    what: Annotated[str | None, argument("WHAT", "FILE.py:NAME, MODULE:NAME or transformers:TYPE.")] = None
    text: Annotated[str | None, argument("TEXT", "With -m: the sentence. Without it: a sample.")] = None
    means: Annotated[
        choices.MaskMeans | None, choice(SELECTION, choices.MaskMeans, "--mask-means", help="The meaning of True: ")
    ] = None
    layout: Annotated[
        str | None,
        option(SELECTION, "--layout", metavar="DIMS", help='The dimensions of arrays, as "batch token head d".'),
    ] = None
    map: Annotated[
        list[str] | None,
        option(SELECTION, "--map", metavar="NAME=ROLE", help="W_q=query, src=x, ...; may be given again."),
    ] = None
    give: Annotated[
        list[str] | None,
        option(SELECTION, "--give", metavar="NAME=VALUE", help="For its constructor; may be given again."),
    ] = None
    nowhere: Annotated[
        choices.Nowhere,
        choice(SELECTION, choices.Nowhere, "--nowhere", rare=True, help="A query that may see nothing gives: "),
    ] = "any"
    model: Annotated[str | None, options.model("Put the weights of a layer into it.")] = None
    layer: options.OneLayer = "-1"
    head: options.OneHeadOption = "0"
    seconds: Annotated[
        float, option(MORE, "--time-limit", rare=True, metavar="SECONDS", help="End it after this time.")
    ] = 60.0
    gigabytes: Annotated[
        float, option(MORE, "--memory-limit", rare=True, metavar="GB", help="The memory it may take besides torch's.")
    ] = 4.0

    def report(self) -> Report:
        if self.what is None or _names_model(self.what):
            return _laws_report(self._check_model())
        return _code_report(self._check_code(self.what))

    def _check_code(self, what: str) -> dict[str, Any]:
        """Check code in a process of its own. Raises RequestError if nothing of it can be checked."""
        if self.model is None:
            self.refuse("without -m", "text", "layer", "head")
        _check_number("--time-limit", self.seconds, SHORTEST, LONGEST)
        _check_number("--memory-limit", self.gigabytes, SMALLEST, LARGEST)
        chosen = {
            "layout": self.layout,
            "means": self.means,
            "map": _parse_pairs("--map", self.map),
            "give": {name: _parse_value(text) for name, text in _parse_pairs("--give", self.give).items()},
            "nowhere": self.nowhere,
        }
        real = None if self.model is None else self._locate_layer(self.model)
        from attncli.checks.code.process import Checking

        with progress(None, "checks") as advance, Checking(what, chosen, real, self.seconds, self.gigabytes) as child:
            try:
                document = child.result(advance)
            except RequestError as error:
                reason, *adapter = str(error).split("\n")
                if adapter:
                    notify("\n".join(["an adapter to paste, with each ... filled in:", *adapter]))
                raise RequestError(reason) from error
        holds = [one["holds"] for one in document["checks"]]
        if not document["right"] and False not in holds:
            why = document["checks"][0]["note"] if holds else document["verdict"]
            raise RequestError(printable(f"nothing of {quoted(what)} could be checked: {why}"))
        return document

    def _locate_layer(self, model: str) -> dict[str, Any]:
        """Find the model's files. Return what the other process needs to load the layer."""
        from attncli.models.hub import locate

        [one] = read_inputs(self.text, None, None)
        place = locate(model)
        files = {"name": place.name, "path": str(place.path), "origin": place.origin, "sha256": place.sha256}
        return {"place": files, **one._asdict(), "layer": chosen_layers(self, "-1"), "head": self.head}

    def _check_model(self) -> dict[str, Any]:
        """Check the laws of the model that WHAT or -m names. Raises RequestError if none can be checked."""
        if self.what is None and self.model is None:
            raise RequestError("say what to check: FILE.py:NAME, transformers:llama, or -m DIR")
        self.refuse("on a model, which is checked by its behaviour", *ABOUT_CODE)
        if self.what is not None:
            self.refuse("on a model that is made of its configuration", "model")
        from attncli.checks.behaviour.laws import examine
        from attncli.checks.behaviour.opening import open_checkpoint, open_named

        with progress(None, "laws") as advance:
            opened = open_named(self.what) if self.what is not None else open_checkpoint(self.model or "")
            result = examine(opened.name, opened.kind, opened.make, advance=lambda _: advance())
        if all(one.holds is None for one in result.outcomes):
            raise RequestError(f"nothing of {quoted(opened.name)} could be checked: {result.outcomes[0].note}")
        return result.document()


def _names_model(name: str) -> bool:
    """Return whether a name is that of a model that is made of a configuration. None of its code is run."""
    module, _, member = name.partition(":")
    if module.split(".")[0] == "transformers":
        return True
    if module.endswith(".py") or not member:
        return False
    try:
        spec = importlib.util.find_spec(module)
        source = Path(spec.origin or "").read_text(encoding="utf-8") if spec is not None else ""
        tree = ast.parse(source)
    except (ImportError, ValueError, OSError, SyntaxError):
        return False
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == member]
    return any(ast.unparse(base).endswith("PreTrainedModel") for one in classes for base in one.bases) or any(
        "config_class" in ast.unparse(line).split(" = ")[0] for one in classes for line in one.body
    )


def _parse_pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """Split each NAME=VALUE. Raises RequestError for anything else."""
    pairs = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not (name and equals and value):
            raise RequestError(f"{option} {quoted(one)} is no NAME=VALUE")
        pairs[name] = value
    return pairs


def _parse_value(text: str) -> Any:
    """Return a number, True, False or None, or the word itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _check_number(option: str, number: float, least: float, most: float) -> None:
    if not least <= number <= most:  # NaN is not either
        raise RequestError(f"{option} {number:g} is out of range: give one from {least:g} to {most:g}")


# --- reports --------------------------------------------------------------------------------------------


def _code_report(document: dict[str, Any]) -> Report:
    """Report each check, the maps of a layer, the verdict, and for each mistake its place and its remedy."""
    # The verdict on right code has its conventions.
    conventions = [] if document["right"] else [TextLine("; ".join(document["conventions"]))]
    table = Table(
        [Column("check", "prose"), Column("verdict", "name"), Column("difference"), Column("note", "prose", leaves=1)],
        [
            (one["name"], VERDICTS[one["holds"]], _difference(one["difference"]), one["note"])
            for one in document["checks"]
        ],
    )
    parts: list[Part] = [*conventions, table]
    if (maps := document["maps"]) is not None:  # the head's own, and what somebody's attention makes of its layer
        made = {"of the model": maps["ours"]}
        made |= {f"by {printable(document['name'])}": maps["theirs"]} if maps["theirs"] else {}
        head = f"{maps['layer']}.{maps['head']}"
        panels = [Panel(f"{head} {by}", np.array(weights, np.float32)) for by, weights in made.items()]
        parts.append(Maps([panels], MapAxis("queries", maps["shown"]), MapAxis("keys", maps["shown"])))
    lines = []
    for one in document["diagnosis"]:
        where = f"line {one['line']} has `{one['text']}` (a guess, by what it does): " if one["line"] else ""
        lines.append(f"{where}{one['remedy']}")
    if document["smallest"]:
        lines.append(f"the smallest input that shows it, {document['smallest']}")
    if document["hint"]:
        lines.append(document["hint"])
    return _report(document, [*parts, TextLine(document["verdict"], "strong"), *map(TextLine, lines)])


def _laws_report(document: dict[str, Any]) -> Report:
    """Report each law on each backend, the verdict, the place of each leak, and what was not checked and why."""
    backends = [one["name"] for one in document["backends"] if one["available"]]
    cells: dict[str, dict[str, str | Cell]] = {}
    for one in document["checks"]:
        unknown = NOT_PROMISED if one["note"].startswith(NOT_PROMISED) else "-"
        verdicts: dict[bool | None, str | Cell] = {True: "right", False: WRONG, None: unknown}
        cells.setdefault(one["name"], {})[one["backend"]] = verdicts[one["holds"]]
    rows = [(law, *(by_backend.get(backend, "-") for backend in backends)) for law, by_backend in cells.items()]
    table = Table([Column("law"), *(Column(one, "name") for one in backends)], rows)
    lines = [f"{one['name']} ({one['backend']}): {one['says']}" for one in document["checks"] if one["holds"] is False]
    checked = {one["name"] for one in document["checks"] if one["holds"] is not None}
    for one in document["checks"]:
        if one["note"].startswith(NOT_PROMISED):
            lines.append(f"{one['name']}: {one['note']}")
        elif one["holds"] is None:
            law = f"{one['name']} with {one['backend']}" if one["name"] in checked else one["name"]
            lines.append(f"not checked: {law} ({one['note']})")
    lines += [f"not checked: {one['name']} ({one['note']})" for one in document["backends"] if not one["available"]]
    return _report(document, [table, TextLine(document["verdict"], "strong"), *map(TextLine, dict.fromkeys(lines))])


def _report(document: dict[str, Any], parts: Sequence[Part]) -> Report:
    return Report([f"{document['name']} as {document['kind']}"], parts, lambda: document, holds=bool(document["right"]))


def _difference(number: float | None) -> str:
    return "" if number is None else f"{number:.1e}" if number else "0"


# The fields of its document (`attncli.features.document`).
FIELDS = """
### check

name | str | | of the checked function or class
kind | str | | "attention"; for a model a description of it
checks | [object] | | all checks, in order
checks.name | str
checks.holds | bool or null | | null if it could not be checked
checks.difference | float or null | | largest difference between an element of its output and the formula's, or of
    the quantity checked; null if there is none or it is NaN
checks.note | str | | why it could not be checked, or a finding; otherwise empty
checks.backend | str? | | for a model: eager, sdpa, flex_attention or flash_attention_2
checks.tolerance | float or null? | | for a model: the difference that rounding explains; 0 if tokens are counted
checks.position | int or null? | token | for a model: the token that moved most
checks.part | str? | | for a model with several parts: encoder, decoder or cross; otherwise empty
checks.layer | int or null? | | for a model: the first layer that moved
checks.head | int or null? | | for a model: the head that moved most there
checks.dtype | str? | | for a model: its dtype in the check
checks.says | str? | | for a model: the leak and the note in words
backends | [object]? | | for a model: the backends tried
backends.name | str
backends.available | bool | | false if it can't run here
backends.note | str | | the reason; otherwise empty
conventions | [str] | `[convention]` | conventions that differ from attncli's and are right, in words: the order of
    dimensions, the meaning of True in a mask
diagnosis | [object] | | the mistakes that give the same numbers; empty if the code is right or no known mistake
    does
diagnosis.mistake | str | | its name: "no scale"
diagnosis.says | str | | the same, to follow "attention"
diagnosis.remedy | str | | how to fix it
diagnosis.line | int or null | | line of the file: a guess, from a search for the operation
diagnosis.text | str | | the text of that line; otherwise empty
smallest | str or null | | if no known mistake explains it: the smallest input on which it differs, and both results
unchecked | [str]? | `[parameter]` | for code: the parameters that were never passed
hint | str or null | | the option that would make it right, or its mask understood
maps | object or null | | with `-m`: a head of the layer whose weights were put into the code
maps.layer | int | | layer number in the model
maps.head | int | | head number in its layer
maps.tokens | [str] | `[token]`
maps.shown | [str] | `[token]` | the tokens as the terminal shows them: `[UNK:☃]`
maps.theirs | [[float]] or null | `[query][key]` | the map of the code; null if it can't be found
maps.ours | [[float]] | `[query][key]` | the head's own map
verdict | str | | one sentence
right | bool | | true if something was checked and nothing is wrong; otherwise the exit code is 1
"""
