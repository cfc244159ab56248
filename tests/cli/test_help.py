import click
import pytest
import typer

from product import run, succeed
from warmstart.cli.main import app

GROUP = typer.main.get_command(app)
TOP: dict[str, click.Command] = GROUP.commands  # type: ignore[attr-defined]
COMMANDS = {
    f"{name} {member}".strip(): leaf
    for name, command in TOP.items()
    for member, leaf in getattr(command, "commands", {"": command}).items()
}


def test_the_commands_of_this_version_are_there() -> None:
    promised = "demo data tokenizer pretrain finetune compare predict generate evaluate params"
    assert set(promised.split()) <= set(COMMANDS)


def test_help_lists_every_command() -> None:
    shown = succeed("--help").out
    for name in TOP:
        assert name in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_that_starts_with_the_command(name: str) -> None:
    shown = " ".join(succeed(f"{name} --help").out.split())
    assert f"Example: warmstart {name} " in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{name} {parameter.name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_uses_only_options_that_exist(name: str) -> None:
    example = (COMMANDS[name].help or "").split("Example: ")[1]
    known = {flag for parameter in COMMANDS[name].params for flag in parameter.opts}
    for word in example.split():
        assert not word.startswith("-") or word in known


@pytest.mark.parametrize("name", ["pretrain", "finetune", "compare"])
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


def test_defaults_and_what_is_required_are_shown() -> None:
    shown = "".join(succeed("compare --help").out.replace("│", " ").split())
    for words in ("[default:0,1,2]", "[default:mean]", "[default:no]", "[required]"):
        assert words in shown


def test_nothing_asked_gives_help() -> None:
    ran = run("")
    assert "Usage" in ran.out + ran.err


@pytest.mark.parametrize("name", ["embed", "translate", "serve"])
def test_a_command_that_is_not_there_is_refused_by_name(name: str) -> None:
    if name in COMMANDS:
        pytest.skip("now it is there")
    ran = run(name)
    assert ran.code == 2
    assert name in ran.err
