"""The documents against the product: every command, setting, path and figure they name is real.

Trains nothing.
"""

import ast
import inspect
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer
import yaml
from torch.distributed.run import parse_args as parse_torchrun

import warmstart
from warmstart.cli.main import program
from warmstart.cli.options import build_command
from warmstart.comparison.commands import CompareConfig
from warmstart.data.labelled import Dataset
from warmstart.model import count
from warmstart.settings.base import Settings, read_settings_file
from warmstart.settings.model import PRESETS
from warmstart.settings.training import PretrainConfig, TrainTranslatorConfig

ROOT = Path(__file__).parents[2]
POD, SLURM = "examples/kubernetes.yaml", "examples/slurm.sbatch"
# Below docs/labs/notebooks are models that the notebooks trained, with their cards.
DOCS = [page for page in sorted(ROOT.glob("docs/**/*.md")) if "notebooks" not in page.parts]
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS]
GUIDES = [ROOT / "README.md", *DOCS]  # what shows commands
COMMANDS: dict[str, click.Command] = program().commands
OTHER_FLAGS = {
    "--help",
    "--logdir",
    "--strict",
    "--max-restarts",
    "--sync",
}  # torchrun's, jupytext's
LABELS = 2  # of the classifiers that docs/model.md counts


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def lines(page: Path) -> Iterator[str]:
    """Yield the shell commands of a page."""
    for block in blocks(page, "sh"):
        yield from (line.strip() for line in block.replace("\\\n", " ").splitlines())


def inline(page: Path) -> list[str]:
    """Return the commands quoted in running text."""
    return re.findall(r"`(warmstart [a-z-]+ [^`]+)`", page.read_text())


def commands() -> list[str]:
    shown = [line for page in GUIDES for line in [*lines(page), *inline(page)]]
    for path in sorted(ROOT.glob("configs/*.toml")):
        comments = "\n".join(re.findall(r"^# *(.*)$", path.read_text(), re.MULTILINE))
        shown += comments.replace("\\\n", " ").splitlines()
    is_help = re.compile(r"warmstart (COMMAND )?--help")
    found = [line for line in shown if line.startswith("warmstart ") and not is_help.match(line)]
    return list(dict.fromkeys(found))


def anchor(title: str) -> str:
    """Return the name of a heading in links: punctuation is left out."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def rows(page: Path, heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading, its header left out."""
    text = page.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in found[2:]]


CONFIGURED: dict[str, tuple[type[Settings], dict[str, Any]]] = {
    "pretrain": (PretrainConfig, {"files": ["texts.txt"]}),
    "compare": (CompareConfig, {"from": ["run"], "train": ["a.tsv"]}),
    "train-translator": (TrainTranslatorConfig, {"train": "a.tsv", "valid": "b.tsv"}),
}


@pytest.mark.parametrize("line", commands())
def test_commands_parse(line: str) -> None:
    _, name, *arguments = shlex.split(line, comments=True)
    command = COMMANDS[name]
    if isinstance(command, typer.core.TyperGroup):
        if arguments[0] not in command.commands:  # plan PRESET: plan pretrain --preset PRESET
            short = [] if arguments[0].startswith("-") else ["--preset"]
            arguments = ["pretrain", *short, *arguments]
        command = command.commands[arguments.pop(0)]
    context = command.make_context(name, arguments)
    options = context.command.params
    choices = {p.name: p.metavar.split("|") for p in options if "|" in str(p.metavar)}
    for setting, words in choices.items():
        assert context.params[setting] in (None, *words)


def _torchruns(shown: Iterable[str]) -> list[list[str]]:
    """Return the lines that start torchrun, in words."""
    return [shlex.split(line.removeprefix("srun ")) for line in shown if "torchrun" in line]


def _slurm_launch() -> list[str]:
    (words,) = _torchruns((ROOT / SLURM).read_text().replace("\\\n", " ").splitlines())
    return words


def _pods() -> tuple[Any, Any]:
    """Return the job for Kubernetes, and its only container."""
    parts = {part["kind"]: part for part in yaml.safe_load_all((ROOT / POD).read_text())}
    (container,) = parts["Job"]["spec"]["template"]["spec"]["containers"]
    return parts["Job"]["spec"], container


def _launches() -> list[list[str]]:
    """Return the arguments of every torchrun that documents and examples show."""
    shown = _torchruns(lines(ROOT / "docs/scaling.md"))
    return [*shown, _slurm_launch(), _pods()[1]["command"]]


@pytest.mark.parametrize("words", _launches(), ids=lambda words: words[1])
def test_launches_parse(words: list[str]) -> None:
    assert words[0] == "torchrun"
    launch = parse_torchrun(words[1:])
    assert launch.module
    assert launch.training_script == "warmstart"
    name, *arguments = launch.training_script_args
    assert COMMANDS[name].make_context(name, arguments).params["out"]


def test_the_job_for_slurm_asks_for_the_machines_that_it_launches_on() -> None:
    subprocess.run(["bash", "-n", ROOT / SLURM], check=True)
    asked = dict(re.findall(r"(?m)^#SBATCH --([\w-]+)=(\S+)$", (ROOT / SLURM).read_text()))
    launch = parse_torchrun(_slurm_launch()[1:])
    assert (asked["nodes"], asked["gpus-per-node"]) == (launch.nnodes, launch.nproc_per_node)
    assert asked["ntasks-per-node"] == "1"  # torchrun starts the others


