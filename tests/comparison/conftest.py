"""A made-up comparison of any shape, and its summary."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from command_line import World
from warmstart.comparison.results import Arm, ArmKind, Cell, Comparison, Split, Trial, TunedArm
from warmstart.comparison.summary import Summary
from warmstart.comparison.verdict import summarise
from warmstart.data.copies import NearCopy, SharedTexts
from warmstart.tasks.fitting import Epoch

ARMS = (("warm", "warm"), ("frozen", "frozen"), ("cold", "cold"), ("tf-idf", "baseline"))
# accuracy with 50 and with 1,600 labels, and epochs until most of it is learnt
SKILL: dict[ArmKind, tuple[float, float, float]] = {
    "warm": (0.74, 0.89, 0.7),
    "frozen": (0.71, 0.78, 2.0),
    "cold": (0.56, 0.82, 3.5),
    "baseline": (0.66, 0.86, 1.0),
}
SETTINGS = dict.fromkeys(SKILL, ("learning rate 0.001", "learning rate 0.0003"))
SETTINGS["baseline"] = ("C 1", "C 10")
Built = tuple[Comparison, Summary]

SHARED_TEXTS = SharedTexts(
    a="train.tsv",
    b="test.tsv",
    distinct=4,
    rows=4,
    near=1,
    copy="A good book.",
    near_copy=NearCopy(text="A good <b>book</b>", original=None),
)


def build(
    *,
    arms: tuple[tuple[str, ArmKind], ...] = ARMS,
    subsets: tuple[int, ...] = (50, 100, 400, 1600),
    seeds: tuple[int, ...] = (0, 1, 2),
    num_epochs: int = 8,
    epochs_apart: int = 1,
    class_names: tuple[str, ...] = ("negative", "positive"),
    num_texts: int = 200,
    has_test: bool = True,
    num_shared: int = 4,
    skill: dict[ArmKind, tuple[float, float, float]] = SKILL,
    attainable: float | None = 0.95,
    title: str = "Book reviews: what did pretraining buy?",
) -> Built:
    """Return a comparison in which every arm guesses as well as `skill` says."""
    random = Random(7)
    num_classes = len(class_names)
    truths = [tuple(random.randrange(num_classes) for _ in range(num_texts)) for _ in range(2)]
    hardness = [[random.random() for _ in truth] for truth in truths]  # shared by all arms
    splits = (
        Split(name="validation", file="valid.tsv", classes=truths[0], shared=()),
        Split(name="test", file="test.tsv", classes=truths[1], shared=tuple(range(num_shared))),
    )[: 1 + has_test]

    def guess(split: int, accuracy: float) -> tuple[int, ...]:
        pairs = zip(truths[split], hardness[split], strict=True)
        return tuple(
            c
            if (hard, random.random())[random.random() < 0.3] < accuracy
            else (c + 1) % num_classes
            for c, hard in pairs
        )

    def cell(place: int, name: str, kind: ArmKind, labels: int, seed: int) -> Cell:
        low, high, patience = skill[kind]
        share = math.log(labels / 50) / math.log(32) if labels > 50 else 0.0
        accuracy = low + (high - low) * share - 0.008 * (place // 4) + random.gauss(0, 0.008)
        count = 0 if kind == "baseline" else num_epochs
        rise = [accuracy - 0.25 * math.exp(-e / patience) for e in range(1, count + 1)]
        noisy = [min(max(a + random.gauss(0, 0.006), 0.0), 1.0) for a in rise]
        return Cell(
            arm=name,
            labels=labels,
            seed=seed,
            setting=SETTINGS[kind][0],
            epochs=tuple(
                Epoch(
                    epoch=epochs_apart * e,
                    train_loss=1 / e,
                    valid_loss=1 / e,
                    valid_accuracy=a,
                    valid_f1=a,
                    elapsed_s=labels * e / 90,
                )
                for e, a in enumerate(noisy, 1)
            ),
            elapsed_s=labels * max(count, 0.1) / 90,
            predictions={
                split.name: guess(number, accuracy) for number, split in enumerate(splits)
            },
        )

    comparison = Comparison(
        title=title,
        train_file="train.tsv",
        class_names=class_names,
        class_counts={
            class_names[index]: number
            for index, number in sorted(Counter(i**2 % num_classes for i in range(1600)).items())
        },
        arms=tuple(
            Arm(
                name=name,
                kind=kind,
                source="runs/books" if kind in ("warm", "frozen") else None,
                parameters=10_968_602,
                trainable=402 if kind == "frozen" else 10_968_602,
                pretrain_s=5412.0 if kind in ("warm", "frozen") else 0.0,
                pretrain_tokens=41_000_000 if kind in ("warm", "frozen") else 0,
            )
            for name, kind in arms
        ),
        subsets=subsets,
        seeds=seeds,
        cells=tuple(
            cell(place, name, kind, labels, seed)
            for place, (name, kind) in enumerate(arms)
            for labels in subsets
            for seed in (seeds[:1] if kind == "baseline" else seeds)
        ),
        tuned=tuple(
            TunedArm(
                arm=name,
                labels=labels,
                trials=tuple(
                    Trial(setting=setting, valid_accuracy=0.8 - 0.01 * place)
                    for place, setting in enumerate(SETTINGS[kind])
                ),
                values=(1.0,),
                settings=SETTINGS[kind][:1],
            )
            for name, kind in arms
            for labels in subsets
        ),
        splits=splits,
        overlaps=(SHARED_TEXTS,) if num_shared else (),
        num_truncated=0,
        notes=("37 of 1,600 training texts are longer than 256 tokens and lost their end.",),
        attainable=attainable,
    )
    return comparison, summarise(comparison)


@pytest.fixture(scope="session")
def built() -> Built:
    return build()


@pytest.fixture(scope="session")
def builder() -> Callable[..., Built]:
    return build


@pytest.fixture(scope="session")
def places(world: World, base: Path) -> dict[str, str]:
    """Return the files and the run that a comparison is given, by name."""
    return {name: str(path) for name, path in {**vars(world), "base": base}.items()}
