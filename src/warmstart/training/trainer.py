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
from warmstart.errors import (
    DamagedStateError,
    DivergedError,
    StoppedError,
    WarmstartError,
    is_out_of_memory,
)
from warmstart.formats import quantity
from warmstart.processes import Processes, current, watch_connection
from warmstart.runs.checkpoint import (
    State,
    are_finite,
    list_checkpoints,
    load_latest,
    optimizer_tensors,
    restore_optimizers,
    save_checkpoint,
    save_weights,
    step_of,
)
from warmstart.runs.facts import Length
from warmstart.runs.folder import RunFolder
from warmstart.runtime import Runtime
from warmstart.seeds import derive_seed
from warmstart.signals import Interrupt, listen
from warmstart.training.distributed import (
    ShardedModel,
    shard_optimizers,
    share_states,
    shared_evaluation,
    start_together,
    sum_gradients,
    total_counts,
)
from warmstart.training.loss_scale import LossScale
from warmstart.training.optimizers import Schedule, annealing, clip_gradients, set_rates
from warmstart.training.record import Record
from warmstart.training.step import (
    Counts,
    Evaluation,
    Latch,
    LoopSettings,
    Objective,
    RecordedObjective,
    Stream,
    add_gradients,
    step_optimizers,
)

MAX_REPEATS = 3  # of steps that were not finite, in one process; of one step: one less


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
    repeats: list[int] = field(default_factory=list)  # steps that this process took again

    def __post_init__(self) -> None:
        self.latch = Latch(self.runtime.device)
        is_fp16 = self.runtime.dtype == torch.float16
        self.loss_scale = LossScale(self.runtime.device) if is_fp16 else None
        self.looks_each_step = self.runtime.device.type == "cpu"  # a GPU would be waited for

    def train(self, title: str) -> State:
        """Run to the last step, from the newest checkpoint if there is one."""
        self.restore()
        while True:
            try:
                self._train(title)
                break
            except DamagedStateError as fault:
                self._return_to_checkpoint(fault)
        self.sharded = None
        self.model.to(self.runtime.device)
        if self.state.overflows:
            skipped = quantity(self.state.overflows, "step")
            progress.say(f"{skipped} changed nothing: a gradient was too large for fp16")
        return self.state

    def _train(self, title: str) -> None:
        """Run to the last step from where the state stands."""
        if self.state.step:
            progress.say(f"continuing from step {self.state.step} of {self.settings.steps}")
        run, track = self.destination, self.settings.track
        record = Record(run, self.state.step, track) if run else None
        with (
            closing(record) if record else nullcontext(),
            listen() as interrupt,
            progress.bar(title, self.settings.steps, "step", self.state.step) as bar,
            watch_connection(),
        ):
            self._loop(bar, record, interrupt)

    def _loop(self, bar: progress.Bar, record: Record | None, interrupt: Interrupt) -> None:
        settings, state, rates = self.settings, self.state, self.rates()
        began, saved, note = time.monotonic() - state.elapsed_s, time.monotonic(), ""
        shown = state.step
        while not self.is_done:
            loss, norm = self.take_step(state.step, rates(state.step))
            state.step += 1
            state.elapsed_s = time.monotonic() - began
            self.losses.append(loss)
            is_last = state.step == settings.steps
            is_logged = state.step % settings.log_every == 0 or is_last
            is_validated = state.step % settings.interval(settings.steps) == 0 or is_last
            is_looked_at = self.looks_each_step or is_logged or state.step in self.repeats
            if (is_looked_at or is_validated) and self._has_gone_back(is_validated):
                continue
            if is_logged:
                figures = self._figures(loss, norm)
                if record:
                    record.add(state.step, figures)
                note = f"loss {figures['train_loss']:.3f}"
            if is_validated:
                evaluation = self._evaluate()
                state.elapsed_s = time.monotonic() - began
                if record:
                    record.add(state.step, evaluation.figures)
                note, is_last = evaluation.note, self.is_done
            bar.advance(state.step - shown, note)
            shown = state.step
            # A signal that arrives from here on is for the next step: all processes must agree.
            overdue, signal_number = self.processes.largest(
                time.monotonic() - saved > settings.save_s, interrupt.signal_number or 0
            )
            if state.step % settings.save_every == 0 or is_last or overdue or signal_number:
                if self._has_gone_back(is_kept=True):
                    continue
                if record:
                    record.sync()
                self._save()
                saved = time.monotonic()
            if signal_number and not (is_last and self.run):
                where = f", saved in {self.run.path}: continue with --resume" if self.run else ""
                raise StoppedError(f"stopped at step {state.step}{where}", signal_number)

    def take_step(self, step: int, rate: float) -> tuple[Tensor, Tensor]:
        """Take the step of this number at a share of the peak rate; return loss and norm.

        If one of them is not finite, this step and those after it change nothing until the latch
        is opened.
        """
        trained = self.sharded or self.model
        if not trained.training:
            trained.train()  # goes through all modules
        set_rates(self.optimizers, step, rate)
        batches = self.stream.group(step, self.processes.share)
        counts = total_counts(self.objective.count(batches), self.runtime.device, self.processes)
        scale = self.loss_scale
        loss = self._add_gradients(step, batches, scale.divide(counts) if scale else counts)
        if not self.sharded:
            sum_gradients(self.model, self.processes)
        if scale:
            scale.unscale(trained)
            loss = loss / scale.value
        norm = clip_gradients(trained, self.settings.clip)
        norm = self.sharded.gather(norm) if self.sharded else norm
        sums = torch.stack([loss, norm.to(loss.dtype)])
        self.processes.add_up(sums)  # so that all processes skip the same steps
        step_optimizers(self.optimizers, self._enter(*sums))
        return sums[0], norm

    def _enter(self, loss: Tensor, norm: Tensor) -> Tensor:
        """Enter the figures of a step; return 1 if the step must be skipped, else 0."""
        if self.loss_scale:
            return self.loss_scale.enter(loss, norm, self.latch)
        return self.latch.enter(~(loss.isfinite() & norm.isfinite()))

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
                elif self.recorded and self.repeats.count(step + 1) < MAX_REPEATS - 1:
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

    def forget_steps(self) -> None:
        """Forget the steps that were only timed, and whether they were finite."""
        for optimizer in self.optimizers.values():
            optimizer.state.clear()
        self.latch.open()
        if self.loss_scale:
            self.loss_scale.restore(self.state)

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

    def _has_gone_back(self, is_kept: bool) -> bool:
        """Go back to the first step that was not finite, if there was one since the last look.

        Weights that are about to be judged or saved are checked, too: a finite loss can hide what
        is wrong with them.
        """
        num_skipped = self.latch.open()
        is_damaged = bool(num_skipped or is_kept) and not self._is_state_finite()
        if not num_skipped and not is_damaged:
            return False
        symptom = "the weights or the moments became infinite or NaN"
        if num_skipped:
            loss = float(self.losses[-num_skipped])
            symptom = f"the {'gradient' if math.isfinite(loss) else 'loss'} became infinite or NaN"
            del self.losses[-num_skipped:]
        self.state.step -= num_skipped or 1
        self._enter_fault(symptom, is_damaged)
        return True

    def _enter_fault(self, symptom: str, is_damaged: bool) -> None:
        """Count the next step as one to take again; raise an error if its weights are lost."""
        step = self.state.step + 1
        num = len(self.repeats)
        if num == MAX_REPEATS or self.repeats.count(step) == MAX_REPEATS - 1:
            raise DivergedError(f"{symptom} at step {step}, after {num} repeats: {_next(self.run)}")
        self.repeats.append(step)
        self.state.faults.append(step)
        if is_damaged:
            raise DamagedStateError(f"{symptom} at step {step}")
        progress.say(f"{symptom} at step {step}, which is taken again")

    def _is_state_finite(self) -> bool:
        """Tell whether weights and moments are finite in all processes."""
        trained = self.sharded.model if self.sharded else self.model
        tensors = [*trained.state_dict().values(), *optimizer_tensors(self.optimizers).values()]
        if self.sharded:
            tensors = list(map(self.sharded.own_share, tensors))
        (is_damaged,) = self.processes.largest(not are_finite(tensors))
        return not is_damaged

    def _return_to_checkpoint(self, fault: DamagedStateError) -> None:
        """Continue from the newest checkpoint, as a resume does; without one, raise the fault."""
        faults, self.state = self.state.faults, State()
        self.losses.clear()
        self.restore()
        if not self.state.step:
            raise DamagedStateError(f"{fault}, before the first checkpoint: {_next(self.run)}")
        self.state.faults = faults
        progress.say(f"{fault}: going back to the newest checkpoint")

    def _figures(self, loss: Tensor, norm: Tensor) -> dict[str, float]:
        rate = max(g["lr"] for o in self.optimizers.values() for g in o.param_groups)
        figures = {
            "train_loss": float(loss),
            "gradient_norm": float(norm),
            "learning_rate": rate,
            "elapsed_s": round(self.state.elapsed_s, 3),
        }
        if self.loss_scale:
            self.loss_scale.save_in(self.state)
            figures |= {"loss_scale": self.state.loss_scale, "overflows": self.state.overflows}
        return figures | ({"faults": len(self.state.faults)} if self.state.faults else {})

    def _evaluate(self) -> Evaluation:
        self._settle_losses()
        if self.sharded:
            self.sharded.gather_into(self.model)
        evaluation = shared_evaluation(self.validate, self.processes)
        if not all(map(math.isfinite, (evaluation.score, *evaluation.figures.values()))):
            self.state.step -= 1
            self._enter_fault("a validation score became infinite or NaN", is_damaged=True)
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
            self.state.loss_sum += float(torch.stack(self.losses).cpu().double().sum())
            self.state.loss_steps += len(self.losses)
            self.losses.clear()

    def _save(self) -> None:
        self._settle_losses()
        if self.loss_scale:
            self.loss_scale.save_in(self.state)
        optimizer = optimizer_tensors(self.optimizers)
        if self.sharded:
            self.sharded.gather_into(self.model)
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
                if self.sharded:
                    self.sharded.scatter(self.model)
                    share_states(self.optimizers)
                self.state = checkpoint.state
                if self.loss_scale:
                    self.loss_scale.restore(self.state)
            except (RuntimeError, ValueError, TypeError, KeyError) as fault:
                reason = str(fault).splitlines()[0]
                raise WarmstartError(f"{checkpoint.path} does not fit this run: {reason}") from None
        elif faults:
            progress.say("no undamaged checkpoint is left; starting again from step 0")


def _next(run: RunFolder | None) -> str:
    """Say what can be done about a training that was stopped because something was not finite."""
    change = "a lower --learning-rate, a longer --warmup or --precision fp32"
    if run is None:
        return f"try {change}"
    saved = list_checkpoints(run)
    start = f"continues from step {step_of(saved[-1])}" if saved else "starts again"
    return f"--resume {start}; if it ends here again, choose another -o and {change}"
