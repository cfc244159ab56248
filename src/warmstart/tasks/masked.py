"""Restore masked tokens and, where rows are pairs, judge whether the second segment follows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from warmstart import progress
from warmstart.batching.batches import MaskedBatch, move
from warmstart.batching.masking import (
    FIXED_SEED,
    Corruption,
    HeldOutRows,
    MaskedStream,
    build_masking,
    build_pairs,
)
from warmstart.data.sentences import SentenceFinder
from warmstart.data.token_file import Ids, SentenceFile
from warmstart.errors import WarmstartError
from warmstart.evaluation.metrics import MaskedRows
from warmstart.kernels.loss import IGNORE, LOGITS_PER_CHUNK, linear_cross_entropy
from warmstart.model.backbone import Layout
from warmstart.model.models import LanguageModel
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import DOCUMENT_LOSS, Masking, PretrainConfig
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.causal import (
    BATCH_TOKENS,
    VALID_TOKENS,
    freeze_pair_head,
    held_out_text,
    packed_stream,
    random_documents,
)
from warmstart.tasks.mask_filler import MaskFiller
from warmstart.tasks.semantic_start import start_from_semantics
from warmstart.tasks.task import Pretraining, PretrainingData, PretrainingTask, TrainingJob
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.step import Evaluation, Objective

BERT_MASK_RATE = 0.15
SHORTEST_PAIR = 5  # two tokens between three special ones
SAMPLED_ROWS = 65_536  # from which the share of padding is estimated
RARITY = 0.25  # a token counts in inverse proportion to this power of its frequency
SAMPLED_TOKENS = 4_000_000  # from which frequencies are estimated, at most


class MaskedTask(PretrainingTask):
    """BERT's pretraining: masked tokens, with or without the next sentence."""

    name = "masked"
    description = "a masked language model"
    hub_name = "fill-mask"
    hub_class = "ForMaskedLM"
    attention = "bidirectional"
    page_output = "masked word"
    text_model = MaskFiller

    def check(self, settings: PretrainConfig) -> None:
        if settings.ablate == "mask":
            raise WarmstartError(
                "--ablate mask needs --objective causal: a masked language model sees later "
                "tokens anyway"
            )
        if settings.nsp and settings.document_loss:
            raise WarmstartError(
                f"--document-loss {settings.document_loss:g} needs rows of running text: leave out "
                "--nsp, whose rows are pairs of segments"
            )
        if settings.semantic_start and settings.from_run:
            raise WarmstartError(
                f"--semantic-start has no effect with --from {settings.from_run}, whose embeddings "
                "are kept: leave out one of them"
            )

    def defaults(
        self, settings: PretrainConfig, device: str, recorded: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the weight of the document loss, and how embeddings start."""
        is_new = not settings.from_run
        weight, is_semantic = settings.document_loss, settings.semantic_start
        if weight is None:
            usual = DOCUMENT_LOSS[device] if is_new else 0.0
            weight = 0.0 if settings.nsp else recorded.get("document_loss", usual)
        if is_semantic is None:
            is_semantic = is_new and device == "cpu"
        return {"document_loss": weight, "semantic_start": is_semantic}

    def job(self, settings: PretrainConfig, model: ModelConfig) -> TrainingJob:
        return replace(
            super().job(settings, model),
            mask_rate=settings.mask_rate,
            has_segments=settings.nsp,
            document_loss=settings.document_loss or 0.0,
        )

    def planned_model(self, job: TrainingJob) -> nn.Module:
        return LanguageModel(job.model, has_next_sentence=job.has_segments)

    def planned_objective(self, job: TrainingJob, device: torch.device) -> Objective:
        even = torch.ones(job.model.vocab_size, dtype=torch.float64)
        return MaskedObjective(DocumentLoss(job.document_loss, even) if job.document_loss else None)

    def random_batch(self, job: TrainingJob, rows: int, generator: torch.Generator) -> Any:
        packed = random_documents(job, rows, generator)
        positions = torch.rand(rows, job.length, generator=generator).argsort(1)
        positions = positions[:, : job.num_predictions(1)]  # (B, P)
        targets = packed.ids.gather(1, positions)
        if not job.has_segments:
            layout = (None, packed.documents, packed.positions, None)
            return MaskedBatch(packed.ids, positions, targets, None, *layout, packed.bounds)
        segments = (torch.arange(job.length) >= job.length // 2).long().expand(rows, -1)
        is_token, classes = torch.ones_like(segments, dtype=torch.bool), torch.arange(rows) % 2
        return MaskedBatch(packed.ids, positions, targets, classes, is_token, None, None, segments)

    def reads_sentences(self, settings: PretrainConfig) -> bool:
        return settings.nsp

    def adapt_tokenizer(self, tokenizer: Tokenizer, parent: SavedRun | None) -> Tokenizer:
        """Add a mask token; existing weights must have room for it."""
        with_mask = tokenizer.with_mask()
        if parent and with_mask.vocab_size > parent.model.vocab_size:
            raise WarmstartError(
                f"--from {parent.path}: its tokenizer has no mask token and its vocabulary of "
                f"{parent.model.vocab_size:,} has no room for one, so --objective {self.name} "
                "cannot continue it"
            )
        return with_mask

    def architecture(
        self, model: ModelConfig, settings: PretrainConfig, parent: SavedRun | None
    ) -> ModelConfig:
        if settings.nsp and model.max_length < SHORTEST_PAIR:
            raise WarmstartError(
                f"--max-length {model.max_length} is too short for pairs of segments: it must be "
                f"at least {SHORTEST_PAIR}, or leave out --nsp"
            )
        if not parent:
            segments = 2 if settings.nsp else 0
            return replace(model, attention="bidirectional", segments=segments, pooler=settings.nsp)
        if settings.nsp and model.segments < 2:
            raise WarmstartError(
                f"--from {parent.path}: the model has no embeddings for two segments, which the "
                "next-sentence loss needs: leave out --nsp"
            )
        return replace(model, attention="bidirectional")

    def new_model(
        self, model: ModelConfig, settings: PretrainConfig, parent: SavedRun | None
    ) -> nn.Module:
        """Return a language model; an unused pair head of the parent is carried along, frozen."""
        has_head = parent is not None and "next_sentence.weight" in parent.weights
        built = LanguageModel(model, has_next_sentence=settings.nsp or has_head)
        if not settings.nsp:
            freeze_pair_head(built)
        return built

    def training(self, model: nn.Module, data: PretrainingData) -> Pretraining:
        language_model = cast(LanguageModel, model)
        settings, tokenizer, text = data.settings, data.tokenizer, data.text
        packed = packed_stream(data, language_model.config.max_length)
        if settings.semantic_start:
            embedding = language_model.backbone.embed.weight
            start_from_semantics(embedding, packed.text, settings.seed)
        length, num_rows = packed.text.length, packed.rows_per_step
        masking = build_masking(tokenizer, settings, settings.seed)
        held_out = HeldOutRows(
            text.valid,
            text.valid_index,
            length,
            tokenizer,
            replace(masking, seed=FIXED_SEED),
            packed.rows_per_batch,
        )
        batches = list(held_out.batches(VALID_TOKENS))

        def evaluate() -> Evaluation:
            scores = score_masked(language_model, batches, data.runtime).figures()
            figures = {f"valid_{name}": value for name, value in scores.items()}
            note = f"valid masked tokens {scores['mlm_accuracy']:.1%}"
            if "nsp_accuracy" in scores:
                note += f", next sentence {scores['nsp_accuracy']:.1%}"
            return Evaluation(-scores["loss"], figures, note)

        if text.train_index is None:
            stream = MaskedStream(packed, masking, num_rows, packed.rows_per_batch)
            objective = MaskedObjective(_document_loss(data))
            return Pretraining(
                objective,
                stream,
                evaluate,
                lambda num: num * length,
                is_recordable=not settings.document_loss,  # the document loss counts documents
            )
        pairs = build_pairs(text.train, text.train_index, length, tokenizer, settings.seed)
        stream = MaskedStream(pairs, masking, num_rows, packed.rows_per_batch)
        sampled = min(pairs.num_rows, SAMPLED_ROWS)
        filled = pairs.num_tokens(sampled) / (sampled * length)
        return Pretraining(MaskedObjective(), stream, evaluate, pairs.num_tokens, filled)

    def summary(self, scores: Mapping[str, float]) -> str:
        summary = (
            f"validation: {scores['mlm_accuracy']:.1%} of masked tokens restored, "
            f"pseudo-perplexity {scores['pseudo_perplexity']:.2f}"
        )
        if "nsp_accuracy" in scores:
            summary += f"; next sentence judged right in {scores['nsp_accuracy']:.1%}"
        return summary

    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        """Return accuracy on masked tokens and pairs; the 95% intervals are over rows."""
        model = cast(LanguageModel, self.load_model(run).to(runtime.device).eval())
        tokenizer = run.tokenizer
        finder = SentenceFinder(tokenizer) if hasattr(model, "next_sentence") else None
        masking = _masking_of(run)
        length = run.model.max_length
        with held_out_text(settings, tokenizer, finder) as text:
            index = SentenceFile(text.path) if finder else None
            if index and not index.has_pairs:
                progress.say(f"{settings.test} has no segments to pair: only masked tokens count")
                index = None
            num_rows = max(1, BATCH_TOKENS // length)
            rows = HeldOutRows(text.file, index, length, tokenizer, masking, num_rows)
            scores = score_masked(model, rows.batches(), runtime)
            return {
                **scores.figures(),
                "masked_tokens": int(scores.counts.sum()),
                "tokens": text.file.num_tokens,
                "intervals": {name: asdict(span) for name, span in scores.intervals().items()},
                **text.rows_seen(run),
            }


def rarities(ids: Ids, vocab_size: int) -> Tensor:
    """Return the weight of each token as a target: (V,)."""
    sample = ids[:: max(1, len(ids) // SAMPLED_TOKENS)]
    counts = np.bincount(sample, minlength=vocab_size)
    return torch.from_numpy(np.maximum(counts, 1) ** -RARITY)


@dataclass(frozen=True)
class DocumentLoss:
    """The loss of a document's masked tokens, each counted once, given the document's mean vector.

    A row may contain several documents; of a document, it sees the part within its row.
    """

    weight: float  # relative to the loss of masked tokens at their positions
    rarities: Tensor  # (V,)

    def count(self, batch: MaskedBatch) -> float:
        """Return the summed weights of the targets of a batch."""
        return float(self.rarities[_targets(batch, len(self.rarities))[1]].sum())

    def __call__(self, model: LanguageModel, hidden: Tensor, batch: MaskedBatch) -> Tensor:
        """Return the summed loss, from the hidden vectors (B, T, D) of a batch."""
        embedding = model.backbone.embed.weight
        means = _means(hidden.to(embedding.dtype), _documents(batch))  # (documents, D)
        log_shares = model.head(means, embedding).to(embedding.dtype).log_softmax(-1)
        documents, tokens = _targets(batch, len(self.rarities))
        counted = self.rarities.to(log_shares)[tokens]
        return -self.weight * (counted * log_shares[documents, tokens]).sum()


def _document_loss(data: PretrainingData) -> DocumentLoss | None:
    weight = data.settings.document_loss
    if not weight:
        return None
    return DocumentLoss(weight, rarities(data.text.train.ids, data.tokenizer.vocab_size))


def _masking_of(run: SavedRun) -> Corruption:
    """Mask as the run's own pretraining did; an imported run as BERT does."""
    if "mask_rate" not in run.settings:
        return build_masking(run.tokenizer, Masking(mask_rate=BERT_MASK_RATE), FIXED_SEED)
    settings = run.recorded(Masking, "mask_rate", "whole_words")
    return build_masking(run.tokenizer, settings, FIXED_SEED)


@torch.inference_mode()
def score_masked(
    model: LanguageModel, batches: Iterable[MaskedBatch], runtime: Runtime
) -> MaskedRows:
    """Score every row."""
    columns: list[list[float]] = [[], [], [], [], []]
    for batch in batches:
        on_device = move(batch, runtime.device)
        with runtime.precision():
            output = masked_output(model, on_device)
            losses, right = _token_scores(model, output.hidden, on_device.targets)
        columns[0] += (batch.targets != IGNORE).sum(1).tolist()
        columns[1] += losses.sum(1).tolist()
        columns[2] += right.sum(1).tolist()
        if output.pair_logits is not None and on_device.classes is not None:
            logits, classes = output.pair_logits.cpu().double(), on_device.classes.cpu()
            columns[3] += F.cross_entropy(logits, classes, reduction="none").tolist()
            columns[4] += (logits.argmax(1) == classes).tolist()
    return MaskedRows(*(np.array(column, np.float64) for column in columns))


def _token_scores(model: LanguageModel, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return loss and success at every masked position, (B, P) each; 0 at unused positions."""
    weight, bias = model.head.weights(model.backbone.embed.weight)
    size = max(1, LOGITS_PER_CHUNK[hidden.device.type] // len(weight))
    chunks = zip(hidden.flatten(0, 1).split(size), targets.flatten().split(size), strict=True)
    losses, right = [], []
    for vectors, chunk_targets in chunks:
        logits = F.linear(vectors, weight, bias).to(weight.dtype)  # (n, V)
        losses.append(F.cross_entropy(logits, chunk_targets, ignore_index=IGNORE, reduction="none"))
        right.append(logits.argmax(1) == chunk_targets)
    return torch.cat(losses).cpu().double().view_as(targets), torch.cat(right).view_as(targets)


def _documents(batch: MaskedBatch) -> Tensor:
    """Return the number of each token's document within the batch: (B, T)."""
    rows = torch.arange(len(batch.ids), device=batch.ids.device)[:, None]
    if batch.documents is None:
        return rows.expand_as(batch.ids)
    return batch.documents + rows * (batch.documents.max() + 1)


def _means(hidden: Tensor, documents: Tensor) -> Tensor:
    """Return the mean vector of each document: (documents, D)."""
    num_documents = int(documents.max()) + 1
    sums = hidden.new_zeros(num_documents, hidden.shape[-1])
    sums = sums.index_add(0, documents.flatten(), hidden.flatten(0, 1))
    sizes = documents.flatten().bincount(minlength=num_documents)
    return sums / sizes.clamp(min=1)[:, None]  # numbers that no document has get zeros


def _targets(batch: MaskedBatch, vocab_size: int) -> tuple[Tensor, Tensor]:
    """Return the documents and the tokens of all distinct pairs of document and masked token."""
    documents = _documents(batch).gather(1, batch.masked_positions)  # (B, P)
    is_used = batch.targets != IGNORE
    pairs = (documents * vocab_size + batch.targets)[is_used].unique()
    return pairs // vocab_size, pairs % vocab_size


@dataclass(frozen=True)
class MaskedOutput:
    """The outputs of a model for a batch."""

    all_hidden: Tensor  # (B, T, D)
    hidden: Tensor  # (B, P, D) at masked positions, ready for the output weights
    pair_logits: Tensor | None  # (B, 2): follows, does not follow


@dataclass(frozen=True)
class MaskedObjective:
    """BERT's two losses and that of whole documents, each summed."""

    document_loss: DocumentLoss | None = None

    def count(self, group: Sequence[MaskedBatch]) -> dict[str, float]:
        """Count the masked tokens and the pairs; add up the weights of documents' tokens."""
        num_masked = sum(int((batch.targets != IGNORE).sum()) for batch in group)
        num_pairs = sum(len(batch.classes) for batch in group if batch.classes is not None)
        counts: dict[str, float] = {"mlm": num_masked, "nsp": num_pairs}
        if self.document_loss:
            counts["document"] = sum(map(self.document_loss.count, group))
        return counts

    def __call__(self, model: LanguageModel, batch: MaskedBatch) -> dict[str, Tensor]:
        """Return the summed losses."""
        output = masked_output(model, batch)
        weight, bias = model.head.weights(model.backbone.embed.weight)
        hidden, targets = output.hidden.flatten(0, 1), batch.targets.flatten()
        sums = {"mlm": linear_cross_entropy(hidden, weight, bias, targets)[0]}
        if output.pair_logits is not None and batch.classes is not None:
            sums["nsp"] = F.cross_entropy(output.pair_logits, batch.classes, reduction="sum")
        if self.document_loss:
            loss = self.document_loss(model, output.all_hidden, batch)
            # The gradient alone counts, so that the reported loss is comparable with validation.
            sums["document"] = loss - loss.detach()
        return sums


def masked_output(model: LanguageModel, batch: MaskedBatch) -> MaskedOutput:
    """Run a model over a batch; only masked positions go through the head."""
    layout = Layout(
        batch.is_token, batch.documents, batch.positions, batch.segments, bounds=batch.bounds
    )
    hidden = model.backbone(batch.ids, layout)  # (B, T, D)
    masked = batch.masked_positions[..., None].expand(-1, -1, hidden.shape[-1])
    at_masked = model.head.transform(hidden.gather(1, masked))  # (B, P, D)
    if batch.classes is None:
        return MaskedOutput(hidden, at_masked, None)
    first = model.backbone.pool_first(hidden)  # (B, D)
    with torch.autocast(first.device.type, enabled=False):
        logits = model.next_sentence(first.to(model.next_sentence.weight.dtype))
    return MaskedOutput(hidden, at_masked, logits)
