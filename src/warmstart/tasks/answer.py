"""Answer a question with a part of a passage, or say that the passage has no answer.

The likelier of the best part and "no answer" is given; how much likelier a part must be is chosen
on the validation questions and kept with the weights.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart.batching.batches import LabelledBatch, pad_texts
from warmstart.data.labelled import Dataset
from warmstart.data.questions import PAIR, questions_form, read_questions
from warmstart.errors import WarmstartError
from warmstart.evaluation.answers import answer_f1, best_values, exact_match
from warmstart.evaluation.intervals import accuracy_interval
from warmstart.formats import quantity
from warmstart.kernels.loss import IGNORE
from warmstart.model.backbone import Layout
from warmstart.model.models import SpanFinder
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import LabelledColumns, TableFormat, Truncate
from warmstart.settings.training import Tuning
from warmstart.tasks.baseline import Baseline
from warmstart.tasks.finetuning import FinetuningTask, Fit, Labels, Trained, require_finite
from warmstart.tasks.latent_semantics import LatentSpace
from warmstart.tasks.spans import (
    QuestionRows,
    SpanScores,
    none_positions,
    span_scores,
    tokens_of_answer,
)
from warmstart.tasks.task import TrainingJob
from warmstart.tasks.text_model import Predictions, TextSize, TransformerModel
from warmstart.tasks.vectors import TextBatches
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.tokenization.words import find_spans
from warmstart.training.step import Evaluation, Objective

Floats = NDArray[np.float64]
Outputs = NDArray[Any]  # for every question, the SpanScores of its passage
LEAST = 1e-12  # a smaller probability is not told from it
SURE = 50.0  # log odds of a threshold that answers everything, or nothing
SHORTEST_ROW = 8  # tokens: a question, a passage and three marks
LONGEST = 200  # characters of an answer, where no training data says how long they are
TIMES_LONGER = 1.5  # than the longest answer in training


class SpanObjective:
    """Summed cross-entropy over the tokens that may begin and that may end the answer."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpanObjective)

    __hash__ = None  # type: ignore[assignment]

    def count(self, group: Sequence[LabelledBatch]) -> dict[str, float]:
        """Count the rows."""
        return {"span": float(sum(len(batch.targets) for batch in group))}

    def __call__(self, model: SpanFinder, batch: LabelledBatch) -> dict[str, Tensor]:
        """Return the summed loss; a row without an answer has the targets IGNORE."""
        layout = Layout(batch.is_token, segments=batch.segments, skips_padding=True)
        logits = model(batch.ids, layout)  # (B, T, 2)
        none = none_positions(model.config, batch.is_token)[:, None]  # (B, 1)
        may_be = batch.segments.bool().scatter(1, none, True)
        edges = torch.where(batch.targets[:, :2] == IGNORE, none, batch.targets[:, :2])
        possible = logits.masked_fill(~may_be[..., None], -torch.inf)
        return {"span": F.cross_entropy(possible, edges, reduction="sum") / 2}


@dataclass(frozen=True)
class SpanAnswer:
    """The answer to a question: a part of its passage, or none."""

    answer: str  # empty: the passage has none
    start: int | None  # character of the passage as it was given; None: no answer
    end: int | None  # the character after the last
    probability: float  # of this answer, or of none, among the best parts and none

    @property
    def label(self) -> str:
        """Return the answer."""
        return self.answer

    def columns(self) -> dict[str, Any]:
        """Return the columns of a table."""
        return {**asdict(self), "probability": round(self.probability, 6)}


