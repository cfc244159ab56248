"""What a comparison trains: the arms of every run, each with the texts as it reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from warmstart import progress
from warmstart.data.fingerprints import Fingerprints
from warmstart.errors import WarmstartError
from warmstart.experiments.arms import (
    ArmSplit,
    ExperimentArm,
    SharedModule,
    Splits,
    TransformerArm,
)
from warmstart.experiments.blend import Blend
from warmstart.experiments.texts import ExperimentTexts, read_texts
from warmstart.experiments.tfidf_arm import TfidfArm
from warmstart.files import distinct_names
from warmstart.results.comparison import Arm, ArmKind
from warmstart.runs.lifecycle import check_length
from warmstart.runs.lineage import describe_unrecorded
from warmstart.runs.saved import SavedRun
from warmstart.runtime import choose_runtime
from warmstart.settings.finetuning import CompareConfig
from warmstart.settings.model import ModelConfig, ablation_warning
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.labelled_data import (
    Examples,
    describe_encoding,
    encode_labelled,
    for_tokenizer,
    readable_rows,
)
from warmstart.tasks.registry import read_backbone
from warmstart.training.defaults import finetuning_length

COMPILED_MODELS = 12  # of an arm, from which on compiling them saves time
SHOWN_TOKENS = (8, 48)  # length of a text whose attention is easy to read
MAX_SHOWN_TOKENS = 128  # a figure of the attention on a longer text is unreadable


@dataclass(frozen=True)
class PlannedArm:
    """An arm with the texts as it reads them."""

    arm: ExperimentArm
    parts: tuple[Splits, ...]  # one, or one for each fold
    num_truncated: int = 0  # scored texts that are read only in part
    attention_row: int | None = None  # of the scored texts, whose attention is recorded


@dataclass(frozen=True)
class ExperimentPlan:
    """Everything a comparison computes with."""

    arms: list[PlannedArm]
    texts: ExperimentTexts
    sources: list[SavedRun]
    seen: dict[str, Fingerprints]  # texts that trained each source, by its name
    notes: list[str]
    blends: list[Blend]
    left_out: str | None = None  # what a limit of time left out

    def describe_arms(self) -> tuple[Arm, ...]:
        """Return what the report says of every arm."""
        arms = [planned.arm.describe() for planned in self.arms]
        return (*arms, *(blend.describe(arms) for blend in self.blends))

    @property
    def num_truncated(self) -> int:
        """Return how many scored texts are read only in part, by the arm that reads least."""
        return max(planned.num_truncated for planned in self.arms)


def plan_experiment(config: CompareConfig) -> ExperimentPlan:
    """Read runs and labelled files, and return the arms with the texts as each reads them."""
    sources = [read_backbone(path) for path in config.from_runs]
    return plan_arms(config, read_texts(config), sources)


def plan_arms(
    config: CompareConfig, texts: ExperimentTexts, sources: Sequence[SavedRun]
) -> ExperimentPlan:
    """Return the arms with the texts as each reads them."""
    named = dict(zip(_run_names(sources), sources, strict=True))
    seen = {name: source.texts_seen() for name, source in named.items()}
    notes = texts.notes + [
        f"{name} is {ablation_warning(source.model.ablated)}"
        for name, source in named.items()
        if source.model.ablated != "nothing"
    ]
    notes += [
        describe_unrecorded(name) for name, source in named.items() if source.has_unrecorded_texts
    ]
    arms = _transformer_arms(config, texts, named, notes)
    if "tfidf" in config.arms:
        tfidf = TfidfArm("tf-idf", len(texts.classes), config.balance)
        arms.append(PlannedArm(tfidf, texts.parts(_whole_texts(config, texts))))
    blends = [
        Blend(planned.arm.name.replace("warm", "blend", 1), planned.arm.name, "tf-idf")
        for planned in arms
        if "blend" in config.arms and planned.arm.describe().kind == "warm"
    ]
    return ExperimentPlan(arms, texts, list(sources), seen, notes, blends)


def _run_names(sources: Sequence[SavedRun]) -> list[str]:
    """Return a short name for each run; a checkpoint is named by its run and step."""
    paths = [source.path.resolve() for source in sources]
    if len(set(paths)) < len(paths):
        raise WarmstartError("--from names the same run twice")
    named = [
        path
        if source.path == source.folder.path
        else path.parents[2] / f"{path.parents[1].name} {path.name}"
        for path, source in zip(paths, sources, strict=True)
    ]
    return distinct_names(named)


def _transformer_arms(
    config: CompareConfig,
    texts: ExperimentTexts,
    sources: dict[str, SavedRun],
    notes: list[str],
) -> list[PlannedArm]:
    """Return the Transformer arms, grouped by kind."""
    runtime = choose_runtime(config.device, config.precision, config.threads)
    is_compiled = runtime.device.type == "cuda" and repays_compiling(config)
    cold_names, planned = _cold_names(config, sources, notes), set[str]()
    shared = SharedModule()
    kinds: tuple[ArmKind, ...] = ("warm", "frozen", "cold")
    arms: dict[ArmKind, list[PlannedArm]] = {kind: [] for kind in kinds if kind in config.arms}
    for run_name, source in sources.items():
        check_length(source.model, config.max_length, source.path)
        model = _architecture(config, source)
        read = _encoded_texts(config, texts, source, notes)
        scored = read[texts.held_out[-1]]
        row = choose_attention_row(scored.examples.ids, model.max_length)
        parts = texts.show(texts.parts(read), row)
        ending = f": {run_name}" if len(sources) > 1 else ""
        cold = cold_names[run_name]
        for kind in arms:
            if kind == "cold" and cold in planned:
                continue
            name = cold if kind == "cold" else f"{kind}{ending}"
            arm = TransformerArm(
                name=name,
                kind=kind,
                source=source,
                model=model,
                classes=texts.classes,
                tuning=config,
                runtime=runtime,
                cold=None if kind == "cold" else cold,
                is_compiled=is_compiled,
                shared=shared,
            )
            arms[kind].append(PlannedArm(arm, parts, scored.num_truncated, row))
        planned.add(cold)
    return [arm for kind in arms for arm in arms[kind]]


def repays_compiling(config: CompareConfig) -> bool:
    """Tell whether one arm trains enough models; each of them repays about two seconds."""
    per_group = len(config.seeds) + (config.trials if config.trials > 1 else 0)
    num_models = len(config.labels) * (config.folds or 1) * per_group
    return num_models >= COMPILED_MODELS if config.compile is None else config.compile


def _architecture(config: CompareConfig, source: SavedRun) -> ModelConfig:
    return replace(source.model, max_length=config.max_length or finetuning_length(source.model))


def _cold_names(
    config: CompareConfig, sources: dict[str, SavedRun], notes: list[str]
) -> dict[str, str]:
    """Return each run's cold arm: one for every different architecture and tokenizer."""
    same: dict[tuple[ModelConfig, str], list[str]] = {}
    for name, source in sources.items():
        model = _architecture(config, source)
        # These settings only concern the head of a language model.
        model = replace(model, tied=False, transform=False, output_bias=True)
        same.setdefault((model, source.tokenizer.fingerprint()), []).append(name)
    for group in same.values():
        if 1 < len(group) < len(sources) and "cold" in config.arms:
            names = f"{', '.join(group[:-1])} and {group[-1]}"
            notes.append(f"{names} share architecture and tokenizer, so one cold arm: {group[0]}")
    return {
        name: "cold" if len(same) == 1 else f"cold: {group[0]}"
        for group in same.values()
        for name in group
    }


