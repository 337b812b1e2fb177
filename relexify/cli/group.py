"""Verbs that are imported when they are called, so that `relexify --help` and errors come at once.

The defaults of some verbs' options need numpy. The list of verbs needs only their names, and the first paragraph of
their docstrings, which is read from the source.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any, ClassVar

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from typer.core import TyperCommand, TyperGroup

from relexify.cli.console import results
from relexify.errors import InputError

__all__ = ["HELP_OPTIONS", "Verb", "VerbCommand", "VerbGroup"]

HELP_OPTIONS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}

PANELS = {
    "transfer": "Transfer",
    "recipes": "Recipes",
    "systems": "Other systems",
    "evidence": "Evidence",
    "more": "More",
}
"""Where the help lists the verbs of each folder."""
_OUTPUT_OPTIONS = ("-o", "--output")
_BEFORE_DETAILS = re.compile(r"[:;.(]")
"""The end of the first phrase of a help."""
_ARGUMENT = re.compile(r"\{(\w+)\}|(\[[a-z_]+\])")
_TYPE = re.compile(r"<(?:list\[)?([\w ]+)\]?>|\b(INTEGER|FLOAT)\b(?: RANGE)?")
"""How newer versions of typer write an argument in the usage, and the type of a value; others write MODEL, INTEGER."""
_TYPE_NAMES = {"str": "TEXT"} | dict.fromkeys(("int", "int range", "integer", "float"), "NUMBER")
_NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Verb:
    """A verb of the command line.

    Attributes:
        folder: The package in `relexify.cli.verbs` that has it, one of `PANELS`.
        module: The module there: it has a function of the verb's name, or an `app` with several verbs.
    """

    folder: str
    module: str

    def load(self, name: str) -> Any:
        """Import the verb, and return its command."""
        module = import_module(f"relexify.cli.verbs.{self.folder}.{self.module}")
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(rich_markup_mode="markdown", add_completion=False, context_settings=HELP_OPTIONS)
            app.command(name, cls=VerbCommand)(getattr(module, name))
        command = typer.main.get_command(app)
        command.name = name
        return command

    def source(self) -> str:
        """Return the source of its module, which is read faster than imported."""
        return (Path(__file__).with_name("verbs") / self.folder / f"{self.module}.py").read_text(encoding="utf-8")

    def summary(self, name: str) -> str:
        """Return the first paragraph of its docstring, without importing the verb."""
        paragraph = re.search(rf'^def {name}\(.*?"""(.*?)(?:\n\n|""")', self.source(), flags=re.MULTILINE | re.DOTALL)
        return paragraph[1] if paragraph else ""


# Contexts and formatters are those of click, or of the copy of click that newer versions of typer contain.
class VerbCommand(TyperCommand):
    """A verb that takes a file or a name only once, unless the option is repeatable.

    Of a number that is repeated, the last one counts, so that a script can append its own to a command.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            InputError: As `reject_incomplete`; or there is an argument too many, the model is given as the output, or
                an option that takes one file or one name is repeated; all but the last would be ignored.
        """
        if not ctx.resilient_parsing:
            self.reject_incomplete(ctx, args)
        parsed: Any = self.make_parser(ctx).parse_args(args=list(args))
        values, rest, given = parsed
        if values.get("help") or ctx.resilient_parsing:  # for completion, the command is not complete
            return super().parse_args(ctx, args)
        if rest:
            takes = " ".join(each.name.upper() for each in self.params if each.param_type_name == "argument")
            text = ", such as --corpus FILE" if any("--corpus" in each.opts for each in self.params) else ""
            raise InputError(
                f"{ctx.command_path} takes {takes or 'no arguments'}, and {rest[0]!r} is one too many: give files and "
                f"settings as options{text} (see {ctx.command_path} --help)"
            )
        required = [each for each in self.params if each.param_type_name == "argument" and each.required]
        first = values.get(required[0].name) if required else None
        if isinstance(first, str) and not isinstance(values.get(required[-1].name), str | list | tuple):
            # One of them was forgotten, and not necessarily the last one.
            takes = " ".join(each.name.upper() for each in required)
            raise InputError(
                f"{ctx.command_path} takes {len(required)} arguments, {takes}, and {first!r} is only one of them: give "
                f"all, as in {ctx.command_path} {takes} (see {ctx.command_path} --help)"
            )
        if isinstance(values.get("model"), str) and isinstance(values.get("output"), str):
            _check_order(ctx.command_path, values["model"], values["output"])
        options = Counter[Any](each for each in given if each.param_type_name == "option" and not each.is_flag)
        for option, times in options.items():
            if times > 1 and not option.multiple and not _NUMBER.fullmatch(str(values[option.name])):
                raise InputError(
                    f"{max(option.opts, key=len)} is given {times} times, but takes one value: give it once "
                    f"({ctx.command_path} --help says what is repeatable)"
                )
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help in panels; typer does so too, but imports parsers of Markdown and of code for it."""
        _print_head(self.get_usage(ctx), cleandoc(self.help or ""))
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            default = "Arguments" if parameter.param_type_name == "argument" else "Options"
            names, text = _help_row(parameter, ctx)
            if names:  # empty if it is hidden
                panel: Any = getattr(parameter, "rich_help_panel", None)
                shown = parameter.name.upper() if default == "Arguments" else names
                panels.setdefault(panel or default, []).append((shown, text))
        _print_panels(panels)

    def reject_incomplete(self, ctx: Any, args: Sequence[str]) -> None:
        """Reject a command that lacks an option, before typer converts any value: it imports pydantic for that.

        Raises:
            InputError: An option is missing, or the output is given as one although it is an argument.
        """
        found, given = [], list(args)
        has_output = any(each.name == "output" and each.param_type_name == "argument" for each in self.params)
        known = {option for each in self.params for option in each.opts}
        options = args[: args.index("--")] if "--" in args else args
        split = [word.split("=", 1) for word in options]
        position = next(
            (at for at, (name, *_) in enumerate(split) if name in _OUTPUT_OPTIONS and name not in known), None
        )
        if has_output and position is not None:
            name, *value = split[position]
            after = position + 1 if value else position + 2
            # The output is the last argument of every verb.
            given = [*args[:position], *args[after:], *(value or args[position + 1 : after])]
            found.append(f"takes the output as an argument, without {name}")
        try:
            values, rest, _ = self.make_parser(ctx).parse_args(args=list(given))
        except Exception:  # of typer, about another mistake: it is raised again when the command is parsed
            return
        arguments = [each.name for each in self.params if each.param_type_name == "argument" and each.required]
        if rest or values.get("help") or not all(values.get(name) for name in arguments):
            return
        if needed := self._describe_missing(values):
            found.append(f"needs {needed}")
        if found:
            raise InputError(f"{ctx.command_path} {', and '.join(found)}: write {self._complete(ctx, given, values)}")

    def _describe_missing(self, values: Mapping[str, Any]) -> str:
        """Return the options that a command lacks, each with what it is; empty if there are none."""
        described = []
        for each in self._missing(values):
            phrase = _BEFORE_DETAILS.split(each.help or "")[0]
            described.append(f"{max(each.opts, key=len)} ({phrase[:1].lower()}{phrase[1:]})")
        return " and ".join(described)

    def _complete(self, ctx: Any, args: Sequence[str], values: Mapping[str, Any]) -> str:
        """Return a command with the options that it lacks, and with a dictionary if it takes one."""
        added = [f"{max(each.opts, key=len)} FILE" for each in self._missing(values)]
        if added and any(each.name == "dictionary" and not values.get(each.name) for each in self.params):
            added.append("[--dictionary FILE]")
        return " ".join([ctx.command_path, shlex.join(args), *added])

    def _missing(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the required options that have no value."""
        options = [each for each in self.params if each.param_type_name == "option" and each.required]
        return [each for each in options if not values.get(each.name)]


def _check_order(command: str, model: str, output: str) -> None:
    """Reject the name of a packaged model as output. A folder may be both: it is overwritten, or trained in place."""
    from relexify.pretrained.files.packaged import PACKAGED

    if output in PACKAGED and model not in PACKAGED:
        raise InputError(
            f"{output} is a model, so it cannot be the output: give the model first, then the output, as in "
            f"{command} {output} {model}"
        )


class VerbGroup(TyperGroup):
    """A program with verbs, which a subclass lists in `verbs`."""

    verbs: ClassVar[Mapping[str, Verb]] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _Commands(self.verbs)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the verbs."""
        return list(self.commands)

    def verbs_with_option(self, option: str) -> list[str]:
        """Return the names of the verbs that have an option, such as `--steps`."""
        # A verb whose source does not have the name of its parameter is not imported; `--set` is part of `settings`.
        parameter = option.lstrip("-").replace("-", "_")
        named = [name for name, verb in self.verbs.items() if parameter in verb.source()]
        return [name for name in named if any(option in each.opts for each in self.commands[name].params)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the verb; if help for a verb is requested, show it and exit.

        This shortcut halves the time: to convert the value of any option, typer imports pydantic. So does the
        rejection of a verb that lacks an option.

        Raises:
            InputError: As `VerbCommand.reject_incomplete`.
        """
        at = next((index for index, word in enumerate(args) if not word.startswith("-")), len(args))
        if args[at:] and args[at] in self.verbs:
            name, rest, verb = args[at], args[at + 1 :], self.commands[args[at]]
            if not set(HELP_OPTIONS["help_option_names"]).isdisjoint(rest):
                verb.make_context(name, rest, parent=ctx)
            elif isinstance(verb, VerbCommand) and not ctx.resilient_parsing:
                verb.reject_incomplete(verb.context_class(verb, info_name=name, parent=ctx), rest)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help of the program in panels; typer does so too, but imports a parser of Markdown for it."""
        _print_head(self.get_usage(ctx), self.help or "", is_markup=True)
        panels = {"Options": [_help_row(option, ctx) for option in self.get_params(ctx)]}  # it has no arguments
        for name, verb in self.verbs.items():
            panels.setdefault(PANELS[verb.folder], []).append((name, verb.summary(name)))
        _print_panels(panels, width=max(map(len, self.verbs)))


def _help_row(parameter: Any, ctx: Any) -> tuple[str, str]:
    """Return the names of a parameter with the type of its value, and its help; two empty texts if it is hidden."""
    names, text = parameter.get_help_record(ctx) or ("", "")
    # Older versions of typer escape brackets in the text, for Rich.
    return _TYPE.sub(_type_name, names), text.replace(r"\[", "[")


def _type_name(found: re.Match[str]) -> str:
    name = found[1] or found[2]
    return _TYPE_NAMES.get(name.lower(), name.upper())


def _print_head(usage: str, text: str, *, is_markup: bool = False) -> None:
    """Print how a command is written, and what it does, a paragraph as one line that the terminal wraps."""
    usage = _ARGUMENT.sub(lambda found: (found[1] or found[2]).upper(), usage)
    results.print(Padding(escape(usage), 1, style="bold"))
    text = text if is_markup else escape(text)
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    results.print(Padding("\n\n".join(paragraphs), (0, 1, 1, 1)), highlight=False)


def _print_panels(panels: Mapping[str, Sequence[tuple[str, str]]], *, width: int | None = None) -> None:
    """Print rows of a name and its meaning, in panels by their titles; those without rows are left out."""
    for title, rows in panels.items():
        if not rows:
            continue
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold cyan", no_wrap=True, min_width=width)
        for left, right in rows:
            grid.add_row(escape(left), escape(" ".join(right.split())))
        results.print(Panel(grid, title=title, title_align="left", border_style="dim"))


class _Commands(Mapping[str, Any]):
    """The commands of verbs by name, each imported when it is looked up."""

    def __init__(self, verbs: Mapping[str, Verb]) -> None:
        self.verbs, self.loaded = verbs, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self.loaded:
            self.loaded[name] = self.verbs[name].load(name)
        return self.loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.verbs)

    def __len__(self) -> int:
        return len(self.verbs)
