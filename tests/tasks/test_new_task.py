"""A new kind of training is one object; this toy task is defined and used from outside."""

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
from command_line import MACHINE, World, read, refuse, run, succeed
from warmstart.data.labelled import Dataset
from warmstart.model.backbone import Backbone, Layout
from warmstart.settings.model import ModelConfig
from warmstart.tasks.causal import CausalTask
from warmstart.tasks.text_model import Prediction
from warmstart.tasks.vectors import TextBatches, text_outputs

SIZES = ("short", "long")


class LengthModel(nn.Module):
    """A backbone with a head of its own, which also sees the number of tokens."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, self.backbone = config, Backbone(config)
        self.head = nn.Linear(config.width + 1, 1)

    def forward(self, ids: Tensor, layout: Layout) -> Tensor:
        """Return the log-odds (B, 1) that each text is long."""
        assert layout.is_token is not None
        num_tokens = layout.is_token.sum(1, keepdim=True)
        vectors = (self.backbone(ids, layout) * layout.is_token[..., None]).sum(1) / num_tokens
        return self.head(torch.cat([vectors, num_tokens / 10], 1).to(self.head.weight.dtype))


class LengthObjective:
    """Summed binary cross-entropy."""

    def count(self, group: Sequence[Any]) -> dict[str, float]:
        return {"length": sum(len(batch.ids) for batch in group)}

    def __call__(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        logits = model(batch.ids, Layout(is_token=batch.is_token))[:, 0]
        loss = F.binary_cross_entropy_with_logits(logits, batch.targets.float(), reduction="sum")
        return {"length": loss}


class LengthTask(warmstart.FinetuningTask):
    """Tell short texts from long ones; the labels in the file are ignored."""

    name, description, hub_name = "length", "a length classifier", "text-classification"

    def read_labels(self, train: Dataset) -> dict[str, Any]:
        return {"limit": float(np.median([len(text) for text in train.texts]))}

    def targets(self, data: Dataset, labels: Any) -> list[int]:
        return [int(len(text) > labels["limit"]) for text in data.texts]

    def new_model(self, model: ModelConfig, labels: Any, tuning: Any) -> nn.Module:
        return LengthModel(model)

    def objective(self, fit: Any) -> LengthObjective:
        return LengthObjective()

    def outputs(self, model: nn.Module, texts: Dataset, batches: TextBatches) -> Any:
        return torch.sigmoid(text_outputs(model, texts.ids, batches)[:, 0]).numpy()

    def scores(self, outputs: Any, targets: Any, labels: Any) -> dict[str, float]:
        return {"accuracy": float(((outputs > 0.5) == np.array(targets, bool)).mean())}

    def answers(self, outputs: Any, labels: Any) -> list[int]:
        return [int(output > 0.5) for output in outputs.tolist()]

    def describe_answer(self, answer: int, labels: Any) -> str:
        return SIZES[answer]

    def predictions(self, outputs: Any, labels: Any) -> list[Prediction]:
        return [
            Prediction(SIZES[int(p > 0.5)], max(p, 1 - p), {"short": 1 - p, "long": p})
            for p in outputs.tolist()
        ]


@pytest.fixture(scope="module")
def lengths(world: World, base: Path) -> Path:
    """Return a run of the toy task, warm-started through the public API."""
    warmstart.register(LengthTask())
    out = base.parent / "lengths"
    result = warmstart.finetune(
        task="length",
        from_run=str(base),
        train=str(world.train),
        valid=str(world.valid),
        out=str(out),
        frozen=True,
        max_length=96,
        epochs=40,
        keep_epoch="best",
        learning_rate=0.2,
        threads=1,
        precision="fp32",
    )
    assert result.valid["accuracy"] > 0.8  # the head has learned something
    assert result.summary == f"accuracy {result.valid['accuracy']:.3f}"
    return out


def test_the_run_records_its_task(lengths: Path) -> None:
    config = read(lengths / "config.json")
    assert config["task"] == "length"
    assert config["limit"] > 0


def test_it_predicts(lengths: Path, world: World) -> None:
    model = warmstart.load(lengths, threads=1, precision="fp32")
    texts = [line.split("\t")[1] for line in world.test.read_text().splitlines()[1:]]
    limit = read(lengths / "config.json")["limit"]
    right = [
        (prediction.label == "long") == (len(text) > limit)
        for prediction, text in zip(model.predict(texts), texts, strict=True)
    ]
    assert np.mean(right) > 0.65
    with pytest.raises(warmstart.WarmstartError, match="is a length classifier; to translate"):
        model.translate(texts)


def test_commands_use_it(lengths: Path, world: World) -> None:
    scored = succeed(f"evaluate {lengths} --test {world.test} --json {MACHINE}").json
    assert scored["rows"] == 24
    assert scored["accuracy"] > 0.65
    assert "0." in succeed(f"evaluate {lengths} --test {world.test} {MACHINE}").out  # as a table
    lines = succeed(f"predict {lengths} {MACHINE}", b"a\nb c\n").out.split()
    assert set(lines) <= set(SIZES)
    command = f"finetune --task lenght --train {world.train} --valid {world.valid} -o unused"
    assert "did you mean 'length'?" in run(command).said


COMPARE = f"--seeds 0,1 --trials 2 --epochs 2 --keep-epoch best {MACHINE}"


@pytest.mark.usefixtures("lengths")
@pytest.mark.parametrize("files", ["--valid {valid} --test {test} --labels 12,all", "--folds 2"])
def test_it_is_compared(files: str, world: World, base: Path, here: Path) -> None:
    command = f"compare --task length --from {base} --train {{train}} {files} {COMPARE}"
    ran = succeed(f"{command} --arms warm,frozen,cold -o out", **vars(world))
    result = read(here / "out/results.json")
    assert (result["task"], result["class_names"]) == ("length", [])
    assert ran.out.startswith("Use ")
    truth = result["splits"][-1]["classes"]
    scores = {(row["arm"], row["labels"]): row["scored"] for row in result["summary"]["scores"]}
    assert {arm for arm, _ in scores} == {"warm", "frozen", "cold"}
    for (arm, labels), score in scores.items():
        cells = [c for c in result["cells"] if (c["arm"], c["labels"]) == (arm, labels)]
        (split,) = {result["splits"][-1]["name"]}
        answers = np.array([cell["predictions"][split] for cell in cells])
        assert score["accuracy"] == pytest.approx((answers == truth).mean())
        assert score["f1"] is None
    page = (here / "out/report.html").read_text(encoding="utf-8")
    assert "Class balance" not in page
    assert '<td class="l">short</td>' in page or '<td class="l">long</td>' in page
    lines = succeed(f"predict out {MACHINE}", b"a\nb c\n").out.split()
    assert set(lines) <= set(SIZES)


class SilentTask(LengthTask):
    """A task that says nothing of its answers."""

    name, answers = "silent", warmstart.FinetuningTask.answers


@pytest.mark.usefixtures("lengths")
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            "--task length --arms warm,tfidf",
            "a length classifier has no baseline to compare with, or leave tfidf out",
        ),
        ("--task silent", "--task silent: a length classifier cannot be compared, only fine-tuned"),
        ("--task lenght", "did you mean 'length'?"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    options: str, complaint: str, world: World, base: Path, here: Path
) -> None:
    warmstart.register(SilentTask())
    assert complaint in refuse(f"compare {options} --from {base} --train {world.train} -o out")
    assert not (here / "out").exists()


@dataclass(frozen=True)
class Number:
    """A prediction without classes."""

    label: str


class NumberTask(LengthTask):
    """Every text has a label of its own, so there are no classes to take shares of."""

    name, has_classes = "number", False

    def predictions(self, outputs: Any, labels: Any) -> list[Any]:
        return [Number(f"{output:.3f}") for output in outputs.tolist()]


def test_labels_need_not_be_classes(base: Path, here: Path) -> None:
    warmstart.register(NumberTask())
    Path("numbers.tsv").write_text(
        "label\ttext\n"
        + "".join(f"{row / 7:.3f}\t{'a book ' * (row % 9)}number {row}\n" for row in range(60))
    )
    common = f"finetune --task number --from {base} --train numbers.tsv {MACHINE} --epochs 1"
    assert (
        "12 texts of 60 set aside to validate on, chosen by content"
        in succeed(f"{common} -o all").err
    )
    assert "16 texts to train on" in succeed(f"{common} --labels 20 -o few").err
    assert len(succeed(f"predict all {MACHINE}", b"a book\na\n").out.split()) == 2
    refused = run(f"predict all --threshold 0.9 {MACHINE}", b"a book\n")
    assert refused.code == 2
    assert "--threshold needs the probability of a class" in refused.said


class OtherCausalTask(CausalTask):
    """Causal in all but its name."""

    name, hub_class = "other", None


def test_pretraining_goes_on_with_the_objective_it_had(world: World, here: Path) -> None:
    warmstart.register(OtherCausalTask())
    text = f"pretrain {world.texts} --preset tiny --steps 2 {MACHINE}"
    succeed(f"{text} --objective other -o first")
    succeed(f"pretrain {world.texts} --from first --steps 2 {MACHINE} -o second")
    assert read(Path("second/config.json"))["task"] == "other"
