"""Who takes part in a comparison: the arms of every run, and the texts as each one reads them.

Knows nothing about subsets, seeds or results.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from warmstart import progress
from warmstart.data.labelled import LabelledTexts
from warmstart.data.overlap import Fingerprints
from warmstart.errors import WarmstartError
from warmstart.experiments.arms import BaselineArm, Contestant, Splits, Texts, TransformerArm
from warmstart.files import distinct_names
from warmstart.results.comparison import ArmKind
from warmstart.runs.lifecycle import check_length
from warmstart.runs.lineage import unrecorded_words
from warmstart.runs.saved import Source
from warmstart.runtime import choose_runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import CompareConfig
from warmstart.tasks.classify import Examples, examples_of, read_base
from warmstart.tasks.labelled import (
    ClassData,
    as_the_tokenizer_reads,
    check_same_form,
    class_names,
    describe_encoding,
    number_classes,
    read_class_file,
)

WATCHED = (8, 48)  # tokens of a text whose attention is easy to take in
MOST_WATCHED = 128  # tokens from which on a picture of it would tell nothing


@dataclass(frozen=True)
class Plan:
    """Everything a comparison computes with."""

    contestants: list[tuple[Contestant, Splits]]  # each arm with the texts as it reads them
    names: tuple[str, ...]
    data: dict[str, ClassData]  # train, validation and perhaps test
    sources: list[Source]
    seen: dict[str, Fingerprints]  # what each source's training saw
    notes: list[str]


def line_up(config: CompareConfig) -> Plan:
    """Read files and runs, and return the arms with the texts as each reads them."""
    files = {
        "train": (config.train, config.train_labels),
        "validation": (config.valid, config.valid_labels),
    }
    if config.test:
        files["test"] = (config.test, config.test_labels)
    read = {
        name: read_class_file(path, labels, config.columns)
        for name, (path, labels) in files.items()
    }
    check_same_form(*read.values())
    names = class_names(read["train"])
    data = {name: number_classes(split, names) for name, split in read.items()}
    sources = [read_base(path) for path in config.from_runs]
    run_names = _run_names(sources)
    seen = {n: source.texts_seen() for n, source in zip(run_names, sources, strict=True)}
    notes = [
        unrecorded_words(name)
        for name, source in zip(run_names, sources, strict=True)
        if source.has_unrecorded_texts
    ]
    contestants = _transformers(
        config, read, names, dict(zip(run_names, sources, strict=True)), notes
    )
    contestants.append((BaselineArm("tf-idf", config.select), _as_read(data, config.pieces)))
    return Plan(contestants, names, data, sources, seen, notes)


def _run_names(sources: Sequence[Source]) -> list[str]:
    """Return a short name for each run; a checkpoint is called by its run and step."""
    paths = [source.path.resolve() for source in sources]
    if len(set(paths)) < len(paths):
        raise WarmstartError("--from names the same run twice")
    named = [
        path
        if source.path == source.run.path
        else path.parents[2] / f"{path.parents[1].name} {path.name}"
        for path, source in zip(paths, sources, strict=True)
    ]
    return distinct_names(named)


def _transformers(
    config: CompareConfig,
    read: dict[str, LabelledTexts],
    names: tuple[str, ...],
    sources: dict[str, Source],
    notes: list[str],
) -> list[tuple[Contestant, Splits]]:
    """Return the arms that are Transformers, those of a kind together."""
    runtime = choose_runtime(config.device, config.precision, config.threads)
    colds, made = _cold_names(config, sources, notes), set[str]()
    arms: dict[ArmKind, list[tuple[Contestant, Splits]]] = {"warm": [], "frozen": [], "cold": []}
    for run_name, source in sources.items():
        check_length(source.model, config.max_length, source.path)
        shape = _shape(config, source)
        split = {
            name: number_classes(
                as_the_tokenizer_reads(texts, source.tokenizer, config.pieces), names
            )
            for name, texts in read.items()
        }
        splits = _splits(config, split, source, shape.max_length, notes)
        ending = f": {run_name}" if len(sources) > 1 else ""
        cold = colds[run_name]
        is_new = cold not in made
        made.add(cold)
        for kind in arms if is_new else ("warm", "frozen"):
            name = cold if kind == "cold" else f"{kind}{ending}"
            rival = None if kind == "cold" else cold
            arm = TransformerArm(name, kind, source, shape, len(names), config, runtime, rival)
            arms[kind].append((arm, splits))
    return [pair for kind in arms for pair in arms[kind]]


def _shape(config: CompareConfig, source: Source) -> ModelConfig:
    return replace(source.model, max_length=config.max_length or source.model.max_length)


def _cold_names(
    config: CompareConfig, sources: dict[str, Source], notes: list[str]
) -> dict[str, str]:
    """Return each run's cold arm: one for every different shape and tokenizer.

    Choices that only a language model's head knows make no difference to a classifier.
    """
    same: dict[tuple[ModelConfig, str], list[str]] = {}
    for name, source in sources.items():
        shape = replace(_shape(config, source), tied=False, transform=False, output_bias=True)
        same.setdefault((shape, source.tokenizer.fingerprint()), []).append(name)
    for group in same.values():
        if 1 < len(group) < len(sources):
            shared = f"{', '.join(group[:-1])} and {group[-1]}"
            notes.append(f"{shared} have one shape and tokenizer, so one cold arm: {group[0]}")
    return {
        name: "cold" if len(same) == 1 else f"cold: {group[0]}"
        for group in same.values()
        for name in group
    }


def _splits(
    config: CompareConfig,
    data: dict[str, ClassData],
    source: Source,
    max_length: int,
    notes: list[str],
) -> Splits:
    texts = {}
    for name, split in data.items():
        encoded = split.encode(source.tokenizer, max_length, config.truncate)
        note = describe_encoding(split.file, encoded, max_length, config.truncate)
        if len(config.from_runs) > 1:
            note = f"{source.path}: {note}"
        notes.append(note)
        progress.say(note)
        texts[name] = Texts(split.texts, examples_of(encoded, split.classes))
    splits = Splits(texts["train"], texts["validation"], texts.get("test"))
    return replace(splits, watched=choose_text(splits.judge.examples.ids, max_length))


def choose_text(ids: Sequence[Sequence[int]], max_length: int) -> int | None:
    """Return the first text of a length to look at, else the nearest; None: all are too long.

    A text as long as the model reads may have been cut, so a shorter one is preferred.
    """
    least, most = WATCHED
    most = min(most, max_length - 1)
    row = min(range(len(ids)), key=lambda row: max(least - len(ids[row]), len(ids[row]) - most, 0))
    return row if len(ids[row]) <= MOST_WATCHED else None


def _as_read(data: dict[str, ClassData], is_pieces: bool) -> Splits:
    texts = {
        name: Texts(split.readable(is_pieces), Examples([()] * len(split.texts), split.classes))
        for name, split in data.items()
    }
    return Splits(texts["train"], texts["validation"], texts.get("test"))
