"""Predict the target sentence given the source."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from warmstart import progress
from warmstart.batching.batches import (
    EncodedPairs,
    PairBatch,
    TokenLists,
    cut_pairs_to_budget,
    pad_pairs,
)
from warmstart.data.copies import count_seen, find_matches
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.pairs import Pairs, read_aligned, read_pair_table
from warmstart.decoding.engines import fast_engine, training_engine
from warmstart.decoding.translator import SentenceDecoder, Translation
from warmstart.errors import WarmstartError
from warmstart.evaluation.metrics import corpus_bleu, paired_test, score_tokens, translation_scores
from warmstart.formats import quantity
from warmstart.kernels.loss import IGNORE, linear_cross_entropy
from warmstart.model.attention_weights import AttentionMap
from warmstart.model.models import Translator
from warmstart.runs.lifecycle import refuse_together
from warmstart.runs.saved import SavedRun, read_run
from warmstart.runtime import Runtime
from warmstart.settings.shared import TableFormat
from warmstart.settings.training import TrainTranslatorConfig
from warmstart.settings.using import Beam, EvaluateConfig, Overlong
from warmstart.tasks.task import Task, TrainingJob
from warmstart.tasks.text_model import TransformerModel, checks_keywords, list_texts
from warmstart.tasks.vectors import pair_attention
from warmstart.tokenization.backends import TokenizerPair, load_tokenizer, train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.step import Evaluation, Objective

VALID_SENTENCES = 2000  # of more validation pairs, evenly spaced ones are translated
SAMPLE_CHARS = 72  # of a sample translation that are shown


class TranslateObjective:
    """Summed loss of every target token, given the true ones before it.

    With `consistency`, each pair is read twice with different dropout, and the model also learns
    to predict the same both times (R-Drop, Liang et al. 2021).
    """

    def __init__(self, smoothing: float = 0.0, consistency: float = 0.0) -> None:
        self.smoothing = smoothing  # share of each target spread over the whole vocabulary
        self.consistency = consistency  # weight of the disagreement between two readings

    def count(self, group: Sequence[PairBatch]) -> dict[str, float]:
        """Count the predicted tokens."""
        return {"translate": sum(int((batch.targets != IGNORE).sum()) for batch in group)}

    def __call__(self, model: Translator, batch: PairBatch) -> dict[str, Tensor]:
        """Return the summed loss."""
        if not self.consistency:
            return {"translate": self.score(model, batch)[0]}
        first, second = _read_twice(model, batch)
        weight, bias = model.head.weights(model.embedding)
        targets = batch.targets.flatten().repeat(2)
        both = torch.cat([first, second])
        loss, _ = linear_cross_entropy(both, weight, bias, targets, self.smoothing)
        is_counted = batch.targets.flatten() != IGNORE
        apart = disagreement(F.linear(first, weight, bias), F.linear(second, weight, bias))
        return {"translate": loss / 2 + self.consistency / 4 * (apart * is_counted).sum()}

    def score(self, model: Translator, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Return the summed loss and the number of tokens predicted right."""
        hidden = model.decode(batch.inputs, model.encode(batch.ids, batch.is_token))
        weight, bias = model.head.weights(model.embedding)
        targets = batch.targets.flatten()
        return linear_cross_entropy(hidden.flatten(0, 1), weight, bias, targets, self.smoothing)


def _read_twice(model: Translator, batch: PairBatch) -> tuple[Tensor, Tensor]:
    """Return two readings of the target positions: hidden vectors (N, D) each."""
    source, is_token = batch.ids.repeat(2, 1), batch.is_token.repeat(2, 1)
    hidden = model.decode(batch.inputs.repeat(2, 1), model.encode(source, is_token))
    first, second = hidden.chunk(2)
    return first.flatten(0, 1), second.flatten(0, 1)


def disagreement(first: Tensor, second: Tensor) -> Tensor:
    """Return KL(p, q) + KL(q, p) of the distributions of two logits (N, V): (N,)."""
    dtype = torch.promote_types(first.dtype, torch.float32)
    log_p, log_q = first.log_softmax(-1, dtype), second.log_softmax(-1, dtype)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)


