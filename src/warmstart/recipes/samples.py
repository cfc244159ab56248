"""`samples`: write the built-in texts as files."""

from dataclasses import dataclass
from pathlib import Path

from warmstart.files import new_folder
from warmstart.report.html import table
from warmstart.report.notebook import Shown
from warmstart.samples.sample_files import write_samples
from warmstart.settings.starting import SamplesConfig


@dataclass(frozen=True)
class SamplesResult(Shown):
    """The files that were written, and what is attainable on them."""

    folder: Path
    num_lines: dict[str, int]  # of each file
    attainable: float  # test accuracy of a classifier that understands every text

    def pieces(self) -> list[str]:
        rows = [(name, f"{count:,}") for name, count in self.num_lines.items()]
        return [table((f"files in {self.folder}", "lines"), rows)]


def make_samples(config: SamplesConfig) -> SamplesResult:
    """Write the built-in reviews, labels and sentence pairs as files."""
    folder = Path(config.out)
    with new_folder(folder) as temporary:
        files = write_samples(temporary, config.seed, config.language)
    num_lines = {path.name: _num_lines(path) for path in sorted(folder.iterdir())}
    return SamplesResult(folder, num_lines, files.attainable)


def _num_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)
