"""Check attention code against the formula and name its mistake, or check which laws of attention a model keeps.

Code runs in a separate process with limits (`attncli.checks.code.process`), on many kinds of inputs, masks and
precisions, and is compared with softmax(Q Kᵀ / √d_k) V (Vaswani et al. 2017, equation 1). A model of transformers is
checked by its behaviour (`attncli.checks.behaviour`): change what must not matter, and see which outputs move.
"""

import ast
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict, cast

import numpy as np

from attncli.base import choices
from attncli.base.arrays import Bools, Floats
from attncli.base.errors import RequestError
from attncli.base.files import PAGE, PICTURES
from attncli.base.printable import printable, quoted
from attncli.base.progress import progress
from attncli.base.typed import NotRequired
from attncli.features import options
from attncli.features.inputs import layers_or, notify, read_inputs
from attncli.features.measure import measure, no_effect
from attncli.features.options import MORE, SELECTION, argument, choice, option
from attncli.report import Column, MapAxis, Maps, Panel, Part, Report, Result, Table, TextLine
from attncli.report.parts import Cell

SECONDS, SHORTEST, LONGEST = 60.0, 0.1, 86_400.0
GIGABYTES, SMALLEST, LARGEST = 4.0, 0.1, 10_000.0


@measure(saves=(*PICTURES, PAGE))
def check(
    what: Annotated[str | None, argument("WHAT", "FILE.py:NAME, MODULE:NAME or transformers:TYPE.")] = None,
    text: Annotated[str | None, argument("TEXT", "With -m: the sentence. Without it: a sample.")] = None,
    *,
    nowhere: Annotated[
        choices.Nowhere | None,
        choice(
            SELECTION,
            choices.Nowhere,
            "--nowhere",
            rare=True,
            help="Output of a fully masked row: ",
            show_default="any",
        ),
    ] = None,
    model: Annotated[str | None, options.model("The model to check. With WHAT: load a layer's weights.")] = None,
    batch: Annotated[
        Path | None,
        option(SELECTION, "--batch", metavar="FILE", help="With -m: your batch, a .pt, .safetensors or .json."),
    ] = None,
    layer: options.ALayer = None,
    head: options.AHead = None,
    seconds: Annotated[
        float | None,
        option(
            MORE,
            "--time-limit",
            rare=True,
            metavar="SECONDS",
            help="Stop a call that takes longer.",
            show_default=str(SECONDS),
        ),
    ] = None,
    gigabytes: Annotated[
        float | None,
        option(
            MORE,
            "--memory-limit",
            rare=True,
            metavar="GB",
            help="Its memory limit, on top of torch's.",
            show_default=str(GIGABYTES),
        ),
    ] = None,
) -> "CheckedCode | CheckedModel | CheckedBatch":
    """Check your own attention, and find the mistake.

    Compares your code with the formula of attention on many inputs, masks and precisions, and names known mistakes. The
    code runs in a process of its own, which can use files and the internet. For a model: does it look ahead, does [PAD]
    leak, are cached steps right? For a batch: does a token see another document, [PAD] or the future? Exit code 1:
    wrong, 2: can't be checked.

    \b
    If parameter names don't show how to call it, end the file with an adapter:
      class Adapter(MyAttention):
          def __init__(self, dim, heads): super().__init__({"n": heads, "d": dim})
          def forward(self, x): return super().forward({"x": x})["out"]

    \b
    Examples:
      attncli check transformers:llama
      attncli check my_attention.py:MyAttention
      attncli check my_attention.py:MyAttention -m minilm -l 3 -H 1 "The cat sat."
      attncli check --batch batch.pt -m minilm
    """
    if batch is not None:
        given = {"what": what, "text": text, "layer": layer, "head": head, "nowhere": nowhere}
        no_effect("with a batch", **given, seconds=seconds, gigabytes=gigabytes)
        if model is None:
            raise RequestError("--batch needs a model: name it with -m DIR")
        from attncli.checks.behaviour.batch import check_batch, read_batch
        from attncli.checks.behaviour.opening import open_network

        tensors = read_batch(batch)
        with progress(None, "batch"):
            name, network, tokenizer = open_network(model)
            made = check_batch(network, tensors, name=str if tokenizer is None else tokenizer.id_to_token)
        return CheckedBatch(
            cast("CheckDocument", made.document() | {"name": name}), made.seen, made.allowed, made.tokens
        )
    if what is None or _names_model(what):
        if what is None and model is None:
            raise RequestError("say what to check: FILE.py:NAME, transformers:llama, or -m DIR")
        given = {"nowhere": nowhere, "text": text, "layer": layer, "head": head}
        no_effect("on a model, which is checked by its behaviour", **given, seconds=seconds, gigabytes=gigabytes)
        if what is not None:
            no_effect("on a model that is built from its configuration", model=model)
        from attncli.checks.behaviour.laws import examine
        from attncli.checks.behaviour.opening import open_checkpoint, open_named

        with progress(None, "laws") as advance:
            opened = open_named(what) if what is not None else open_checkpoint(model or "")
            found = examine(opened.name, opened.kind, opened.make, advance=lambda _: advance())
        if all(one.holds is None for one in found.outcomes):
            raise RequestError(f"{quoted(opened.name)} could not be checked: {found.outcomes[0].note}")
        return CheckedModel(cast("CheckDocument", found.document()))
    if model is None:
        no_effect("without -m", text=text, layer=layer, head=head)
    seconds, gigabytes = SECONDS if seconds is None else seconds, GIGABYTES if gigabytes is None else gigabytes
    _check_number("--time-limit", seconds, SHORTEST, LONGEST)
    _check_number("--memory-limit", gigabytes, SMALLEST, LARGEST)
    real: dict[str, Any] | None = None
    if model is not None:
        from attncli.models.hub import locate

        [one] = read_inputs(text, None, None)
        place = locate(model)
        files = {"name": place.name, "path": str(place.path), "origin": place.origin, "sha256": place.sha256}
        number = str(layers_or("-1", layer, head))
        real = {"place": files, **one._asdict(), "layer": number, "head": "0" if head is None else str(head)}
    from attncli.checks.code.process import run_check

    with progress(None, "checks") as advance:
        try:
            document = cast("CheckDocument", run_check(what, nowhere or "any", real, seconds, gigabytes, advance))
        except RequestError as error:
            reason, *adapter = str(error).split("\n")
            if adapter:
                change = "replace each ... in it" if "..." in "".join(adapter) else "change what it passes or returns"
                notify("\n".join([f"paste this adapter, and {change}:", *adapter]))
            raise RequestError(reason) from error
    holds = [one["holds"] for one in document["checks"]]
    if not document["right"] and False not in holds:
        why = document["checks"][0]["note"] if holds else document["verdict"]
        raise RequestError(printable(f"{quoted(what)} could not be checked: {why}"))
    return CheckedCode(document)


