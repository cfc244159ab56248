"""Unlabelled text as arms read it: that of the runs, or of --unlabelled."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from warmstart import progress
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.spaces import unlabelled_source
from warmstart.data.corpus import read_passages
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.labelled import Dataset
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.runs.facts import InputFile
from warmstart.runs.saved import SavedRun
from warmstart.tasks.labelled_data import readable_rows
from warmstart.tasks.latent_semantics import documents_of
from warmstart.tasks.teaching import (
    pretraining_files,
    pretraining_texts,
    sample_texts,
    unchanged_files,
)

BASELINE_CHARS = 1 << 23  # that a baseline reads of unlabelled text
LEAST_TEXTS = 8  # that are worth teaching


@dataclass(frozen=True)
class UnlabelledTexts:
    """The texts that a baseline may read without their labels, as the pretrained arms have."""

    labelled: Sequence[str]  # of the training file
    files: tuple[InputFile, ...]  # that the runs were pretrained on

    def __iter__(self) -> Iterator[str]:
        yield from self.labelled
        num_chars = 0
        for passage in chain.from_iterable(map(read_passages, unchanged_files(self.files))):
            yield from passage.rows
            num_chars += sum(map(len, passage.rows))
            if num_chars > BASELINE_CHARS:
                return


def texts_to_label(
    config: CompareConfig, source: SavedRun, labelled: Mapping[str, Dataset], limit: int
) -> Dataset:
    """Return a sample of the unlabelled texts that a self-trained arm labels.

    None of them is a copy or near-copy of a labelled text, of whatever split.
    """
    rows = [row for split in labelled.values() for row in readable_rows(split, config.pieces)]
    texts = sample_texts(_documents(config, source), limit, fingerprints_of(rows))
    if len(texts) < LEAST_TEXTS:
        raise WarmstartError(
            f"--arms self: {quantity(len(texts), 'unlabelled text')} besides the labelled ones; "
            "give more with --unlabelled, or leave self out"
        )
    progress.say(f"self: labels {quantity(len(texts), 'unlabelled text')}, none of them labelled")
    return Dataset(file="unlabelled text", texts=tuple(texts))


def _documents(config: CompareConfig, source: SavedRun) -> Iterable[str]:
    """Return the documents of --unlabelled, or else those that a run was pretrained on."""
    if config.unlabelled:
        return documents_of(unlabelled_source(config))
    files = list(unchanged_files(pretraining_files([source])))
    if not files:
        raise WarmstartError(
            f"--arms self: the text of {source.path} is not where it was, or has changed; give "
            "unlabelled text with --unlabelled, or leave self out"
        )
    return pretraining_texts(files)