@dataclass(frozen=True, kw_only=True)
class QuestionAnswerer(TransformerModel):
    """A model that answers questions about passages."""

    find: Callable[[Dataset], list[SpanAnswer]]
    pair_names: tuple[str, str] = PAIR

    @property
    def abilities(self) -> tuple[str, ...]:
        return (
            "answer",
            *(verb for verb in super().abilities if verb not in ("answer", "predict")),
        )

    def answer(self, texts: Sequence[str], texts2: Sequence[str]) -> list[SpanAnswer]:
        """Answer questions, each by a part of its passage."""
        return self.predict(texts, texts2)

    def predict(self, texts: Iterable[str], texts2: Iterable[str] | None = None) -> Predictions:
        """Answer questions (`texts`), each by a part of its passage (`texts2`)."""
        texts, texts2 = self.check_texts(texts, texts2)
        return Predictions(self.find(Dataset(texts=texts, seconds=texts2)) if texts else [])

    def measure(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> list[TextSize]:
        """Count the tokens; only a question too long for half of a row loses a part."""
        pairs = zip(*map(self.tokenizer.encode, (texts, texts2 or texts)), strict=True)
        most = most_question_tokens(self.config)
        return [TextSize(len(a) + len(b) + 3, len(a) > most) for a, b in pairs]


def most_question_tokens(model: ModelConfig) -> int:
    """Return the tokens of a question that are read: half of a row, so that a passage fits."""
    return (model.max_length - 3) // 2


def best_threshold(outputs: Iterable[SpanScores], targets: Sequence[Any]) -> float:
    """Return the log odds with the best F1 from which on to answer; of equal ones nearest to 0."""
    scores = list(outputs)
    f1 = best_values(answer_f1, [of_row.best_text for of_row in scores], targets)
    of_none = best_values(answer_f1, [""] * len(scores), targets)
    odds = np.clip([of_row.best_odds for of_row in scores], -SURE, SURE)
    order = np.argsort(-odds, kind="stable")
    gains = np.concatenate([[0.0], np.cumsum((f1 - of_none)[order])])  # of answering the first n
    edges = odds[order]
    cuts = np.concatenate([[SURE], (edges[1:] + edges[:-1]) / 2, [-SURE]])
    is_cut = np.concatenate([[True], edges[1:] < edges[:-1], [True]])  # equal odds go together
    best = np.flatnonzero(is_cut & (gains >= gains[is_cut].max() - 1e-9))
    ends = [
        (cuts[n], edges[n - 1] if n else SURE, edges[n] if n < len(edges) else -SURE) for n in best
    ]
    if any(low <= 0 < high for _, high, low in ends):
        return 0.0
    return float(min((cut for cut, _, _ in ends), key=abs))


class AnswerTask(FinetuningTask):
    """A model that answers questions by parts of passages."""

    name = "answer"
    description = "a question answerer"
    hub_name = "question-answering"
    hub_class = "ForQuestionAnswering"
    select_by = "f1"
    other_score = ("exact_match", "exact match")
    has_classes = False
    joins_pairs = False
    layer_decay = 1.0  # as for taggers, whose tokens also need what the lower blocks know
    attention = "bidirectional"  # a part is found by the words on both sides of it
    reads_all = True
    has_threshold = True

    def detect(self, path: Path, tables: TableFormat) -> str | None:
        return questions_form(path, tables)

    def read_file(self, path: Path, labels: Path | None, settings: LabelledColumns) -> Dataset:
        if labels is not None:
            raise WarmstartError(
                f"{labels}: a file of labels is for classifiers; answers are read from {path}"
            )
        if settings.pieces:
            raise WarmstartError("--pieces is for classifiers: answers are parts of whole texts")
        return read_questions(path, settings)

    def choose_truncation(self, config: Trained) -> Trained:
        if config.truncate not in (None, self.truncate):
            raise WarmstartError(
                f"--truncate {config.truncate} is for classifiers: a long passage is read whole, "
                "in windows; leave it out"
            )
        return super().choose_truncation(config)

    def read_labels(self, train: Dataset) -> dict[str, Any]:
        """Return how long answers may be, in characters."""
        lengths = [len(text) for answers in train.labels for _, text in answers]
        if not lengths:
            raise WarmstartError(
                f"{train.file}: no question to train on has an answer; there is nothing to learn"
            )
        return {"longest": round(TIMES_LONGER * max(lengths))}

    def targets(self, data: Dataset, labels: Labels) -> list[Any]:
        """Return the right answers to each question; none: its passage has no answer."""
        return [list(dict.fromkeys(text for _, text in answers)) for answers in data.labels]

    def label_notes(self, train: Dataset, valid: Dataset) -> list[str]:
        has_none = [any(not answers for answers in split.labels) for split in (train, valid)]
        if has_none[0] and not has_none[1]:
            return [f"{valid.file}: every question has an answer, so every question will get one"]
        return []

    def describe_data(self, targets: Sequence[Any], labels: Labels) -> str:
        return f"{sum(not texts for texts in targets):,} without an answer"

    def strata(self, targets: Sequence[Any]) -> Sequence[int]:
        return [int(bool(texts)) for texts in targets]

    def encode(
        self, data: Dataset, tokenizer: Tokenizer, model: ModelConfig, rule: Truncate
    ) -> tuple[Dataset, str]:
        """Return questions and passages as ids, and where each passage token is in its text."""
        if model.max_length < SHORTEST_ROW:
            raise WarmstartError(
                f"--max-length {model.max_length} is too short for a question and a passage: "
                f"{SHORTEST_ROW} or more"
            )
        passages, most = data.seconds or (), most_question_tokens(model)
        questions, read = tokenizer.encode(data.texts), tokenizer.encode(passages)
        heads = [[*tokenizer.start, *ids[:most], tokenizer.eos] for ids in questions]
        encoded = replace(
            data,
            ids=[[*head, *ids, tokenizer.eos] for head, ids in zip(heads, read, strict=True)],
            starts=[len(head) for head in heads],
            words=[find_spans(tokenizer, *pair) for pair in zip(passages, read, strict=True)],
            is_truncated=[len(ids) > most for ids in questions],
        )
        return encoded, _describe_rows(encoded, model)

    def training_rows(self, train: Dataset, labels: Labels, max_length: int) -> Dataset:
        """Return windows of the passages, each with where the answer begins and ends in it."""
        rows = QuestionRows(train, max_length)
        answers = [
            tokens_of_answer(tokens, start := of_row[0][0], start + len(of_row[0][1]))
            if of_row
            else None
            for of_row, tokens in zip(train.labels, train.words, strict=True)
        ]
        targets = [
            rows.target(row, answers[question]) or [IGNORE, IGNORE]
            for row, (question, _) in enumerate(rows.sources)
        ]
        return Dataset(train.file, ids=rows.ids, starts=rows.starts, targets=targets)

    def new_model(self, model: ModelConfig, labels: Labels, tuning: Tuning) -> nn.Module:
        return SpanFinder(model, labels.get("longest", LONGEST), tuning.classifier_dropout)

    def planned_model(self, job: TrainingJob) -> nn.Module:
        return SpanFinder(job.model, LONGEST, Tuning.classifier_dropout)

    def planned_objective(self, job: TrainingJob, device: torch.device) -> Objective:
        return SpanObjective()

    def random_batch(self, job: TrainingJob, rows: int, generator: torch.Generator) -> Any:
        texts = job.random_ids(rows, job.length, generator).tolist()
        start = job.length // 4
        targets = [[start, job.length - 1]] * rows
        return pad_texts(texts, targets, range(rows), 0, [start] * rows)

    def objective(self, fit: Fit) -> Objective:
        if fit.tuning.balance == "weights":
            raise WarmstartError("--balance weights is for classifiers: answers have no classes")
        return SpanObjective()

    def outputs(self, model: nn.Module, texts: Dataset, batches: TextBatches) -> Outputs:
        return span_scores(cast(SpanFinder, model), texts, batches)

    def scores(self, outputs: Outputs, targets: Sequence[Any], labels: Labels) -> dict[str, float]:
        shares = [_share_of(*pair) for pair in zip(outputs, targets, strict=True)]
        loss = float(-np.log(np.maximum(shares, LEAST)).mean())
        return {"loss": loss, **self.answer_scores(self.answers(outputs, labels), targets)}

    def summary(self, scores: Mapping[str, float]) -> str:
        return f"F1 {scores['f1']:.1%}, exact match {scores['exact_match']:.1%}"

    def metric_name(self, labels: Labels) -> str:
        return "F1"

    def validate(self, model: nn.Module, outputs: Outputs, fit: Fit) -> Evaluation:
        """Score the model with the threshold that is kept with its weights."""
        odds = fit.temperature or self.temperature(outputs, fit.valid.targets)
        threshold = float(np.log(odds))
        evaluation = super().validate(model, _shift(outputs, threshold), fit)
        figures = {**evaluation.figures, "valid_threshold": threshold}
        weights = {"threshold": torch.tensor(threshold)}
        return replace(evaluation, figures=figures, weights=weights)

    def temperature(self, outputs: Outputs, targets: Sequence[Any]) -> float:
        return float(np.exp(best_threshold(outputs, targets)))

    def calibrate(self, outputs: Outputs, targets: Sequence[Any]) -> Outputs:
        return _shift(outputs, best_threshold(outputs, targets))

    def selected_answers(
        self, outputs: Outputs, rows: NDArray[Any], targets: Sequence[Any], labels: Labels
    ) -> list[Any]:
        return self.answers(_shift(outputs, best_threshold(outputs[rows], targets)), labels)

    def answers(self, outputs: Outputs, labels: Labels) -> list[Any]:
        return [prediction.answer for prediction in self.predictions(outputs, labels)]

    def predictions(self, outputs: Outputs, labels: Labels) -> list[Any]:
        return list(map(_prediction, outputs))

    def text_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> Floats:
        return best_values(answer_f1, answers, targets)

    def answer_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> dict[str, float]:
        return {
            "f1": float(best_values(answer_f1, answers, targets).mean()),
            "exact_match": float(best_values(exact_match, answers, targets).mean()),
        }

    def test_scores(
        self, outputs: Outputs, targets: Sequence[Any], labels: Labels
    ) -> dict[str, Any]:
        """Return both scores with intervals, also of questions with and without an answer."""
        answers = self.answers(outputs, labels)
        values = {
            "f1": best_values(answer_f1, answers, targets),
            "exact_match": best_values(exact_match, answers, targets),
        }
        scores: dict[str, Any] = {name: float(of_rows.mean()) for name, of_rows in values.items()}
        has_answer = np.array([bool(texts) for texts in targets])
        for name, rows in (("answered", has_answer), ("unanswerable", ~has_answer)):
            of_rows = {"f1": values["f1"], "exact_match": values["exact_match"]}
            means = {key: float(each[rows].mean()) for key, each in of_rows.items() if rows.any()}
            scores[name] = {"questions": int(rows.sum()), **means}
        intervals = {name: asdict(accuracy_interval(of_rows)) for name, of_rows in values.items()}
        return {**scores, "intervals": intervals}

    def is_answer(self, answer: Any, target: Any, labels: Labels) -> bool:
        return isinstance(answer, str)

    def chance(self, targets: Sequence[Any]) -> float:
        """Return the score of never answering."""
        return float(np.mean([not texts for texts in targets])) if targets else 0.0

    def describe_answer(self, answer: Any, labels: Labels) -> str:
        return (answer if isinstance(answer, str) else " or ".join(answer)) or "no answer"

    def baselines(
        self,
        labels: Labels,
        tuning: Tuning,
        spaces: Mapping[str, LatentSpace],
        unlabelled: Iterable[str],
    ) -> Iterator[Baseline]:
        from warmstart.tasks.span_overlap import NoAnswer, SpanOverlap  # answer questions, too

        yield SpanOverlap()
        yield NoAnswer()

    def usage(self, path: Path) -> str:
        return f'warmstart predict {path} --text "A question?" --text2 "The passage."'

    def open(self, run: SavedRun, runtime: Runtime) -> QuestionAnswerer:
        model = self.load_model(run)
        tuning = run.recorded(Tuning, "micro_tokens")
        batches = TextBatches(tuning.micro_tokens, run.tokenizer.pad, runtime)

        def find(texts: Dataset) -> list[SpanAnswer]:
            encoded, _ = self.encode(texts, run.tokenizer, run.model, self.truncate)
            outputs = require_finite(self.outputs(model, encoded, batches), run.path)
            return self.predictions(outputs, run.config)

        return QuestionAnswerer(
            name=str(run.path),
            description=run.model.mark(self.description),
            model=model,
            tokenizer=run.tokenizer,
            runtime=runtime,
            reads_pairs=True,
            find=find,
        )


def _shift(outputs: Outputs, threshold: float) -> Outputs:
    shifted = np.empty(len(outputs), object)
    for number, of_row in enumerate(outputs):
        shifted[number] = of_row.shift(threshold)
    return shifted


def _prediction(scores: SpanScores) -> SpanAnswer:
    shares = scores.probabilities()
    if (span := scores.best_span) is None:
        return SpanAnswer("", None, None, float(shares[0]))
    return SpanAnswer(scores.text_of(*span), *span, float(shares[1]))


def _share_of(scores: SpanScores, texts: Sequence[str]) -> float:
    """Return the probability of the right answers to a question, or of none."""
    shares = scores.probabilities()
    if not texts:
        return float(shares[0])
    is_right = [scores.text_of(*span) in texts for span in scores.spans.tolist()]
    return float(shares[1:][is_right].sum())


def _describe_rows(data: Dataset, model: ModelConfig) -> str:
    """Say which passages are read in windows, and what no row can hold."""
    sizes = f"{quantity(len(data.ids), 'question')} in {data.file}"
    num_long = sum(len(ids) > model.max_length for ids in data.ids)
    sentence = f"all {sizes} fit with their passages into {model.max_length:,} tokens"
    if num_long:
        sentence = (
            f"the passages of {num_long:,} of {sizes} do not fit into {model.max_length:,} tokens "
            "and are read in windows that overlap"
        )
    if num_cut := sum(data.is_truncated):
        most = most_question_tokens(model)
        sentence += f"; {num_cut:,} questions are longer than {most:,} tokens and keep only those"
    return sentence