def _names_model(name: str) -> bool:
    """Return whether a name refers to a model class with a configuration. Does not run its code."""
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


def _check_number(option: str, number: float, least: float, most: float) -> None:
    if not least <= number <= most:  # refuses NaN too
        raise RequestError(f"{option} must be from {least:g} to {most:g}, got {number:g}")


# --- results --------------------------------------------------------------------------------------------


class _CheckEntry(TypedDict):
    """All checks, in order."""

    name: str
    holds: Annotated[bool | None, "null if it could not be checked"]
    difference: Annotated[
        float | None,
        "largest difference between an element of the output and the formula's, or what the check measures instead; "
        "null if there is none or it is NaN",
    ]
    note: Annotated[str, "why it could not be checked, or a finding; otherwise empty"]
    backend: NotRequired[Annotated[str, "for a model: eager, sdpa, flex_attention or flash_attention_2"]]
    tolerance: NotRequired[
        Annotated[float | None, "for a model: the difference that rounding explains; 0 if tokens are counted"]
    ]
    position: NotRequired[Annotated[int | None, "for a model: the token that moved most", "token"]]
    part: NotRequired[Annotated[str, "for a model with several parts: encoder, decoder or cross; otherwise empty"]]
    layer: NotRequired[Annotated[int | None, "for a model: the first layer that moved"]]
    head: NotRequired[Annotated[int | None, "for a model: the head that moved most there"]]
    dtype: NotRequired[Annotated[str, "for a model: its dtype in the check"]]
    says: NotRequired[Annotated[str, "for a model: the leak and the note in words"]]


