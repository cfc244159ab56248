"""Files for containers, systemd and forges against the product: what they call and name is real."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_documents import COMMANDS, ROOT

from http_server import Server
from warmstart.serving.commands import ServeConfig
from warmstart.serving.serve import TOKEN_VARIABLE

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
UNIT = ROOT / "examples/warmstart.service"
TIMEOUT = ServeConfig.from_values({"runs": ["run"]}).timeout  # that a stopping server may need


def instructions() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage of the Dockerfile, after the global arguments."""
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text()).replace("\\\n", " ")
    stages: list[list[tuple[str, str]]] = [[]]
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append([])
        stages[-1].append((word, re.sub(r"\s+", " ", rest)))
    return stages[1:]


def last(word: str) -> str:
    """Return what an instruction of the final stage says."""
    return dict(instructions()[-1])[word]


def parsed(words: list[str]) -> dict[str, Any]:
    """Return the settings of a command line of ours."""
    name, *arguments = words
    return COMMANDS[name].make_context(name, arguments).params


@pytest.fixture(scope="module")
def services() -> Any:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


@pytest.fixture(scope="module")
def unit() -> dict[str, list[str]]:
    """Return the values of each key of the unit."""
    values: dict[str, list[str]] = {}
    for key, value in re.findall(r"(?m)^(\w+)=(.*)$", UNIT.read_text()):
        values.setdefault(key, []).append(value)
    return values


def test_the_image_is_built_from_files_that_exist_and_are_sent() -> None:
    sent = re.findall(r"(?m)^!(.*)$", (ROOT / ".dockerignore").read_text())
    for word, rest in instructions()[0]:
        if word == "COPY":
            *sources, _ = rest.split()
            assert set(sources) <= set(sent)
            assert all((ROOT / source).exists() for source in sources)
    assert "src" in sent


def test_the_image_is_small_and_runs_without_root() -> None:
    build, final = instructions()
    assert all(rest.split()[0] == "python:${PYTHON}-slim" for rest in (build[0][1], final[0][1]))
    assert last("USER").split(":")[0] not in ("", "0", "root")
    assert not any("pip install" in rest for _, rest in final)  # no cache, no sources
    assert json.loads(last("ENTRYPOINT")) == ["warmstart"]
    assert re.search(r"(?m)^torch==", (ROOT / "constraints.txt").read_text())  # that it greps for


def test_the_health_check_tells_a_server_from_none(server: Server) -> None:
    program, *arguments = json.loads(last("HEALTHCHECK").split("CMD ", 1)[1])
    assert program == "python"
    default = f"http://127.0.0.1:{last('EXPOSE')}"
    for url, code in ((server.url, 0), ("http://127.0.0.1:1", 1)):
        command = [sys.executable, *(word.replace(default, url) for word in arguments)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == code


def test_compose_serves_a_run_to_this_machine_with_a_token(services: Any) -> None:
    serve = services["serve"]
    given = parsed([re.sub(r"\$\{RUN:-(\w+)\}", r"\1", word) for word in serve["command"]])
    assert given["host"] == "0.0.0.0"
    assert [Path(run).parent for run in given["runs"]] == [Path(last("VOLUME"))]
    assert serve["ports"] == [f"127.0.0.1:{last('EXPOSE')}:{last('EXPOSE')}"]
    assert ":?" in serve["environment"][TOKEN_VARIABLE]  # without one it does not start
    assert int(serve["stop_grace_period"].removesuffix("s")) > TIMEOUT


def test_compose_trains_into_the_volume_that_it_serves(services: Any) -> None:
    (shared,), (served,) = services["train"]["volumes"], services["serve"]["volumes"]
    assert served == f"{shared}:ro"
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
    for line in re.findall(r"(?m)^#.* train (\w+ .*)$", (ROOT / "compose.yaml").read_text()):
        assert parsed(shlex.split(line))["out"].startswith(last("VOLUME"))


def test_the_unit_starts_a_server_that_may_do_little(unit: dict[str, list[str]]) -> None:
    program, *words = shlex.split(unit["ExecStart"][0])
    assert Path(program).name == "warmstart"
    assert not parsed(words)["host"] or parsed(words)["host"] == "127.0.0.1"
    assert int(unit["TimeoutStopSec"][0]) > TIMEOUT
    assert unit["NoNewPrivileges"] == unit["DynamicUser"] == unit["ProtectHome"] == ["yes"]
    assert unit["ProtectSystem"] == ["strict"]
    assert f"{TOKEN_VARIABLE}=" in UNIT.read_text()


def test_the_workflow_runs_our_targets_on_every_supported_python() -> None:
    files = sorted((ROOT / ".github/workflows").glob("*.yml"))
    workflows = {file.stem: yaml.safe_load(file.read_text())["jobs"] for file in files}
    steps = [step for jobs in workflows.values() for job in jobs.values() for step in job["steps"]]
    run = [step["run"] for step in steps if "run" in step]
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    assert ".ci/run" in run
    assert {line.split()[1] for line in run if line.startswith("make ")} <= targets
    jobs = workflows["ci"]
    versions = jobs["test"]["strategy"]["matrix"]["python"]
    classifiers = [c.split(" :: ")[-1] for c in PROJECT["classifiers"] if "Python :: 3" in c]
    assert versions == classifiers
    assert PROJECT["requires-python"] == f">={versions[0]}"


def make_install(folder: Path, python: str) -> str:
    """Run `make install` with a script in place of Python; return what it complains about."""
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("pyproject.toml", "constraints.txt"):
        (folder / name).touch()
    script = folder / "python"
    script.write_text(f"#!/bin/sh\n{python}\n")
    script.chmod(0o755)
    command = ["make", "install", f"PYTHON={script}"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    return ran.stderr


def test_make_refuses_a_python_that_is_too_old(tmp_path: Path) -> None:
    old = "import sys; sys.version_info = (3, 10, 13); exec(sys.argv[1])"
    said = make_install(tmp_path, f'exec "{sys.executable}" -c "{old}" "$2"')
    assert "warmstart needs Python 3.11 or newer: make install PYTHON=python3.12" in said
    assert not (tmp_path / ".venv").exists()


def test_make_keeps_no_environment_without_pip(tmp_path: Path) -> None:
    """As Debian leaves one behind where python3-venv is not installed."""
    unfinished = f'mkdir -p .venv/bin; ln -s "{sys.executable}" .venv/bin/python; exit 1'
    make_install(tmp_path, f'[ "$1" = -c ] && exec "{sys.executable}" "$@"; {unfinished}')
    assert not os.path.lexists(tmp_path / ".venv/bin/python")


def test_hooks_call_the_tools_of_make_check() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"  # one place for versions: constraints.txt
    tools = {re.search(r"\.venv/bin/([\w-]+)", h["entry"]) for h in local["hooks"]} - {None}
    makefile = (ROOT / "Makefile").read_text().split("\ncheck:")[1].split("\n\n")[0]
    assert {match[1] for match in tools if match} <= set(re.findall(r"\$\(BIN\)/(\S+)", makefile))
