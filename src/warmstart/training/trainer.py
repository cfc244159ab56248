"""The training loop: steps, validation, checkpoints, resume.

A stream gives the batches of a step, an objective their summed losses.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from warmstart import progress
from warmstart.batching.batches import Batch, split
from warmstart.errors import DivergedError, StoppedError, WarmstartError
from warmstart.processes import Processes, current, watch_connection
from warmstart.runs.checkpoint import (
    State,
    list_checkpoints,
    load_latest,
    optimizer_tensors,
    restore_optimizers,
    save_checkpoint,
    save_weights,
)
from warmstart.runs.facts import Length
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import is_out_of_memory
from warmstart.runtime import Runtime
from warmstart.seeds import derive_seed
from warmstart.signals import Interrupt, listening
from warmstart.training.distributed import (
    ShardedModel,
    shard_optimizers,
    shared_evaluation,
    start_together,
    sum_gradients,
    total_counts,
)
from warmstart.training.optimizers import Schedule, annealing, set_rates
from warmstart.training.record import Record
from warmstart.training.step import (
    Counts,
    Evaluation,
    LoopSettings,
    Objective,
    RecordedObjective,
    Stream,
    add_gradients,
    update_weights,
)


@dataclass
class Trainer:
    """Everything one training run needs."""

    model: nn.Module
    objective: Objective
    stream: Stream
    optimizers: dict[str, Optimizer]
    schedule: Callable[[int], Schedule]  # number of steps -> learning rates
    evaluate: Callable[[], Evaluation]
    settings: LoopSettings
    runtime: Runtime
    run: RunFolder | None = None  # where to save; None keeps everything in memory
    recorded: RecordedObjective | None = None  # None: the plain path
    state: State = field(default_factory=State)
    best_weights: dict[str, Tensor] = field(default_factory=dict)  # only without a run folder
    losses: list[Tensor] = field(default_factory=list)  # not yet in the state: read all at once
    processes: Processes = field(default_factory=current)  # that share the training
    sharded: ShardedModel | None = None  # what is trained in place of the model, if it is shared

    def train(self, title: str) -> State:
        """Run to the last step, from the newest checkpoint if there is one."""
        self.restore()
        steps = self.settings.steps
        if self.state.step:
            progress.say(f"continuing from step {self.state.step} of {steps}")
        record = Record(self.destination, self.state.step) if self.destination else None
        with (
            closing(record) if record else nullcontext(),
            listening() as interrupt,
            progress.bar(title, steps, "step", self.state.step) as bar,
            watch_connection(),
        ):
            self._loop(bar, record, interrupt)
        self.sharded = None
        self.model.to(self.runtime.device)
        return self.state

    def _loop(self, bar: progress.Bar, record: Record | None, interrupt: Interrupt) -> None:
        settings, state, rates = self.settings, self.state, self.rates()
        began, saved, note = time.monotonic() - state.elapsed_s, time.monotonic(), ""
        while not self.is_done:
            loss, norm = self.take_step(state.step, rates(state.step))
            state.step += 1
            state.elapsed_s = time.monotonic() - began
            self.losses.append(loss)
            if self.runtime.device.type == "cpu":
                self._check_finite(loss)
            is_last = state.step == settings.steps
            if state.step % settings.log_every == 0 or is_last:
                figures = self._figures(loss, norm)
                if record:
                    record.add(state.step, figures)
                note = f"loss {figures['train_loss']:.3f}"
            if state.step % settings.interval(settings.steps) == 0 or is_last:
                self._check_finite_weights(loss)
                evaluation = self._evaluate()
                state.elapsed_s = time.monotonic() - began
                if record:
                    record.add(state.step, evaluation.figures)
                note, is_last = evaluation.note, self.is_done
            bar.advance(1, note)
            # A signal that arrives from here on is for the next step: all processes must agree.
            overdue, signal_number = self.processes.largest(
                time.monotonic() - saved > settings.save_s, interrupt.signal_number or 0
            )
            if state.step % settings.save_every == 0 or is_last or overdue or signal_number:
                self._check_finite_weights(loss)
                if record:
                    record.sync()
                self._save()
                saved = time.monotonic()
            if signal_number and not (is_last and self.run):
                where = f", saved in {self.run.path}: continue with --resume" if self.run else ""
                raise StoppedError(f"stopped at step {state.step}{where}", signal_number)

    def take_step(self, step: int, rate: float) -> tuple[Tensor, Tensor]:
        """Take the step of this number at a share of the peak rate; return loss and norm."""
        trained = self.sharded or self.model
        if not trained.training:
            trained.train()  # goes through all modules
        set_rates(self.optimizers, step, rate)
        batches = self.stream.group(step, self.processes.share)
        counts = total_counts(self.objective.count(batches), self.runtime.device, self.processes)
        loss = self._add_gradients(step, batches, counts)
        if not self.sharded:
            sum_gradients(self.model, self.processes)
        self.processes.add_up(loss)
        norm = update_weights(trained, self.optimizers, self.settings.clip)
        return loss, self.sharded.gather(norm) if self.sharded else norm

    def _add_gradients(self, step: int, batches: Sequence[Batch], counts: Counts) -> Tensor:
        """Compute the gradients of this process, in twice as many parts when memory runs out."""
        seed = derive_seed(self.settings.seed, "step", step, *self.processes.seed_parts)
        before = self.state.num_parts
        while True:
            self.runtime.seed(seed)
            num_parts = self.state.num_parts
            group = [part for batch in batches for part in split(batch, num_parts)]
            try:
                if self.sharded:
                    spare = (group or self.stream.group(step, slice(1)))[0]
                    loss = self.sharded.add_gradients(group, counts, spare)
                elif self.recorded:
                    loss = self.recorded.add_gradients(group, counts)
                else:
                    loss = add_gradients(self.model, self.objective, group, self.runtime, counts)
                break
            except (MemoryError, RuntimeError) as fault:
                is_smallest = num_parts >= max((len(batch.ids) for batch in batches), default=1)
                # Processes that share the model go through the same parts: none takes smaller ones.
                if self.sharded or is_smallest or not is_out_of_memory(fault):
                    raise
            torch.cuda.empty_cache()  # outside of `except`: the fault holds on to its memory
            self.state.num_parts *= 2
        if self.state.num_parts > before:
            progress.say(f"out of memory: each batch is now computed in {num_parts} parts")
        return loss

    @property
    def destination(self) -> RunFolder | None:
        """Return the folder to write to; None: there is none, or another process writes."""
        return self.run if self.processes.is_lead else None

    def meet(self) -> None:
        """Check that all processes have the same code, data and step; share the weights."""
        assert self.run is not None
        start_together(self.model, self.run, self.state.step, self.processes)

    def rates(self) -> Schedule:
        """Return the learning rates, which fall to the new end if the number of steps changed."""
        first, *later = self.settings.lengths or (Length(from_step=0, steps=self.settings.steps),)
        schedule = self.schedule(first.steps)
        for length in later:
            schedule = annealing(schedule, length.from_step, length.steps)
        return schedule

    @property
    def is_done(self) -> bool:
        """Tell whether the last step is done, or patience has run out."""
        state, patience = self.state, self.settings.patience
        if state.step >= self.settings.steps or patience is None:
            return state.step >= self.settings.steps
        return sum(entry["step"] > state.best_step for entry in state.evaluations) >= patience

    def shard(self) -> None:
        """Divide the model among the processes, each of which trains a share from here on."""
        if self.processes.is_shared:
            self.model.cpu()
            self.sharded = ShardedModel(self.model, self.objective, self.runtime, self.processes)
            shard_optimizers(self.optimizers, self.model, self.sharded.model)

    def _check_finite(self, loss: Tensor) -> float:
        value = float(loss)
        if not math.isfinite(value):
            raise divergence_error(f"the loss became {value}", self.state.step, self.run)
        return value

    def _check_finite_weights(self, loss: Tensor) -> None:
        """Refuse to validate or save weights that are not finite; a finite loss can hide them."""
        self._check_finite(loss)
        if self.sharded:
            self.sharded.gather_into(self.model)
        is_finite = all(tensor.isfinite().all() for tensor in self.model.state_dict().values())
        if not self.processes.from_lead(is_finite):
            raise divergence_error("the weights became infinite or NaN", self.state.step, self.run)

    def _figures(self, loss: Tensor, norm: Tensor) -> dict[str, float]:
        rate = max(g["lr"] for o in self.optimizers.values() for g in o.param_groups)
        return {
            "train_loss": self._check_finite(loss),
            "gradient_norm": float(norm),
            "learning_rate": rate,
            "elapsed_s": round(self.state.elapsed_s, 3),
        }

    def _evaluate(self) -> Evaluation:
        self._settle_losses()
        evaluation = shared_evaluation(self.validate, self.processes)
        if not all(map(math.isfinite, (evaluation.score, *evaluation.figures.values()))):
            raise divergence_error(
                "a validation score became infinite or NaN", self.state.step, self.run
            )
        state = self.state
        state.add(evaluation.figures)
        is_better = evaluation.is_better_than(state.best_score, state.best_loss)
        if is_better or self.settings.keeps_last:
            state.best_score, state.best_loss = evaluation.score, evaluation.loss
            state.best_step = state.step
            weights = {**self.model.state_dict(), **evaluation.weights}
            if self.destination:
                save_weights(self.destination.weights_file, weights)
            elif not self.run:
                self.best_weights = {name: tensor.clone() for name, tensor in weights.items()}
        return evaluation

    def validate(self) -> Evaluation:
        """Validate in this process alone, with whole weights on its device."""
        self.model.eval()
        if not self.sharded:
            return self.evaluate()
        self.model.to(self.runtime.device)
        evaluation = self.evaluate()
        self.model.cpu()
        return evaluation

    def _settle_losses(self) -> None:
        if self.losses:
            self.state.loss_sum += float(torch.stack(self.losses).double().sum())
            self.state.loss_steps += len(self.losses)
            self.losses.clear()

    def _save(self) -> None:
        self._settle_losses()
        optimizer = optimizer_tensors(self.optimizers)
        if self.sharded:
            optimizer = self.sharded.gather_all(optimizer)
        if self.destination:
            keep = self.settings.keep
            save_checkpoint(self.destination, self.model, optimizer, self.state, keep)

    def restore(self) -> None:
        """Load the newest undamaged checkpoint of the run, if there is one."""
        if not self.run or self.state.step:
            return
        self.processes.gate("prepared")
        checkpoint, faults = load_latest(self.run)
        for fault in faults:
            progress.say(f"skipped a damaged checkpoint: {fault}")
        if checkpoint:
            try:
                self.model.load_state_dict(checkpoint.weights)
                restore_optimizers(self.optimizers, checkpoint.optimizer)
                self.state = checkpoint.state
            except (RuntimeError, ValueError, TypeError, KeyError) as fault:
                reason = str(fault).splitlines()[0]
                raise WarmstartError(f"{checkpoint.path} does not fit this run: {reason}") from None
        elif faults:
            progress.say("no undamaged checkpoint is left; starting again from step 0")


def divergence_error(symptom: str, step: int, run: RunFolder | None) -> DivergedError:
    """Return an error that says what to change, and where the last good weights are."""
    saved = list_checkpoints(run) if run else []
    if not saved and run and run.weights_file.exists():
        saved = [run.weights_file]
    where = f"; the last good weights are in {saved[-1]}" if saved else ""
    return DivergedError(
        f"{symptom} at step {step}: try a lower --learning-rate, a longer --warmup or "
        f"--precision fp32{where}"
    )