@dataclass(frozen=True)
class TranslationValidation:
    """Validation pairs: ids for the loss, text for BLEU."""

    pairs: EncodedPairs
    texts: Pairs
    tokenizers: TokenizerPair
    micro_tokens: int
    select: Literal["bleu", "loss"]  # the figure that picks the best weights
    num_samples: int  # translations that are shown

    def __call__(self, model: Translator, runtime: Runtime) -> Evaluation:
        """Validate the current weights of a model."""
        rows = cut_pairs_to_budget(range(len(self.pairs)), self.pairs.sizes(), self.micro_tokens)
        batches = (pad_pairs(self.pairs, part, *self.tokenizers.pads) for part in rows)
        objective = TranslateObjective()
        tokens = score_tokens(lambda batch: objective.score(model, batch), batches, runtime)
        bleu = self._bleu(model, runtime)
        figures = {
            "valid_loss": tokens.loss,
            "valid_bleu": bleu,
            "valid_accuracy": tokens.accuracy,
        }
        # BLEU is often zero at the start: then the lower loss is better.
        score = bleu - 1e-6 * tokens.loss if self.select == "bleu" else -tokens.loss
        return Evaluation(score, figures, f"valid loss {tokens.loss:.3f}, BLEU {bleu:.1f}")

    def _bleu(self, model: Translator, runtime: Runtime) -> float:
        """Return the BLEU of greedy translations, and show some."""
        num = len(self.texts)
        rows = range(0, num, -(-num // VALID_SENTENCES))
        sources = [self.texts.sources[row] for row in rows]
        references = [self.texts.targets[row] for row in rows]
        decoder = SentenceDecoder(training_engine(model, runtime), self.tokenizers)
        greedy = Beam(beam=1, batch_tokens=self.micro_tokens)
        with torch.compiler.set_stance("force_eager"):  # every step has a new shape
            translations = [best[0].text for best in decoder.translate(sources, greedy)]
        for row in range(min(self.num_samples, len(sources))):
            progress.say(f"  {_shorten(sources[row])} -> {_shorten(translations[row])}")
        return corpus_bleu(translations, references)


def _shorten(text: str) -> str:
    return text if len(text) <= SAMPLE_CHARS else f"{text[: SAMPLE_CHARS - 1]}…"


@dataclass(frozen=True, kw_only=True)
class TextTranslator(TransformerModel):
    """A model that translates."""

    tokenizers: TokenizerPair

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Return the tokenizer of the translations."""
        return self.tokenizers.target

    @cached_property
    def decoder(self) -> SentenceDecoder:
        """Return the model in the form that decodes fastest here."""
        engine = fast_engine(cast(Translator, self.model), self.runtime)
        return SentenceDecoder(engine, self.tokenizers)

    @checks_keywords
    def translate(
        self,
        texts: Iterable[str],
        beam: int = 5,
        length_penalty: float = 1.0,
        n_best: int = 1,
        max_ratio: float = 2.0,
        batch_tokens: int | None = None,
        overlong: Overlong = "split",
    ) -> list[list[Translation]]:
        """Translate sentences, best translation of each first; an empty sentence stays empty."""
        settings = Beam(
            beam=beam,
            length_penalty=length_penalty,
            max_ratio=max_ratio,
            batch_tokens=batch_tokens,
        )
        sentences = list_texts("translate", "texts", texts)
        return self.decoder.translate(sentences, settings, n_best, overlong)

    def translate_texts(
        self,
        texts: Sequence[str],
        beam: Beam,
        n_best: int = 1,
        overlong: Overlong = "split",
        first_number: int = 1,
    ) -> list[list[Translation]]:
        """Translate sentences as settings say; errors number the sentences from `first_number`."""
        return self.decoder.translate(texts, beam, n_best, overlong, first_number)

    def attention(
        self, text: str, text2: str | None = None, target: str | None = None
    ) -> dict[str, AttentionMap]:
        """Return the weights of encoder, decoder and cross-attention."""
        if text2 is not None:
            raise WarmstartError(f"--text2 is not for {self.description}, which {self.name} is")
        tokenizer, other, length = self.tokenizer, self.target_tokenizer, self.config.max_length
        source = [*tokenizer.start, *self.cut(text, length - 2, tokenizer), tokenizer.eos]
        ids = None if target is None else [other.bos, *self.cut(target, length - 1, other)]
        return pair_attention(cast(Translator, self.model), tokenizer, other, source, ids)


class TranslateTask(Task):
    """An encoder-decoder that translates."""

    name = "translate"
    description = "a translator"
    command = "train-translator"
    hub_name = "translation"
    hub_class = "ForSeq2SeqLM"
    has_backbone = False
    test_options = ("test", "source", "target", "against")

    def empty_model(self, run: SavedRun) -> nn.Module:
        return Translator(run.model)

    def planned_model(self, job: TrainingJob) -> nn.Module:
        return Translator(job.model)

    def planned_objective(self, job: TrainingJob, device: torch.device) -> Objective:
        return TranslateObjective(job.label_smoothing, job.consistency)

    def random_batch(self, job: TrainingJob, rows: int, generator: torch.Generator) -> Any:
        target = job.random_ids(rows, job.length + 1, generator)
        is_token = torch.ones(rows, job.length, dtype=torch.bool)
        source = job.random_ids(rows, job.length, generator)
        return PairBatch(source, is_token, target[:, :-1], target[:, 1:])

    def open(self, run: SavedRun, runtime: Runtime) -> TextTranslator:
        return TextTranslator(
            name=str(run.path),
            description=run.model.mark(self.description),
            model=self.load_model(run),
            tokenizer=run.tokenizer,
            tokenizers=run.tokenizers,
            runtime=runtime,
        )

    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        pairs = _read_test_pairs(settings)
        other = None
        if settings.against:
            other = self._translations(read_run(settings.against), settings, runtime, pairs)
        translations = self._translations(run, settings, runtime, pairs)
        metrics = translation_scores(translations, pairs.targets)
        seen = find_matches(fingerprints_of(pairs.sources), run.texts_seen())
        result: dict[str, Any] = {
            "sentences": len(pairs),
            "skipped": pairs.skipped,
            **{name: metric.score for name, metric in metrics.items()},
            "intervals": {n: {"low": m.low, "high": m.high} for n, m in metrics.items()},
            "signatures": {name: metric.signature for name, metric in metrics.items()},
            "beam": settings.beam,
            "length_penalty": settings.length_penalty,
            **count_seen(seen),
        }
        if other is not None:
            tests = [asdict(test) for test in paired_test(other, translations, pairs.targets)]
            result["against"] = {"run": settings.against, "tests": tests}
        return result

    def _translations(
        self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime, pairs: Pairs
    ) -> list[str]:
        translations = self.open(run, runtime).translate_texts(pairs.sources, settings)
        report_overlong(sum(best[0].num_parts > 1 for best in translations))
        return [best[0].text for best in translations]

    def usage(self, path: Path) -> str:
        return f"warmstart translate {path} sentences.txt"


def report_overlong(num_sentences: int) -> None:
    """Tell how many sentences were longer than the model reads."""
    if num_sentences:
        progress.say(
            f"{quantity(num_sentences, 'sentence')} longer than the model reads: translated in "
            "parts"
        )


def _read_test_pairs(settings: EvaluateConfig) -> Pairs:
    """Read the pairs to score: two files, or one table."""
    if settings.test and (settings.source or settings.target):
        raise WarmstartError("--test holds both sides: leave out --source and --target")
    for name in ("test_labels", "pieces"):
        if getattr(settings, name):
            flag = f"--{name.replace('_', '-')}"
            raise WarmstartError(f"{flag} is for classifiers; {settings.run} is a translator")
    if settings.columns and not settings.test:
        raise WarmstartError("--columns needs --test: plain lines have no columns")
    if settings.test:
        return read_pair_table(Path(settings.test), settings)
    if not settings.source or not settings.target:
        raise WarmstartError("a translator is scored on --source and --target, or a --test table")
    return read_aligned(Path(settings.source), Path(settings.target), settings.encoding)


def read_training_pairs(settings: TrainTranslatorConfig) -> tuple[Pairs, Pairs]:
    """Read the pairs to train on and the pairs to validate with."""
    train = _read(settings, settings.train, (settings.source, settings.target))
    valid = _read(settings, settings.valid, (settings.valid_source, settings.valid_target))
    return train, valid


def _read(tables: TableFormat, table: str | None, sides: tuple[str | None, str | None]) -> Pairs:
    if table:
        pairs = read_pair_table(Path(table), tables)
    else:
        source, target = (Path(side or "") for side in sides)
        pairs = read_aligned(source, target, tables.encoding)
    if pairs.description:
        progress.say(pairs.description)
    if pairs.skipped:
        skipped = quantity(pairs.skipped, "pair")
        progress.say(f"{pairs.files[0]}: skipped {skipped} with an empty side")
    return pairs


def choose_tokenizers(
    settings: TrainTranslatorConfig, train: Pairs, parent: SavedRun | None, vocab_size: int
) -> TokenizerPair:
    """Return the tokenizers: given, taken over from the parent, or trained now.

    A trained one has `vocab_size` entries unless the settings say otherwise.
    """
    refuse_together(settings, "from", ("tokenizer",))
    if parent and parent.model.decoder_depth:
        refuse_together(settings, "from", ("target_tokenizer", "vocab_size"))
        return parent.tokenizers
    if settings.target_tokenizer or settings.vocabulary == "joint":  # no second one is trained
        refuse_together(settings, "from", ("vocab_size",))
        refuse_together(settings, "tokenizer", ("vocab_size",))
    if settings.shared and (settings.target_tokenizer or settings.vocabulary == "separate"):
        raise WarmstartError("--shared needs one vocabulary for both languages")
    size = settings.vocab_size or vocab_size
    source = load_tokenizer(Path(settings.tokenizer)) if settings.tokenizer else None
    if parent:
        source = parent.tokenizer
    if settings.target_tokenizer:
        if not source:
            raise WarmstartError("--target-tokenizer needs --tokenizer, which is missing")
        return TokenizerPair(source, load_tokenizer(Path(settings.target_tokenizer)))
    kind = settings.tokenizer_kind
    if settings.vocabulary == "joint":
        if source is None:
            progress.say(f"training a {kind} tokenizer on both languages")
            source = train_tokenizer((*train.sources, *train.targets), kind, size)
        return TokenizerPair(source, source)
    progress.say(f"training a {kind} tokenizer for each language that has none")
    source = source or train_tokenizer(train.sources, kind, size)
    return TokenizerPair(source, train_tokenizer(train.targets, kind, size))


def encode_pairs(pairs: Pairs, tokenizers: TokenizerPair, max_length: int) -> EncodedPairs:
    """Encode pairs; leave out and count those with a side that is too long."""
    room = max_length - 2
    with progress.bar("tokenizing", 2 * len(pairs), "sentence") as bar:
        sources = tokenizers.source.encode(pairs.sources)
        bar.advance(len(pairs))
        targets = tokenizers.target.encode(pairs.targets)
        bar.advance(len(pairs))
    fits = [row for row in range(len(pairs)) if max(len(sources[row]), len(targets[row])) <= room]
    if len(fits) < len(pairs):
        left_out = quantity(len(pairs) - len(fits), "pair")
        progress.say(
            f"{left_out} of {len(pairs):,} in {pairs.files[0]} left out: "
            f"a side is longer than the {room:,} tokens that --max-length {max_length} leaves"
        )
    if not fits:
        raise WarmstartError(f"{pairs.files[0]}: no pair fits into --max-length {max_length}")
    source, target = tokenizers.source, tokenizers.target
    return EncodedPairs(
        TokenLists([*source.start, *sources[row], source.eos] for row in fits),
        TokenLists([target.bos, *targets[row], target.eos] for row in fits),
    )
