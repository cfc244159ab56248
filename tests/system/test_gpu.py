"""What must hold on a CUDA device too; run there by hand, skipped elsewhere."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import warmstart
from faulty_training import (
    Fault,
    put_faults,
    spoil_moment,
    spoil_recorded_gradient,
    spoil_recorded_loss,
)
from one_sample import sample
from warmstart.batching.batches import EncodedPairs, TokenLists, move, pad_pairs
from warmstart.batching.packing import PackedStream, RunningText
from warmstart.decoding.beam import SpecialIds
from warmstart.decoding.engines import (
    Begin,
    plain_engine,
    plain_steps,
    recorded_engine,
    recorded_steps,
    translate_ids,
)
from warmstart.kernels.loss import IGNORE, softmax_loss_cpu_
from warmstart.model.models import LanguageModel, Translator
from warmstart.runtime import Runtime, builds_kernels
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.settings.model import PRESETS
from warmstart.settings.using import Beam
from warmstart.tasks.causal import CausalObjective
from warmstart.tasks.translate import TranslateObjective
from warmstart.training.defaults import compile_backbone
from warmstart.training.step import RecordedObjective, add_gradients
from warmstart.training.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
CPU, GPU = torch.device("cpu"), torch.device("cuda")


def _packed() -> list:
    ids = (torch.arange(4000) % 37 + 5).numpy()
    ids[::50], ids[49::50] = 0, 2
    return PackedStream(RunningText(ids, 32, bos=0, eos=2), 8, 8, seed=0).group(0)


def test_the_loss_and_its_gradients_agree_with_the_cpu() -> None:
    shape = replace(PRESETS["tiny"], vocab_size=50, max_length=32)
    found = {}
    for device in (CPU, GPU):
        torch.manual_seed(0)
        model = LanguageModel(shape).to(device).double()
        loss = CausalObjective()(model, move(_packed()[0], device))["lm"]
        loss.backward()
        grads = {name: p.grad.cpu() for name, p in model.named_parameters()}
        found[device.type] = (loss.detach().cpu(), grads)
    assert_close(found["cpu"][0], found["cuda"][0], rtol=1e-9, atol=1e-9)
    for name, grad in found["cpu"][1].items():
        assert_close(grad, found["cuda"][1][name], rtol=1e-7, atol=1e-9)


def _translator() -> tuple[Translator, EncodedPairs]:
    torch.manual_seed(1)
    model = Translator(replace(PRESETS["translator-small"], vocab_size=60, width=64, ffn_width=96))
    rows = [[0, *range(5, 5 + n), 2] for n in (3, 9, 17, 30, 5, 12, 1)]
    return model.double().eval(), EncodedPairs(TokenLists(rows), TokenLists(rows[::-1]))


def test_label_smoothing_ignores_padding_as_on_the_cpu() -> None:
    model, pairs = _translator()
    batch = pad_pairs(pairs, range(len(pairs)), pad=1, target_pad=1)
    expected = TranslateObjective(0.1)(model, batch)["translate"]
    found = TranslateObjective(0.1)(model.to(GPU), move(batch, GPU))["translate"]
    assert_close(found.cpu(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("size", "padding"), [(7, 0), (300, 20), (5_001, 7), (9_000, 0)])
def test_the_loss_of_logits_equals_that_of_the_cpu(
    smoothing: float, size: int, padding: int
) -> None:
    from warmstart.kernels.softmax_loss import softmax_loss_gpu_

    torch.manual_seed(0)
    logits = 3 * torch.randn(11, size + padding, dtype=torch.float64)
    targets = torch.randint(0, size, (11,))
    targets[4] = IGNORE
    is_counted = targets != IGNORE
    expected_grads, grads = logits[is_counted, :size], logits.to(GPU)
    expected = softmax_loss_cpu_(expected_grads, targets[is_counted], smoothing, torch.float64)
    found = softmax_loss_gpu_(grads, size, targets.to(GPU), smoothing, torch.float64, IGNORE)
    assert_close(found[0].cpu(), expected[0], rtol=1e-12, atol=1e-12)
    assert int(found[1]) == int(expected[1])
    assert_close(grads.cpu()[is_counted, :size], expected_grads, rtol=1e-12, atol=1e-12)
    assert (grads.cpu()[~is_counted] == 0).all()
    assert (grads[:, size:] == 0).all()


@pytest.fixture
def no_triton(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide Triton, which torch for Windows does not bring."""
    for name in ("triton", "triton.runtime.driver", "warmstart.kernels.softmax_loss"):
        monkeypatch.setitem(sys.modules, name, None)
    builds_kernels.cache_clear()
    yield
    builds_kernels.cache_clear()


