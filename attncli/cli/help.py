"""`--help`: what a command does, and its options in groups; the rare ones are left to `--help-all`.

Plain text that is made without rich, which would take longer to import than all the rest.
"""

from typing import Any

from typer.core import TyperCommand, TyperGroup

from attncli.cli.options import GROUPS, MORE

HELP_NAMES = ["-h", "--help", "--help-all"]
EVERYTHING = "attncli.cli.help.everything"  # in a context: whether rare options are listed too
NAMES_WIDTH = 22  # columns; a name that is longer has a line of its own


class InGroups:
    """What a command and a program of commands have alike: how their options are listed."""

    params: list[Any]

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.rare = {one.name for one in self.params if getattr(one, "hidden", False)}
        for one in self.params:
            one.hidden = False  # to the shell they are options like all others

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        ctx.meta[EVERYTHING] = HELP_NAMES[-1] in args
        return super().parse_args(ctx, args)  # type: ignore[misc]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        everything = ctx.meta[EVERYTHING]
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for one in self.params:
            if everything or one.name not in self.rare:
                groups[getattr(one, "rich_help_panel", None) or MORE].append((names(one), meaning(one)))
        groups[MORE].append(("-h, --help", "Show this page."))
        if self.rare:
            others = [longest(one) for one in self.params if one.name in self.rare]
            groups[MORE].append(
                ("    --help-all", "Show every option" + ("." if everything else f": also {', '.join(others)}."))
            )
        for title, rows in groups.items():
            if rows:
                write_section(formatter, title, rows)


class Command(InGroups, TyperCommand):
    """A command."""


class Commands(InGroups, TyperGroup):
    """A command that has commands of its own."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def names(one: Any) -> str:
    """ "-l, --layer N", "    --pair TEXT", "TEXT" """
    if one.param_type_name == "argument":
        return str(one.metavar)
    short = next((f"{name}, " for name in one.opts if not name.startswith("--")), "    ")
    return f"{short}{longest(one)}" + ("" if one.is_flag else f" {one.metavar}")


def longest(one: Any) -> str:
    """An option's name in full: the first of them, where it has had others."""
    return next(name for name in one.opts if name.startswith("--"))


def meaning(one: Any) -> str:
    """An option's help, and its default where it has one that says something."""
    default = one.show_default if isinstance(one.show_default, str) else one.default if one.show_default else None
    shown = default is not None and not getattr(one, "is_flag", False)
    return f"{one.help}  [default: {default}]" if shown else str(one.help)


def write_section(formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
    """A titled list whose second column begins where those of all other sections do."""
    with formatter.section(title):
        formatter.write_dl([(name.ljust(NAMES_WIDTH), text) for name, text in rows], col_max=NAMES_WIDTH)
