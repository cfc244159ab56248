"""What a run started from: the texts it has seen, and what its pretraining cost.

Knows nothing about the job that goes on from it.
"""

from typing import Any

from warmstart.runs.checkpoint import list_checkpoints
from warmstart.runs.saved import Source


def ancestry(parent: Source | None) -> list[dict[str, Any]]:
    """Return what a run's data.json says of the run it starts from."""
    if parent is None:
        return []
    tokens, elapsed_s = pretraining_of(parent)
    return [
        {
            "run": str(parent.path),
            "fingerprints": parent.texts_seen().to_text(),
            "unrecorded": parent.has_unrecorded_texts,
            "tokens_seen": tokens,
            "elapsed_s": elapsed_s,
        }
    ]


def pretraining_of(source: Source) -> tuple[int, float]:
    """Return the tokens that these weights saw and the seconds it took, over all stages."""
    tokens, elapsed_s = _own_pretraining(source)
    for before in source.run.read_json(source.run.data_file).get("before", []):
        tokens += before.get("tokens_seen", 0)
        elapsed_s += before.get("elapsed_s", 0.0)
    return tokens, elapsed_s


def _own_pretraining(source: Source) -> tuple[int, float]:
    run = source.run
    scores = run.read_json(run.scores_file) if run.scores_file.exists() else {}
    tokens, elapsed_s = scores.get("tokens_seen", 0), scores.get("elapsed_s", 0.0)
    if source.path == run.path:
        return tokens, elapsed_s
    kept = run.read_json(source.path / "state.json")
    step = kept["step"]
    if tokens:  # a finished run has a checkpoint of its last step
        last = run.read_json(list_checkpoints(run)[-1] / "state.json")["step"]
        tokens = round(tokens * step / last)
    else:
        length = source.model.max_length
        batch_tokens = source.config["settings"].get("batch_tokens", 0)  # a classifier has none
        tokens = step * max(1, batch_tokens // length) * length if batch_tokens else 0
    return tokens, kept["state"]["elapsed_s"]


def unrecorded_words(name: str) -> str:
    """Say what cannot be known of a run that was imported, or started from one."""
    return (
        f"{name} began with an imported model: what texts that was trained on, and at what cost, "
        "is not recorded, so texts it has seen are not all found"
    )
