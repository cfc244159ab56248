"""Label every word of a text: entities such as names and places, or plain tags such as nouns."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart.batching.batches import LabelledBatch, pad_texts
from warmstart.data.labelled import Dataset
from warmstart.data.tagged import join_words, read_tagged, tagged_form
from warmstart.data.tags import OUTSIDE, count_tags, marks_entities, split_tag, to_bio
from warmstart.errors import WarmstartError
from warmstart.evaluation.entities import (
    Transitions,
    accuracy_values,
    best_paths,
    entity_scores,
    entity_spans,
    f1_values,
)
from warmstart.evaluation.intervals import accuracy_interval
from warmstart.formats import quantity
from warmstart.kernels.loss import IGNORE
from warmstart.model.backbone import Layout
from warmstart.model.models import TokenClassifier
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import LabelledColumns, TableFormat, Truncate
from warmstart.settings.training import Tuning
from warmstart.tasks.baseline import Baseline
from warmstart.tasks.finetuning import FinetuningTask, Fit, Labels, Trained, require_finite
from warmstart.tasks.latent_semantics import LatentSpace
from warmstart.tasks.tagger import Tagger
from warmstart.tasks.task import Training, TrainingJob
from warmstart.tasks.vectors import TextBatches
from warmstart.tasks.word_rows import (
    FrozenRows,
    FrozenStream,
    Outputs,
    WordBatch,
    WordRows,
    row_outputs,
    tokens_of_words,
    windows,
)
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.tokenization.words import find_spans
from warmstart.training.step import Evaluation, Objective

LEAST = 1e-12  # a smaller probability is not told from it


class TagObjective:
    """Summed cross-entropy over tagged words."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TagObjective)

    __hash__ = None  # type: ignore[assignment]

    def count(self, group: Sequence[LabelledBatch | WordBatch]) -> dict[str, float]:
        """Count the tagged words."""
        return {"tag": float(sum(int((batch.targets != IGNORE).sum()) for batch in group))}

    def __call__(
        self, model: TokenClassifier, batch: LabelledBatch | WordBatch
    ) -> dict[str, Tensor]:
        """Return the summed loss."""
        if isinstance(batch, WordBatch):
            logits = model.head(batch.vectors)
        else:
            logits = model(batch.ids, Layout(batch.is_token, skips_padding=True)).flatten(0, 1)
        targets = batch.targets.flatten()
        loss = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
        return {"tag": loss}