def _encoded_texts(
    config: CompareConfig, texts: ExperimentTexts, source: SavedRun, notes: list[str]
) -> dict[str, ArmSplit]:
    """Return each split as the tokenizer of a run reads it."""
    max_length = _architecture(config, source).max_length
    rule = config.truncate or ClassifyTask.truncate
    splits = {}
    for name, read in texts.data.items():
        split = for_tokenizer(read, source.tokenizer, config.pieces)
        encoded = encode_labelled(split, source.tokenizer, max_length, rule)
        note = describe_encoding(split.file, encoded, max_length, rule)
        if len(config.from_runs) > 1:
            note = f"{source.path}: {note}"
        notes.append(note)
        progress.say(note)
        targets = texts.class_numbers(split)
        examples = Examples(encoded.ids, targets, encoded.starts)
        splits[name] = ArmSplit(split.texts, examples, encoded.num_truncated)
    return splits


def choose_attention_row(ids: Sequence[Sequence[int]], max_length: int) -> int | None:
    """Return the first row of a length that is easy to read, else the nearest in length.

    A text of the model's full length may have been cut, so a shorter one is preferred. None: all
    texts are too long.
    """
    least, most = SHOWN_TOKENS
    most = min(most, max_length - 1)
    row = min(range(len(ids)), key=lambda row: max(least - len(ids[row]), len(ids[row]) - most, 0))
    return row if len(ids[row]) <= MAX_SHOWN_TOKENS else None


def _whole_texts(config: CompareConfig, texts: ExperimentTexts) -> dict[str, ArmSplit]:
    """Return each split as TF-IDF reads it."""
    return {
        name: ArmSplit(
            readable_rows(split, config.pieces),
            Examples([()] * len(split), texts.class_numbers(split)),
        )
        for name, split in texts.data.items()
    }
