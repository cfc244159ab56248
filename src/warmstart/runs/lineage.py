"""What a run started from: the texts that trained it, and what its pretraining cost."""

from typing import Any

from warmstart.runs.checkpoint import list_checkpoints
from warmstart.runs.saved import SavedRun


def lineage_of(parent: SavedRun | None) -> list[dict[str, Any]]:
    """Return what data.json records of the run that a run starts from."""
    if parent is None:
        return []
    tokens, elapsed_s = pretraining_cost(parent)
    return [
        {
            "run": str(parent.path),
            "fingerprints": parent.texts_seen().to_text(),
            "unrecorded": parent.has_unrecorded_texts,
            "tokens_seen": tokens,
            "elapsed_s": elapsed_s,
        }
    ]


def pretraining_cost(run: SavedRun) -> tuple[int, float]:
    """Return the tokens that these weights saw and the seconds that took, over all stages."""
    tokens, elapsed_s = _own_cost(run)
    for stage in run.folder.read_json(run.folder.data_file).get("lineage", []):
        tokens += stage.get("tokens_seen", 0)
        elapsed_s += stage.get("elapsed_s", 0.0)
    return tokens, elapsed_s


def _own_cost(run: SavedRun) -> tuple[int, float]:
    folder = run.folder
    scores = folder.read_json(folder.scores_file) if folder.scores_file.exists() else {}
    tokens, elapsed_s = scores.get("tokens_seen", 0), scores.get("elapsed_s", 0.0)
    if run.path == folder.path:
        return tokens, elapsed_s
    checkpoint = folder.read_json(run.path / "state.json")
    step = checkpoint["step"]
    if tokens:  # a finished run has a checkpoint of its last step
        last = folder.read_json(list_checkpoints(folder)[-1] / "state.json")["step"]
        tokens = round(tokens * step / last)
    else:
        length = run.model.max_length
        batch_tokens = run.settings.get("batch_tokens", 0)  # only pretraining counts tokens
        tokens = step * max(1, batch_tokens // length) * length if batch_tokens else 0
    return tokens, checkpoint["state"]["elapsed_s"]


def describe_unrecorded(name: str) -> str:
    """Say what cannot be known of a run that started from an imported model."""
    return (
        f"{name} started from an imported model: its training texts and their cost are not "
        "recorded, so texts it has already seen may go unnoticed"
    )