class TagTask(FinetuningTask):
    """A tagger: entities by B- and I- tags, or plain tags."""

    name = "tag"
    description = "a tagger"
    hub_name = "token-classification"
    hub_class = "ForTokenClassification"
    has_classes = False  # of texts
    layer_decay = 1.0  # unlike classifiers, taggers lose much if the lower blocks learn slowly
    attention = "bidirectional"  # the words after a word say as much as those before it
    reads_all = True
    limit = "It gives every word one of its tags; entities never overlap or lie in one another."

    def detect(self, path: Path, tables: TableFormat) -> str | None:
        return tagged_form(path, tables)

    def read_file(self, path: Path, labels: Path | None, settings: LabelledColumns) -> Dataset:
        if labels is not None:
            raise WarmstartError(
                f"{labels}: a file of labels is for classifiers; {path} holds tags"
            )
        if settings.pieces:
            raise WarmstartError("--pieces is for classifiers: a tagger reads whole words")
        return read_tagged(path, settings)

    def choose_truncation(self, config: Trained) -> Trained:
        if config.truncate not in (None, self.truncate):
            raise WarmstartError(
                f"--truncate {config.truncate} is for classifiers: a tagger reads all of a long "
                "text, in windows; leave it out"
            )
        return super().choose_truncation(config)

    def read_labels(self, train: Dataset) -> dict[str, Any]:
        """Return the tags, of entities both B- and I- of each kind, and how words are joined."""
        tags = set(chain.from_iterable(train.labels))
        is_spaced = all(
            text == join_words([text[a:b] for a, b in words])[0]
            for text, words in zip(train.texts, train.words, strict=True)
        )
        if marks_entities(tags):
            kinds = sorted({split_tag(tag)[1] for tag in tags} - {""})
            tags = {OUTSIDE, *(f"{letter}-{kind}" for kind in kinds for letter in "BI")}
        if len(tags) < 2:
            (only,) = tags
            raise WarmstartError(
                f"{train.file}: every word to train on has the tag '{only}'; a tagger needs at "
                "least two tags"
            )
        return {"classes": sorted(tags), "spaced": is_spaced}

    def targets(self, data: Dataset, labels: Labels) -> list[Any]:
        known = set(labels["classes"])
        if marks_entities(known):
            known = {OUTSIDE, *(f"{letter}-{split_tag(t)[1]}" for t in known for letter in "BI")}
        for tags, line in zip(data.labels, data.lines, strict=True):
            if not known.issuperset(tags):
                unknown = next(tag for tag in tags if tag not in known)
                raise WarmstartError(
                    f"{data.file} line {line}: the tag '{unknown}' in this sentence is not in the "
                    f"training data, which has {', '.join(labels['classes'])}"
                )
        return [list(tags) for tags in data.labels]

    def label_notes(self, train: Dataset, valid: Dataset) -> list[str]:
        counts, present = count_tags(train.labels), count_tags(valid.labels)
        missing = sorted(counts.keys() - present.keys())
        names = ", ".join(f"'{name}'" for name in missing)
        return [f"{valid.file}: nothing tagged {names} to validate on"] if missing else []

    def describe_data(self, targets: Sequence[Any], labels: Labels) -> str:
        counts = self.class_counts(targets, labels)
        return ", ".join(f"{name} {count:,}" for name, count in counts.items())

    def class_counts(self, targets: Sequence[Any], labels: Labels) -> dict[str, int]:
        counts = Counter(chain.from_iterable(targets))
        return {name: counts[name] for name in labels["classes"]}

    def encode(
        self, data: Dataset, tokenizer: Tokenizer, model: ModelConfig, rule: Truncate
    ) -> tuple[Dataset, str]:
        """Return texts with all of their ids, and which of these stand for each word."""
        start, eos, encoded = tokenizer.start, tokenizer.eos, tokenizer.encode(data.texts)
        rows = zip(data.texts, data.words, encoded, strict=True)
        word_tokens = [
            [
                (len(start) + first, len(start) + last)
                for first, last in tokens_of_words(words, find_spans(tokenizer, text, ids), model)
            ]
            for text, words, ids in rows
        ]
        ids = [[*start, *of_text, eos] for of_text in encoded]
        num_long = sum(len(row) > model.max_length for row in ids)
        sizes = f"{quantity(len(ids), 'text')} in {data.file}"
        sentence = f"all {sizes} fit into {model.max_length:,} tokens"
        if num_long:
            sentence = (
                f"{num_long:,} of {sizes} are longer than {model.max_length:,} tokens and are "
                "read in windows that overlap"
            )
        return (
            replace(data, ids=ids, word_tokens=word_tokens, is_truncated=[False] * len(ids)),
            sentence,
        )

    def training_rows(self, train: Dataset, labels: Labels, max_length: int) -> Dataset:
        """Return windows of the texts, with a target for each token that stands for a word."""
        numbers = {name: number for number, name in enumerate(labels["classes"])}
        ids, targets = [], []
        for of_text, word_tokens, tags in zip(
            train.ids, train.word_tokens, train.targets, strict=True
        ):
            for row, decided in windows(of_text, word_tokens, max_length):
                of_row = [IGNORE] * len(row)
                for word, first, last in reversed(decided):  # words may share a token
                    of_row[first:last] = [numbers[tags[word]]] * (last - first)
                ids.append(row)
                targets.append(of_row)
        return Dataset(train.file, ids=ids, targets=targets)

    def new_model(self, model: ModelConfig, labels: Labels, tuning: Tuning) -> nn.Module:
        if "classes" not in labels:
            raise WarmstartError("config.json has no 'classes'")
        return TokenClassifier(model, len(labels["classes"]), tuning.classifier_dropout)

    def planned_model(self, job: TrainingJob) -> nn.Module:
        return TokenClassifier(job.model, job.labels, Tuning.classifier_dropout)

    def planned_objective(self, job: TrainingJob, device: torch.device) -> Objective:
        return TagObjective()

    def random_batch(self, job: TrainingJob, rows: int, generator: torch.Generator) -> Any:
        texts = job.random_ids(rows, job.length, generator).tolist()
        targets = [[token % job.labels for token in ids] for ids in texts]
        return pad_texts(texts, targets, range(rows), pad=0)

    def objective(self, fit: Fit) -> Objective:
        if fit.tuning.balance == "weights":
            raise WarmstartError("--balance weights is for classifiers: a tagger counts every word")
        return TagObjective()

    def outputs(self, model: nn.Module, texts: Dataset, batches: TextBatches) -> Outputs:
        rows = WordRows(texts, cast(TokenClassifier, model).config.max_length)
        return rows.gather(row_outputs(model, rows, batches))

    def scores(self, outputs: Outputs, targets: Sequence[Any], labels: Labels) -> dict[str, float]:
        numbers = {name: number for number, name in enumerate(labels["classes"])}
        shares = [
            of_words[word, numbers[tag]]
            for of_words, tags in zip(outputs, targets, strict=True)
            for word, tag in enumerate(tags)
            if tag in numbers
        ]
        loss = float(-np.log(np.maximum(shares, LEAST)).mean()) if shares else 0.0
        return {"loss": loss, **self.answer_scores(self.answers(outputs, labels), targets)}

    def summary(self, scores: Mapping[str, float]) -> str:
        accuracy = f"accuracy {scores['accuracy']:.1%} per word"
        return (
            f"entity F1 {scores['entity_f1']:.1%}, {accuracy}"
            if "entity_f1" in scores
            else accuracy
        )

    def metric(self, labels: Labels) -> str:
        return "entity_f1" if marks_entities(labels["classes"]) else "accuracy"

    def metric_name(self, labels: Labels) -> str:
        return "entity F1" if marks_entities(labels["classes"]) else "accuracy per word"

    def selection_score(self, scores: Mapping[str, float], tuning: Tuning) -> float:
        return scores.get("entity_f1", scores["accuracy"])

    def answers(self, outputs: Outputs, labels: Labels) -> list[Any]:
        """Return the tags of every text; tags of entities are the best legal sequence."""
        return [tags for tags, _ in self.predictions(outputs, labels)]

    def predictions(self, outputs: Outputs, labels: Labels) -> list[Any]:
        """Return the tags of every text, B- I- and O for entities, and their probabilities."""
        names = labels["classes"]
        if marks_entities(names):
            logs = [np.log(np.maximum(of_words, LEAST)) for of_words in outputs]
            paths = best_paths(logs, Transitions.of(names))
        else:
            paths = [of_words.argmax(1).tolist() for of_words in outputs]
        return [
            (
                _as_bio([names[number] for number in path]),
                of_words[range(len(path)), path].tolist(),
            )
            for path, of_words in zip(paths, outputs, strict=True)
        ]

    def text_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> NDArray[np.float64]:
        values = f1_values if marks_entities(_all_tags(targets)) else accuracy_values
        return values(answers, targets)

    def answer_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> dict[str, float]:
        scores = {"accuracy": float(accuracy_values(answers, targets).mean())}
        if marks_entities(_all_tags(targets)):
            scores["entity_f1"] = entity_scores(answers, targets)[""].f1
        return scores

    def test_scores(
        self, outputs: Outputs, targets: Sequence[Any], labels: Labels
    ) -> dict[str, Any]:
        answers = self.answers(outputs, labels)
        values = {"accuracy": accuracy_values(answers, targets)}
        scores: dict[str, Any] = {"words": sum(map(len, targets))}
        scores |= self.answer_scores(answers, targets)
        if marks_entities(labels["classes"]):
            values["entity_f1"] = f1_values(answers, targets)
            by_kind = {kind: asdict(of) for kind, of in entity_scores(answers, targets).items()}
            every = by_kind.pop("")
            scores |= {f"entity_{name}": every[name] for name in ("precision", "recall", "f1")}
            scores["kinds"] = by_kind
        intervals = {name: asdict(accuracy_interval(of_texts)) for name, of_texts in values.items()}
        return {**scores, "intervals": intervals}

    def is_answer(self, answer: Any, target: Any, labels: Labels) -> bool:
        tags = labels["classes"]
        return (
            isinstance(answer, list)
            and len(answer) == len(target)
            and all(isinstance(tag, str) and tag in tags for tag in answer)
        )

    def chance(self, targets: Sequence[Any]) -> float:
        tags = Counter(chain.from_iterable(targets))
        most = max(tags, key=lambda tag: tags[tag], default=OUTSIDE)
        constant = [[most] * len(of_text) for of_text in targets]
        return float(self.text_scores(constant, targets).mean())

    def describe_answer(self, answer: Any, labels: Labels) -> str:
        """Write entities with the numbers of their words, or the plain tags."""
        if not marks_entities(answer):
            return " ".join(answer)
        spans = [(first + 1, last, kind) for first, last, kind in entity_spans(answer)]
        words = (f"{a}" if a == b else f"{a}–{b}" for a, b, _ in spans)
        named = (f"{kind}: {where}" for (_, _, kind), where in zip(spans, words, strict=True))
        return ", ".join(named) or "nothing"

    def baselines(
        self,
        labels: Labels,
        tuning: Tuning,
        spaces: Mapping[str, LatentSpace],
        unlabelled: Iterable[str],
    ) -> Iterator[Baseline]:
        from warmstart.tasks.word_features import WordFeatureBaseline  # is a tagger too

        yield WordFeatureBaseline(labels["classes"], unlabelled)

    def training(self, model: nn.Module, fit: Fit) -> Training:
        """Return objective, batches and validation; a frozen backbone reads each text once."""
        tagger = cast(TokenClassifier, model)
        if any(p.requires_grad for p in tagger.backbone.parameters()):
            return super().training(model, fit)
        valid = FrozenRows(tagger, WordRows(fit.valid, tagger.config.max_length), fit)

        def evaluate() -> Evaluation:
            return self.validate_epoch(model, valid.outputs(), fit)

        stream = FrozenStream(fit.stream(), tagger, fit)
        return Training(self.objective(fit), stream, evaluate)

    def open(self, run: SavedRun, runtime: Runtime) -> Tagger:
        model = self.load_model(run)
        tuning = run.recorded(Tuning, "micro_tokens")
        batches = TextBatches(tuning.micro_tokens, run.tokenizer.pad, runtime)

        def tag(texts: Dataset) -> list[tuple[list[str], list[float]]]:
            encoded, _ = self.encode(texts, run.tokenizer, run.model, self.truncate)
            outputs = require_finite(self.outputs(model, encoded, batches), run.path)
            return self.predictions(outputs, run.config)

        return Tagger(
            name=str(run.path),
            description=run.model.mark(self.description),
            model=model,
            tokenizer=run.tokenizer,
            runtime=runtime,
            reads_pairs=False,
            classes=run.classes,
            tag=tag,
            is_spaced=bool(run.config.get("spaced", False)),
        )


def _as_bio(tags: Sequence[str]) -> list[str]:
    """Return tags as answers have them: B-, I- and O for entities."""
    return to_bio(tags)[0] if marks_entities(tags) else list(tags)


def _all_tags(texts: Sequence[Sequence[str]]) -> set[str]:
    return set(chain.from_iterable(texts))
