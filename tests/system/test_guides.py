"""Every command of the guides, run in order on tiny settings in a folder that has their files."""

import contextlib
import re
from pathlib import Path

import pytest
from guide_files import ROOT, GuideFiles, make_guide_files, tiny
from test_documents import lines

from command_line import run

pytestmark = pytest.mark.docs
# Commands that need what a test has not: other machines, the network, real shapes, minutes.
ELSEWHERE = re.compile(
    r"warmstart (serve|demo|verify-resume|--help)|HOST|--ray|--processes|path/to|"
    r"--to (onnx|ctranslate2)|export runs/base|runs/minilm|hf:|comparison/models|"
    r"more\.xlsx|job\.toml|--preset vaswani-base"
)
PAGES = (
    *(
        "README",
        "docs/comparison",
        "docs/plan",
        "docs/data",
        "docs/durability",
        "docs/embeddings",
        "docs/exchange",
        "docs/look",
    ),
    *("docs/model", "docs/samples", "docs/tasks", "docs/training", "docs/translation"),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> GuideFiles:
    return make_guide_files(tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("page", PAGES)
def test_every_command_runs(page: str, files: GuideFiles, tmp_path: Path) -> None:
    files.put(tmp_path)
    if page == "docs/translation":  # its tables are pairs
        for part in ("train", "valid", "test"):
            sides = [
                (tmp_path / f"{part}.{side}").read_text().splitlines() for side in ("en", "de")
            ]
            (tmp_path / f"{part}.tsv").write_text(
                "".join(f"{en}\t{de}\n" for en, de in zip(*sides, strict=True))
            )
    shown = [line for line in lines(ROOT / f"{page}.md") if line.startswith("warmstart ")]
    failed = []
    with contextlib.chdir(tmp_path):
        for command in shown:
            if not ELSEWHERE.search(command):
                files.ready(tiny(command), tmp_path)
                ran = run(tiny(command).replace("{", "{{").replace("}", "}}"))
                failed += [f"{command}\n  {ran.said}"] if ran.code else []
    assert not failed, "\n".join(failed)
