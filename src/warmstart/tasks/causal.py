"""Predict the next token."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart import progress
from warmstart.batching.batches import PackedBatch, move
from warmstart.batching.packing import (
    PackedStream,
    RunningText,
    pack,
    read_packed_rows,
    room_for_documents,
)
from warmstart.data.copies import count_seen, find_matches
from warmstart.data.corpus import TextSource, source_of
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.prepare import write_tokens
from warmstart.data.sentences import SentenceFinder
from warmstart.data.token_file import TokenFile
from warmstart.decoding.beam import SpecialIds, sample_texts
from warmstart.decoding.engines import Begin, fast_steps, plain_steps
from warmstart.errors import WarmstartError
from warmstart.evaluation.intervals import Interval
from warmstart.evaluation.metrics import language_scores, score_tokens
from warmstart.kernels.loss import IGNORE, linear_cross_entropy
from warmstart.model.backbone import Layout
from warmstart.model.models import LanguageModel
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.seeds import derive_seed
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import PretrainConfig
from warmstart.settings.using import EvaluateConfig, Sampling
from warmstart.tasks.task import Pretraining, PretrainingData, PretrainingTask, TrainingJob
from warmstart.tasks.text_model import (
    GeneratedPiece,
    ProbableWord,
    TransformerModel,
    checks_keywords,
)
from warmstart.tokenization.backends import HALF
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.step import Evaluation, Objective

VALID_TOKENS = 200_000  # longer validation text is sampled in evenly spaced rows
RESAMPLES = 2000
BOS, EOS = 0, 1  # of random documents
DOCUMENT_TOKENS = 150  # in a random document, on average
BATCH_TOKENS = 16_384  # read together when a language model is evaluated


class CausalObjective:
    """Summed next-token loss over packed rows."""

    def count(self, group: Sequence[PackedBatch]) -> dict[str, float]:
        """Count the predicted tokens."""
        return {"lm": sum(int((batch.targets != IGNORE).sum()) for batch in group)}

    def __call__(self, model: LanguageModel, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the summed loss."""
        return {"lm": self.score(model, batch)[0]}

    def score(self, model: LanguageModel, batch: PackedBatch) -> tuple[Tensor, Tensor]:
        """Return the summed loss and the number of tokens predicted right."""
        hidden = _hidden(model, batch).flatten(0, 1)
        weight, bias = model.head.weights(model.backbone.embed.weight)
        return linear_cross_entropy(hidden, weight, bias, batch.targets.flatten())


def _hidden(model: LanguageModel, batch: PackedBatch) -> Tensor:
    """Return hidden states ready for the output weights: (B, T, D)."""
    layout = Layout(documents=batch.documents, positions=batch.positions, bounds=batch.bounds)
    hidden: Tensor = model.head.transform(model.backbone(batch.ids, layout))
    return hidden


