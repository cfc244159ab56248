"""What pretraining reads and how validation judges it, for each objective.

Knows nothing about run folders or optimizers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from warmstart.batching.loader import PackedStream, packed_in_order
from warmstart.batching.masked_rows import MaskedStream, RunningRows
from warmstart.data.token_file import TokenFile
from warmstart.evaluation.masked import score_masked
from warmstart.evaluation.metrics import language_scores
from warmstart.evaluation.score import score_tokens
from warmstart.model.models import LanguageModel
from warmstart.objectives.causal import Causal
from warmstart.objectives.masked import Masked
from warmstart.recipes.masked import (
    JUDGE_SEED,
    build_corruption,
    build_pairs,
    judging_batches,
)
from warmstart.recipes.prepare import Prepared
from warmstart.runtime import Runtime
from warmstart.settings.training import PretrainConfig
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.trainer import Evaluation, Objective, Stream

EVAL_TOKENS = 200_000  # more validation text than this is sampled in evenly spaced rows
SAMPLED_ROWS = 65_536  # rows from which the share of padding is known


@dataclass(frozen=True)
class Task:
    """An objective with its data."""

    objective: Objective
    stream: Stream
    evaluate: Callable[[], Evaluation]
    tokens_in: Callable[[int], int]  # number of rows -> tokens in the first so many, no padding
    filled: float  # share of a row that is not padding


def build_task(
    config: PretrainConfig,
    model: LanguageModel,
    tokenizer: Tokenizer,
    data: Prepared,
    runtime: Runtime,
) -> Task:
    """Put together what one objective needs."""
    length = model.config.max_length
    rows = config.rows_per_step(length)
    batch_rows = min(rows, max(1, config.micro_tokens // length))
    bos, eos = tokenizer.bos, tokenizer.eos
    packed = PackedStream(data.train.ids, length, rows, batch_rows, bos, eos, config.seed)
    if config.objective == "masked":
        return _masked_task(config, model, tokenizer, data, runtime, packed)

    def evaluate() -> Evaluation:
        batches = list(packed_in_order(data.valid.ids, length, batch_rows, bos, eos, EVAL_TOKENS))
        num_read = sum(batch.ids.numel() for batch in batches)
        nll, num_tokens, num_right = score_tokens(model, batches, runtime)
        scores = language_scores(nll, num_tokens, _bytes_for(num_read, data.valid))
        figures = {
            "valid_loss": nll / num_tokens,
            "valid_perplexity": scores.perplexity,
            "valid_bits_per_byte": scores.bits_per_byte,
            "valid_accuracy": num_right / num_tokens,
        }
        return Evaluation(-nll / num_tokens, figures, f"valid perplexity {scores.perplexity:.1f}")

    return Task(Causal(), packed, evaluate, lambda num: num * length, 1.0)


def _masked_task(
    config: PretrainConfig,
    model: LanguageModel,
    tokenizer: Tokenizer,
    data: Prepared,
    runtime: Runtime,
    packed: PackedStream,
) -> Task:
    length, rows, batch_rows = packed.length, packed.rows_per_step, packed.rows_per_batch
    hide = build_corruption(tokenizer, config.mask_rate, config.whole_words, config.seed)
    judge = judging_batches(
        data.valid,
        data.valid_index,
        length,
        tokenizer,
        replace(hide, seed=JUDGE_SEED),
        batch_rows,
        EVAL_TOKENS,
    )
    held = list(judge)

    def evaluate() -> Evaluation:
        found = score_masked(model, held, runtime).figures()
        figures = {f"valid_{name}": value for name, value in found.items()}
        note = f"valid masked tokens {found['mlm_accuracy']:.1%}"
        if "nsp_accuracy" in found:
            note += f", next sentence {found['nsp_accuracy']:.1%}"
        return Evaluation(-found["loss"], figures, note)

    if data.train_index is None:
        stream = MaskedStream(RunningRows(packed), hide, rows, batch_rows)
        return Task(Masked(), stream, evaluate, lambda num: num * length, 1.0)
    pairs = build_pairs(data.train, data.train_index, length, tokenizer, config.seed)
    stream = MaskedStream(pairs, hide, rows, batch_rows)
    num = min(pairs.num_rows, SAMPLED_ROWS)
    filled = pairs.num_tokens(num) / (num * length)
    return Task(Masked(), stream, evaluate, pairs.num_tokens, filled)


def _bytes_for(num_read: int, file: TokenFile) -> int:
    """Return the bytes of the text read, whose last token is a target alone: all, or a share."""
    return max(1, round(file.num_bytes * num_read / max(1, file.num_tokens - 1)))
