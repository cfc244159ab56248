"""What a comparison trains: the arms of every run, each with the texts as it reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from warmstart import progress
from warmstart.comparison.arms import (
    BaselineArm,
    ExperimentArm,
    FrozenArm,
    SharedModule,
    Splits,
    TransformerArm,
)
from warmstart.comparison.commands import BASELINE_ARMS, CompareConfig
from warmstart.comparison.results import ArmKind
from warmstart.comparison.self_training import MOST_TEXTS, SelfArm
from warmstart.comparison.spaces import Spaces, read_spaces
from warmstart.comparison.texts import ExperimentTexts, read_texts
from warmstart.comparison.unlabelled import UnlabelledTexts, texts_to_label
from warmstart.data.fingerprints import Fingerprints
from warmstart.data.labelled import Dataset
from warmstart.errors import WarmstartError
from warmstart.files import distinct_names
from warmstart.runs.lifecycle import check_length
from warmstart.runs.saved import SavedRun, describe_unrecorded, recipes_of
from warmstart.runtime import choose_runtime
from warmstart.settings.model import ModelConfig, ablation_warning
from warmstart.tasks.baseline import Baseline
from warmstart.tasks.labelled_data import for_tokenizer, readable_rows
from warmstart.tasks.registry import read_backbone
from warmstart.tasks.teaching import pretraining_files
from warmstart.training.defaults import finetuning_length

COMPILED_MODELS = 12  # of an arm, from which on compiling saves time: about 2 s for each


@dataclass(frozen=True)
class PlannedArm:
    """An arm with the texts as it reads them."""

    arm: ExperimentArm
    parts: tuple[Splits, ...]  # one, or one for each fold
    num_truncated: int = 0  # scored texts that are read only in part
    max_length: int = 0  # tokens that the arm reads of a text; 0: all
    trials: int | None = None  # settings to try; None: as many as fit into --minutes


@dataclass(frozen=True)
class ExperimentPlan:
    """Everything a comparison computes with."""

    arms: list[PlannedArm]
    texts: ExperimentTexts
    sources: list[SavedRun]
    seen: dict[str, Fingerprints]  # texts that trained each source, by its name
    spaces: Spaces
    notes: list[str]
    left_out: str | None = None  # what a limit of time left out


def plan_experiment(config: CompareConfig) -> ExperimentPlan:
    """Read runs and labelled files, and return the arms with the texts as each reads them."""
    sources = [read_backbone(path) for path in config.from_runs]
    if len(config.arm_names) == 1 and len(set(recipes_of(sources).values())) == 1:
        raise WarmstartError(
            f"--arms {config.arm_names[0]}: these runs differ only in their seeds, so they are one "
            "arm: name another"
        )
    texts = read_texts(config)
    spaces = Spaces()
    if not {"lsa", "self"}.isdisjoint(config.arm_names):
        spaces = read_spaces(config, dict(zip(run_names(sources), sources, strict=True)))
    plan = plan_arms(config, texts, sources, spaces)
    if len(plan.arms) < 2:
        raise WarmstartError(f"only {plan.arms[0].arm.name} is left to compare: {plan.notes[-1]}")
    return plan


def plan_arms(
    config: CompareConfig, texts: ExperimentTexts, sources: Sequence[SavedRun], spaces: Spaces
) -> ExperimentPlan:
    """Return the arms with the texts as each reads them."""
    named = dict(zip(run_names(sources), sources, strict=True))
    seen = {name: source.texts_seen() for name, source in named.items()}
    notes = texts.notes + [
        f"{name} is {ablation_warning(source.model.ablated)}"
        for name, source in named.items()
        if source.model.ablated != "nothing"
    ]
    notes += [
        describe_unrecorded(name) for name, source in named.items() if source.has_unrecorded_texts
    ]
    by_name = {name: analysed.space for name, analysed in spaces.by_arm.items()}
    unlabelled = UnlabelledTexts(texts.training.texts, pretraining_files(sources))
    baselines = list(texts.task.baselines(texts.labels, config, by_name, unlabelled))
    _check_self_training(config, texts)
    arms = [
        _with_unlabelled(planned, config, texts, spaces)
        for planned in _transformer_arms(config, texts, named, notes)
    ]
    arms += _baseline_arms(config, texts, spaces, baselines, notes)
    return ExperimentPlan(arms, texts, list(sources), seen, spaces, notes)


def _baseline_arms(
    config: CompareConfig,
    texts: ExperimentTexts,
    spaces: Spaces,
    baselines: Sequence[Baseline],
    notes: list[str],
) -> list[PlannedArm]:
    """Return the baselines that are asked for; those by default only where there are any."""
    for name in (name for name in BASELINE_ARMS if name in config.arm_names):
        if name not in {baseline.arm for baseline in baselines}:
            reason = f"{texts.task.description} has no baseline to compare with"
            if spaces.by_arm:
                reason = f"{texts.task.description} has no such baseline"
            elif baselines:
                reason = "no run keeps an analysis of its text; give the text with --unlabelled"
            if config.arms:
                arms = ",".join(config.arms)
                raise WarmstartError(f"--arms {arms}: {reason}, or leave {name} out")
            notes.append(f"{name} is left out: {reason}")
            progress.say(notes[-1])
    parts = texts.parts(_whole_texts(config, texts))
    return [
        PlannedArm(
            BaselineArm(texts.task, texts.labels, baseline, spaces.parent_of(baseline.name)),
            parts,
            trials=config.trials,  # they take seconds, and an untuned one is easily beaten
        )
        for baseline in baselines
        if baseline.arm in config.arm_names
    ]


def run_names(sources: Sequence[SavedRun]) -> list[str]:
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
    may_compile = runtime.device.type == "cuda" and config.compile is not False
    is_compiled = may_compile and repays_compiling(config)
    cold_names, planned = _cold_names(config, sources, notes), set[str]()
    shared = SharedModule()
    kinds: tuple[ArmKind, ...] = ("warm", "frozen", "cold", "self")
    classes: dict[ArmKind, type[TransformerArm]] = {"self": SelfArm}
    if texts.task.solves_heads:
        classes["frozen"] = FrozenArm
    arms: dict[ArmKind, list[PlannedArm]] = {kind: [] for kind in kinds if kind in config.arm_names}
    for run_name, source in sources.items():
        check_length(source.model, config.max_length, source.path)
        model = _architecture(config, source)
        read = _encoded_texts(config, texts, source, notes)
        scored = read[texts.held_out[-1]]
        parts = texts.parts(read)
        ending = f": {run_name}" if len(sources) > 1 else ""
        cold = cold_names[run_name]
        for kind in arms:
            if kind == "cold" and cold in planned:
                continue
            name = cold if kind == "cold" else f"{kind}{ending}"
            arm = classes.get(kind, TransformerArm)(
                name=name,
                kind=kind,
                source=source,
                model=model,
                task=texts.task,
                labels=texts.labels,
                tuning=config,
                runtime=runtime,
                cold=None if kind == "cold" else cold,
                is_compiled=is_compiled or (kind == "self" and may_compile),
                shared=shared,
            )
            arms[kind].append(PlannedArm(arm, parts, sum(scored.is_truncated), model.max_length))
        planned.add(cold)
    return [arm for kind in arms for arm in arms[kind]]


def _check_self_training(config: CompareConfig, texts: ExperimentTexts) -> None:
    """Refuse what a model cannot label for itself."""
    if "self" not in config.arm_names:
        return
    problem = None
    if not texts.task.learns_shares:
        problem = f"{texts.task.description} cannot learn from probabilities of its own"
    elif texts.training.seconds is not None:
        problem = "unlabelled texts are no pairs, which the labelled ones are"
    elif config.pieces:
        problem = "unlabelled texts are not split into pieces, as the labelled ones are"
    if problem:
        raise WarmstartError(f"--arms {','.join(config.arm_names)}: {problem}; leave self out")


def _with_unlabelled(
    planned: PlannedArm,
    config: CompareConfig,
    texts: ExperimentTexts,
    spaces: Spaces,
) -> PlannedArm:
    """Return an arm that teaches itself with its unlabelled texts, and what labels them besides."""
    arm = planned.arm
    if not isinstance(arm, SelfArm):
        return planned
    limit = config.self_texts or MOST_TEXTS[arm.runtime.kind]
    read = texts_to_label(config, arm.source, texts.data, limit)
    rule = config.truncate or texts.task.truncate
    split = for_tokenizer(read, arm.source.tokenizer, is_pieces=False)
    pool, _ = texts.task.encode(split, arm.source.tokenizer, arm.model, rule)
    seen = (each for each in spaces.by_arm.values() if each.parent in (None, arm.source))
    known = tuple(analysed.space for analysed in seen)
    return replace(planned, arm=replace(arm, pool=pool, spaces=known))


def repays_compiling(config: CompareConfig) -> bool:
    """Tell whether to compile: as --compile says, else if an arm trains enough models."""
    per_group = len(config.seeds) + (config.trials if config.trials > 1 else 0)
    num_models = len(config.labels) * (config.folds or 1) * per_group
    return num_models >= COMPILED_MODELS if config.compile is None else config.compile


def _architecture(config: CompareConfig, source: SavedRun) -> ModelConfig:
    return replace(source.model, max_length=config.max_length or finetuning_length(source.model))


def _cold_names(
    config: CompareConfig, sources: dict[str, SavedRun], notes: list[str]
) -> dict[str, str]:
    """Return the name of each run's cold arm: one arm for each architecture and tokenizer."""
    groups: dict[tuple[ModelConfig, str], list[str]] = {}
    for name, source in sources.items():
        model = _architecture(config, source)
        # These settings only concern the head of a language model.
        model = replace(model, tied=False, transform=False, output_bias=True)
        groups.setdefault((model, source.tokenizer.fingerprint()), []).append(name)
    for group in groups.values():
        if 1 < len(group) < len(sources) and "cold" in config.arm_names:
            names = f"{', '.join(group[:-1])} and {group[-1]}"
            notes.append(f"{names} share architecture and tokenizer, so one cold arm: {group[0]}")
    return {
        name: "cold" if len(groups) == 1 else f"cold: {group[0]}"
        for group in groups.values()
        for name in group
    }


def _encoded_texts(
    config: CompareConfig, texts: ExperimentTexts, source: SavedRun, notes: list[str]
) -> dict[str, Dataset]:
    """Return each split as the tokenizer of a run reads it."""
    model = _architecture(config, source)
    rule = config.truncate or texts.task.truncate
    splits = {}
    for name, read in texts.data.items():
        split = for_tokenizer(read, source.tokenizer, config.pieces)
        encoded, note = texts.task.encode(split, source.tokenizer, model, rule)
        if len(config.from_runs) > 1:
            note = f"{source.path}: {note}"
        notes.append(note)
        progress.say(note)
        splits[name] = encoded
    return splits


def _whole_texts(config: CompareConfig, texts: ExperimentTexts) -> dict[str, Dataset]:
    """Return each split as a baseline reads it."""
    if not texts.task.joins_pairs:
        return texts.data
    return {
        name: replace(split, texts=readable_rows(split, config.pieces), seconds=None)
        for name, split in texts.data.items()
    }
