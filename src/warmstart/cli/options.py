"""Commands from settings classes: each field becomes an option in its help panel."""

import csv
import inspect
from collections import Counter
from copy import copy
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperOption
from typer.main import get_command

from warmstart import progress
from warmstart.cli.process import check_folder, stoppable
from warmstart.commands import Command
from warmstart.errors import WarmstartError
from warmstart.jsonfiles import TYPE_NAMES
from warmstart.settings.base import Panel, Setting, read_settings_file

PANELS: tuple[Panel, ...] = get_args(Panel)
METAVARS = {int: "INT", float: "NUM", str: "PATH", bool: ""}  # a setting may declare another


class _Command(TyperCommand):
    """A command whose --help has a panel, and which drops no value in silence."""

    def get_help_option(self, ctx: Any) -> Any:
        help_option: Any = super().get_help_option(ctx)
        help_option.help, help_option.metavar = "show this message", ""
        help_option.rich_help_panel = PANELS[-1]
        return help_option

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=[*args])
        for parameter, times in Counter(given).items():
            if isinstance(parameter, TyperOption) and not parameter.is_flag:
                _check_repeat(parameter, times)
        return super().parse_args(ctx, args)


def _check_repeat(option: TyperOption, times: int) -> None:
    """Refuse an input that would be dropped; say which value of another setting counts."""
    if times == 1 or option.multiple:
        return
    if option.rich_help_panel == PANELS[0]:
        raise WarmstartError(
            f"{option.opts[0]} was given {times} times, but takes one value: give it once"
        )
    progress.say(f"{option.opts[0]} was given {times} times: the last value counts")


def build_command(entry: Command) -> Any:
    """Return the command that takes its settings as options and passes them to its function."""
    settings = [setting for setting in entry.settings.declared() if setting.has_flag]

    def command(config: Path | None, as_json: bool = False, **arguments: Any) -> None:
        check_folder()
        with stoppable():
            values = read_settings_file(config, entry.name.removeprefix("plan ")) if config else {}
            entry.settings.check_keys(values, f"--config {config}: ")
            parsed = {
                setting.key: _parse_flag(setting, arguments[setting.name]) for setting in settings
            }
            flags = {key: value for key, value in parsed.items() if value is not None}
            job = entry.settings.from_values(entry.settings.override(values, flags))
            entry.print(job, **{"as_json": as_json} if entry.has_json else {})

    settings.sort(key=lambda setting: not setting.is_required)
    parameters = [*map(_parameter, settings), *_common_parameters(entry)]
    parameters.sort(key=_panel_index)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__doc__ = f"{entry.help}\n\nExample: warmstart {entry.name} {entry.example}"
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.command(entry.name.split()[-1], cls=_Command)(command)
    return get_command(app)


def _common_parameters(entry: Command) -> list[inspect.Parameter]:
    """Return the options that are not settings."""
    text = "TOML file or a run's config.json with settings"
    config = typer.Option("--config", help=text, metavar="PATH", rich_help_panel=PANELS[0])
    parameters = [_keyword("config", Path | None, config)]
    if entry.has_json:
        as_json = typer.Option("--json", help="print JSON", metavar="", rich_help_panel=PANELS[0])
        parameters.append(_keyword("as_json", bool, as_json, default=False))
    if any(setting.advanced for setting in entry.settings.declared()):
        help_all = typer.Option(
            "--help-all",
            help="show advanced options too",
            metavar="",
            rich_help_panel=PANELS[-1],
            callback=_print_full_help,
            is_eager=True,
            expose_value=False,
        )
        parameters.append(_keyword("help_all", bool, help_all, default=False))
    return parameters


def _print_full_help(context: typer.Context, is_wanted: bool) -> None:
    if is_wanted:
        command = copy(context.command)
        command.params = [copy(parameter) for parameter in command.params]
        for parameter in command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(command.get_help(context))
        raise typer.Exit


def _keyword(name: str, value_type: Any, info: Any, default: Any = None) -> inspect.Parameter:
    annotation, kind = Annotated[value_type, info], inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _panel_index(parameter: inspect.Parameter) -> int:
    panel = parameter.annotation.__metadata__[0].rich_help_panel
    return PANELS.index(panel) if panel else 0  # arguments have a panel of their own


def _parameter(setting: Setting) -> inspect.Parameter:
    """Return a parameter whose default is None, which shows that the flag is absent."""
    value_type = str if setting.choices or setting.comma_separated else setting.value_type
    if setting.is_list and not setting.comma_separated:
        value_type = list[str]
    if setting.positional:
        info = typer.Argument(help=_help(setting), metavar=setting.flag, show_default=False)
        return _keyword(setting.name, value_type | None, info)
    flags = [setting.flag, *([setting.short] if setting.short else [])]
    if value_type is bool:
        flags = [f"{setting.flag}/--no-{setting.flag.removeprefix('--')}"]
    metavar = "|".join(setting.choices) or METAVARS[setting.value_type]
    option = typer.Option(
        *flags,
        help=_help(setting),
        metavar=setting.metavar or metavar + ",..." * setting.comma_separated,
        show_default=False,
        hidden=setting.advanced,
        rich_help_panel=setting.panel,
    )
    return _keyword(setting.name, value_type | None, option)


def _help(setting: Setting) -> str:
    """Return the help text with the default, which Typer does not know."""
    default, text = setting.default, escape(setting.help)
    if setting.is_required:
        return f"{text} [red]{escape('[required]')}[/]"
    if default in (None, (), "") or default is False:
        return text
    items = default if isinstance(default, tuple) else [default]
    shown = "yes" if default is True else ",".join(map(str, items))
    return f"{text} [dim]{escape(f'[{shown}]')}[/]"


def _parse_flag(setting: Setting, value: Any) -> Any:
    """Return a flag's value as its setting expects it; None if the flag is absent."""
    if not setting.is_list:
        return value
    if not setting.comma_separated:
        return tuple(value) if value else None
    if value is None:
        return None
    if not value.strip():
        raise WarmstartError(f"{setting.flag} is empty: {setting.help}")
    convert = str if setting.choices else setting.value_type
    try:
        # An item that contains a comma is quoted, as in a .csv file.
        return tuple(convert(item.strip()) for item in next(csv.reader([value])))
    except (ValueError, csv.Error):
        allowed = f"{TYPE_NAMES[setting.value_type]}, separated by commas"
        raise WarmstartError(f"{setting.flag} {value}: each item must be {allowed}") from None