class _BackendEntry(TypedDict):
    """For a model: the backends tried."""

    name: str
    available: Annotated[bool, "false if it can't run here"]
    note: Annotated[str, "the reason; otherwise empty"]


class _DiagnosisEntry(TypedDict):
    """The mistakes that give the same numbers; empty if the code is right or no known mistake does."""

    mistake: Annotated[str, 'its name: "no scale"']
    says: Annotated[str, 'completes "this computes attention"']
    remedy: Annotated[str, "how to fix it"]
    line: Annotated[int | None, "line of the file: a guess, from a search for the operation"]
    text: Annotated[str, "the text of that line; otherwise empty"]


class _MapsEntry(TypedDict):
    """With `-m`: a head of the layer whose weights were put into the code."""

    layer: Annotated[int, "layer number in the model"]
    head: Annotated[int, "head number in its layer"]
    tokens: Annotated[list[str], "", "`[token]`"]
    shown: Annotated[list[str], "the tokens as the terminal shows them: `[UNK:☃]`", "`[token]`"]
    theirs: Annotated[list[list[float]] | None, "the map of the code; null if it can't be found", "`[query][key]`"]
    ours: Annotated[list[list[float]], "the head's own map", "`[query][key]`"]


class _LeakedEntry(TypedDict):
    """With `--batch`: the first 100 cells that have weight where the batch allows none."""

    layer: int
    head: int
    text: Annotated[int, "its row in the batch"]
    query: Annotated[int, "token of the row"]
    key: Annotated[int, "token of the row"]
    weight: float


class CheckDocument(TypedDict):
    name: Annotated[str, "of the checked function or class"]
    kind: Annotated[str, '"attention"; for a model a description of it']
    checks: list[_CheckEntry]
    backends: NotRequired[list[_BackendEntry]]
    conventions: Annotated[
        list[str],
        "conventions that differ from attncli's and are right, in words: the order of dimensions, the meaning of True "
        "in a mask",
        "`[convention]`",
    ]
    diagnosis: list[_DiagnosisEntry]
    smallest: Annotated[
        str | None, "if no known mistake explains it: the smallest input on which it differs, and both results"
    ]
    unchecked: NotRequired[Annotated[list[str], "for code: the parameters that were never passed", "`[parameter]`"]]
    zeroed: NotRequired[Annotated[list[str], "for code: weights of unknown meaning, set to 0", "`[weight]`"]]
    maps: _MapsEntry | None
    cells: NotRequired[list[_LeakedEntry]]
    verdict: Annotated[str, "one sentence"]
    right: Annotated[bool, "true if something was checked and nothing is wrong; otherwise the exit code is 1"]


WRONG = Cell("WRONG", "wrong")
VERDICTS: dict[bool | None, str | Cell] = {True: "right", False: WRONG, None: "not checked"}
NOT_PROMISED = "not promised"  # begins a note


@dataclass(frozen=True, repr=False)
class Checked(Result):
    """The checks of attention. found: all of them, and the verdict."""

    found: CheckDocument

    def __repr__(self) -> str:
        return printable(f"<{type(self).__name__}: {self.found['verdict']}>")

    def document(self) -> CheckDocument:
        """Return what --json prints."""
        return self.found

    def report(self) -> Report:
        """Show the checks and the verdict; it holds if nothing is wrong."""
        title, parts = f"{self.found['name']} as {self.found['kind']}", self._parts()
        drawn = None if any(isinstance(one, Maps) for one in parts) else _no_maps
        holds, verdict = self.found["right"], self.found["verdict"]
        return Report([title], parts, self.document, picture=drawn, holds=holds, verdict=verdict)

    def _parts(self) -> list[Part]:
        raise NotImplementedError


def _no_maps() -> Sequence[Part]:
    raise RequestError("-o has no effect on a check without maps: give --batch, or -m with code")


