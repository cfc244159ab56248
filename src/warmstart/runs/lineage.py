"""What a run started from: the texts that trained it, and what its pretraining cost."""

from dataclasses import dataclass
from typing import Any

from warmstart.jsonfiles import read_object, typed
from warmstart.runs.checkpoint import list_checkpoints, step_of
from warmstart.runs.saved import SavedRun


@dataclass(frozen=True)
class _State:
    elapsed_s: float


@dataclass(frozen=True)
class _Checkpoint:
    step: int
    state: _State


def lineage_of(parent: SavedRun | None) -> list[dict[str, Any]]:
    """Return what data.json records of the run that a run starts from."""
    if parent is None:
        return []
    tokens, elapsed_s = pretraining_cost(parent)
    return [
        {
            "run": str(parent.path),
            "fingerprints": parent.texts_seen().to_json(),
            "unrecorded": parent.has_unrecorded_texts,
            "tokens_seen": tokens,
            "elapsed_s": elapsed_s,
        }
    ]


def pretraining_cost(run: SavedRun) -> tuple[int, float]:
    """Return the tokens that these weights saw and the seconds that took, over all stages."""
    tokens, elapsed_s = _own_cost(run)
    for stage in run.data.lineage:
        tokens += stage.tokens_seen
        elapsed_s += stage.elapsed_s
    return tokens, elapsed_s


def _own_cost(run: SavedRun) -> tuple[int, float]:
    folder = run.folder
    scores = folder.scores()
    if run.path == folder.path:
        return scores.tokens_seen, scores.elapsed_s
    checkpoint = typed(_Checkpoint, read_object(run.path / "state.json"), run.path / "state.json")
    if scores.tokens_seen:  # a finished run has a checkpoint of its last step
        last = step_of(list_checkpoints(folder)[-1])
        tokens = round(scores.tokens_seen * checkpoint.step / last)
    else:
        length = run.model.max_length
        recorded = run.settings.get("batch_tokens", 0)  # only pretraining counts tokens
        batch_tokens = typed(int, recorded, folder.config_file, "settings.batch_tokens")
        tokens = checkpoint.step * max(1, batch_tokens // length) * length if batch_tokens else 0
    return tokens, checkpoint.state.elapsed_s


def describe_unrecorded(name: str) -> str:
    """Say what cannot be known of a run that started from an imported model."""
    return (
        f"{name} started from an imported model: its training texts and their cost are not "
        "recorded, so texts it has already seen may go unnoticed"
    )
