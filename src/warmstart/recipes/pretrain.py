"""Text -> pretrained base.

Knows the order of things; each step is done elsewhere.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.batches.loader import PackedStream, packed_in_order
from warmstart.batches.token_file import TokenFile
from warmstart.config.jobs import PretrainConfig
from warmstart.config.model import (
    ModelConfig,
    change_words,
    model_from_json,
    preset_named,
)
from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.model.runtime import Runtime, choose_runtime
from warmstart.model.tasks import LanguageModel
from warmstart.objectives.causal import Causal
from warmstart.recipes.build import compile_body, pretraining_rate, seed_weights
from warmstart.recipes.prepare import (
    Prepared,
    prepare,
    read_prepared,
    sample_tokenizer,
    source_of,
)
from warmstart.recipes.runs import (
    check_length,
    check_unchanged,
    opened,
    refuse_rivals,
    refuse_words,
    write_config,
)
from warmstart.report.card import model_card
from warmstart.scoring.metrics import language_scores
from warmstart.scoring.score import score_tokens
from warmstart.store.folder import RunFolder
from warmstart.store.source import Source, read_source
from warmstart.store.transfer import transfer_all
from warmstart.text.tokenizer import Tokenizer, load_tokenizer
from warmstart.train.optim import OptimizerSettings, build_optimizers
from warmstart.train.schedule import warmup_cosine
from warmstart.train.trainer import Evaluation, LoopSettings, State, Trainer

EVAL_TOKENS = 200_000  # more validation text than this is sampled in evenly spaced rows
SHOWN = ("loss", "perplexity", "bits_per_byte", "accuracy")  # validation figures
SAMPLE_MB = 100  # text a tokenizer is trained on, at most


@dataclass(frozen=True)
class PretrainResult:
    """What a pretraining run came to."""

    run: Path
    perplexity: float
    bits_per_byte: float
    tokens: int  # seen in training
    elapsed_s: float


def pretrain(config: PretrainConfig) -> PretrainResult:
    """Pretrain a base on text and write a run folder."""
    with opened("pretrain", config, config.out, config.resume) as run:
        if run.is_finished:
            progress.say(f"{run.path} is finished already; nothing to do")
            return _result(run)
        runtime = choose_runtime(config.device, config.precision, config.threads)
        parent = read_source(config.from_run) if config.from_run else None
        if parent and parent.command != "pretrain":
            raise WarmstartError(f"--from {config.from_run} is not a pretrained run")
        tokenizer, shape, data = _prepared(config, run, parent)
        seed_weights(config.seed, "pretrain")
        model = LanguageModel(shape).to(runtime.device)
        if parent:
            progress.say(f"from {parent.path}: {transfer_all(parent.weights, model)}")
        trainer = _trainer(config, model, tokenizer, data, runtime, run)
        state = trainer.train("pretraining")
        _finish(config, run, model, state)
        return _result(run)


def _prepared(
    config: PretrainConfig, run: RunFolder, parent: Source | None
) -> tuple[Tokenizer, ModelConfig, Prepared]:
    """Return tokenizer, shape and tokens: made now, or as an earlier sitting left them."""
    if run.config_file.exists() and run.cache.exists() and run.data_file.exists():
        facts = run.read_json(run.data_file)
        check_unchanged(facts)
        shape = model_from_json(run.config()["model"])
        return load_tokenizer(run.path), shape, read_prepared(run.cache, facts)
    refuse_rivals(config, "tokenizer", ("vocab_size",))
    source = source_of(config.files, config.document, config.columns)
    valid = source_of(config.valid, config.document, config.columns) if config.valid else None
    wanted = (
        preset_named(config.preset).vocab_size if config.vocab_size is None else config.vocab_size
    )
    if parent:
        tokenizer = parent.tokenizer
    elif config.tokenizer:
        tokenizer = load_tokenizer(Path(config.tokenizer))
    else:
        change_words(preset_named(config.preset), config)  # refuse a wrong shape before the work
        progress.say(f"training a {config.kind} tokenizer")
        tokenizer = sample_tokenizer(source, config.kind, wanted, SAMPLE_MB)
    shape = _shape(config, tokenizer, parent)
    write_config(run, "pretrain", config, shape)
    tokenizer.save(run.path)
    facts = prepare(source, valid, tokenizer, run.cache)
    if parent:
        seen = parent.texts_seen().to_text()
        facts["before"] = [{"run": str(parent.path), "fingerprints": seen}]
    write_json(run.data_file, facts)
    data = read_prepared(run.cache, facts)
    _check_known(data.train, tokenizer)
    progress.say(
        f"{facts['tokens']:,} tokens to train on, {data.valid.num_tokens:,} to validate with, "
        f"vocabulary {tokenizer.vocab_size:,}"
    )
    return tokenizer, shape, data


def _check_known(file: TokenFile, tokenizer: Tokenizer) -> None:
    """Say how much of the text the tokenizer does not know; refuse text it cannot read."""
    sample = file.ids[:1_000_000]
    share = float((sample == tokenizer.unk).mean()) if tokenizer.unk is not None else 0.0
    if share > 0.5:
        raise WarmstartError(
            f"the tokenizer does not know {share:.0%} of the text; a vocabulary of pieces reads "
            "only text that is split into them already"
        )
    if share > 0.001:
        progress.say(f"{share:.1%} of the tokens are unknown to the tokenizer")


def _shape(config: PretrainConfig, tokenizer: Tokenizer, parent: Source | None) -> ModelConfig:
    """Return the shape asked for; a second stage keeps the first one's, but for a few words."""
    if not parent:
        base = replace(preset_named(config.preset), attention="causal")
        return replace(change_words(base, config), vocab_size=tokenizer.vocab_size)
    refuse_words(config, allowed=("dropout", "max_length"))
    refuse_rivals(config, "from", ("tokenizer", "vocab_size"))
    check_length(parent.model, config.max_length, parent.path)
    return change_words(parent.model, config)


