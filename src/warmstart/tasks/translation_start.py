"""What a translator starts from: nothing, another translator, or a backbone as its encoder."""

from dataclasses import replace

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.model.models import Translator
from warmstart.runs.lifecycle import check_length, refuse_overrides, refuse_together
from warmstart.runs.saved import SavedRun, read_run
from warmstart.runs.transfer import transfer_all
from warmstart.settings.architecture import apply_overrides
from warmstart.settings.model import ModelConfig
from warmstart.settings.translating import TrainTranslatorConfig
from warmstart.tasks.registry import task_of
from warmstart.tokenization.pair import TokenizerPair


def read_translator_parent(path: str) -> SavedRun:
    """Read the run to start from: a translator, or a backbone that becomes the encoder."""
    parent = read_run(path)
    task = task_of(parent)
    is_backbone = task.is_pretraining and parent.model.attention == "bidirectional"
    if not is_backbone and not parent.model.decoder_depth:
        raise WarmstartError(
            f"--from {path} is {task.description}; a translator starts from another one, or from a "
            "bidirectional backbone, which `warmstart pretrain --objective masked` trains"
        )
    parent.refuse_if_ablated("start a translator")
    return parent


def translator_architecture(
    config: TrainTranslatorConfig,
    preset: ModelConfig,
    tokenizers: TokenizerPair,
    parent: SavedRun | None,
) -> ModelConfig:
    """Return the architecture asked for; weights that exist keep theirs."""
    if parent:
        refuse_overrides(config, allowed=("dropout", "max_length"))
        check_length(parent.model, config.max_length, parent.path)
        if parent.model.decoder_depth:
            refuse_together(config, "from", ("decoder_depth", "shared"))
            return apply_overrides(parent.model, config)
        encoder = replace(parent.model, attention="bidirectional", pooler=False)
    else:
        encoder = replace(preset, attention="bidirectional")
    preset_depth = 0 if parent else preset.decoder_depth
    target_size = 0 if tokenizers.is_joint else tokenizers.target.vocab_size
    return replace(
        apply_overrides(encoder, config),
        vocab_size=parent.model.vocab_size if parent else tokenizers.source.vocab_size,
        decoder_depth=config.decoder_depth or preset_depth or encoder.depth,
        target_vocab_size=target_size,
        shared=tokenizers.is_joint if config.shared is None else config.shared,
    )


def warm_start_translator(model: Translator, parent: SavedRun) -> None:
    """Load what the parent has: all of a translator, or the encoder."""
    if parent.model.decoder_depth:
        progress.say(f"from {parent.path}: {transfer_all(parent.weights, model)}")
        return
    weights = {
        name.replace("backbone.", "encoder.", 1): tensor
        for name, tensor in parent.weights.items()
        if name.startswith("backbone.") and ".pooler." not in name
    }
    transfer = transfer_all(weights, model)
    missing = [name for name in transfer.new if name.startswith("encoder.")]
    if missing:
        raise WarmstartError(f"{parent.path}: its weights lack {', '.join(missing[:3])}")
    progress.say(
        f"encoder from {parent.path}: {len(transfer.loaded)} tensors loaded, the rest is new"
    )
