"""Labelled texts as a task reads them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from warmstart import progress
from warmstart.batching.truncation import Truncation, encode_texts
from warmstart.data.copies import Matches, find_matches
from warmstart.data.fingerprints import Fingerprints, fingerprints_of
from warmstart.data.labelled import Dataset, join_datasets
from warmstart.data.splits import set_aside
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.remotefiles import local_name
from warmstart.settings.shared import LabelledColumns, LabelledFiles, Truncate
from warmstart.textfiles import expand
from warmstart.tokenization.tokenizer import Tokenizer, join_pieces, text_reader


class LabelledForm(Protocol):
    """What differs between the labelled files of tasks."""

    has_classes: ClassVar[bool]  # whether labels are classes of texts

    def split_classes(self, data: Dataset) -> Sequence[Any]:
        """Return the class of each row, of which the texts set aside have their share."""

    def read_file(self, path: Path, labels: Path | None, settings: LabelledColumns) -> Dataset:
        """Read one labelled file; labels may be in a file of their own."""

    def read_soft_file(self, path: Path, settings: LabelledColumns) -> Dataset:
        """Read one labelled file with the probability of every class."""


def read_labelled_file(
    form: LabelledForm,
    path: str,
    labels: str | None,
    settings: LabelledColumns,
    reads_shares: bool = False,
) -> Dataset:
    """Read one labelled file as a task does, and say how."""
    if reads_shares and not labels:
        data = form.read_soft_file(Path(path), settings)
    else:
        data = form.read_file(Path(path), Path(labels) if labels else None, settings)
    counts = {"text": data.skipped, "label": data.unlabelled}
    skipped = (f"{quantity(num, 'row')} without {what}" for what, num in counts.items() if num)
    reasons = " and ".join(skipped)
    progress.say(f"{data.description}{f'; skipped {reasons}' if reasons else ''}")
    return data


def read_training_texts(settings: LabelledFiles, form: LabelledForm) -> tuple[Dataset, Dataset]:
    """Read the texts to train on and those to validate on.

    Without a validation file, a share of the texts is set aside.
    """
    parts = _read_files(settings, form)
    if settings.valid:
        return join_datasets(parts[:-1]), parts[-1]
    data = join_datasets(parts)
    train, valid = set_aside(data, form.split_classes(data))
    shares = ", the same share of every class" if form.has_classes else ""
    progress.say(
        f"no --valid: {quantity(len(valid), 'text')} of {len(train) + len(valid):,} set aside to "
        f"validate on{shares}, chosen by content"
    )
    return train, replace(valid, file=f"{valid.file} (set aside)")


def read_all_texts(settings: LabelledFiles, form: LabelledForm) -> Dataset:
    """Read the labelled files as one, the validation file too."""
    return join_datasets(_read_files(settings, form))


def _read_files(settings: LabelledFiles, form: LabelledForm) -> list[Dataset]:
    """Read the training files, then the validation file."""
    paths, label_files = expand(settings.train, settings.allow_private_urls), settings.train_labels
    if label_files and len(label_files) != len(paths):
        raise WarmstartError(
            f"--train-labels was given {len(label_files)} times for {len(paths)} files of texts"
        )
    labels = label_files or [None] * len(paths)
    parts = [
        read_labelled_file(form, str(path), label, settings, settings.reads_shares)
        for path, label in zip(paths, labels, strict=True)
    ]
    if settings.valid:
        valid = local_name(settings.valid, settings.allow_private_urls)
        parts.append(read_labelled_file(form, valid, settings.valid_labels, settings))
    check_same_form(*parts)
    return parts


def check_same_form(first: Dataset, *others: Dataset) -> None:
    """Refuse files of which some hold pairs and some single texts."""
    for other in others:
        if (other.seconds is None) != (first.seconds is None):
            pairs, single = (first, other) if first.seconds is not None else (other, first)
            raise WarmstartError(
                f"{pairs.file} holds pairs (text, text2) but {single.file} single texts; "
                "all files need the same form"
            )


def for_tokenizer(data: Dataset, tokenizer: Tokenizer, is_pieces: bool) -> Dataset:
    """Return texts as the tokenizer reads them: pieces are joined if it splits texts itself."""
    return map_texts(data, text_reader(tokenizer, is_pieces, data.file))


def map_texts(data: Dataset, change: Callable[[str], str]) -> Dataset:
    """Return the rows with every text changed, the second texts of pairs too."""
    seconds = None if data.seconds is None else tuple(map(change, data.seconds))
    return replace(data, texts=tuple(map(change, data.texts)), seconds=seconds)


def encode_dataset(
    data: Dataset, tokenizer: Tokenizer, max_length: int, rule: Truncate
) -> tuple[Dataset, str]:
    """Return texts with the ids that a model reads, and a sentence on what was cut or unknown."""
    encoded = encode_texts(data.texts, tokenizer, max_length, rule, data.seconds)
    counts, is_pair = (len(encoded.ids), encoded.num_truncated), encoded.starts is not None
    sentence = Truncation(data.file, *counts, max_length, rule, is_pair).describe()
    if encoded.unknown_share > 0.001:
        sentence += f"; {encoded.unknown_share:.1%} of its tokens are unknown"
    ids, starts, is_truncated = encoded.ids, encoded.starts, encoded.is_truncated
    return replace(data, ids=ids, starts=starts, is_truncated=is_truncated), sentence


def readable_rows(data: Dataset, is_pieces: bool) -> list[str]:
    """Return every row as one text of whole words; the two texts of a pair are joined."""
    return (map_texts(data, join_pieces) if is_pieces else data).whole_texts()


def rows_seen(data: Dataset, seen: Fingerprints, is_pieces: bool) -> Matches:
    """Tell which rows are among the texts seen; one text of a pair is enough."""
    matches = find_matches(fingerprints_of(readable_rows(data, is_pieces)), seen)
    whole = map_texts(data, join_pieces) if is_pieces else data
    if whole.seconds is not None:
        for side in (whole.texts, whole.seconds):
            matches |= find_matches(fingerprints_of(side), seen)
    return matches
