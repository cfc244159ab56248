import click
import pytest

from command_line import run, succeed
from warmstart import commands
from warmstart.cli.main import program
from warmstart.cli.options import PANELS, build_command

TOP: dict[str, click.Command] = program().commands
COMMANDS: dict[str, click.Command] = {
    entry.name: build_command(entry) for group in commands.COMMANDS.values() for entry in group
}
MAX_LINES = 60


def help_lines(command: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    return succeed(command).out.splitlines()


def panels(lines: list[str]) -> dict[str, list[str]]:
    """Return the rows of each panel by its title."""
    rows: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("╭─ "):
            rows[line.split("─ ")[1].split(" ─")[0]] = []
        elif line.startswith("│"):
            rows[list(rows)[-1]].append(line.strip("│ "))
    return rows


def test_help_groups_every_command_by_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = panels(help_lines("--help", 100, monkeypatch))
    assert list(shown) == ["Options", *commands.COMMANDS]
    names = {row.split()[0]: group for group in commands.COMMANDS for row in shown[group]}
    assert names.keys() >= TOP.keys()
    promised = {
        "Start": "demo samples doctor data tokenizer",
        "Train": "pretrain finetune compare train-translator verify-resume",
        "Use": "predict translate embed generate fill-mask evaluate serve",
        "Look inside": "params plan look",
        "Exchange": "import export",
    }
    for group, members in promised.items():
        assert {names[name] for name in members.split()} == {group}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_short(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(help_lines(f"{name} --help", 100, monkeypatch)) <= MAX_LINES


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained_in_a_panel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = COMMANDS[name]
    assert all(getattr(parameter, "help", None) for parameter in command.params)
    has_more = any(parameter.name == "help_all" for parameter in command.params)
    shown = panels(help_lines(f"{name} --help{'-all' * has_more}", 200, monkeypatch))
    order = ["Arguments", *PANELS]
    assert list(shown) == [panel for panel in order if panel in shown]
    flags = {row.split()[0] for panel in PANELS for row in shown.get(panel, [])}
    assert flags == {p.opts[0] for p in command.params if p.opts[0].startswith("-")} | {"--help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_required_options_come_first(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for rows in panels(help_lines(f"{name} --help", 200, monkeypatch)).values():
        is_required = ["[required]" in row for row in rows]
        assert is_required == sorted(is_required, reverse=True)


def test_advanced_options_are_shown_only_when_asked_for() -> None:
    flags = ("--clip", "--norm-position", "--keep")
    short, long = succeed("pretrain --help").out, succeed("pretrain --help-all").out
    assert not any(flag in short for flag in flags)
    assert all(flag in long for flag in flags)
    assert "--help-all" in short


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_that_starts_with_the_command(name: str) -> None:
    shown = " ".join(succeed(f"{name} --help").out.split())
    assert f"Example: warmstart {name} " in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_uses_only_options_that_exist(name: str) -> None:
    example = (COMMANDS[name].help or "").split("Example: ")[1]
    known = {flag for parameter in COMMANDS[name].params for flag in parameter.opts}
    for word in example.split():
        assert not word.startswith("-") or word in known


@pytest.mark.parametrize("name", ["pretrain", "finetune", "compare", "train-translator"])
def test_common_options_are_the_same_everywhere(name: str) -> None:
    known = {flag for parameter in COMMANDS[name].params for flag in parameter.opts}
    assert {"--seed", "--device", "--precision", "--threads", "--config"} <= known
    assert {"--resume", "-o"} <= known


def test_short_help_works_too() -> None:
    assert "Usage" in succeed("pretrain -h").out


def test_version_is_printed() -> None:
    ran = run("--version")
    assert ran.code == 0, ran.err
    assert ran.out.strip()[0].isdigit() or ran.out.strip() == "source"


def test_defaults_and_what_is_required_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = "\n".join(help_lines("compare --help", 100, monkeypatch))
    for default in ("[0,1,2,3,4]", "[mean]", "[0]", "[auto]", "[required]"):
        assert default in shown
    assert "[yes]" in succeed("plan pretrain --help").out


def test_a_setting_that_is_repeated_is_said_to_replace_the_first() -> None:
    ran = run("params tiny --width 16 --width 32 --heads 2")
    assert ran.code == 0, ran.err
    assert "--width was given 2 times: the last value counts" in ran.err


def test_no_arguments_give_help() -> None:
    ran = run("")
    assert "Usage" in ran.out + ran.err


def test_an_unknown_command_is_refused_by_name() -> None:
    ran = run("bake")
    assert ran.code == 2
    assert "bake" in ran.err
