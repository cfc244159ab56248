"""The settings of `pretrain`."""

import math
from dataclasses import dataclass

from warmstart.errors import WarmstartError
from warmstart.settings.architecture import Architecture
from warmstart.settings.base import Settings, option
from warmstart.settings.choices import Optimizer
from warmstart.settings.input_files import Documents, TextColumn
from warmstart.settings.machine import Machine
from warmstart.settings.saving import Checkpoints, Destination
from warmstart.settings.tokenizers import TrainedTokenizer


@dataclass(frozen=True, kw_only=True)
class Masking(Settings, panel="Training"):
    """What masked pretraining masks and predicts."""

    mask_rate: float = option(0.15, help="masked: share of tokens masked", above=0, most=0.9)
    whole_words: bool = option(
        False, help="masked: mask all pieces of a word together", advanced=True
    )
    nsp: bool = option(True, help="masked: predict next sentences too")

    def refuse_unused(self) -> None:
        """Refuse masking settings where nothing is masked."""
        is_given = {
            "--mask-rate": self.mask_rate != Masking.mask_rate,
            "--whole-words": self.whole_words,
            "--no-nsp": not self.nsp,
        }
        for flag in (flag for flag in is_given if is_given[flag]):
            raise WarmstartError(f"{flag} has no effect without --objective masked")


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(
    Documents,
    TextColumn,
    Architecture,
    TrainedTokenizer,
    Masking,
    Destination,
    Checkpoints,
    Machine,
    panel="Training",
):
    """Text in, pretrained backbone out."""

    files: tuple[str, ...] = option(help="text files, folders or globs", positional=True)
    valid: tuple[str, ...] = option(
        (), help="validation text; default: 1%, chosen by content", panel="Input and output"
    )
    from_run: str | None = option(
        None, key="from", help="run to continue training from", panel="Input and output"
    )
    objective: str = option(
        "causal", help="causal: predict next tokens; masked: restore masked tokens", metavar="NAME"
    )
    steps: int | None = option(
        None, help="optimizer steps; default: 1000", least=1, excludes="tokens"
    )
    tokens: int | None = option(None, help="tokens to train on, instead of --steps", least=1)
    batch_tokens: int = option(8192, help="tokens per optimizer step", least=2)
    micro_tokens: int = option(
        16_384, help="tokens per forward pass; fewer need less memory", least=2
    )
    optimizer: Optimizer = option("muon", help="muon: for the matrices of the blocks")
    learning_rate: float | None = option(
        None, help="peak; default: by optimizer and norm position", above=0
    )
    weight_decay: float = option(0.1, help="decoupled, on matrices", least=0, advanced=True)
    warmup: float = option(
        0.05, help="share of steps with a rising learning rate", least=0, most=1, advanced=True
    )
    clip: float = option(1.0, help="largest gradient norm", above=0, advanced=True)
    eval_every: int = option(200, help="steps between validations", least=1)
    log_every: int = option(10, help="steps between lines in metrics.jsonl", least=1, advanced=True)
    compile: bool | None = option(
        None, help="use torch.compile; default: on CUDA only", fixed=False, advanced=True
    )

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
