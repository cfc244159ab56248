"""Learning-rate schedules: step -> share of the peak rate."""

import math
from collections.abc import Callable

Schedule = Callable[[int], float]  # steps done before this one -> factor from 0 to 1


def warmup_cosine(steps: int, warmup: float, floor: float = 0.05) -> Schedule:
    """Rise linearly over the share `warmup` of all steps, then fall along a cosine to `floor`."""
    rising = max(1, round(steps * warmup))

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        done = (step - rising) / max(1, steps - rising)
        return floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2

    return factor


def warmup_linear(steps: int, warmup: float) -> Schedule:
    """Rise linearly over the share `warmup` of all steps, then fall linearly to zero."""
    rising = max(1, round(steps * warmup))

    def factor(step: int) -> float:
        return min((step + 1) / rising, max(0.0, (steps - step) / max(1, steps - rising)))

    return factor


def warmup_inverse_sqrt(steps: int, warmup: float) -> Schedule:
    """Rise linearly, then fall with the inverse square root of the step, as in the 2017 paper."""
    rising = max(1, round(steps * warmup))

    def factor(step: int) -> float:
        return min((step + 1) / rising, (rising / (step + 1)) ** 0.5)

    return factor


def annealed(before: Schedule, start: int, steps: int, floor: float = 0.05) -> Schedule:
    """Follow a schedule up to `start` and to the end of its warm-up, then fall along a cosine."""
    turn = start
    while turn + 1 < steps and before(turn + 1) > before(turn):
        turn += 1
    peak = before(turn)
    lowest = min(peak, floor)

    def factor(step: int) -> float:
        if step < turn:
            return before(step)
        done = (step - turn) / (steps - turn)
        return lowest + (peak - lowest) * (1 + math.cos(math.pi * done)) / 2

    return factor
