"""A task with a target for each token, defined outside the package: words are tagged."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import warmstart
from command_line import MACHINE, World, succeed
from warmstart.batching.batches import cut_to_budget, pad_texts
from warmstart.data.labelled import Dataset
from warmstart.kernels.loss import IGNORE
from warmstart.model.backbone import Backbone, Layout
from warmstart.settings.model import ModelConfig
from warmstart.tasks.vectors import TextBatches
from warmstart.tokenization.words import word_table

TAGS = ["short", "long"]


@dataclass(frozen=True)
class Tags:
    """The tag of each token of one text."""

    label: str

    def columns(self) -> dict[str, str | float]:
        return {"label": self.label}


class Tagger(nn.Module):
    """A backbone that tags each token."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, self.backbone = config, Backbone(config)
        self.head = nn.Linear(config.width, len(TAGS))

    def forward(self, ids: Tensor, layout: Layout) -> Tensor:
        """Return logits (B, T, C)."""
        return self.head(self.backbone(ids, layout).to(self.head.weight.dtype))


class TagObjective:
    """Summed cross-entropy over tagged tokens."""

    def count(self, group: Sequence[Any]) -> dict[str, float]:
        return {"tag": sum(int((batch.targets != IGNORE).sum()) for batch in group)}

    def __call__(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        logits = model(batch.ids, Layout(is_token=batch.is_token)).flatten(0, 1)
        targets = batch.targets.flatten()
        loss = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
        return {"tag": loss}


class TagTask(warmstart.FinetuningTask):
    """Tell short words from long ones, at the first token of each."""

    name, description, hub_name = "tag", "a tagger", "token-classification"

    def read_labels(self, train: Dataset) -> dict[str, Any]:
        return {"tags": TAGS}

    def targets(self, data: Dataset, labels: Any) -> list[Any]:
        return [[int(len(word) > 4) for word in text.split()] for text in data.texts]

    def align(self, data: Dataset, tokenizer: Any) -> list[list[int]]:
        begins = word_table(tokenizer).begins
        rows = []
        for tags, ids in zip(data.targets, data.ids, strict=True):
            remaining = iter(tags)
            inner = [next(remaining, IGNORE) if begins[index] else IGNORE for index in ids[1:-1]]
            rows.append([IGNORE, *inner, IGNORE])
        return rows

    def new_model(self, model: ModelConfig, labels: Any, tuning: Any) -> nn.Module:
        return Tagger(model)

    def objective(self, fit: Any) -> TagObjective:
        return TagObjective()

    @torch.inference_mode()
    def outputs(self, model: nn.Module, texts: Dataset, batches: TextBatches) -> Any:
        tags = np.full((len(texts.ids), max(map(len, texts.ids))), IGNORE)
        for rows in cut_to_budget(range(len(texts.ids)), texts.ids, batches.micro_tokens):
            batch = pad_texts(texts.ids, [0] * len(texts.ids), rows, batches.pad)
            chosen = model(batch.ids, Layout(is_token=batch.is_token)).argmax(-1)
            tags[rows, : chosen.shape[1]] = torch.where(batch.is_token, chosen, IGNORE)
        return tags

    def scores(self, outputs: Any, targets: Any, labels: Any) -> dict[str, float]:
        rows = zip(outputs, targets, strict=True)
        chosen, truth = np.concatenate([row[: len(tags)] for row, tags in rows]), np.hstack(targets)
        return {"accuracy": float((chosen == truth)[truth != IGNORE].mean())}

    def predictions(self, outputs: Any, labels: Any) -> list[Tags]:
        return [Tags(" ".join(TAGS[tag] for tag in row if tag != IGNORE)) for row in outputs]


@pytest.fixture(scope="module")
def tagger(world: World, base: Path) -> Path:
    """Return a run of the toy task."""
    warmstart.register(TagTask())
    out = base.parent / "tagger"
    files = f"--train {world.train} --valid {world.valid}"
    options = f"--epochs 20 --keep-epoch best --learning-rate 0.03 {MACHINE}"
    succeed(f"finetune --task tag --from {base} {files} {options} -o {out}")
    return out


def test_tags_are_learned_and_scored(tagger: Path, world: World) -> None:
    scores = succeed(f"evaluate {tagger} --test {world.test} --json {MACHINE}").json
    assert scores["rows"] == 24
    assert scores["accuracy"] > 0.65  # about half of the words are short


def test_every_token_has_a_tag(tagger: Path) -> None:
    model = warmstart.load(tagger, threads=1, precision="fp32")
    texts = ["A fine book.", "Dull and long and dull."]
    sizes = [len(ids) for ids in model.encode(texts).ids]  # type: ignore[attr-defined]
    assert [len(tags.label.split()) for tags in model.predict(texts)] == sizes
