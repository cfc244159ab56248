"""Recorded gradients equal those of the plain path, on whatever device there is."""

import gc
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from warmstart.batching.batches import (
    EncodedPairs,
    LabelledStream,
    MaskedBatch,
    PairStream,
    TokenLists,
)
from warmstart.kernels.graphs import MAX_RECORDINGS, RecordedGradients
from warmstart.kernels.loss import IGNORE
from warmstart.model.models import Classifier, LanguageModel, Translator
from warmstart.runtime import Runtime
from warmstart.seeds import derive_seed
from warmstart.settings.model import PRESETS
from warmstart.settings.shared import Pooling
from warmstart.tasks.classify import ClassifyObjective
from warmstart.tasks.masked import MaskedObjective
from warmstart.tasks.translate import TranslateObjective
from warmstart.training.defaults import compile_blocks
from warmstart.training.step import RecordedObjective, add_gradients

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RUNTIME = Runtime(DEVICE)


def _classifier(pooling: Pooling, dropout: float) -> Classifier:
    torch.manual_seed(3)
    shape = replace(PRESETS["mini"], vocab_size=60, width=32, ffn_width=48, dropout=dropout)
    return Classifier(shape, 3, pooling, dropout).to(DEVICE)


def _stream(micro_tokens: int) -> LabelledStream:
    texts = [[1, *([5 + row % 40] * (row % 30 + 1)), 2] for row in range(50)]
    targets = [row % 3 for row in range(50)]
    return LabelledStream(texts, targets, 8, micro_tokens, 0, seed=0, length_multiple=8)


@pytest.mark.parametrize(
    ("pooling", "dropout", "micro_tokens"),
    [
        ("mean", 0.3, 60),
        ("mean", 0.0, 1000),
        ("last", 0.3, 1000),
        ("last", 0.0, 60),
        ("cls", 0.3, 60),
    ],
)
def test_recorded_gradients_are_those_of_the_plain_path(
    pooling: Pooling, dropout: float, micro_tokens: int
) -> None:
    plain, recorded = (_classifier(pooling, dropout) for _ in range(2))
    objective = ClassifyObjective(torch.tensor([1.0, 2.0, 0.5], device=DEVICE))
    recording = RecordedObjective(recorded, objective, RUNTIME)
    stream = _stream(micro_tokens)
    for step in range(2 * stream.steps_per_epoch):  # every shape is computed, recorded, replayed
        losses = []
        for model in (plain, recorded):
            torch.manual_seed(derive_seed(0, "step", step))
            group = stream.group(step)
            if model is plain:
                losses.append(add_gradients(model, objective, group, RUNTIME))
            else:
                losses.append(recording.add_gradients(group))
        assert_close(losses[0], losses[1], rtol=1e-6, atol=1e-6)
        for ours, theirs in zip(plain.parameters(), recorded.parameters(), strict=True):
            assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-6)
            ours.grad = theirs.grad = None


def _masked_batches(num: int) -> list[MaskedBatch]:
    """Return batches of one shape that have several documents in a row, or one, in turns."""
    generator = torch.Generator().manual_seed(0)
    batches = []
    for number in range(num):
        ids = torch.randint(3, 60, (4, 16), generator=generator)
        places = torch.rand(4, 16, generator=generator).argsort(1)[:, :5]
        targets = ids.gather(1, places)
        targets[0, 3:] = IGNORE
        layout: list[torch.Tensor | None] = [None] * 4
        if number % 2:
            documents = (torch.arange(16) >= 3 + number).long().expand(4, -1)
            layout = [None, documents, torch.arange(16).expand(4, -1) - documents * 3, None]
        batches.append(MaskedBatch(ids, places, targets, None, *layout))
    return batches


