"""Feature: a question with its options, which computes a report."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, ParamSpec, get_args, get_origin, get_type_hints

from attncli.base.choices import check_optional_text
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PAGE, PICTURES
from attncli.features.options import Option, Use
from attncli.report import Report

P = ParamSpec("P")


@dataclass(eq=False)
class Feature:
    """A question with its options. A subclass is a dataclass whose fields are annotated with `Option`s.

    group: the heading of its command in `attncli --help`. saves: the suffixes of its files. saved_as: what an error
    calls the content of such a file. output: the file that its command writes without -o. several: whether -o may be
    given several times. passes_on: whether all that follows its first argument belongs to that, as to a program.
    set_fields: the fields that were set; None compares each with its default. paths: the files that the answer is saved
    to. for_person: False with --json and -o. for_program: True with --json.
    """

    group: ClassVar[str] = ""
    saves: ClassVar[tuple[str, ...]] = (*PICTURES, PAGE, *DOCUMENTS)
    saved_as: ClassVar[str] = "a report"
    json: ClassVar[bool] = True
    output: ClassVar[str | None] = None
    several: ClassVar[bool] = False
    passes_on: ClassVar[bool] = False
    set_fields: frozenset[str] | None = field(default=None, init=False, repr=False, compare=False)
    paths: Sequence[Path] = field(default=(), init=False, repr=False, compare=False)
    for_person: bool = field(default=True, init=False, repr=False, compare=False)
    for_program: bool = field(default=False, init=False, repr=False, compare=False)

    @property
    def path(self) -> Path | None:
        """The file that the answer is saved to."""
        return self.paths[0] if self.paths else None

    @property
    def suffix(self) -> str:
        """The suffix of that file, in small letters; "" without one."""
        return self.path.suffix.lower() if self.path else ""

    def report(self) -> Report:
        """Compute the answer. Raises RequestError for what can't be met."""
        raise NotImplementedError

    def reports(self) -> Iterator[Report]:
        """Compute the answers one by one, for a feature with a report per text. Raises as `report` does."""
        yield self.report()

    def is_set(self, name: str) -> bool:
        """Return whether a field was set."""
        if self.set_fields is not None:
            return name in self.set_fields
        return bool(getattr(self, name) != default_of(type(self), name))

    def refuse(self, why: str, *names: str) -> None:
        """Raises RequestError for the first of these fields that was set: it has no effect, and `why` says why."""
        for name in names:
            if self.is_set(name):
                raise RequestError(f"{option_name(options_of(type(self))[name])} has no effect {why}: leave it out")

    def refuse_use(self, use: Use, why: str) -> None:
        """Raises RequestError for the first field of this use that was set."""
        self.refuse(why, *(name for name, option in options_of(type(self)).items() if option.use == use))


def as_function(feature: Callable[P, Feature]) -> Callable[P, Report]:
    """Return the function of a feature: its options are the parameters, and it returns the report.

    `help` shows plain types, and each parameter's line of the command's help in place of the command's examples.
    """

    def run(*arguments: P.args, **options: P.kwargs) -> Report:
        made = feature(*arguments, **options)
        _check_given(made)
        return made.report()

    made: type[Feature] = feature  # type: ignore[assignment]
    kinds = get_type_hints(made)
    parameters = [one.replace(annotation=kinds[one.name]) for one in inspect.signature(made).parameters.values()]
    run.__signature__ = inspect.Signature(parameters, return_annotation=Report)  # type: ignore[attr-defined]
    run.__name__ = run.__qualname__ = made.__name__.lower()
    run.__module__ = made.__module__
    about, _, _ = inspect.cleandoc(made.__doc__ or "").partition("\b")
    run.__doc__ = about + "\n".join(f"{name}: {option.help}" for name, option in options_of(made).items())
    return run


def _check_given(feature: Feature) -> None:
    """Raises TypeError, which says how the function is called, for an open model, for a record, and for no text."""
    from attncli.models.opening import Opening
    from attncli.record import AttentionRecord  # with numpy, which --help does without

    options, called = options_of(type(feature)), f"attncli.{type(feature).__name__.lower()}"
    needed = [name for name, option in options.items() if not option.names]
    for name in options:
        given = getattr(feature, name)
        if isinstance(given, AttentionRecord) and "saved" in options:
            usage = ", ".join([*(one for one in needed if one != "text"), 'saved="maps.npz"'])
            raise TypeError(f'{name} is a record: write {called}({usage}), after record.save("maps.npz")')
        if isinstance(given, AttentionRecord):
            raise TypeError(f"{name} is a record: write {called}({', '.join(needed)}), with texts or names of files")
        if hasattr(given, "place"):  # of an `Engine`, whose module imports torch
            model = f"model={Opening.of(given).name!r}"
            raise TypeError(f"{name} is an open model: write {called}({', '.join([*needed, model])}), with its name")
        if name in ("text", "pair"):
            check_optional_text(name, given)


def options_of(feature: type[Feature]) -> dict[str, Option]:
    """Return the options of a feature by the names of its fields, in their order; shared ones, by keyword, are last."""
    hints = get_type_hints(feature, include_extras=True)
    found = {}
    for one in sorted(fields(feature), key=lambda one: one.kw_only is True):
        if get_origin(hints[one.name]) is Annotated:
            found[one.name] = next(more for more in get_args(hints[one.name])[1:] if isinstance(more, Option))
    return found


def default_of(feature: type[Feature], name: str) -> Any:
    """Return the default of a field; MISSING if it has to be given."""
    [one] = [one for one in fields(feature) if one.name == name]
    return one.default_factory() if one.default_factory is not MISSING else one.default


def option_name(option: Option) -> str:
    """Return an option by its long name, and an argument by its metavar."""
    return str(option.metavar) if not option.names else max(option.names, key=lambda name: name.startswith("--"))
