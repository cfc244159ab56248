"""Watch a beam search: its own step function, asked by the search itself, remembers every step."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from warmstart.decoding.beam import Beam, beam_search
from warmstart.decoding.sample import SpecialIds, Step
from warmstart.inference.text_translator import TextTranslator
from warmstart.inference.translator import max_target_tokens
from warmstart.results.model_views import BeamTree, Candidate, Ending, Path, Status
from warmstart.tokenization.tokenizer import Tokenizer


@torch.inference_mode()
def watch_beam(model: TextTranslator, text: str, beam: Beam) -> BeamTree:
    """Translate one sentence, and return every step of the search."""
    engine, special, tokenizer = model.translator.engine, model.translator.special, model.tokenizer
    room = model.config.max_length - 2
    source = [*tokenizer.start, *model.cut(text, room, tokenizer), tokenizer.eos]
    with engine.runtime.precision():
        watched = WatchedStep(engine.begin(engine.encode([source]), beam.width), special)
        limit = max_target_tokens(len(source), model.config.max_length)
        (hypotheses,) = beam_search(watched, [limit], special, beam)
    target = model.target_tokenizer
    endings = (
        Ending(path=h.ids, text=target.decode(h.ids), log_prob=h.log_prob, score=h.score)
        for h in hypotheses
    )
    return BeamTree(
        source=text,
        width=beam.width,
        steps=tuple(_steps(watched.calls, special, beam.width, target)),
        endings=tuple(endings),
    )


class WatchedStep:
    """A step function that remembers what it was asked and what it answered."""

    def __init__(self, step: Step, special: SpecialIds) -> None:
        self.step = step
        self.suppressed = torch.tensor(list(special.suppressed), dtype=torch.long)
        self.calls: list[tuple[list[Path], Tensor]] = []  # prefixes, log-probabilities (N, V)

    def __call__(self, prefixes: Tensor, parents: Tensor) -> Tensor:
        log_probs = self.step(prefixes, parents)
        shown = log_probs.double().cpu().index_fill(1, self.suppressed, -torch.inf)
        self.calls.append(([tuple(row) for row in prefixes[:, 1:].tolist()], shown))
        return log_probs


def _steps(
    calls: Sequence[tuple[list[Path], Tensor]],
    special: SpecialIds,
    width: int,
    tokenizer: Tokenizer,
) -> Iterator[tuple[Candidate, ...]]:
    """Yield the candidates of each step: as many as the search compares, twice its width."""
    totals: dict[Path, float] = {(): 0.0}
    for number, (prefixes, log_probs) in enumerate(calls, 1):
        continued = set(calls[number][0]) if number < len(calls) else set()
        ranked = _ranked(totals, prefixes, log_probs, 2 * width)

        def status(rank: int, path: Path, going_on: set[Path] = continued) -> Status:
            if path[-1] == special.eos:
                return "ended" if rank < width else "dropped"
            return "kept" if path in going_on else "dropped"

        yield tuple(
            Candidate(
                path=path,
                piece=tokenizer.labels([path[-1]])[0],
                log_prob=total,
                status=status(rank, path),
            )
            for rank, (path, total) in enumerate(ranked)
        )
        totals = {path: total for path, total in ranked if path in continued}


def _ranked(
    totals: dict[Path, float], prefixes: Sequence[Path], log_probs: Tensor, num: int
) -> list[tuple[Path, float]]:
    """Return the most probable continuations of all prefixes, each with its log-probability."""
    best = log_probs.topk(min(num, log_probs.shape[1]))
    rows = {path: row for row, path in enumerate(prefixes) if path in totals}
    paths = [
        ((*path, token), totals[path] + value)
        for path, row in rows.items()
        for token, value in zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)
        if value > -torch.inf
    ]
    return sorted(paths, key=lambda entry: -entry[1])[:num]
