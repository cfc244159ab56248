"""The settings of `pretrain`."""

import math
from dataclasses import replace
from typing import Self

from warmstart.errors import WarmstartError
from warmstart.settings.architecture import Architecture
from warmstart.settings.base import Settings, advanced, argument, option
from warmstart.settings.model import Ablation
from warmstart.settings.shared import (
    MAX_RATE,
    Documents,
    Optimizer,
    TextColumn,
    TrainedTokenizer,
    TrainingRun,
)

DEFAULT_MINUTES = 10
MAX_PASSES = 60  # over the text; more teach little
BATCH_TOKENS = {"cuda": 32_768, "cpu": 4_096}
MICRO_TOKENS = {"cuda": 65_536, "cpu": 16_384}
COMPILED_STEPS, COMPILED_MINUTES = 500, 1  # a shorter training does not repay compiling
DOCUMENT_LOSS = {"cuda": 0.0, "cpu": 1.0}


class Masking(Settings, panel="Training"):
    """What masked pretraining masks and predicts."""

    mask_rate: float = option("masked: share of tokens masked", 0.3, above=0, most=0.9)
    whole_words: bool = advanced("masked: mask all pieces of a word together", False)
    nsp: bool = option("masked: predict next sentences too", False)
    document_loss: float | None = advanced(
        "masked: weight of predicting a text's masked tokens from its mean vector; default: 0 on a "
        "GPU, 1 without",
        None,
        least=0,
        metavar="WEIGHT",
    )
    semantic_start: bool | None = advanced(
        "masked: embeddings start from which tokens occur together; default: not on a GPU", None
    )

    def refuse_unused(self) -> None:
        """Refuse masking settings where nothing is masked."""
        is_set = {
            "--mask-rate": self.mask_rate != Masking.mask_rate,
            "--whole-words": self.whole_words,
            "--nsp": self.nsp,
            "--document-loss": self.document_loss is not None,
            "--semantic-start": self.semantic_start is not None,
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
    objective: str | None = option(
        "masked: restore masked tokens; causal: predict next tokens; default: that of --from, or "
        "masked",
        None,
        metavar="NAME",
    )
    ablate: Ablation = advanced(
        "part to leave out, to see what it is for: mask, scale, positions, residual, norm, warmup",
        "nothing",
        metavar="PART",
        panel="Model",
    )
    steps: int | None = option(
        "optimizer steps, instead of --minutes",
        None,
        least=1,
        fixed=False,
        excludes=("tokens", "minutes"),
    )
    tokens: int | None = option(
        "tokens to train on, instead of --minutes",
        None,
        least=1,
        fixed=False,
        excludes=("minutes",),
    )
    minutes: float | None = option(
        f"time to take in all, or less: at most {MAX_PASSES} passes over the text; default: "
        f"{DEFAULT_MINUTES}",
        None,
        above=0,
        fixed=False,
    )
    batch_tokens: int | None = option(
        "tokens per optimizer step; default: 32768 on a GPU, 4096 without", None, least=2
    )
    micro_tokens: int | None = option(
        "tokens per forward pass, fewer need less memory; default: by device", None, least=2
    )
    optimizer: Optimizer = option("muon: for the matrices of the blocks", "muon")
    learning_rate: float | None = option(
        "peak; default: by optimizer and norm position", None, above=0, most=MAX_RATE
    )
    weight_decay: float = advanced("decoupled, on matrices", 0.1, least=0, most=MAX_RATE)
    warmup: float = advanced("share of steps with a rising learning rate", 0.05, least=0, most=1)
    clip: float = advanced("largest gradient norm", 1.0, above=0)
    eval_every: int | None = option("steps between validations; default: 5% of all", None, least=1)
    log_every: int = advanced("steps between lines in metrics.jsonl", 10, least=1)
    ray: str | None = advanced(
        "tokenize on this Ray cluster; auto: the one found, or here",
        None,
        metavar="ADDRESS",
        recorded=False,
        panel="Machine",
    )
    compile: bool | None = advanced(
        f"use torch.compile; default: on CUDA, from {COMPILED_STEPS} steps on", None, fixed=False
    )

    @property
    def time(self) -> float | None:
        """Return the minutes to take; None: as long as the steps or tokens need."""
        return self.minutes or (None if self.steps or self.tokens else DEFAULT_MINUTES)

    def for_device(self, device: str, batch_tokens: int | None) -> Self:
        """Return the settings with the defaults of a kind of device.

        A resumed run keeps its `batch_tokens`; None: a new run.
        """
        return replace(
            self,
            batch_tokens=self.batch_tokens or batch_tokens or BATCH_TOKENS[device],
            micro_tokens=self.micro_tokens or MICRO_TOKENS[device],
        )

    def rows_per_step(self, max_length: int) -> int:
        """Return the number of full rows of text in an optimizer step."""
        assert self.batch_tokens is not None
        return max(1, self.batch_tokens // max_length)

    def is_compiled(self, steps: int, device: str) -> bool:
        """Return whether to compile the backbone for so many steps at most."""
        if self.compile is not None:
            return self.compile
        is_long = steps >= COMPILED_STEPS and (self.time or COMPILED_MINUTES) >= COMPILED_MINUTES
        return device == "cuda" and is_long

    def num_steps(self, max_length: int, text_tokens: int, filled: float = 1.0) -> int:
        """Return the optimizer steps to run at most; they see the tokens asked for.

        Without a number, they read the text as often as it can be of use. `filled` is the share
        of a row that is not padding.
        """
        if self.steps:
            return self.steps
        tokens = self.tokens or MAX_PASSES * text_tokens
        step_tokens = self.rows_per_step(max_length) * max_length
        if filled == 1.0:
            return -(-tokens // step_tokens)  # exact for any int, unlike math.ceil
        return max(1, math.ceil(tokens / (step_tokens * filled)))