class CheckedCode(Checked):
    """The user's code, compared with the formula."""

    def _parts(self) -> list[Part]:
        """Return each check, the maps of a layer, the verdict, and for each mistake its place and its remedy."""
        document = self.found
        # If the code is right, the verdict names its conventions.
        conventions = [] if document["right"] else [TextLine("; ".join(document["conventions"]))]
        table = Table(
            [
                Column("check", "prose"),
                Column("verdict", "name"),
                Column("difference"),
                Column("note", "prose", drop=1),
            ],
            [
                (one["name"], VERDICTS[one["holds"]], _difference(one["difference"]), one["note"])
                for one in document["checks"]
            ],
        )
        parts: list[Part] = [*conventions, table]
        if (maps := document["maps"]) is not None:  # the head's own map, and the map of the user's code
            made = {"of the model": maps["ours"]}
            made |= {f"by {printable(document['name'])}": maps["theirs"]} if maps["theirs"] else {}
            head = f"{maps['layer']}.{maps['head']}"
            panels = [Panel(f"{head} {by}", np.array(weights, np.float32)) for by, weights in made.items()]
            parts.append(Maps([panels], MapAxis("queries", maps["shown"]), MapAxis("keys", maps["shown"])))
        lines = []
        for one in document["diagnosis"]:
            where = f"probably line {one['line']}, `{one['text']}`: " if one["line"] else ""
            lines.append(f"{where}{one['remedy']}")
        if document["smallest"]:
            lines.append(f"the smallest input that shows it, {document['smallest']}")
        return [*parts, TextLine(document["verdict"], "strong"), *map(TextLine, lines)]


class CheckedModel(Checked):
    """A model, held to the laws of attention."""

    def _parts(self) -> list[Part]:
        """Return each law on each backend, the verdict, the place of each leak, and what was not checked and why."""
        document = self.found
        backends = [one["name"] for one in document["backends"] if one["available"]]
        cells: dict[str, dict[str, str | Cell]] = {}
        for one in document["checks"]:
            cell = "-" if one["holds"] is None else VERDICTS[one["holds"]]  # the reason stands below
            cells.setdefault(one["name"], {})[one["backend"]] = cell
        rows = [(law, *(by_backend.get(backend, "-") for backend in backends)) for law, by_backend in cells.items()]
        table = Table([Column("law", "prose"), *(Column(one, "name") for one in backends)], rows)
        lines = [
            f"{one['name']} ({one['backend']}): {one['says']}" for one in document["checks"] if one["holds"] is False
        ]
        checked = {one["name"] for one in document["checks"] if one["holds"] is not None}
        promised: dict[tuple[str, str, str], list[str]] = {}  # the backends with the same note but for their names
        for one in document["checks"]:
            if one["note"].startswith(NOT_PROMISED):
                before, _, after = one["note"].partition(one["backend"])
                promised.setdefault((one["name"], before, after), []).append(one["backend"])
        for (law, before, after), names in promised.items():
            lines.append(f"{law}: {before}{', '.join(names) if after else ''}{after}")
        for one in document["checks"]:
            if one["holds"] is None and not one["note"].startswith(NOT_PROMISED):
                law = f"{one['name']} with {one['backend']}" if one["name"] in checked else one["name"]
                lines.append(f"not checked: {law} ({one['note']})")
        lines += [f"not checked: {one['name']} ({one['note']})" for one in document["backends"] if not one["available"]]
        return [table, TextLine(document["verdict"], "strong"), *map(TextLine, dict.fromkeys(lines))]


@dataclass(frozen=True, repr=False)
class CheckedBatch(Checked):
    """A batch in a model: what each token sees, and what it may see.

    seen: the largest weight over layers and heads of one row of the batch, `[query, key]`; None if no attention was
    seen. allowed: the keys that it may see, `[query, key]`. tokens: the tokens of that row.
    """

    seen: Floats | None
    allowed: Bools
    tokens: Sequence[str]

    def _parts(self) -> list[Part]:
        """Return each check, the network's mask next to the correct one, and the verdict."""
        document = self.found
        table = Table(
            [Column("check"), Column("verdict", "name"), Column("note", "prose", drop=1)],
            [(one["name"], VERDICTS[one["holds"]], one.get("says", "")) for one in document["checks"]],
        )
        parts: list[Part] = [table]
        if self.seen is not None:
            panels = [Panel("seen: largest weight", self.seen), Panel("allowed", np.float32(self.allowed))]
            tokens = [printable(one) for one in self.tokens]
            parts.append(Maps([panels], MapAxis("queries", tokens), MapAxis("keys", tokens), scale="seen", most=1.0))
        return [*parts, TextLine(document["verdict"], "strong")]


def _difference(number: float | None) -> str:
    return "" if number is None else f"{number:.1e}" if number else "0"