@pytest.mark.usefixtures("no_triton")
def test_a_gpu_without_triton_learns_the_same_and_records_its_steps() -> None:
    torch.manual_seed(0)
    model = LanguageModel(replace(PRESETS["tiny"], vocab_size=50, max_length=32)).double()
    objective, group = CausalObjective(), _packed()
    add_gradients(model, objective, group, Runtime(CPU))
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.to(GPU)
    compile_backbone(model.backbone)
    recorded = RecordedObjective(model, objective, Runtime(GPU))
    for _ in range(3):
        recorded.add_gradients(group)
    assert recorded.num_replayed == 1
    found = [parameter.grad.cpu() for parameter in model.parameters()]
    assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("width", [1, 4])
def test_translations_agree_with_the_cpu(width: int) -> None:
    model, pairs = _translator()
    sources = [pairs.sources[row].tolist() for row in range(len(pairs))]
    limits = [20] * len(sources)
    settings = (sources, limits, SpecialIds(0, 2, [0, 1]), Beam(beam=width))
    found = [
        translate_ids(kind(model.to(device), Runtime(device)), *settings)
        for kind, device in ((plain_engine, CPU), (plain_engine, GPU), (recorded_engine, GPU))
    ]
    ids = [[[one.ids for one in best] for best in each] for each in found]
    assert ids[0] == ids[1] == ids[2]


def test_generated_texts_agree_with_the_cpu() -> None:
    torch.manual_seed(0)
    shape = replace(PRESETS["modern-small"], vocab_size=500, attention="causal", max_length=200)
    model, special = LanguageModel(shape).double().eval(), SpecialIds(0, 500, [0, 1])

    def text(steps: Callable[[LanguageModel, Runtime], Begin], device: torch.device) -> list[int]:
        begin = steps(model.to(device), Runtime(device))
        return sample(begin(), [1, 5, 9], 150, special)

    with torch.inference_mode():
        texts = [text(plain_steps, CPU), text(plain_steps, GPU), text(recorded_steps, GPU)]
    assert texts[0] == texts[1] == texts[2]


def test_models_are_recorded_in_several_threads() -> None:
    shape = replace(PRESETS["tiny"], vocab_size=50, attention="causal")
    models = [LanguageModel(shape).double().eval().to(GPU) for _ in range(3)]
    special = SpecialIds(0, 50, [0, 1])

    @torch.inference_mode()
    def texts(model: LanguageModel) -> list[list[int]]:
        begin = recorded_steps(model, Runtime(GPU))
        return [sample(begin(), [1, 5, number], 40, special) for number in range(20)]

    alone = list(map(texts, models))
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(texts, models)) == alone


