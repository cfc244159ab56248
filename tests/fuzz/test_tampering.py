"""A small share of what `make fuzz` does with tampered JSON files."""

import os
from pathlib import Path

import pytest
from specimens import Specimen, Use, make_specimens
from tampering import fuzz_commands, fuzz_parsers

pytest.importorskip("transformers")

Made = tuple[list[Specimen], list[Use]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return make_specimens(tmp_path_factory.mktemp("specimens"))


def test_tampered_files_are_read_or_refused(made: Made) -> None:
    tally = fuzz_parsers(made[0], 400, seed=0)
    assert tally.failures == []
    assert tally.ends["read"] > 0
    assert tally.ends["refused"] > 0


def test_commands_on_tampered_files_answer_or_refuse(made: Made, tmp_path: Path) -> None:
    tally = fuzz_commands(made[1], 40, 0, tmp_path / "work")
    assert tally.failures == []
    assert tally.ends["answered"] > 0
    assert tally.ends["refused"] > 0
