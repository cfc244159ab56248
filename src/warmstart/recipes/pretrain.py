"""Text -> pretrained base.

Knows the order of things; each step is done elsewhere.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.data.token_file import TokenFile
from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.model.models import LanguageModel
from warmstart.recipes.masked import check_room
from warmstart.recipes.prepare import (
    Prepared,
    prepare,
    read_prepared,
    sample_tokenizer,
    source_of,
)
from warmstart.recipes.tasks import Task, build_task
from warmstart.report.card import model_card
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import (
    check_length,
    check_unchanged,
    opened,
    refuse_overrides,
    refuse_together,
    write_config,
)
from warmstart.runs.lineage import ancestry
from warmstart.runs.saved import IN_WORDS, Source, read_source
from warmstart.runs.transfer import transfer_all
from warmstart.runtime import Runtime, choose_runtime
from warmstart.settings.model import (
    Attention,
    ModelConfig,
    apply_overrides,
    model_from_json,
    preset_named,
)
from warmstart.settings.training import PretrainConfig
from warmstart.tokenization.tokenizer import Tokenizer, load_tokenizer
from warmstart.training.defaults import compile_backbone, pretraining_rate, seed_weights
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.schedules import warmup_cosine
from warmstart.training.trainer import LoopSettings, State, Trainer

ATTENTION: dict[str, Attention] = {"causal": "causal", "masked": "bidirectional"}
HUB_TASKS = {"causal": "text-generation", "masked": "fill-mask"}  # as model hubs call them
SAMPLE_MB = 100  # text a tokenizer is trained on, at most


@dataclass(frozen=True)
class PretrainResult:
    """What a pretraining run came to."""

    run: Path
    valid: dict[str, float]  # validation figures by name; which ones depends on the objective
    tokens: int  # seen in training
    elapsed_s: float

    @property
    def perplexity(self) -> float:
        """Return the validation perplexity of a causal run."""
        return self.valid["perplexity"]

    @property
    def bits_per_byte(self) -> float:
        """Return the validation bits per byte of a causal run."""
        return self.valid["bits_per_byte"]


def pretrain(config: PretrainConfig) -> PretrainResult:
    """Pretrain a base on text and write a run folder."""
    with opened("pretrain", config, config.out, config.resume) as run:
        if run.is_finished:
            progress.say(f"{run.path} is finished already; nothing to do")
            return _result(run)
        runtime = choose_runtime(config.device, config.precision, config.threads)
        parent = read_source(config.from_run) if config.from_run else None
        if parent and parent.kind not in ("causal", "masked", "base"):
            raise WarmstartError(
                f"--from {config.from_run} is {IN_WORDS[parent.kind]}, not a pretrained run"
            )
        tokenizer, shape, data = _prepared(config, run, parent)
        model = _model(config, shape, parent).to(runtime.device)
        compile_backbone(model.backbone, config.compile, runtime)
        task = build_task(config, model, tokenizer, data, runtime)
        trainer = _trainer(config, model, task, runtime, run)
        state = trainer.train("pretraining")
        _finish(config, run, model, state, task)
        return _result(run)


def _prepared(
    config: PretrainConfig, run: RunFolder, parent: Source | None
) -> tuple[Tokenizer, ModelConfig, Prepared]:
    """Return tokenizer, shape and tokens: made now, or as an earlier sitting left them."""
    if run.config_file.exists() and run.cache.exists() and run.data_file.exists():
        facts = run.read_json(run.data_file)
        check_unchanged(facts)
        shape = model_from_json(run.config()["model"])
        return load_tokenizer(run.path), shape, read_prepared(run.cache, facts, _has_pairs(config))
    refuse_together(config, "tokenizer", ("vocab_size",))
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
        apply_overrides(preset_named(config.preset), config)  # refuse a wrong shape before the work
        progress.say(f"training a {config.kind} tokenizer")
        tokenizer = sample_tokenizer(source, config.kind, wanted, SAMPLE_MB)
    if config.objective == "masked":
        tokenizer = _with_mask(tokenizer, parent)
    shape = _shape(config, tokenizer, parent)
    if _has_pairs(config):
        check_room(shape.max_length)
    write_config(run, "pretrain", config, shape, kind=config.objective)
    tokenizer.save(run.path)
    facts = prepare(source, valid, tokenizer, run.cache, _has_pairs(config))
    if parent:
        facts["before"] = ancestry(parent)
    write_json(run.data_file, facts)
    data = read_prepared(run.cache, facts, _has_pairs(config))
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


def _has_pairs(config: PretrainConfig) -> bool:
    return config.objective == "masked" and config.nsp


def _with_mask(tokenizer: Tokenizer, parent: Source | None) -> Tokenizer:
    """Return the tokenizer with a mask token; weights that exist must have room for it."""
    masked = tokenizer.with_mask()
    if parent and masked.vocab_size > parent.model.vocab_size:
        raise WarmstartError(
            f"--from {parent.path}: its tokenizer has no mask token, and its vocabulary of "
            f"{parent.model.vocab_size:,} no room for one, so it cannot go on with "
            "--objective masked"
        )
    return masked


def _shape(config: PretrainConfig, tokenizer: Tokenizer, parent: Source | None) -> ModelConfig:
    """Return the shape asked for; a second stage keeps the first one's, but for a few words."""
    attention = ATTENTION[config.objective]
    if not parent:
        has_pairs = _has_pairs(config)
        return replace(
            apply_overrides(preset_named(config.preset), config),
            vocab_size=tokenizer.vocab_size,
            attention=attention,
            segments=2 if has_pairs else 0,
            pooler=has_pairs,
            decoder_depth=0,
        )
    refuse_overrides(config, allowed=("dropout", "max_length"))
    refuse_together(config, "from", ("tokenizer", "vocab_size"))
    check_length(parent.model, config.max_length, parent.path)
    if _has_pairs(config) and parent.model.segments < 2:
        raise WarmstartError(
            f"--from {parent.path}: the model has no embeddings for two segments, which judging "
            "the next sentence needs: add --no-nsp"
        )
    if parent.model.attention != attention:
        progress.say(f"attention was {parent.model.attention} and is {attention} from here on")
    return replace(apply_overrides(parent.model, config), attention=attention)


