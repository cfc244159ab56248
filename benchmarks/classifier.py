"""A classifier on a CPU, fine-tuned and in use: warmstart against a BERT of `transformers`.

Both have one shape and random weights, and read the same token ids. The peer is trained by the
plain loop of its documentation: AdamW, batches of 16 padded to their longest text, fp32. It
predicts batches of 32 sorted by length. Ours runs as `finetune` and `predict` do by default.
Needs `transformers`, which the dev extra installs.

    python benchmarks/classifier.py
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from measuring import Ratio, add_json_option, in_turns, report

from warmstart.data.labelled import Dataset
from warmstart.model.models import Classifier
from warmstart.runtime import choose_runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import Tuning
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.finetuning import Fit
from warmstart.tasks.fitting import build_trainer
from warmstart.tasks.vectors import TextBatches, text_outputs

SHAPE = ModelConfig(
    vocab_size=8000,
    width=256,
    depth=4,
    heads=4,
    ffn_width=1024,
    max_length=256,
    attention="bidirectional",
    positions="learned",
    activation="gelu",
    embedding_norm=True,
    scale_embedding=False,
    segments=2,
    pooler=True,
)
PAD, RATE = 1, 1e-4
LENGTHS = {"short": (5, 30), "long": (60, 256)}  # tokens of a text, from and to
Texts = list[list[int]]


def draw_texts(num: int, kind: str) -> Texts:
    """Return random ids of texts."""
    draw = torch.Generator().manual_seed(0)
    low, high = LENGTHS[kind]
    lengths = torch.randint(low, high, (num,), generator=draw).tolist()
    return [torch.randint(5, SHAPE.vocab_size, (n,), generator=draw).tolist() for n in lengths]


def their_model() -> Any:
    """Return the same shape as `transformers` has it."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=SHAPE.vocab_size,
            hidden_size=SHAPE.width,
            num_hidden_layers=SHAPE.depth,
            num_attention_heads=SHAPE.heads,
            intermediate_size=SHAPE.ffn_width,
            max_position_embeddings=SHAPE.max_length,
        )
    )


def padded_batch(texts: Texts) -> dict[str, torch.Tensor]:
    """Return ids padded to the longest, and which are tokens."""
    longest = max(map(len, texts))
    ids = torch.tensor([text + [PAD] * (longest - len(text)) for text in texts])
    lengths = torch.tensor([[len(text)] for text in texts])
    return {"input_ids": ids, "attention_mask": (torch.arange(longest) < lengths).long()}


def their_training(texts: Texts) -> Callable[[], float]:
    """Return a function that trains one epoch and returns its rate in texts a second."""
    model = their_model().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)

    def train() -> float:
        began, order = time.perf_counter(), torch.randperm(len(texts)).tolist()
        for start in range(0, len(order), 16):
            rows = order[start : start + 16]
            labels = torch.tensor([row % 2 for row in rows])
            model(**padded_batch([texts[row] for row in rows]), labels=labels).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return len(texts) / (time.perf_counter() - began)

    return train


def our_training(texts: Texts) -> Callable[[], float]:
    """Return the same of ours: the training that `finetune` runs, in memory."""
    runtime, task = choose_runtime("cpu"), ClassifyTask()
    train = Dataset(ids=texts, targets=[row % 2 for row in range(len(texts))])
    valid = train.subset(range(2))
    labels = {"classes": ["a", "b"]}

    def run() -> float:
        model = Classifier(SHAPE, 2, "mean", 0.1)
        fit = Fit(train, valid, labels, Tuning(epochs=1), RATE, 1.0, 0, PAD, runtime)
        trainer = build_trainer(task, model, fit)
        began = time.perf_counter()
        trainer.train("training")
        return len(texts) / (time.perf_counter() - began)

    return run


def their_prediction(texts: Texts) -> Callable[[], float]:
    """Return a function that predicts every text and returns its rate."""
    model = their_model().eval()

    @torch.inference_mode()
    def predict() -> float:
        began, ordered = time.perf_counter(), sorted(texts, key=len)
        for start in range(0, len(ordered), 32):
            model(**padded_batch(ordered[start : start + 32])).logits.softmax(-1)
        return len(texts) / (time.perf_counter() - began)

    return predict


def our_prediction(texts: Texts) -> Callable[[], float]:
    """Return the same of ours."""
    model = Classifier(SHAPE, 2, "mean").eval()
    batches = TextBatches(Tuning.micro_tokens, PAD, choose_runtime("cpu"))

    def predict() -> float:
        began = time.perf_counter()
        text_outputs(model, texts, batches).softmax(-1)
        return len(texts) / (time.perf_counter() - began)

    return predict


def main() -> None:
    """Measure both kinds of work on both kinds of text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=256, help="to train on; thrice to predict")
    parser.add_argument("--rounds", type=int, default=5)
    add_json_option(parser)
    given = parser.parse_args()
    runtime = choose_runtime("cpu")
    print(
        f"{torch.get_num_threads()} threads, ours in {runtime.dtype or torch.float32}", flush=True
    )
    ratios = []
    for kind in LENGTHS:
        for work, num, ours, theirs in (
            ("fine-tuning", given.texts, our_training, their_training),
            ("prediction", 3 * given.texts, our_prediction, their_prediction),
        ):
            texts = draw_texts(num, kind)
            rounds = in_turns(ours(texts), theirs(texts), given.rounds)
            name = f"{work}, {kind} texts"
            ratios.append(Ratio.of(name, "texts/s", "transformers BERT, fp32", rounds))
    report(ratios, given.json)


if __name__ == "__main__":
    main()