def test_the_job_for_kubernetes_asks_for_the_machines_that_it_launches_on() -> None:
    job, container = _pods()
    launch = parse_torchrun(container["command"][1:])
    assert job["completions"] == job["parallelism"] == int(launch.nnodes)
    assert container["resources"]["limits"]["nvidia.com/gpu"] == int(launch.nproc_per_node)
    volumes = {volume["name"] for volume in job["template"]["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_the_guides_show_every_command() -> None:
    shown = {shlex.split(line, comments=True)[1] for line in commands()}
    assert set(COMMANDS) == shown


def test_flags_in_running_text_exist() -> None:
    known = {
        flag
        for group in warmstart.commands.COMMANDS.values()
        for entry in group
        for parameter in build_command(entry).params
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    for page in GUIDES:
        for code in re.findall(r"`([^`\n]+)`", page.read_text()):
            for flag in re.findall(r"(?<!\S)--[a-z][a-z-]*", code):
                assert flag in known | OTHER_FLAGS, f"{page.name}: {flag}"


def test_python_examples_use_settings_that_exist() -> None:
    calls = 0
    for page in GUIDES:
        for block in blocks(page, "python"):
            for call in ast.walk(ast.parse(block)):
                if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("warmstart."):
                    verb = getattr(warmstart, ast.unparse(call.func).split(".")[1], None)
                    if verb is None:  # a method of what a verb returned
                        continue
                    keywords = {str(keyword.arg): keyword.value for keyword in call.keywords}
                    inspect.signature(verb).bind(*call.args, **keywords)
                    calls += 1
    assert calls >= 3


def test_the_example_task_is_complete() -> None:
    namespace: dict[str, Any] = {}
    exec(blocks(ROOT / "docs/tasks.md", "python")[0], namespace)  # abstract methods would raise
    task = namespace["RegressionTask"]()
    data = Dataset("texts.tsv", ("bad", "good"), ("1", "5"), (1, 2))
    assert task.targets(data, task.read_labels(data)) == [-2.0, 2.0]


def test_the_file_map_is_true_and_whole() -> None:
    cells = (row[0] for row in rows(ROOT / "README.md", "File map"))
    paths = {cell.strip("`") for cell in cells if cell.startswith("`")}  # others are headings
    for path in paths:
        assert (ROOT / path).exists(), path
    packages = {p.parent for p in (ROOT / "src/warmstart").glob("*/__init__.py")}
    assert {f"{package.relative_to(ROOT)}/" for package in packages} <= paths
    for package in packages:  # each says which file to open first
        for name in re.findall(r"\w+\.py", (package / "__init__.py").read_text()):
            assert (package / name).exists(), package / name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        path, _, part = link.partition("#")
        if link.startswith("https://"):
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        if part and target.suffix == ".md":  # test_site.py follows links to lines of programs
            assert part in map(anchor, re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE))
    for path in re.findall(r"(?:src|configs|docs)/[\w./-]+\w", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    said = re.findall(r"(?:^|`)make ([a-z -]+)(?:$|`)", page.read_text(), re.MULTILINE)
    assert {target for words in said for target in words.split()} <= targets


@pytest.mark.parametrize("path", sorted(ROOT.glob("configs/*.toml")), ids=lambda path: path.name)
def test_settings_files_load_and_only_override(path: Path) -> None:
    command = re.findall(r"^# *warmstart ([\w-]+) ", path.read_text(), re.MULTILINE)[0]
    settings, files = CONFIGURED[command]
    given = read_settings_file(path)
    plain = settings.from_values({**files, "out": "run"})
    changed = settings.from_values({**given, **files, "out": "run"})
    for key in given:
        assert getattr(changed, key) != getattr(plain, key), f"{key} is the default"


def test_parameter_figures_are_the_real_ones() -> None:
    found = {row[0].strip("`"): row[1:] for row in rows(ROOT / "docs/model.md", "Parameters")}
    assert set(PRESETS) <= set(found)
    for name, shape in PRESETS.items():
        if shape.decoder_depth:
            layers = count.count_translator(shape)
            sides = [
                sum(layer.count for layer in layers if layer.name.startswith(side))
                for side in ("encoder.", "decoder.", "")
            ]
            assert found[name] == [f"{n:,}" for n in sides], name
            continue
        base = sum(layer.count for layer in count.count_backbone(shape))
        heads = sum(layer.count for layer in count.count_pretraining_heads(shape))
        label = sum(layer.count for layer in count.count_classification_head(shape, LABELS))
        assert found[name] == [f"{n:,}" for n in (base, base + heads, base + label, label)], name


def test_preset_shapes_are_the_real_ones() -> None:
    found = {row[0].strip("`"): row[1:9] for row in rows(ROOT / "docs/model.md", "Presets")}
    for name, shape in PRESETS.items():
        sizes = (shape.depth, shape.width, shape.heads, shape.ffn_width, shape.vocab_size)
        words = [f"{shape.norm}, {shape.norm_position}", shape.positions, shape.activation]
        assert found[name] == [*(f"{size:,}" for size in sizes), *words], name
