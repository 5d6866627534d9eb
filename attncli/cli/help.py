"""`--help`: a command's purpose, and its options in groups.

`--help-all` also lists rare options. The text is formatted without rich, whose import is slow.
"""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

from typer.core import TyperCommand, TyperGroup

from attncli.cli.output import fold_line
from attncli.features.options import GROUPS, MORE

HELP_NAMES = ["-h", "--help", "--help-all"]
EVERYTHING = "attncli.cli.help.everything"  # the key in a context that also lists rare options
NO_BREAK = "\N{NO-BREAK SPACE}"
NARROWEST = 40
WIDEST = 24  # columns of names; a longer name gets its own line


class InGroups:
    """The list of options of a command, or of the program."""

    params: list[Any]

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.rare = [one for one in self.params if getattr(one, "hidden", False)]
        for one in self.rare:
            one.hidden = False  # the shell should complete their names too
        for one in self.params:  # Typer supports repeated options and options of two words, but not both together
            if one.multiple and one.param_type_name == "option":
                one.nargs = len(one.metavar.split())

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        ctx.meta[EVERYTHING] = HELP_NAMES[-1] in args
        for one in self.get_params(ctx):  # type: ignore[attr-defined]
            if ctx.resilient_parsing:  # shell completion
                one.process_value = lambda ctx, value: value
            elif not one.multiple and one.nargs == 1 and "get_runtime_param" not in vars(one):  # only once per process
                converter = Converter(one.default, one.type_descriptor.annotation, one.get_runtime_param)
                one.get_runtime_param = converter.itself
        return super().parse_args(ctx, args)  # type: ignore[misc]

    def get_help(self, ctx: Any) -> str:
        columns = shutil.get_terminal_size().columns
        ctx.terminal_width = max(NARROWEST, min(columns, 80) - 2)
        text = str(super().get_help(ctx)).replace(NO_BREAK, " ")  # type: ignore[misc]
        return "\n".join(folded(text.split("\n"), columns))

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence in full."""
        return str(super().get_short_help_str(limit=1000))  # type: ignore[misc]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        everything = ctx.meta[EVERYTHING]
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for one in self.params:
            if everything or one not in self.rare:
                # "-l, --layer N", "    --pair TEXT", "TEXT"
                signature = one.metavar
                if one.param_type_name != "argument":
                    signature = name(one.opts) + (f" {one.metavar}" if one.metavar else "")
                groups[getattr(one, "rich_help_panel", None) or MORE].append((str(signature), meaning(one)))
        if everything or not self.rare:
            groups[MORE].append((name(HELP_NAMES[:2]), "Show the usual options." if self.rare else "Show this page."))
        if everything:
            groups[MORE].append((name(HELP_NAMES[2:]), "Show every option."))
        widest = max(len(first) for rows in groups.values() for first, _ in rows)
        for title, rows in groups.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl([(first.ljust(widest), second) for first, second in rows], col_max=WIDEST)
        if self.rare and not everything:
            formatter.write_paragraph()
            formatter.write_text(
                f"More: {ctx.command_path} {HELP_NAMES[-1]} shows every option ({len(self.rare)} more)."
            )


def folded(lines: list[str], columns: int) -> Iterator[str]:
    """Yield lines wrapped between words, except examples, which must stay copyable."""
    pasted = False
    for line in lines:
        pasted = bool(line.strip()) and (pasted or line.strip() in ("Example:", "Examples:"))
        yield line if pasted else fold_line(line, columns)


class Converter:
    """Converts the value of an option to its type with pydantic.

    Importing that takes 0.1 seconds, so defaults and plain text are not converted.
    """

    def __init__(self, default: Any, annotation: Any, made: Callable[[], Any]) -> None:
        self.default = default
        self.is_text = annotation in (str, str | None)
        self.made = made

    def itself(self) -> "Converter":
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None or value == self.default or (self.is_text and isinstance(value, str)):
            return value
        return self.made().coerce(value, param, ctx)


class Command(InGroups, TyperCommand):
    """A command."""


class Commands(InGroups, TyperGroup):
    """The program, whose help lists commands before options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def long_name(one: Any) -> str:
    """Return the long name of an option, or the metavar of an argument."""
    if one.param_type_name == "argument":
        return str(one.metavar)
    return str(max(one.opts, key=lambda option: option.startswith("--")))


def name(opts: list[str]) -> str:
    """Return the short name and the first long one; any others are former names."""
    short = next((f"{opt}, " for opt in opts if not opt.startswith("--")), "    ")
    return short + next(opt for opt in opts if opt.startswith("--"))


def meaning(one: Any) -> str:
    """Return an option's help, and its default if it has one."""
    default = one.show_default if isinstance(one.show_default, str) else one.default if one.show_default else None
    shown = default is not None and not getattr(one, "is_flag", False)
    if not shown:
        return str(one.help)
    unbroken = f"[default: {default}]".replace(" ", NO_BREAK)  # `InGroups.get_help` restores the spaces
    return f"{one.help}  {unbroken}"