@pytest.mark.parametrize(("objective", "tolerance"), [("causal", 1e-3), ("masked", 2e-2)])
def test_a_resumed_run_sees_the_same_data_and_loss(
    tmp_path: Path, objective: str, tolerance: float
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(
        "".join(f"le livre numéro {n} est {'bon' if n % 3 else 'long'}\n" for n in range(800))
    )
    common = {
        "files": (str(text),),
        "objective": objective,
        "preset": "tiny",
        "vocab_size": 300,
        "batch_tokens": 512,
        "eval_every": 20,
        "log_every": 1,
        "device": "cuda",
        "compile": False,
    }
    warmstart.pretrain(out=str(tmp_path / "whole"), steps=40, **common)
    warmstart.pretrain(out=str(tmp_path / "parts"), steps=40, save_every=15, keep=9, **common)
    parts = tmp_path / "parts"
    for name in ("scores.json", "README.md"):
        (parts / name).unlink()
    for folder in (parts / "checkpoints").iterdir():
        if folder.name != "step-15":
            shutil.rmtree(folder)
    warmstart.pretrain(out=str(parts), steps=40, save_every=15, keep=9, resume=True, **common)
    losses = [
        [
            line["train_loss"]
            for line in map(json.loads, (tmp_path / run / "metrics.jsonl").read_text().splitlines())
            if "train_loss" in line
        ]
        for run in ("whole", "parts")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=tolerance)


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_compiled_and_recorded_steps_have_the_losses_of_plain_ones(
    tmp_path: Path, objective: str
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(
        "".join(f"le livre numéro {n} est {'bon' if n % 3 else 'long'}\n" * 3 for n in range(800))
    )
    losses = []
    for is_compiled in (True, False):
        out = tmp_path / f"{is_compiled}"
        warmstart.pretrain(
            files=(str(text),),
            out=str(out),
            objective=objective,
            preset="tiny",
            dropout=0.0,
            vocab_size=300,
            batch_tokens=512,
            steps=30,
            log_every=1,
            device="cuda",
            precision="fp32",
            compile=is_compiled,
        )
        lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        losses.append([line["train_loss"] for line in lines if "train_loss" in line])
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)
    assert losses[0][:5] == pytest.approx(losses[1][:5], rel=1e-3)


def test_a_comparison_of_compiled_models_scores_like_one_by_one(tmp_path: Path) -> None:
    files = write_samples(
        tmp_path / "samples", sizes=SampleSizes(unlabelled=400, train=64, test=64)
    )
    common = {"device": "cuda", "precision": "fp32"}
    base = str(tmp_path / "base")
    warmstart.pretrain(files=(str(files.unlabelled),), preset="mini", steps=50, out=base, **common)
    curves = []
    for compile in (True, False):
        compared = warmstart.compare(
            from_runs=(base,),
            train=(str(files.train),),
            test=str(files.test),
            labels=("64",),
            arms=("warm", "frozen"),
            seeds=(0,),
            trials=1,
            epochs=3,
            compile=compile,
            out=str(tmp_path / f"compiled-{compile}"),
            **common,
        )
        cells = compared.comparison.cells
        curves.append([epoch.valid_loss for cell in cells for epoch in cell.epochs])
    assert curves[0] == pytest.approx(curves[1], rel=0.02)


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_faults_in_compiled_and_recorded_steps_are_healed(
    tmp_path: Path, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(
        "".join(f"le livre numéro {n} est {'bon' if n % 3 else 'long'}\n" * 3 for n in range(800))
    )
    losses = []
    for faults in ({}, {12: spoil_recorded_loss, 25: spoil_recorded_gradient, 33: spoil_moment}):

        def build_faulty(*given: Any, faults: dict[int, Fault] = faults) -> Trainer:
            return put_faults(Trainer(*given), faults)

        monkeypatch.setattr("warmstart.recipes.pretrain.Trainer", build_faulty)
        out = tmp_path / f"{len(faults)}-faults"
        warmstart.pretrain(
            files=(str(text),),
            out=str(out),
            objective=objective,
            preset="tiny",
            vocab_size=300,
            batch_tokens=512,
            steps=40,
            log_every=10,
            eval_every=20,
            save_every=10,
            device="cuda",
            compile=True,
        )
        assert len(json.loads((out / "scores.json").read_text())["faults"]) == len(faults)
        lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        losses.append([line["train_loss"] for line in lines if "train_loss" in line])
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)
