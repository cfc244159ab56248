"""Files that commands write: what is there already is replaced only if the user says so."""

from pathlib import Path

import pytest

from command_line import MACHINE, run, spawn, succeed

COMMANDS = {
    "predict": f"predict {{warm}} --text a {MACHINE}",
    "fill-mask": f"fill-mask {{masked}} --text [MASK] {MACHINE}",
    "generate": f"generate {{base}} --max-tokens 2 {MACHINE}",
    "embed": f"embed {{base}} {MACHINE}",
    "translate": f"translate {{base}} {MACHINE}",
}
IS_WRITTEN = [name for name in COMMANDS if name != "translate"]  # which needs a translator


@pytest.fixture
def places(base: Path, warm: Path, masked: Path) -> dict[str, Path]:
    return {"base": base, "warm": warm, "masked": masked}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_is_kept(name: str, places: dict[str, Path], here: Path) -> None:
    (here / "out.jsonl").write_text("ten years of work")
    ran = run(f"{COMMANDS[name]} -o out.jsonl", b"a text\n", **places)
    assert ran.code == 2
    told = "-o out.jsonl exists already: add --overwrite to replace it, or name another file"
    assert ran.said == f"warmstart: {told}"
    assert (here / "out.jsonl").read_text() == "ten years of work"


@pytest.mark.parametrize("name", IS_WRITTEN)
def test_it_is_replaced_if_asked_or_empty(name: str, places: dict[str, Path], here: Path) -> None:
    command = f"{COMMANDS[name]} -o out.jsonl"
    (here / "out.jsonl").touch()
    succeed(command, b"a text\n", **places)
    written = (here / "out.jsonl").read_bytes()
    assert written
    succeed(f"{command} --overwrite", b"a text\n", **places)
    assert (here / "out.jsonl").read_bytes() == written


def test_standard_output_is_written_whatever_it_holds(warm: Path) -> None:
    ran = spawn(f"predict {warm} -o /dev/stdout {MACHINE}", b"un livre\n")
    assert (ran.code, len(ran.out.splitlines())) == (0, 2), ran.err
