"""Labelled texts as a task reads them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.batching.encode import EncodedTexts, Truncation, encode_texts
from warmstart.data.copies import Matches, find_matches
from warmstart.data.fingerprints import Fingerprints, fingerprints_of
from warmstart.data.labelled import LabelledTexts, join_files, join_pair, read_labelled
from warmstart.data.splits import set_aside
from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.settings.shared import LabelledFiles, TableFormat, Truncate
from warmstart.textfiles import expand, local_name
from warmstart.tokenization.tokenizer import Tokenizer, join_pieces, text_reader


@dataclass(frozen=True)
class Examples:
    """Encoded texts with their targets."""

    ids: Sequence[Sequence[int]]
    targets: Sequence[Any]
    starts: Sequence[int] | None = None  # where the second text of each pair begins

    def subset(self, rows: Sequence[int]) -> "Examples":
        """Return these rows, in this order."""
        starts = None if self.starts is None else [self.starts[row] for row in rows]
        return Examples([self.ids[r] for r in rows], [self.targets[r] for r in rows], starts)

    def joined(self, other: "Examples") -> "Examples":
        """Return these texts, then others of the same kind."""
        both = self.starts is not None and other.starts is not None
        starts = [*(self.starts or ()), *(other.starts or ())] if both else None
        return Examples([*self.ids, *other.ids], [*self.targets, *other.targets], starts)


def read_labelled_file(path: str, labels: str | None, tables: TableFormat) -> LabelledTexts:
    """Read one labelled file, and say how: labels are in a column or in a file of their own."""
    data = read_labelled(Path(path), tables, Path(labels) if labels else None)
    skipped = f"; skipped {counted(data.skipped, 'row')} without text or label"
    progress.say(f"{data.description}{skipped if data.skipped else ''}")
    return data


@dataclass(frozen=True)
class TrainingTexts:
    """What a model is trained and validated on."""

    train: LabelledTexts
    valid: LabelledTexts
    files: dict[Path, int]  # every file that was read, with its rows


def read_training_texts(settings: LabelledFiles, has_classes: bool = True) -> TrainingTexts:
    """Read the labelled files; without a validation file, set a share of the texts aside."""
    parts, files = _read_files(settings)
    if settings.valid:
        return TrainingTexts(join_files(parts[:-1]), parts[-1], files)
    train, valid = set_aside(join_files(parts), has_classes)
    shares = ", the same share of every class" if has_classes else ""
    progress.say(
        f"no --valid: {counted(len(valid), 'text')} of {len(train) + len(valid):,} set aside to "
        f"validate on{shares}, chosen by content"
    )
    return TrainingTexts(train, replace(valid, file=f"{valid.file} (set aside)"), files)


def read_all_texts(settings: LabelledFiles) -> tuple[LabelledTexts, dict[Path, int]]:
    """Read the labelled files as one, the validation file too; return each with its rows."""
    parts, files = _read_files(settings)
    return join_files(parts), files


def _read_files(settings: LabelledFiles) -> tuple[list[LabelledTexts], dict[Path, int]]:
    """Read the training files, then the validation file; return every file with its rows too."""
    paths, label_files = expand(settings.train), settings.train_labels
    if label_files and len(label_files) != len(paths):
        raise WarmstartError(
            f"--train-labels was given {len(label_files)} times for {len(paths)} files of texts"
        )
    labels = label_files or [None] * len(paths)
    pairs = [(str(path), label) for path, label in zip(paths, labels, strict=True)]
    if settings.valid:
        pairs.append((local_name(settings.valid), settings.valid_labels))
    parts = [read_labelled_file(path, label, settings) for path, label in pairs]
    check_same_form(*parts)
    files = {
        Path(file): len(data)
        for (path, label), data in zip(pairs, parts, strict=True)
        for file in (path, label)
        if file
    }
    return parts, files


def check_same_form(first: LabelledTexts, *others: LabelledTexts) -> None:
    """Refuse files of which some hold pairs and some single texts."""
    for other in others:
        if (other.seconds is None) != (first.seconds is None):
            pairs, single = (first, other) if first.seconds is not None else (other, first)
            raise WarmstartError(
                f"{pairs.file} holds pairs (text, text2) but {single.file} single texts; "
                "all files need the same form"
            )


def for_tokenizer(data: LabelledTexts, tokenizer: Tokenizer, is_pieces: bool) -> LabelledTexts:
    """Return texts as the tokenizer reads them: joined, where they are split and it splits."""
    return _map_texts(data, text_reader(tokenizer, is_pieces, data.file))


def _map_texts(data: LabelledTexts, change: Callable[[str], str]) -> LabelledTexts:
    seconds = None if data.seconds is None else tuple(map(change, data.seconds))
    return replace(data, texts=tuple(map(change, data.texts)), seconds=seconds)


def encode_labelled(
    data: LabelledTexts, tokenizer: Tokenizer, max_length: int, rule: Truncate
) -> EncodedTexts:
    """Return the ids of every row as a model reads them."""
    return encode_texts(data.texts, tokenizer, max_length, rule, data.seconds)


def readable_rows(data: LabelledTexts, is_pieces: bool) -> list[str]:
    """Return every row as one text of whole words; the two texts of a pair are joined."""
    whole = _map_texts(data, join_pieces) if is_pieces else data
    if whole.seconds is None:
        return list(whole.texts)
    return list(map(join_pair, whole.texts, whole.seconds))


def rows_seen(data: LabelledTexts, seen: Fingerprints, is_pieces: bool) -> Matches:
    """Tell which rows were seen; one text of a pair is enough."""
    matches = find_matches(fingerprints_of(readable_rows(data, is_pieces)), seen)
    whole = _map_texts(data, join_pieces) if is_pieces else data
    if whole.seconds is not None:
        for side in (whole.texts, whole.seconds):
            matches |= find_matches(fingerprints_of(side), seen)
    return matches


def describe_encoding(file: str, encoded: EncodedTexts, max_length: int, rule: Truncate) -> str:
    """Say what was cut and what the tokenizer does not know, in one sentence."""
    counts, is_pair = (len(encoded.ids), encoded.num_truncated), encoded.starts is not None
    sentence = Truncation(file, *counts, max_length, rule, is_pair).describe()
    if encoded.unknown_share > 0.001:
        sentence += f"; {encoded.unknown_share:.1%} of its tokens are unknown"
    return sentence