@dataclass(frozen=True, kw_only=True)
class TextGenerator(TransformerModel):
    """A model that continues text."""

    @checks_keywords
    def generate(
        self,
        prompt: str = "",
        max_tokens: int = 100,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> str:
        """Continue a prompt; the text returned includes the prompt."""
        sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
        return self.generate_texts(prompt, max_tokens, sampling, [seed])[0]

    @torch.inference_mode()
    def generate_texts(
        self, prompt: str, max_tokens: int, sampling: Sampling, seeds: Sequence[int]
    ) -> list[str]:
        """Continue a prompt once with each seed, all together; each text includes the prompt."""
        prefix = self._prefix(prompt)
        if not len(seeds):
            return []
        texts = [list(prefix) for _ in seeds]
        for tokens in self._ids(prefix, max_tokens, sampling, seeds):
            for text, token in tokens.items():
                texts[text].append(token)
        if max(map(len, texts)) == self.config.max_length < len(prefix) + max_tokens:
            progress.say(f"stopped: this model reads at most {self.config.max_length:,} tokens")
        return [self.tokenizer.decode(ids) for ids in texts]

    @torch.inference_mode()
    def stream(
        self, prompt: str, max_tokens: int, sampling: Sampling, seed: int
    ) -> Iterator[GeneratedPiece]:
        """Yield what each token adds to a prompt, then a last piece with the reason to end."""
        ids = self._prefix(prompt)
        most = len(ids) + min(max_tokens, self._room(ids))
        shown = self.tokenizer.decode(ids)
        for tokens in self._ids(list(ids), max_tokens, sampling, [seed]):
            ids.append(tokens[0])
            text = self.tokenizer.decode(ids)
            is_whole = text.startswith(shown) and not text.endswith(HALF)
            yield GeneratedPiece(text[len(shown) :] if is_whole else "")
            shown = text if is_whole else shown
        rest = self.tokenizer.decode(ids)[len(shown) :]
        yield GeneratedPiece(rest, "length" if len(ids) == most else "stop")

    @torch.inference_mode()
    def probable_words(self, text: str, top_k: int = 5) -> tuple[ProbableWord, ...]:
        """Return the most probable tokens after a text."""
        step = plain_steps(cast(LanguageModel, self.model), self.runtime)()
        log_probs = step(torch.tensor([self._prefix(text)]), torch.zeros(1, dtype=torch.long))[0]
        suppressed = torch.tensor(list(self.tokenizer.suppressed_ids(self.config.vocab_size)))
        best = log_probs.exp().index_fill(0, suppressed, 0.0).topk(min(top_k, len(log_probs)))
        return tuple(map(self.probable_word, best.indices.tolist(), best.values.tolist()))

    @cached_property
    def _begin(self) -> Begin:
        """Return the function that begins new texts, in the form that is fastest here."""
        return fast_steps(cast(LanguageModel, self.model), self.runtime)

    def _prefix(self, prompt: str) -> list[int]:
        """Return the ids of a prompt; refuse one that leaves no room."""
        prefix = [self.tokenizer.bos, *self.tokenizer.encode([prompt])[0]]
        if self._room(prefix) < 1:
            raise WarmstartError(
                f"the prompt has {len(prefix):,} tokens, this model reads "
                f"{self.config.max_length:,}: shorten it"
            )
        return prefix

    def _room(self, prefix: list[int]) -> int:
        return self.config.max_length - len(prefix)

    def _ids(
        self, prefix: list[int], max_tokens: int, sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[dict[int, int]]:
        """Return an iterator over the ids drawn after a prefix: one of each unfinished text."""
        tokenizer = self.tokenizer
        suppressed = tokenizer.suppressed_ids(self.config.vocab_size)
        return sample_texts(
            self._begin(),
            prefix,
            min(max_tokens, self._room(prefix)),
            SpecialIds(tokenizer.bos, tokenizer.eos, suppressed),
            sampling,
            [torch.Generator().manual_seed(derive_seed(seed, "generate")) for seed in seeds],
        )


class CausalTask(PretrainingTask):
    """A language model that predicts the next token."""

    name = "causal"
    description = "a causal language model"
    hub_name = "text-generation"
    hub_class = "ForCausalLM"
    attention = "causal"
    can_generate = True
    ends_texts = False
    page_output = "next word"
    text_model = TextGenerator

    def check(self, settings: PretrainConfig) -> None:
        settings.refuse_unused()

    def architecture(
        self, model: ModelConfig, settings: PretrainConfig, parent: SavedRun | None
    ) -> ModelConfig:
        if parent:
            return replace(model, attention="causal")
        return replace(model, attention="causal", segments=0, pooler=False)

    def new_model(
        self, model: ModelConfig, settings: PretrainConfig, parent: SavedRun | None
    ) -> nn.Module:
        built = LanguageModel(model)
        freeze_pair_head(built)
        return built

    def training(self, model: nn.Module, data: PretrainingData) -> Pretraining:
        language_model = cast(LanguageModel, model)
        stream = packed_stream(data, language_model.config.max_length)
        objective = CausalObjective()

        def evaluate() -> Evaluation:
            valid = data.text.valid
            text = replace(stream.text, ids=valid.ids)
            batches = list(read_packed_rows(text, stream.rows_per_batch, VALID_TOKENS))
            score = partial(objective.score, language_model)
            scores = score_tokens(score, batches, data.runtime)
            num_read = sum(batch.ids.numel() for batch in batches)
            language = language_scores(scores.nll, scores.num_tokens, _bytes_of(num_read, valid))
            figures = {
                "valid_loss": scores.loss,
                "valid_perplexity": language.perplexity,
                "valid_bits_per_byte": language.bits_per_byte,
                "valid_accuracy": scores.accuracy,
            }
            return Evaluation(-scores.loss, figures, f"valid perplexity {language.perplexity:.1f}")

        return Pretraining(
            objective, stream, evaluate, lambda num_rows: num_rows * stream.text.length
        )

    def planned_model(self, job: TrainingJob) -> nn.Module:
        return LanguageModel(job.model)

    def planned_objective(self, job: TrainingJob, device: torch.device) -> Objective:
        return CausalObjective()

    def random_batch(self, job: TrainingJob, rows: int, generator: torch.Generator) -> Any:
        return random_documents(job, rows, generator)

    def summary(self, scores: Mapping[str, float]) -> str:
        return (
            f"validation perplexity {scores['perplexity']:.2f}, "
            f"{scores['bits_per_byte']:.3f} bits per byte"
        )

    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        """Return perplexity and bits per byte; the 95% interval is over rows."""
        model = cast(LanguageModel, self.load_model(run).to(runtime.device).eval())
        with held_out_text(settings, run.tokenizer) as text:
            losses, counts = _row_losses(model, run, text.file, runtime)
            num_tokens, num_bytes = int(counts.sum()), text.file.num_bytes
            scores = language_scores(float(losses.sum()), num_tokens, num_bytes)
            return {
                **asdict(scores),
                "tokens": num_tokens,
                "bytes": num_bytes,
                "interval": asdict(_perplexity_interval(losses, counts)),
                **text.rows_seen(run),
            }

    def usage(self, path: Path) -> str:
        return f"warmstart generate {path} --prompt Once"


def random_documents(job: TrainingJob, rows: int, generator: torch.Generator) -> PackedBatch:
    """Return consecutive documents of random tokens, packed into full rows."""
    ids = job.random_ids(rows, job.length + 1, generator)
    ends = torch.rand(ids.shape, generator=generator) < 1 / DOCUMENT_TOKENS
    ends[:, -1] = False
    ids[ends] = EOS
    ids[:, 1:][ends[:, :-1]] = BOS
    per_row = 1 + job.length / DOCUMENT_TOKENS
    return pack(ids, BOS, EOS, room_for_documents(rows, per_row))


def freeze_pair_head(model: LanguageModel) -> None:
    """Freeze the pooler and the head that only the next-sentence loss trains."""
    for name, parameter in model.named_parameters():
        if name.startswith(("backbone.pooler.", "next_sentence.")):
            parameter.requires_grad_(False)


def packed_stream(data: PretrainingData, length: int) -> PackedStream:
    """Return the training text in full rows."""
    settings, tokenizer = data.settings, data.tokenizer
    rows = settings.rows_per_step(length)
    text = RunningText(data.text.train.ids, length, tokenizer.bos, tokenizer.eos)
    assert settings.micro_tokens is not None  # resolved: the default depends on the device
    rows_per_batch = min(rows, max(1, settings.micro_tokens // length))
    return PackedStream(text, rows, rows_per_batch, settings.seed)


def _bytes_of(num_read: int, file: TokenFile) -> int:
    """Return the bytes of the tokens read; the last token of a file is only a target."""
    return max(1, round(file.num_bytes * num_read / max(1, file.num_tokens - 1)))


@torch.inference_mode()
def _row_losses(
    model: LanguageModel, run: SavedRun, file: TokenFile, runtime: Runtime
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the summed loss and the number of predicted tokens of each row of text."""
    length, tokenizer = run.model.max_length, run.tokenizer
    text = RunningText(file.ids, length, tokenizer.bos, tokenizer.eos)
    weight, bias = model.head.weights(model.backbone.embed.weight)
    losses, counts = [], []
    for batch in read_packed_rows(text, max(1, BATCH_TOKENS // length)):
        on_device = move(batch, runtime.device)
        with runtime.precision():
            for row, targets in zip(_hidden(model, on_device), on_device.targets, strict=True):
                losses.append(float(linear_cross_entropy(row, weight, bias, targets)[0]))
        counts += (batch.targets != IGNORE).sum(1).tolist()
    return np.array(losses), np.array(counts)


def _perplexity_interval(losses: NDArray[np.float64], counts: NDArray[np.int64]) -> Interval:
    """Return the perplexity and its 95% interval over rows, which are nearly independent."""
    means = np.array(list(_resampled_means(losses, counts)))
    low, high = np.exp(np.quantile(means, [0.025, 0.975]))
    mean = np.exp(losses.sum() / counts.sum())
    return Interval(mean=float(mean), low=float(low), high=float(high))


def _resampled_means(losses: NDArray[np.float64], counts: NDArray[np.int64]) -> Iterator[float]:
    rng = np.random.Generator(np.random.PCG64(0))
    for _ in range(RESAMPLES):
        rows = rng.integers(0, len(losses), len(losses))
        yield float(losses[rows].sum() / counts[rows].sum())


@dataclass(frozen=True)
class HeldOutText:
    """A test file as tokens."""

    source: TextSource
    path: Path  # of the token file
    file: TokenFile

    def rows_seen(self, run: SavedRun) -> dict[str, int]:
        """Count the rows of text, and those that also occur in the run's training text."""
        rows = fingerprints_of(row for passage in self.source.passages() for row in passage.rows)
        return {"rows": len(rows), **count_seen(find_matches(rows, run.texts_seen()))}


@contextmanager
def held_out_text(
    settings: EvaluateConfig, tokenizer: Tokenizer, finder: SentenceFinder | None = None
) -> Iterator[HeldOutText]:
    """Yield the test file as tokens, with an index of sentences where a finder is given."""
    source = source_of([settings.test or ""], settings.document, settings)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # Windows keeps mapped files
        path = Path(folder) / "test.bin"
        write_tokens(source, tokenizer, path, finder)
        yield HeldOutText(source, path, TokenFile(path))
