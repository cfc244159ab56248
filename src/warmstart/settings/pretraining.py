"""The settings of `pretrain`."""

import math

from warmstart.errors import WarmstartError
from warmstart.settings.architecture import Architecture
from warmstart.settings.base import Settings, advanced, argument, option
from warmstart.settings.shared import (
    Documents,
    Optimizer,
    TextColumn,
    TrainedTokenizer,
    TrainingRun,
)


class Masking(Settings, panel="Training"):
    """What masked pretraining masks and predicts."""

    mask_rate: float = option("masked: share of tokens masked", 0.15, above=0, most=0.9)
    whole_words: bool = advanced("masked: mask all pieces of a word together", False)
    nsp: bool = option("masked: predict next sentences too", True)

    def refuse_unused(self) -> None:
        """Refuse masking settings where nothing is masked."""
        is_set = {
            "--mask-rate": self.mask_rate != Masking.mask_rate,
            "--whole-words": self.whole_words,
            "--no-nsp": not self.nsp,
        }
        for flag in filter(is_set.get, is_set):
            raise WarmstartError(f"{flag} has no effect without --objective masked")


class PretrainConfig(
    Documents, TextColumn, Architecture, TrainedTokenizer, Masking, TrainingRun, panel="Training"
):
    """Text in, pretrained backbone out."""

    files: tuple[str, ...] = argument("text files, folders or globs")
    valid: tuple[str, ...] = option(
        "validation text; default: 1%, chosen by content", (), panel="Input and output"
    )
    from_run: str | None = option("run to start from", None, key="from", panel="Input and output")
    objective: str = option(
        "causal: predict next tokens; masked: restore masked tokens", "causal", metavar="NAME"
    )
    steps: int | None = option(
        "optimizer steps; default: 1000",
        None,
        least=1,
        fixed=False,
        excludes=("tokens", "minutes"),
    )
    tokens: int | None = option(
        "tokens to train on, instead of --steps", None, least=1, fixed=False, excludes=("minutes",)
    )
    minutes: float | None = option(
        "time to take in all, instead of --steps", None, above=0, fixed=False
    )
    batch_tokens: int = option("tokens per optimizer step", 8192, least=2)
    micro_tokens: int = option("tokens per forward pass; fewer need less memory", 16_384, least=2)
    optimizer: Optimizer = option("muon: for the matrices of the blocks", "muon")
    learning_rate: float | None = option(
        "peak; default: by optimizer and norm position", None, above=0
    )
    weight_decay: float = advanced("decoupled, on matrices", 0.1, least=0)
    warmup: float = advanced("share of steps with a rising learning rate", 0.05, least=0, most=1)
    clip: float = advanced("largest gradient norm", 1.0, above=0)
    eval_every: int = option("steps between validations", 200, least=1)
    log_every: int = advanced("steps between lines in metrics.jsonl", 10, least=1)
    compile: bool | None = advanced("use torch.compile; default: on CUDA only", None, fixed=False)

    def rows_per_step(self, max_length: int) -> int:
        """Return the number of full rows of text in an optimizer step."""
        return max(1, self.batch_tokens // max_length)

    def num_steps(self, max_length: int, filled: float = 1.0) -> int:
        """Return the optimizer steps to run; they see at least the tokens asked for.

        `filled` is the share of a row that is not padding.
        """
        if self.tokens is None:
            return self.steps or 1000
        step_tokens = self.rows_per_step(max_length) * max_length
        if filled == 1.0:
            return -(-self.tokens // step_tokens)  # exact for any int, unlike math.ceil
        return max(1, math.ceil(self.tokens / (step_tokens * filled)))
