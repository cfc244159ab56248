"""The process around a command: closed streams, narrow terminals, signals, and hostile names."""

import io
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from command_line import ENVIRONMENT, TINY, Ran, World, run, succeed, write_labelled
from hub_folders import save_random
from warmstart.display import LineDisplay, TerminalDisplay
from warmstart.errors import WarmstartError
from warmstart.textfiles import file_or_stream, standard_input
from warmstart.version import package_version

HOSTILE = "\x1b[31mred\x9b2J\u202eevil\u2066\r[/x]"  # escape sequences, marks of direction, markup
SHOWN = r"\x1b[31mred\x9b2J\u202eevil\u2066\r[/x]"


def _shell(command: str, **environment: str) -> Ran:
    """Run a command line in a shell, which redirects its streams."""
    line = f"{shlex.quote(sys.executable)} -m warmstart {command}"
    done = subprocess.run(
        line,
        shell=True,
        capture_output=True,
        env={**ENVIRONMENT, **environment},
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_closed_standard_output_is_refused() -> None:
    ran = _shell("--version >&-")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("warmstart: standard output is closed")
    assert ran.err.count("\n") == 1


def test_a_current_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    gone = shlex.quote(str(tmp_path / "gone"))
    enter = f"mkdir {gone} && cd {gone} && rmdir {gone} && {shlex.quote(sys.executable)}"
    done = subprocess.run(
        f"{enter} -m warmstart data a.txt", shell=True, capture_output=True, env=ENVIRONMENT
    )
    assert done.returncode == 2
    assert done.stderr.decode().startswith("warmstart: the current folder no longer exists: ")


def test_a_full_standard_output_is_told() -> None:
    ran = _shell("--version > /dev/full")
    assert (ran.code, ran.err) == (2, "warmstart: No space left on device\n")


def test_a_closed_standard_error_changes_nothing() -> None:
    assert _shell("--version 2>&-") == Ran(0, f"{package_version()}\n", "")


def test_a_closed_standard_input_is_named_only_where_it_is_read(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it for a closed one
    path = write_labelled(here / "texts.txt", [])
    assert file_or_stream("texts.txt", standard_input()) == Path(path.name)
    with pytest.raises(WarmstartError, match="FILE is missing"):
        file_or_stream(None, standard_input())


def test_a_terminal_that_knows_only_ascii() -> None:
    ran = _shell("--help", PYTHONIOENCODING="ascii")
    assert ran.code == 0
    assert ran.out.isascii()


def test_json_stays_json_whatever_the_encoding(here: Path) -> None:
    labels = {"été": 1, "\N{CLINKING BEER MUGS}": 1}
    write_labelled(here / "texts.tsv", [(label, f"text {label}") for label in labels])
    line = f"{shlex.quote(sys.executable)} -m warmstart data texts.tsv --json"
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(line, shell=True, capture_output=True, env=environment, check=True)
    assert json.loads(done.stdout.decode("latin-1"))["files"][0]["labels"] == labels


def _rename_labels(run_folder: Path, names: list[str]) -> None:
    config = json.loads((run_folder / "config.json").read_text(encoding="utf-8"))
    config["classes"] = names
    (run_folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def test_a_label_stays_on_its_line(warm: Path, here: Path) -> None:
    shutil.copytree(warm, here / "run")
    names = ["one\ntwo\u2028three", "four\r\nfive"]
    _rename_labels(here / "run", names)
    ran = succeed("predict run", b"un livre\nun autre\n")
    lines = ran.out.splitlines()
    assert len(lines) == 2
    assert set(lines) <= {r"one\ntwo\u2028three", r"four\r\nfive"}
    assert ran.err.count("labels with line breaks") == 1
    assert json.loads(succeed("predict run --json", b"un livre\n").out)["label"] in names
    succeed("predict run -o labels.txt", b"un livre\nun autre\n")
    assert (here / "labels.txt").read_text(encoding="utf-8").splitlines() == lines


def test_nothing_in_a_file_name_reaches_the_terminal(here: Path) -> None:
    write_labelled(here / f"{HOSTILE.replace('/', '')}.tsv", [(HOSTILE, "a"), ("b", "b")])
    ran = succeed("data .")
    assert "\x1b" not in ran.out + ran.err
    assert "\u202e" not in ran.out + ran.err
    assert SHOWN in ran.out.replace("\n", "")
    gone = run(f"data {shlex.quote(HOSTILE)}")
    assert gone.err == f"warmstart: {SHOWN}: no file matches this pattern\n"


@pytest.mark.parametrize("kind", [LineDisplay, TerminalDisplay])
def test_bars_show_hostile_names_as_they_are_written(kind: Any) -> None:
    file = io.StringIO()
    display = kind(Console(file=file, force_terminal=kind is TerminalDisplay, width=200))
    for bar in display.bar(HOSTILE, 2, "step", 0):
        bar.advance(2, HOSTILE)
    display.say(HOSTILE)
    assert "\x1b[31mred" not in file.getvalue()
    assert "\u202e" not in file.getvalue()
    assert file.getvalue().count(r"\u202eevil") >= 3


@pytest.fixture(scope="module")
def hugging_face(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("hf")
    return save_random(folder, "gpt2", "GPT2LMHeadModel")


# a command, and a function that it calls while it works
JOBS = {
    "tokenizer": ("tokenizer {texts} -o out", "warmstart.recipes.prepare_files.sample_tokenizer"),
    "samples": ("samples -o out", "warmstart.recipes.prepare_files.write_samples"),
    "import": ("import {folder} -o out", "warmstart.interop.exchange.read_folder"),
    "export": ("export {base} -o out", "warmstart.interop.exchange.read_run"),
    "preparation": (f"pretrain {{texts}} -o out {TINY}", "warmstart.data.shards.encode"),
    "predict": ("predict {warm} {texts} -o out", "warmstart.recipes.use.open_saved"),
    "data": ("data {texts}", "warmstart.recipes.prepare_files.report_file"),
}


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Take SIGINT also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("job", JOBS)
def test_a_signal_leaves_one_sentence_and_no_file(
    job: str,
    number: signal.Signals,
    world: World,
    base: Path,
    warm: Path,
    hugging_face: Path,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        signal.raise_signal(number)

    command, function = JOBS[job]
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(function, interrupted)
    ran = run(command, texts=world.texts, folder=hugging_face, base=base, warm=warm)
    assert ran.code == 128 + number
    assert ran.said.startswith("warmstart: stopped ")
    assert ran.err.count("warmstart: ") == 1
    assert list(here.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_cleaning_up_is_not_interrupted_by_a_second_sigterm(
    world: World, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("warmstart.recipes.prepare_files.sample_tokenizer", interrupted)
    assert run(f"tokenizer {world.texts} -o out").code == 143
    assert list(here.iterdir()) == []


def test_a_process_that_waits_for_input_obeys_sigterm(warm: Path, here: Path) -> None:
    command = [sys.executable, "-m", "warmstart", "predict", str(warm), "-o", "out"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe, env=ENVIRONMENT) as process:
        while process.poll() is None and not list(here.iterdir()):
            time.sleep(0.05)
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, b"warmstart: stopped by SIGTERM\n")
    assert list(here.iterdir()) == []