def _model(config: PretrainConfig, shape: ModelConfig, parent: Source | None) -> LanguageModel:
    """Return the model to train; what the objective does not use stays as it is."""
    seed_weights(config.seed, "pretrain")
    had_pairs = parent is not None and "next_sentence.weight" in parent.weights
    is_kept = had_pairs and config.objective == "masked"
    model = LanguageModel(shape, has_next_sentence=_has_pairs(config) or is_kept)
    if parent:
        progress.say(f"from {parent.path}: {transfer_all(parent.weights, model)}")
    if not _has_pairs(config):
        for name, parameter in model.named_parameters():
            if name.startswith(("backbone.pooler.", "next_sentence.")):
                parameter.requires_grad_(False)
    return model


def _trainer(
    config: PretrainConfig, model: LanguageModel, task: Task, runtime: Runtime, run: RunFolder
) -> Trainer:
    steps = config.num_steps(model.config.max_length, task.filled)
    rate = config.learning_rate or pretraining_rate(model.config, config.optimizer)
    return Trainer(
        model,
        task.objective,
        task.stream,
        build_optimizers(model, OptimizerSettings(config.optimizer, rate, config.weight_decay)),
        warmup_cosine(steps, config.warmup),
        task.evaluate,
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


def _finish(
    config: PretrainConfig, run: RunFolder, model: LanguageModel, state: State, task: Task
) -> None:
    best = next(e for e in state.evaluations if e["step"] == state.best_step)
    prefix = "valid_"
    valid = {k.removeprefix(prefix): v for k, v in best.items() if k.startswith(prefix)}
    scores: dict[str, Any] = {
        "valid": {**valid, "step": state.best_step},
        "tokens_seen": task.tokens_in(state.step * config.rows_per_step(model.config.max_length)),
        "elapsed_s": state.elapsed_s,
    }
    parameters = sum(parameter.numel() for parameter in model.parameters())
    shape = {k: v for k, v in asdict(model.config).items() if not isinstance(v, bool)}
    facts = {"parameters": parameters, "tokens seen": scores["tokens_seen"], **shape}
    card = model_card(
        run.path.name,
        HUB_TASKS[config.objective],
        f"A {config.objective} Transformer language model, pretrained with warmstart.",
        facts,
        valid,
        [f"warmstart finetune --from {run.path} --train train.tsv --valid valid.tsv -o classifier"],
    )
    write_whole(run.path / "README.md", card.encode())
    run.finish(scores)
    run.drop_cache()


def _result(run: RunFolder) -> PretrainResult:
    scores = run.read_json(run.scores_file)
    return PretrainResult(run.path, scores["valid"], scores["tokens_seen"], scores["elapsed_s"])
