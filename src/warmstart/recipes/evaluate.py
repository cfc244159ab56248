"""A run and held-back data -> scores with intervals, entered in the run's ledger.

Chooses nothing; knows nothing about training.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from warmstart.batches.loader import packed_in_order
from warmstart.batches.token_file import TokenFile
from warmstart.config.jobs import EvaluateConfig
from warmstart.errors import WarmstartError
from warmstart.model.tasks import LanguageModel
from warmstart.predictor import Predictor, load
from warmstart.recipes.labelled import as_the_tokenizer_reads, number_classes, read_class_file
from warmstart.recipes.prepare import source_of, write_tokens
from warmstart.report.summary import Interval
from warmstart.scoring.intervals import interval
from warmstart.scoring.metrics import calibration, class_scores, language_scores
from warmstart.scoring.score import score_rows
from warmstart.text.files import sha256_of
from warmstart.text.overlap import fingerprints_of
from warmstart.text.pieces import join_pieces

RESAMPLES = 2000
BATCH_TOKENS = 16_384  # read together by a language model


@dataclass(frozen=True)
class EvaluationResult:
    """What held-back data said of a run."""

    run: Path
    file: str
    scores: dict[str, Any]  # JSON values
    times_scored: int  # evaluations of this run on this file, this one included


def evaluate(config: EvaluateConfig) -> EvaluationResult:
    """Score a run on held-back data and enter the result in its ledger."""
    if not Path(config.test).is_file():
        fault = "is a folder; give one file" if Path(config.test).is_dir() else "does not exist"
        raise WarmstartError(f"--test {config.test} {fault}")
    predictor = load(config.run, config.device, config.precision, config.threads)
    if predictor.source.command == "finetune":
        scores = _classifier_scores(config, predictor)
    else:
        scores = _language_scores(config, predictor)
    times = _enter(config, predictor, scores)
    return EvaluationResult(predictor.source.run.path, config.test, scores, times)


def _enter(config: EvaluateConfig, predictor: Predictor, scores: dict[str, Any]) -> int:
    """Enter scores in the run's ledger; return how often this file stands there."""
    run, weights = predictor.source.run, predictor.source.path
    digest = sha256_of(Path(config.test))
    entry = {
        "file": config.test,
        "sha256": digest,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "checkpoint": "best" if weights == run.path else str(weights.relative_to(run.path)),
        "scores": scores,
    }
    run.add_scores(entry)
    ledger = run.read_json(run.scores_file)["ledger"]
    return sum(entry["sha256"] == digest for entry in ledger)


def _classifier_scores(config: EvaluateConfig, predictor: Predictor) -> dict[str, Any]:
    names = predictor.classes
    read = read_class_file(config.test, config.test_labels, config.columns)
    data = number_classes(as_the_tokenizer_reads(read, predictor.tokenizer, config.pieces), names)
    found = predictor.predict(data.texts)
    shares = np.array([[p.probabilities[name] for name in names] for p in found])
    predicted = shares.argmax(1)
    right = predicted == np.array(data.classes)
    texts = [join_pieces(text) if config.pieces else text for text in read.texts]
    seen = predictor.source.texts_seen().contain(fingerprints_of(texts))
    scores = asdict(class_scores(data.classes, predicted, names))
    return {
        "rows": scores.pop("num_texts"),
        **scores,
        "interval": asdict(interval(right)),
        "calibration": asdict(calibration(data.classes, shares)),
        "seen_in_training": int(seen.sum()),
        "accuracy_unseen": float(right[~seen].mean()) if not seen.all() else None,
    }


def _language_scores(config: EvaluateConfig, predictor: Predictor) -> dict[str, Any]:
    if not isinstance(predictor.model, LanguageModel):
        raise WarmstartError(f"{config.run} cannot be evaluated on text")
    source = source_of([config.test], config.document, config.columns or ("text",))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "test.bin"
        facts = write_tokens(source, predictor.tokenizer, path)
        losses, counts = _block_losses(predictor, TokenFile(path))
    num_bytes, num_tokens = facts["bytes"], int(counts.sum())
    scores = asdict(language_scores(float(losses.sum()), num_tokens, num_bytes))
    rows = [row for passage in source.passages() for row in passage.rows]
    seen = predictor.source.texts_seen().contain(fingerprints_of(rows))
    return {
        **scores,
        "tokens": num_tokens,
        "bytes": num_bytes,
        "interval": asdict(_perplexity_interval(losses, counts)),
        "rows": len(rows),
        "seen_in_training": int(seen.sum()),
    }


def _block_losses(predictor: Predictor, file: TokenFile) -> tuple[np.ndarray, np.ndarray]:
    """Return summed loss and token count of each row of running text."""
    assert isinstance(predictor.model, LanguageModel)
    tokenizer, length = predictor.tokenizer, predictor.source.model.max_length
    rows = max(1, BATCH_TOKENS // length)
    batches = packed_in_order(file.ids, length, rows, tokenizer.bos, tokenizer.eos)
    return score_rows(predictor.model, batches, predictor.runtime)


def _perplexity_interval(losses: np.ndarray, counts: np.ndarray) -> Interval:
    """Resample rows of text: neighbouring tokens are not independent, rows nearly are."""
    rng = np.random.Generator(np.random.PCG64(0))
    means = np.array(list(_resampled(losses, counts, rng)))
    low, high = np.quantile(means, [0.025, 0.975])
    mean = losses.sum() / counts.sum()
    return Interval(mean=float(np.exp(mean)), low=float(np.exp(low)), high=float(np.exp(high)))


def _resampled(losses: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> Iterator[float]:
    for _ in range(RESAMPLES):
        rows = rng.integers(0, len(losses), len(losses))
        yield float(losses[rows].sum() / counts[rows].sum())