def _trainer(
    config: PretrainConfig,
    model: LanguageModel,
    tokenizer: Tokenizer,
    data: Prepared,
    runtime: Runtime,
    run: RunFolder,
) -> Trainer:
    length = model.config.max_length
    rows = config.rows_per_step(length)
    batch_rows = min(rows, max(1, config.micro_tokens // length))
    bos, eos = tokenizer.bos, tokenizer.eos
    stream = PackedStream(data.train.ids, length, rows, batch_rows, bos, eos, config.seed)
    compile_body(model.body, config.compile, runtime)

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

    steps = config.num_steps(length)
    rate = config.learning_rate or pretraining_rate(model.config, config.optimizer)
    return Trainer(
        model,
        Causal(),
        stream,
        build_optimizers(model, OptimizerSettings(config.optimizer, rate, config.weight_decay)),
        warmup_cosine(steps, config.warmup),
        evaluate,
        LoopSettings(
            steps=steps,
            clip=config.clip,
            seed=config.seed,
            eval_every=config.eval_every,
            log_every=config.log_every,
            save_every=config.save_every,
            save_s=60 * config.save_minutes,
            keep=config.keep,
        ),
        runtime,
        run,
    )


def _bytes_for(num_read: int, file: TokenFile) -> int:
    """Return the bytes of the text read, whose last token is a target alone: all, or a share."""
    return max(1, round(file.num_bytes * num_read / max(1, file.num_tokens - 1)))


def _finish(config: PretrainConfig, run: RunFolder, model: LanguageModel, state: State) -> None:
    best = next(e for e in state.evaluations if e["step"] == state.best_step)
    valid = {name: best[f"valid_{name}"] for name in SHOWN}
    rows = config.rows_per_step(model.config.max_length)
    scores: dict[str, Any] = {
        "valid": {**valid, "step": state.best_step},
        "tokens_seen": state.step * rows * model.config.max_length,
        "elapsed_s": state.elapsed_s,
        "ledger": [],
    }
    parameters = sum(parameter.numel() for parameter in model.parameters())
    shape = {k: v for k, v in asdict(model.config).items() if not isinstance(v, bool)}
    facts = {"parameters": parameters, "tokens seen": scores["tokens_seen"], **shape}
    card = model_card(
        run.path.name,
        "text-generation",
        "A causal Transformer pretrained with warmstart.",
        facts,
        valid,
        [f"warmstart finetune --from {run.path} --train train.tsv --valid valid.tsv -o classifier"],
    )
    write_whole(run.path / "README.md", card.encode())
    write_json(run.scores_file, scores)
    run.drop_cache()


def _result(run: RunFolder) -> PretrainResult:
    scores = run.read_json(run.scores_file)
    valid = scores["valid"]
    return PretrainResult(
        run.path,
        valid["perplexity"],
        valid["bits_per_byte"],
        scores["tokens_seen"],
        scores["elapsed_s"],
    )