def test_recorded_pretraining_has_the_gradients_of_the_plain_path() -> None:
    shape = replace(PRESETS["mini"], vocab_size=60, width=32, ffn_width=48, dropout=0.2)
    shape = replace(shape, attention="bidirectional")
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(LanguageModel(shape).to(DEVICE))
    plain, recorded = models
    objective = MaskedObjective()
    recording = RecordedObjective(recorded, objective, RUNTIME)
    for step, batch in enumerate(_masked_batches(8)):  # computed, recorded, replayed
        torch.manual_seed(step)
        expected = add_gradients(plain, objective, [batch], RUNTIME)
        torch.manual_seed(step)
        assert_close(recording.add_gradients([batch]), expected, rtol=1e-6, atol=1e-6)
        for ours, theirs in zip(plain.parameters(), recorded.parameters(), strict=True):
            assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("consistency", [0.0, 5.0])
def test_recorded_translators_have_the_gradients_of_the_plain_path(consistency: float) -> None:
    shape = replace(PRESETS["translator-small"], vocab_size=60, width=32, heads=2, ffn_width=48)
    shape = replace(shape, depth=1, decoder_depth=1, dropout=0.0)
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(Translator(shape).to(DEVICE))
    plain, recorded = models
    objective = TranslateObjective(0.1, consistency)
    recording = RecordedObjective(recorded, objective, RUNTIME)
    rows = [[1, *([5 + row] * (row % 19 + 1)), 2] for row in range(40)]
    pairs = EncodedPairs(TokenLists(rows), TokenLists(rows[::-1]))
    streams = [PairStream(pairs, 200, 10**6, 0, 0, 3, is_rounded=r) for r in (False, True)]
    for step in range(3 * streams[0].steps_per_epoch):  # every shape is replayed
        expected = add_gradients(plain, objective, streams[0].group(step), RUNTIME)
        found = recording.add_gradients(streams[1].group(step))
        assert_close(found, expected, rtol=1e-5, atol=1e-5)
        for ours, theirs in zip(plain.parameters(), recorded.parameters(), strict=True):
            assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)
            ours.grad = theirs.grad = None


def test_rare_shapes_are_computed_without_end() -> None:
    weight = torch.nn.Parameter(torch.ones((), device=DEVICE))
    gradients = RecordedGradients([weight], lambda x: (weight * x).sum())
    for size in (*range(1, MAX_RECORDINGS + 9), 3, MAX_RECORDINGS + 5):
        loss = gradients(torch.ones(size, device=DEVICE))
        assert float(loss) == size
        assert weight.grad is not None
        assert float(weight.grad) == size


def test_garbage_that_holds_a_recording_does_not_break_the_next_one() -> None:
    def recorded() -> list[object]:
        weight = torch.nn.Parameter(torch.ones((), device=DEVICE))
        gradients = RecordedGradients([weight], lambda x: (weight * x).sum())
        for _ in range(3):
            assert float(gradients(torch.ones(4, device=DEVICE))) == 4
        holder: list[object] = [gradients]
        holder.append(holder)  # only a collection frees it
        return holder

    before = gc.get_threshold()
    gc.set_threshold(1)  # collect all the time
    try:
        for _ in range(5):
            recorded()
    finally:
        gc.set_threshold(*before)
    assert gc.isenabled()


def test_blocks_are_compiled_once_for_all_models_and_shapes() -> None:
    graphs = []

    def compile_nothing(graph, inputs):
        graphs.append(graph)
        return graph.forward

    objective, stream = ClassifyObjective(torch.ones(3, device=DEVICE)), _stream(1000)
    for _ in range(2):
        plain, compiled = (_classifier("mean", 0.0) for _ in range(2))
        compile_blocks(compiled.backbone, compile_nothing)
        assert plain.state_dict().keys() == compiled.state_dict().keys()
        for step in range(4):
            losses = [
                add_gradients(model, objective, stream.group(step), RUNTIME)
                for model in (plain, compiled)
            ]
            assert_close(*losses)
            for own, other in zip(plain.parameters(), compiled.parameters(), strict=True):
                assert_close(own.grad, other.grad)
    assert len(graphs) == 1
