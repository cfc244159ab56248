"""The settings and the command of `compare`."""

from typing import TYPE_CHECKING, Literal

from warmstart.errors import WarmstartError
from warmstart.formats import quantity, shell_line
from warmstart.printing import print_table, quote, say, say_next
from warmstart.settings.base import advanced, option
from warmstart.settings.shared import Destination, LabelledFiles, Machine, SeveralProcesses
from warmstart.settings.training import Tuning

if TYPE_CHECKING:
    from warmstart.comparison.results import Arm, Comparison
    from warmstart.comparison.summary import ArmScore, Summary
    from warmstart.evaluation.scale import Scale

ArmName = Literal["warm", "frozen", "cold", "lsa", "tfidf", "self"]
TRANSFORMER_ARMS: tuple[ArmName, ...] = ("warm", "frozen", "cold")  # of every run of --from
BASELINE_ARMS: tuple[ArmName, ...] = ("lsa", "tfidf")


def print_comparison(comparison: "Comparison", summary: "Summary") -> None:
    """Print what to use, the accuracy of every arm at every subset, and the verdicts."""
    say(summary.advice.sentence)
    arms, subsets = [arm.name for arm in comparison.arms], comparison.subsets
    grid = [
        [_score(summary.score(arm, labels), comparison.scale) for arm in arms] for labels in subsets
    ]
    scores = (summary.score(arm, labels) for arm in arms for labels in subsets)
    counts = {score.scored.num_seeds for score in scores if score}
    few, most = min(counts), max(counts)
    spread = " ± spread" if most > 1 else ""
    num_seeds = f"{few} to {most} seeds" if few < most else quantity(most, "seed")
    seeds = f"mean of {num_seeds}{spread}"
    title = f"{comparison.metric} {comparison.scored_split.where}, {seeds}"
    if len(arms) <= 5:
        rows = [[f"{labels:,}", *cells] for labels, cells in zip(subsets, grid, strict=True)]
        print_table(["labels", *arms], rows, title)
    else:
        rows = [[name, *cells] for name, *cells in zip(arms, *grid, strict=True)]
        print_table(["arm", *(quantity(labels, "label") for labels in subsets)], rows, title)
    if comparison.attainable:
        say(f"best {comparison.metric} attainable: {comparison.scale.write(comparison.attainable)}")
    for sentence in (*summary.findings, *summary.caveats):
        say(sentence)


def _score(score: "ArmScore | None", scale: "Scale") -> str:
    if score is None:
        return "–"
    mean, spread = (
        scale.write(score.scored.accuracy),
        scale.write_spread(score.scored.spread, score.scored.accuracy),
    )
    return f"{mean} ± {spread}" if score.scored.num_seeds > 1 else mean


