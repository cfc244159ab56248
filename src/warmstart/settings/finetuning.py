"""The settings of `finetune` and `compare`, which train classifiers."""

from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.settings.architecture import Architecture
from warmstart.settings.base import Settings, advanced, option
from warmstart.settings.shared import (
    MAX_RATE,
    Destination,
    LabelledFiles,
    Machine,
    ModelTokenizer,
    Pooling,
    SeveralProcesses,
    TrainingRun,
    Truncate,
)

Balance = Literal["none", "weights"]  # whether rare classes count more in the loss
ArmName = Literal["warm", "frozen", "cold", "tfidf", "blend"]


class Tuning(Settings, panel="Training"):
    """How a classifier is trained."""

    epochs: int | None = option(
        "passes over the labelled texts; default: 40 to 3, fewer with more texts", None, least=1
    )
    most_epochs: int | None = option("set by --minutes", None, least=1, has_flag=False)
    batch_size: int = option("texts per optimizer step", 16, least=1)
    micro_tokens: int = option("padded tokens per forward pass", 8192, least=2)
    learning_rate: float | None = option(
        "peak; default: by arm and norm position", None, above=0, most=MAX_RATE
    )
    weight_decay: float = advanced("decoupled, on matrices", 0.01, least=0, most=MAX_RATE)
    warmup: float = advanced("share of steps with a rising learning rate", 0.1, least=0, most=1)
    clip: float = advanced("largest gradient norm", 1.0, above=0)
    layer_decay: float | None = advanced(
        "rate of a block relative to the next; default: 0.65 if warm", None, above=0, most=1
    )
    unfreeze: bool = advanced("one more block each epoch, head first", False)
    pooling: Pooling = option("positions of the text vector", "mean")
    truncate: Truncate | None = option("what overlong texts keep; default: by task", None)
    balance: Balance = option("weights: rare classes count more", "none")
    select: Literal["accuracy", "f1"] = option("metric that selects", "accuracy")
    keep_epoch: Literal["last", "best"] = option("epoch whose weights are kept", "last")
    compile: bool | None = advanced(
        "replay recorded steps, compile what many models share; default: on CUDA",
        None,
        fixed=False,
    )
    classifier_dropout: float = advanced("before the classification head", 0.1, least=0, most=0.95)


class FinetuneConfig(
    LabelledFiles, Architecture, ModelTokenizer, Tuning, TrainingRun, panel="Training"
):
    """Labelled texts in, classifier out."""

    from_run: str | None = option(
        "pretrained run to start from; without it: cold start",
        None,
        key="from",
        panel="Input and output",
    )
    task: str = option("what to train; see docs/tasks.md", "classify", metavar="NAME")
    frozen: bool = option("train only the head", False)
    epochs: int | None = option(
        "passes over the labelled texts; default: 40 to 3, fewer with more texts",
        None,
        least=1,
        fixed=False,
    )
    minutes: float | None = option(
        "time to take in all: fewer steps than --epochs where these do not fit",
        None,
        above=0,
        fixed=False,
    )
    labels: int | None = option("labelled texts to use; default: all", None, least=2)


class CompareConfig(LabelledFiles, Tuning, Destination, Machine, SeveralProcesses):
    """Pretrained runs and labelled texts in, verdict out."""

    from_runs: tuple[str, ...] = option("pretrained run; repeat for several", key="from")
    test: str | None = option("labelled texts, scored once at the end", None)
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
    arms: tuple[ArmName, ...] = option(
        "what to compare; blend: warm and tfidf together",
        ("warm", "frozen", "cold", "tfidf"),
        comma_separated=True,
        metavar="NAMES",
        panel="Training",
    )
    seeds: tuple[int, ...] = option(
        "seeds of every arm", (0, 1, 2, 3, 4), least=0, comma_separated=True, panel="Training"
    )
    trials: int = option("settings tried for each arm", 3, least=1, most=9, panel="Training")
    minutes: float | None = option(
        "time to take in all: fewer trials, seeds, epochs, subsets",
        None,
        above=0,
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
        return self.folds is not None and self.keep_epoch == "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise WarmstartError(f"--seeds {list(self.seeds)} must be different numbers")
        if len(set(self.arms)) < max(2, len(self.arms)):
            raise WarmstartError(f"--arms {','.join(self.arms)} must name at least two, each once")
        if "blend" in self.arms and not {"warm", "tfidf"} <= set(self.arms):
            raise WarmstartError(
                f"--arms {','.join(self.arms)}: blend is warm and tfidf together, so name these too"
            )
        if not self.labels:
            raise WarmstartError("--labels is empty: give sizes such as 50,400,all")
        if self.folds and self.save == "all":
            raise WarmstartError("--save all and --folds exclude each other: folds keep one model")
        for size in self.labels:
            if size != "all" and (not size.isdecimal() or int(size) < 2):
                raise WarmstartError(f"--labels {size!r} must be a number from 2 up, or all")
