"""Find the model that a user names: a preset or a run folder."""

from pathlib import Path

from warmstart.errors import WarmstartError
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import run_folder
from warmstart.settings.architecture import PRESETS
from warmstart.settings.base import suggestion
from warmstart.settings.model import ModelConfig, model_from_json


def find_model(name: str) -> tuple[ModelConfig, RunFolder | None]:
    """Return the shape of a preset, or the shape of a run and its folder."""
    if name in PRESETS:
        return PRESETS[name], None
    if not Path(name).is_dir():
        raise WarmstartError(
            f"{name!r} is neither a preset nor a run folder{suggestion(name, PRESETS)}"
        )
    folder = run_folder(name)
    return model_from_json(folder.config()["model"], folder.config_file), folder
