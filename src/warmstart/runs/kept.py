"""The models that a comparison keeps: run folders inside its own."""

from pathlib import Path

from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.jsonfiles import typed
from warmstart.runs.facts import ResultsFile
from warmstart.runs.folder import RunFolder


def kept_models(comparison: RunFolder) -> dict[Path, str]:
    """Return the folder of every model that a comparison keeps, with the name of its arm."""
    folders = sorted(file.parent for file in comparison.models.glob("*/config.json"))
    return {folder: RunFolder(folder).entry("arm") for folder in folders}


def advised_model(comparison: RunFolder) -> tuple[Path, str]:
    """Return the model to use after a comparison, and a sentence about it.

    It is of the arm that the comparison advises; of several, the best one with the most labels.
    """
    file = comparison.path / "results.json"
    if not file.exists():
        raise WarmstartError(
            f"{comparison.path} is an unfinished comparison: continue it with `compare --resume`"
        )
    arm = typed(ResultsFile, comparison.read_json(file), file).summary.advice.arm
    models = kept_models(comparison)
    scores = {path: RunFolder(path).scores() for path, of_arm in models.items() if of_arm == arm}
    accuracies = {path: RunFolder(path).valid_scores()["accuracy"] for path in scores}
    if not scores:
        names = ", ".join(map(str, models))
        others = f"name one of its models: {names}" if models else "compare without --save none"
        raise WarmstartError(
            f"{comparison.path} advises {arm}, of which no model is kept: {others}"
        )
    best = max(scores, key=lambda path: (scores[path].labels, accuracies[path]))
    labels = counted(scores[best].labels, "label")
    return best, f"{comparison.path} advises {arm}: using {best}, the best model with {labels}"
