"""An installation -> what it has, what it lacks, and a short training that proves that it works."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.formats import duration
from warmstart.insight.installation import (
    Finding,
    examine_machine,
    examine_packages,
    examine_system,
)
from warmstart.samples.sample_files import SampleSizes, write_samples
from warmstart.settings.pretraining import PretrainConfig
from warmstart.settings.starting import DoctorConfig

SIZES = SampleSizes(
    unlabelled=400, train=1, valid=1, test=1, train_pairs=1, valid_pairs=1, test_pairs=1
)
VOCAB_SIZE = 300
STEPS = 30


@dataclass(frozen=True)
class DoctorResult:
    """Everything that was examined, in order."""

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> list[Finding]:
        """Return what must be mended before training."""
        return [finding for finding in self.findings if finding.status == "problem"]


def doctor(config: DoctorConfig) -> DoctorResult:
    """Examine the installation and the machine, and train a tiny model on them."""
    findings = [*examine_system(), *examine_packages()]
    findings += examine_machine(config.device, config.precision, config.threads)
    if all(finding.status != "problem" for finding in findings):
        findings.append(_train(config))
    else:
        findings.append(Finding("training", "not tried: see the problems above", "problem"))
    return DoctorResult(tuple(findings))


def _train(config: DoctorConfig) -> Finding:
    """Pretrain a tiny model in a temporary folder; it must beat guessing."""
    from warmstart.recipes.pretrain import pretrain  # loads torch, which may be broken

    try:
        with tempfile.TemporaryDirectory(prefix="warmstart-doctor-") as name, progress.silenced():
            result = pretrain(_job(config, Path(name)))
    except (WarmstartError, RuntimeError, OSError, MemoryError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        return Finding("training", f"failed: {reason}", "problem")
    detail = (
        f"{STEPS} steps in {duration(result.elapsed_s)}: perplexity {result.perplexity:.1f}, "
        f"guessing has {VOCAB_SIZE}"
    )
    return Finding("training", detail, "ok" if result.perplexity < VOCAB_SIZE / 2 else "problem")


def _job(config: DoctorConfig, folder: Path) -> PretrainConfig:
    files = write_samples(folder / "samples", sizes=SIZES)
    return PretrainConfig(
        files=(str(files.unlabelled),),
        out=str(folder / "run"),
        objective="causal",
        preset="tiny",
        vocab_size=VOCAB_SIZE,
        max_length=32,
        batch_tokens=512,
        steps=STEPS,
        device=config.device,
        precision=config.precision,
        threads=config.threads,
        compile=False,
    )
