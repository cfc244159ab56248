"""A public sentence model as other tools use it, on the labels that `compare` draws.

    pip install sentence-transformers setfit
    python benchmarks/neighbours.py hf-folder imdb/train.tsv imdb/test.tsv

- `vectors`: logistic regression (`LogisticRegressionCV`) on the vectors of `sentence-transformers`.
- `trainer`: the `Trainer` of `transformers`, with as many epochs as few labels need.
- `setfit`: SetFit by its defaults, which take long on a CPU.

The tables have the columns label and text, two classes or more. One line of JSON for each model.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.data.splits import nested_rows

EPOCHS = ((100, 40), (1_000, 10))  # of the Trainer, with at most so many labels
MORE_EPOCHS, RATE, BATCH = 3, 5e-5, 16
Labels = NDArray[np.int64]


class Neighbours:
    """The ways to use the public model, each of which labels the test texts."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.model, self.max_length = given.model, given.max_length
        names, self.texts = read(given.train)
        test_names, self.test_texts = read(given.test)
        self.classes = sorted(set(names))
        self.labels = np.array([self.classes.index(name) for name in names])
        self.truth = np.array([self.classes.index(name) for name in test_names])

    @cached_property
    def encoder(self) -> Any:
        from sentence_transformers import SentenceTransformer

        encoder = SentenceTransformer(self.model)
        encoder.max_seq_length = self.max_length
        return encoder

    @cached_property
    def test_vectors(self) -> Any:
        return self.encoder.encode(self.test_texts, batch_size=64)

    def vectors(self, rows: Sequence[int], seed: int) -> Labels:
        """Fit a logistic regression whose strength is chosen by cross-validation."""
        from sklearn.linear_model import LogisticRegressionCV

        vectors = self.encoder.encode([self.texts[row] for row in rows], batch_size=64)
        regression = LogisticRegressionCV(Cs=np.logspace(-3, 3, 13), cv=5, max_iter=2_000)
        return np.asarray(regression.fit(vectors, self.labels[rows]).predict(self.test_vectors))

    def trainer(self, rows: Sequence[int], seed: int) -> Labels:
        """Fine-tune all weights, with a warm-up and enough epochs."""
        import transformers as hf

        tokenizer = hf.AutoTokenizer.from_pretrained(self.model)
        torch.manual_seed(seed)
        model = hf.AutoModelForSequenceClassification.from_pretrained(
            self.model, num_labels=len(self.classes), dtype=torch.float32
        )

        def encode(texts: Sequence[str], labels: Labels) -> list[dict[str, Any]]:
            encoded = tokenizer(list(texts), truncation=True, max_length=self.max_length)
            ids, masks = encoded["input_ids"], encoded["attention_mask"]
            return [
                {"input_ids": i, "attention_mask": m, "labels": int(label)}
                for i, m, label in zip(ids, masks, labels, strict=True)
            ]

        epochs = next((epochs for most, epochs in EPOCHS if len(rows) <= most), MORE_EPOCHS)
        with tempfile.TemporaryDirectory() as folder:
            settings = hf.TrainingArguments(
                folder,
                seed=seed,
                num_train_epochs=epochs,
                learning_rate=RATE,
                warmup_steps=0.1,
                weight_decay=0.01,
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=64,
                bf16=torch.cuda.is_available(),
                save_strategy="no",
                logging_strategy="no",
                report_to=[],
                disable_tqdm=True,
            )
            trainer: Any = hf.Trainer(
                model,
                settings,
                train_dataset=encode([self.texts[row] for row in rows], self.labels[rows]),
                data_collator=hf.DataCollatorWithPadding(tokenizer),
            )
            trainer.train()
            logits = trainer.predict(encode(self.test_texts, self.truth)).predictions
        return np.asarray(logits).argmax(axis=1)

    def setfit(self, rows: Sequence[int], seed: int) -> Labels:
        """Fine-tune the encoder on pairs of texts, then fit a logistic regression."""
        import datasets
        import setfit

        model = setfit.SetFitModel.from_pretrained(self.model)
        model.model_body.max_seq_length = self.max_length
        texts = [self.texts[row] for row in rows]
        table = datasets.Dataset.from_dict({"text": texts, "label": self.labels[rows].tolist()})
        with tempfile.TemporaryDirectory() as folder:
            settings = setfit.TrainingArguments(
                output_dir=folder, seed=seed, report_to="none", show_progress_bar=False
            )
            setfit.Trainer(model=model, args=settings, train_dataset=table).train()
        return np.asarray(model.predict(self.test_texts), dtype=np.int64)


METHODS: tuple[str, ...] = ("vectors", "trainer", "setfit")


def read(file: str) -> tuple[list[str], list[str]]:
    """Return the labels and the texts of a table with a header."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t", 1) for line in lines]
    return [label for label, _ in rows], [text for _, text in rows]


def main() -> None:
    """Train with every method, number of labels and seed; print the accuracy of each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="folder of the model as its library saves it")
    parser.add_argument("train", help="table with the columns label and text")
    parser.add_argument("test", help="such a table to score on")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 1_000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--max-length", type=int, default=256, help="tokens of a text")
    given = parser.parse_args()
    neighbours = Neighbours(given)
    for method in given.methods:
        label: Callable[[Sequence[int], int], Labels] = getattr(neighbours, method)
        for labels in given.labels:
            for seed in given.seeds:
                began = time.perf_counter()
                rows = nested_rows(neighbours.labels.tolist(), seed)[:labels]
                accuracy = float((label(rows, seed) == neighbours.truth).mean())
                seconds = round(time.perf_counter() - began, 1)
                found = {"method": method, "labels": labels, "seed": seed, "accuracy": accuracy}
                print(json.dumps(found | {"seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
