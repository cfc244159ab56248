"""The attention of the models that a comparison keeps, on one text."""

from collections.abc import Sequence

from warmstart import progress
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import ExperimentPlan
from warmstart.comparison.results import Arm, AttentionExample, Comparison
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import kept_models
from warmstart.tasks.labelled_data import for_tokenizer
from warmstart.tasks.registry import load_transformer

SHOWN_TOKENS = (8, 48)  # length of a text whose attention is easy to read
MAX_SHOWN_TOKENS = 128  # a figure of the attention on a longer text is unreadable


def attention_example(
    config: CompareConfig, run: RunFolder, plan: ExperimentPlan, comparison: Comparison
) -> AttentionExample | None:
    """Return the attention of the first warm model and of its cold model on a scored text.

    None: in a cross-validation, if a model is not kept, or if all texts are too long.
    """
    arms, kept = attention_arms(comparison.arms), _best_models(config, run)
    if config.folds or not arms or not set(arms) <= kept.keys():
        return None
    scored = plan.arms[0].parts[0].scored.ids
    row = choose_attention_row(scored, plan.arms[0].max_length)
    if row is None:
        return None
    split = comparison.scored_split
    texts = plan.texts.data[split.name].subset([row])
    maps, predictions = {}, {}
    for arm in arms:
        model = load_transformer(kept[arm].path, config)
        read = for_tokenizer(texts, model.tokenizer, config.pieces)
        with progress.silence():
            maps[arm] = model.attention(*read.texts, *(read.seconds or ()))["self"]
        predictions[arm] = model.predict(read.texts, read.seconds)[0].label
    return AttentionExample(
        row=row,
        label=plan.texts.describe(split.classes[row]),
        labels=comparison.subsets[-1],
        maps=maps,
        predictions=predictions,
        is_right_or_wrong=plan.texts.task.is_right_or_wrong,
    )


def attention_arms(arms: Sequence[Arm]) -> tuple[str, ...]:
    """Return the names of the first warm arm and of its cold arm, of those that are compared."""
    names = {arm.name for arm in arms}
    warm = next((arm for arm in arms if arm.kind == "warm"), None)
    return () if warm is None else tuple(n for n in (warm.name, warm.cold) if n in names)


def _best_models(config: CompareConfig, run: RunFolder) -> dict[str, RunFolder]:
    """Return a kept model of every arm: of several, one with the most labels and the first seed."""

    def order(folder: RunFolder) -> tuple[int, int]:
        facts = folder.scores()
        return facts.labels, config.preference(facts.seed)

    folders = sorted(map(RunFolder, kept_models(run)), key=order)
    return {folder.entry("arm"): folder for folder in folders}


def choose_attention_row(ids: Sequence[Sequence[int]], max_length: int) -> int | None:
    """Return the first row of a length that is easy to read, else the nearest in length.

    A text of the model's full length may have been cut, so a shorter one is preferred. None: all
    texts are too long.
    """
    least, most = SHOWN_TOKENS
    most = min(most, max_length - 1)
    row = min(range(len(ids)), key=lambda row: max(least - len(ids[row]), len(ids[row]) - most, 0))
    return row if len(ids[row]) <= MAX_SHOWN_TOKENS else None
