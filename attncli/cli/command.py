"""Turn a feature into a command: its options, its output, its exit code."""

import inspect
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer import Context

from attncli.base.errors import RequestError
from attncli.base.files import PICTURES, check_place, check_suffix
from attncli.base.printable import printable
from attncli.base.progress import showing
from attncli.cli import output, streams
from attncli.features.measure import Measure, NoEffectError
from attncli.features.options import MORE, OUTPUT, PRINTED, STDIN, Option, option, option_name
from attncli.report import Report

WRONG = 1
EVERYTHING = "with {}, which has everything"


def command_of(feature: Measure) -> Callable[..., None]:
    """Return the function that Typer turns into a command: the feature's options, then -o, --json and other common
    ones."""
    options = feature.parameters

    def run(**values: Any) -> None:
        execute(feature, values)

    parameters = [inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    parameters += [parameter(name, kind, typed(one), default) for name, (kind, one, default) in options.items()]
    if feature.saves:
        shown = feature.output or False
        saved = typed(option(OUTPUT, "--output", "-o", metavar="PATH", help=saves(feature), show_default=shown))
        default = None if feature.output is None else [Path(feature.output)]
        parameters.append(parameter("output_path", list[Path] | None, saved, default))
    if draws(feature):
        for name, (of_picture, one) in PRINTED.items():
            parameters.append(parameter(name, of_picture | None, typed(one), None))
    if feature.json:
        parameters.append(parameter("json", bool, typed(JSON), False))
    parameters += [parameter("quiet", bool, QUIET, False), parameter("debug", bool, DEBUG, False)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__doc__ = feature.help
    return run


def execute(feature: Measure, values: dict[str, Any]) -> None:
    """Compute a command's result, show or save it, and exit with its code."""
    options = feature.parameters
    context: typer.Context = values["context"]
    paths, json = values.get("output_path") or [], values.get("json", False)
    for path in paths:
        check_suffix(path, feature.saves, feature.saved_as)
        check_place(path)
    printed = check_printed(values, paths) if draws(feature) else {}
    given = {name: values[name] for name in options if is_set(context, name)}
    for_person = not paths and not json
    if not for_person and feature.output is None:
        for name in given:
            if options[name].option.only_shown:
                refuse_option(options[name].option, EVERYTHING.format("--json" if json else "-o"))
    suffixes = [*(path.suffix.lower() for path in paths), *([".json"] if json else [])]
    for name in given:
        one = options[name].option
        if suffixes and all(suffix in one.not_saved for suffix in suffixes):
            refuse_option(one, f"{f'on {paths[0].suffix}' if paths else 'with --json'}, which does not show it")
        if one.only_saved and not any(suffix in one.only_saved for suffix in suffixes):
            raise RequestError(f"{option_name(one)} needs a saved record: add -o with {' or '.join(one.only_saved)}")
    with showing(output.display()):
        try:
            result = feature.function(**given)
            if result is None:  # it has already shown everything
                return
            if for_person:
                for report in result.reports():
                    deliver(report, feature, paths, printed, json, context)
            else:
                with streams.stdout_to_stderr() if json and feature.passes_on else nullcontext():
                    report = result.report()
                deliver(report, feature, paths, printed, json, context)
        except NoEffectError as error:
            refuse_option(options[error.name].option, error.why)


def refuse_option(one: Option, why: str) -> NoReturn:
    """Raises RequestError: an option that was given has no effect."""
    raise RequestError(f"{option_name(one)} has no effect {why}: omit it")


def draws(feature: Measure) -> bool:
    """Return whether a feature saves pictures."""
    return not set(PICTURES).isdisjoint(feature.saves)


def check_printed(values: dict[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    """Return the options for the size and print of a picture.

    Raises RequestError if no picture is saved or the format does not support an option, and as `paper` does.
    """
    printed = {name: values[name] for name in PRINTED if values[name] is not None}
    suffixes = {path.suffix.lower() for path in paths}
    for name in printed:
        option_name = PRINTED[name][1].names[0]
        if suffixes.isdisjoint(PICTURES):
            raise RequestError(f"{option_name} has no effect without a picture: add -o FILE.pdf")
    if printed:
        from attncli.report.paper import paper

        sheet = paper(**printed)
        if sheet.width is not None and printed["width"].strip()[-1:] in "0123456789.":
            output.say(f"attncli: --width {printed['width']} is in inches: {sheet.width * 2.54:.3g}cm")
    if "font" in printed:
        from attncli.report.figure.fonts import installed_family

        installed_family(printed["font"])
    return printed


def deliver(
    report: Report,
    feature: Measure,
    paths: Sequence[Path],
    printed: Mapping[str, Any],
    json: bool,
    context: typer.Context,
) -> None:
    """Show or save a report, suggest the next command, and exit with its code unless that is 0.

    Files are saved first: if that fails, nothing is printed.
    """
    saved = [] if report.partial else paths
    for path in saved:
        report.save(path, **(printed if path.suffix.lower() in PICTURES else {}))
    if json:
        output.text(report.json())
    elif report.verbatim is not None:
        output.text([report.verbatim])
    elif not paths or report.partial:
        from attncli.report.terminal import lines_of

        canvas = replace(output.canvas(), typed=partial(next_line, context))
        output.show(*lines_of(report.title, report.parts, canvas))
    sys.stdout.flush()
    if report.partial:
        raise typer.Exit(output.INTERRUPTED)
    for path in saved:
        output.file(path, json)
    if saved and report.verdict is not None:
        output.say(f"attncli: {report.verdict}")
    again = bool(paths) and feature.output is None  # then don't suggest another file of the same kind
    following = report.after_saving(saved[0]) if saved and report.after_saving is not None else report.next
    if following is not None and not json and not (again and "output_path" in following.options):
        line = next_line(context, *following)
        if line is not None:
            output.hint(f"Next: {line}")
    if report.holds is False or report.code:
        raise typer.Exit(report.code or WRONG)


def parameter(name: str, kind: Any, made: Any, default: Any) -> inspect.Parameter:
    """Return a parameter of a command. It is keyword-only, so that it can follow parameters with defaults."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, made])


def typed(one: Option) -> Any:
    """Return Typer's type of an option."""
    if not one.names:
        return typer.Argument(
            metavar=one.metavar,
            help=one.help,
            show_default=False,
            autocompletion=one.complete,
            rich_help_panel=one.group,
        )
    return typer.Option(
        *one.names,
        metavar=one.metavar,
        help=one.help,
        hidden=one.rare,
        min=one.least,
        max=one.most,
        show_default=one.show_default,
        autocompletion=one.complete,
        rich_help_panel=one.group,
    )


def saves(feature: Measure) -> str:
    """Return the help of -o."""
    *some, last = feature.saves
    return f"Save as {', '.join(some)} or {last}." if some else f"Save as {last}."


JSON = option(OUTPUT, "--json", help="Print only one JSON document.")
QUIET = typer.Option(
    "--quiet",
    "-q",
    help="Only errors on stderr (or ATTNCLI_QUIET=1).",
    envvar="ATTNCLI_QUIET",
    callback=output.set_quiet,
    is_eager=True,
    rich_help_panel=OUTPUT,
)
DEBUG = typer.Option(
    "--debug",
    help="Show a traceback for errors.",
    callback=output.set_debug,
    is_eager=True,
    hidden=True,
    rich_help_panel=MORE,
)


# --- the suggested next command -------------------------------------------------------------------------

# Options that select the maps. A command without one of them would show other maps.
SAME = ("saved", "model", "engine", "pair", "file", "whole", "mask", "pad_to", "measure", "which", "target")
# The text, and the part of its maps to look at.
ALSO = ("text", "layer", "head", "query", "words", "no_special", "segments")
NOT_AGAIN = ("output_path", "quiet", "debug")


def is_set(context: Context, name: str) -> bool:
    """Return whether a parameter was given on the command line; an environment variable counts as a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def next_line(context: Context, command: str, options: Mapping[str, Any], alone: bool = False) -> str | None:
    """Return the line that runs `command` on the same text and model.

    None with --quiet, if the text was piped in or has control characters, or if the command would show other maps.
    options: values by the names of parameters; None drops an option of the last command. alone: keep none of its
    options.
    """
    if output.QUIET:
        return None
    target: Any = context.find_root().command.get_command(context, command)  # type: ignore[attr-defined]
    kinds = {one.name: one.param_type_name for one in context.command.params}
    taken = {one.name: one for one in target.params}
    again = kinds.keys() - NOT_AGAIN if target is context.command else kinds.keys() & {*SAME, *ALSO}
    kept = {name for name in again - options.keys() if is_set(context, name) and not alone}
    fitting = {name for name in kept if name in taken and taken[name].param_type_name == kinds[name]}
    if (kept - fitting) & {*SAME}:
        return None
    values = {name: context.params[name] for name in fitting} | dict(options)
    line = command_line(command, target, values)
    return line if values.get("file") != STDIN and printable(line) == line else None


def command_line(command: str, target: Any, values: dict[str, Any]) -> str:
    """Return the command line with these values: options with their shortest names, then arguments."""
    options, arguments = [], []
    for one in target.params:
        value = values.get(one.name)
        if value is None or value is False:
            continue
        each = value if isinstance(value, list | tuple) else [value]
        if one.param_type_name == "argument":
            arguments += [str(item) for item in each]
        elif one.is_flag:
            options.append(min(one.opts, key=len))
        else:
            options += [word for item in each for word in (min(one.opts, key=len), str(item))]
    dashes = ["--"] if any(word.startswith("-") and word != STDIN for word in arguments) else []
    return shlex.join(["attncli", command, *options, *dashes, *arguments])