class CompareConfig(LabelledFiles, Tuning, Destination, Machine, SeveralProcesses):
    """Pretrained runs and labelled texts in, verdict out."""

    from_runs: tuple[str, ...] = option("pretrained run; repeat for several", (), key="from")
    unlabelled: tuple[str, ...] = option(
        "text for lsa and self; default: that of the run; may repeat", (), holds_rows=True
    )
    test: str | None = option("labelled texts, scored once at the end", None, holds_rows=True)
    test_labels: str | None = option("labels of --test, one per line", None)
    folds: int | None = option(
        "cross-validation: every text is tested once", None, least=2, most=20, excludes=("test",)
    )
    title: str = advanced("report title", "warm start against cold", fixed=False, metavar="TEXT")
    labels: tuple[str, ...] = option(
        "label subsets, e.g. 50,400,all",
        ("all",),
        comma_separated=True,
        metavar="SIZES",
        panel="Training",
    )
    arms: tuple[ArmName, ...] | None = option(
        "of warm,frozen,cold,lsa,tfidf, and self; default: all but self that can be compared",
        None,
        comma_separated=True,
        metavar="NAMES",
        panel="Training",
    )
    seeds: tuple[int, ...] = option(
        "seeds of every arm", (0, 1, 2, 3, 4), least=0, comma_separated=True, panel="Training"
    )
    trials: int = option("settings tried for each arm", 3, least=1, most=9, panel="Training")
    minutes: float | None = option(
        "time to take in all: fewer trials, no cold, fewer seeds and subsets",
        None,
        above=0,
        panel="Training",
    )
    self_texts: int | None = advanced(
        "unlabelled texts that self learns from; default: 8192 on a GPU, 1024 without",
        None,
        least=8,
        metavar="N",
        panel="Training",
    )
    processes: str | None = advanced(
        "models trained at a time: a number, or auto: one per GPU or core",
        None,
        metavar="N",
        recorded=False,
        panel="Machine",
    )
    ray: str | None = advanced(
        "train the models on this Ray cluster; auto: the one found, or here",
        None,
        metavar="ADDRESS",
        recorded=False,
        excludes=("processes", "minutes"),
        panel="Machine",
    )
    ray_gpus: float | None = advanced(
        "GPUs of each model under --ray, e.g. 0.5; default: 1 if there are any",
        None,
        least=0,
        recorded=False,
        panel="Machine",
    )
    max_length: int | None = option("longest text in tokens", None, least=3, panel="Training")
    save: Literal["best", "all", "none"] = option("models to keep: the best of each arm", "best")
    attainable: float | None = option("best possible accuracy", None, has_flag=False, fixed=False)

    @property
    def refits(self) -> bool:
        """Tell whether the texts that choose a setting are trained on once it is chosen."""
        is_scored_apart = self.folds is not None or (self.test is not None and not self.valid)
        return is_scored_apart and self.keep_epoch == "last"

    @property
    def retrains(self) -> bool:
        """Tell whether the arm to use is trained once more, on every label, to be kept."""
        is_set_aside = not self.valid and not self.test and self.keep_epoch == "last"
        return self.save == "best" and (self.folds is not None or is_set_aside)

    @property
    def arm_names(self) -> tuple[ArmName, ...]:
        """Return the arms to compare; without a run, those that need none."""
        return self.arms or (*TRANSFORMER_ARMS * bool(self.from_runs), *BASELINE_ARMS)

    def preference(self, seed: int) -> int:
        """Return what is higher the earlier a seed is named; lowest for one that is not."""
        return -self.seeds.index(seed) if seed in self.seeds else -len(self.seeds)

    def _check_arms(self) -> None:
        if not self.from_runs and not self.unlabelled:
            raise WarmstartError(
                "--from is missing: name a pretrained run, or give text with --unlabelled, from "
                "which lsa learns in seconds"
            )
        names = ",".join(self.arm_names)
        is_alone = len(self.arm_names) == 1 and len(self.from_runs) < 2
        if is_alone or len(set(self.arm_names)) < len(self.arm_names):
            raise WarmstartError(
                f"--arms {names} must name at least two, each once; one is enough with two --from"
            )
        if not self.from_runs and not set(self.arm_names) <= set(BASELINE_ARMS):
            raise WarmstartError(
                f"--arms {names} needs --from, a run whose model {' or '.join(TRANSFORMER_ARMS)} "
                f"starts from; without one, compare {','.join(BASELINE_ARMS)}"
            )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise WarmstartError(f"--seeds {list(self.seeds)} must be different numbers")
        self._check_arms()
        if not self.labels:
            raise WarmstartError("--labels is empty: give sizes such as 50,400,all")
        if self.folds and self.save == "all":
            raise WarmstartError("--save all and --folds exclude each other: folds keep one model")
        for size in self.labels:
            if size != "all" and (not size.isdecimal() or int(size) < 2):
                raise WarmstartError(f"--labels {size!r} must be a number from 2 up, or all")


def compare(config: CompareConfig) -> None:
    from warmstart.comparison.compare import compare as run
    from warmstart.comparison.spaces import unlabelled_source
    from warmstart.recipes.advice import archive_advice
    from warmstart.tasks.latent_semantics import documents_of

    result = run(config)
    print_comparison(result.comparison, result.summary)
    model = result.models.get(result.advised.name)
    command = _training(config, result.advised)
    if model:
        command = f"predict {quote(model)} texts.txt -o labelled.csv"
    say_next(f"{result.report}: open it in a browser", command)
    if not config.from_runs:
        texts = documents_of(unlabelled_source(config))
        say(archive_advice(texts, " ".join(map(quote, config.unlabelled))))


def _training(config: CompareConfig, arm: "Arm") -> str | None:
    """Return the command that trains the advised arm on the same files; None: no command can."""
    if arm.source is None:
        return None
    frozen = ["--frozen"] * (arm.kind == "frozen")
    words = ["--from", str(arm.source), *frozen, *config.flags(LabelledFiles)]
    return f"finetune {shell_line(words)} -o runs/classifier"
