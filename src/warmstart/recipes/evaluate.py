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

from warmstart import progress
from warmstart.batching.loader import packed_in_order
from warmstart.data.overlap import fingerprints_of
from warmstart.data.token_file import TokenFile
from warmstart.errors import WarmstartError
from warmstart.evaluation.intervals import interval
from warmstart.evaluation.metrics import calibration, class_scores, language_scores
from warmstart.evaluation.score import score_rows
from warmstart.model.models import LanguageModel
from warmstart.predictor import Predictor, load
from warmstart.recipes.masked import score_text
from warmstart.recipes.prepare import TextSource, source_of, write_tokens
from warmstart.recipes.translation_scores import translator_scores
from warmstart.results.summary import Interval
from warmstart.runs.lineage import unrecorded_words
from warmstart.runs.saved import IN_WORDS, Source, read_source
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.labelled import as_the_tokenizer_reads, number_classes, read_class_file
from warmstart.textfiles import sha256_of

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
    file = config.test or config.target
    if file is None:
        fault = "--target" if config.source else "--test"
        raise WarmstartError(f"{fault} is missing (a translator takes --source and --target)")
    if not Path(file).is_file():
        fault = "is a folder; give one file" if Path(file).is_dir() else "does not exist"
        raise WarmstartError(f"--{'test' if config.test else 'target'} {file} {fault}")
    predictor = load(config.run, config.device, config.precision, config.threads)
    _check_files(config, predictor.source)
    if predictor.source.has_unrecorded_texts:
        progress.say(unrecorded_words(config.run))
    if predictor.source.kind == "translator":
        scores = translator_scores(config, predictor.source)
    elif predictor.source.kind == "classifier":
        scores = _classifier_scores(config, predictor)
    elif predictor.source.kind == "masked":
        scores = _masked_scores(config, predictor)
    else:
        scores = _language_scores(config, predictor)
    times = _enter(file, predictor.source, scores)
    if config.against:  # it was scored on the same file
        tests = scores["against"]["tests"]
        other = {test["metric"].lower(): test["other"] for test in tests}
        _enter(file, read_source(config.against), {**other, "compared_with": config.run})
    return EvaluationResult(predictor.source.run.path, file, scores, times)


def _check_files(config: EvaluateConfig, source: Source) -> None:
    """Refuse files that another kind of run is scored on."""
    is_translator = source.kind == "translator"
    given = [
        f"--{name}" for name in ("source", "target", "against") if getattr(config, name) is not None
    ]
    if given and not is_translator:
        raise WarmstartError(
            f"{given[0]} is for translators; {config.run} is {IN_WORDS[source.kind]}, "
            "scored with --test"
        )


def _enter(file: str, source: Source, scores: dict[str, Any]) -> int:
    """Enter scores in the run's ledger; return how often this file stands there."""
    run, weights = source.run, source.path
    digest = sha256_of(Path(file))
    entry = {
        "file": file,
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
    read = read_class_file(config.test or "", config.test_labels, config.columns)
    data = number_classes(as_the_tokenizer_reads(read, predictor.tokenizer, config.pieces), names)
    found = predictor.predict(data.texts, data.seconds)
    shares = np.array([[p.probabilities[name] for name in names] for p in found])
    predicted = shares.argmax(1)
    right = predicted == np.array(data.classes)
    as_read = number_classes(read, names)
    seen = as_read.seen_by(predictor.source.texts_seen(), config.pieces)
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
    source = source_of([config.test or ""], config.document, config.columns or ("text",))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "test.bin"
        facts = write_tokens(source, predictor.tokenizer, path)
        losses, counts = _block_losses(predictor, TokenFile(path))
    num_bytes, num_tokens = facts["bytes"], int(counts.sum())
    scores = asdict(language_scores(float(losses.sum()), num_tokens, num_bytes))
    return {
        **scores,
        "tokens": num_tokens,
        "bytes": num_bytes,
        "interval": asdict(_perplexity_interval(losses, counts)),
        **_rows_seen(source, predictor),
    }


def _rows_seen(source: TextSource, predictor: Predictor) -> dict[str, int]:
    """Count the rows of text, and those that stood in what the run was trained on."""
    rows = [row for passage in source.passages() for row in passage.rows]
    seen = predictor.source.texts_seen().contain(fingerprints_of(rows))
    return {"rows": len(rows), "seen_in_training": int(seen.sum())}


def _masked_scores(config: EvaluateConfig, predictor: Predictor) -> dict[str, Any]:
    source = source_of([config.test or ""], config.document, config.columns or ("text",))
    return {**score_text(source, predictor, BATCH_TOKENS), **_rows_seen(source, predictor)}


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
