"""A backbone without a head, as imported models may be."""

from typing import Any

from torch import nn

from warmstart.errors import WarmstartError
from warmstart.model.models import BackboneOnly
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.masked import MaskedWorkload
from warmstart.tasks.task import Task


class BackboneTask(Task):
    """A pretrained backbone to start from, or to embed texts with."""

    name = "backbone"
    description = "a backbone without a head"
    command = "import"
    hub_name = "feature-extraction"
    hub_class = "Model"
    is_pretraining = True
    workload = MaskedWorkload()

    def empty_model(self, run: SavedRun) -> nn.Module:
        return BackboneOnly(run.model)

    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        raise WarmstartError(
            f"{run.path} is {self.description}, which predicts nothing that could be scored; "
            f"fine-tune it first: {self.usage(run.path)}"
        )
