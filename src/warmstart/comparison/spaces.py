"""The analyses of unlabelled text that the lsa arms start from: kept by a run, or made here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from warmstart import progress
from warmstart.comparison.commands import CompareConfig
from warmstart.data.corpus import TextSource, source_of
from warmstart.errors import WarmstartError
from warmstart.runs.saved import SavedRun
from warmstart.settings.shared import TableFormat
from warmstart.tasks.latent_semantics import (
    SPACE_FILE,
    LatentSpace,
    documents_of,
    fit_space,
    read_space,
)
from warmstart.textfiles import expand, sha256_of

NAME = "lsa"


@dataclass(frozen=True)
class AnalysedText:
    """An analysis, and the run whose text it is of."""

    space: LatentSpace
    parent: SavedRun | None = None  # None: the text of --unlabelled


@dataclass(frozen=True)
class Spaces:
    """The analyses by the name of their arm, and the files that they depend on."""

    by_arm: Mapping[str, AnalysedText] = field(default_factory=dict)
    files: Mapping[Path, int] = field(default_factory=dict)

    def parent_of(self, arm: str) -> SavedRun | None:
        """Return the run whose text an arm has seen, if there is one."""
        return self.by_arm[arm].parent if arm in self.by_arm else None


def read_spaces(config: CompareConfig, sources: Mapping[str, SavedRun]) -> Spaces:
    """Return the analysis of --unlabelled, else one for each different text of the runs."""
    if config.unlabelled:
        space = _analyse(config)
        return Spaces({NAME: AnalysedText(space)}, dict.fromkeys(expand(config.unlabelled), 0))
    return kept_spaces(sources)


def kept_spaces(sources: Mapping[str, SavedRun]) -> Spaces:
    """Return an analysis for each different text of some runs, if they keep any."""
    runs: dict[str, tuple[str, SavedRun, Path]] = {}  # by checksum, since runs may share a text
    for name, source in sources.items():
        file = source.folder.path / SPACE_FILE
        if file.exists():
            runs.setdefault(sha256_of(file), (name, source, file))
    analysed = {
        f"{NAME}: {name}" if len(runs) > 1 else NAME: AnalysedText(read_space(file), source)
        for name, source, file in runs.values()
    }
    files = dict.fromkeys((file for _, _, file in runs.values()), 0)
    return Spaces(analysed, files)


def unlabelled_source(config: CompareConfig) -> TextSource:
    """Return the text of --unlabelled; its columns are not those of the labelled tables."""
    tables = TableFormat(delimiter=config.delimiter, encoding=config.encoding)
    return source_of(config.unlabelled, "auto", tables)


def _analyse(config: CompareConfig) -> LatentSpace:
    """Return the analysis of --unlabelled, which is kept with the comparison."""
    file = Path(config.out) / SPACE_FILE
    if file.exists():
        return read_space(file)
    progress.say("latent semantic analysis of --unlabelled")
    space = fit_space(documents_of(unlabelled_source(config)))
    if space is None:
        raise WarmstartError(
            f"--unlabelled {' '.join(config.unlabelled)}: too little text for an analysis, which "
            "needs several documents that share words"
        )
    if file.parent.is_dir():  # else the comparison is only planned
        space.save(file)
    return space
