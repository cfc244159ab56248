"""`doctor`: what an installation has, what the rest would cost, and a short training as proof."""

import platform
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from packaging.requirements import Requirement

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.formats import duration, quantity
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.settings.shared import Tracker
from warmstart.settings.training import PretrainConfig
from warmstart.settings.using import DoctorConfig
from warmstart.version import SOURCE, package_version

SIZES = SampleSizes(
    unlabelled=400, train=1, valid=1, test=1, train_pairs=1, valid_pairs=1, test_pairs=1
)
VOCAB_SIZE = 300
STEPS = 30
Status = Literal["ok", "optional", "problem"]  # optional: not there, and few need it
# What each extra is for, and the megabytes that it adds to an installation without extras.
FEATURES = {
    "excel": ("workbooks as input and output", 4),
    "remote": ("URLs as input", 39),
    "serve": ("`serve`, a page and an HTTP server", 18),
    "track": ("`--track tensorboard`", 55),
    "onnx": ("`export --to onnx`", 106),
    "ctranslate2": ("`export --to ctranslate2`", 151),
    "ray": ("`--ray`, a cluster for comparisons", 243),
    "notebook": ("the labs as notebooks", 173),
}
SYSTEMS = {"Linux": "Linux", "Darwin": "macOS", "Windows": "Windows"}
GIB = 1 << 30
LITTLE = 1 * GIB  # memory or disk with which a small training may fail


@dataclass(frozen=True)
class Finding:
    """The state of one part of the installation or the machine."""

    name: str
    detail: str
    status: Status = "ok"


def doctor(config: DoctorConfig) -> list[Finding]:
    """Examine the installation and the machine, and train a tiny model on them.

    The first finding says whether it is ready; one of status "problem" must be mended first.
    """
    findings = [*examine_system(), *examine_packages()]
    findings += examine_machine(config.device, config.precision, config.threads)
    if all(finding.status != "problem" for finding in findings):
        findings.append(_train(config))
    else:
        findings.append(Finding("training", "not tried: see the problems", "problem"))
    return [_verdict(findings), *findings, *examine_features()]


def _verdict(findings: list[Finding]) -> Finding:
    problems = dict.fromkeys(finding.name for finding in findings if finding.status == "problem")
    if problems:
        names = ", ".join(problems)
        return Finding("ready", f"this installation cannot train yet: see {names}", "problem")
    device = next(finding.detail for finding in findings if finding.name == "device")
    return Finding("ready", f"this installation can train, on {device}")


def _train(config: DoctorConfig) -> Finding:
    """Pretrain a tiny model in a temporary folder; it must beat guessing."""
    try:
        from warmstart.recipes.pretrain import pretrain  # loads libraries, which may be broken

        with tempfile.TemporaryDirectory(prefix="warmstart-doctor-") as name, progress.silence():
            result = pretrain(_job(config, Path(name)))
    except (WarmstartError, ImportError, RuntimeError, OSError, MemoryError) as error:
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


def examine_system() -> Iterator[Finding]:
    """Report on versions and the platform."""
    yield Finding("warmstart", package_version())
    yield Finding("Python", f"{platform.python_version()} ({platform.python_implementation()})")
    system, machine = platform.system(), platform.machine()
    if system in SYSTEMS:
        yield Finding("system", f"{SYSTEMS[system]} {platform.release()}, {machine}")
    else:
        supported = ", ".join(SYSTEMS.values())
        yield Finding("system", f"{system} is not supported; these are: {supported}", "problem")


def examine_packages() -> Iterator[Finding]:
    """Report on the packages that are required."""
    if package_version() == SOURCE:
        yield Finding("packages", "unknown: warmstart runs from a checkout, not installed")
        return
    required = _required_by("")
    problems = list(filter(None, map(_fault, required)))
    versions = ", ".join(f"{r.name} {metadata.version(r.name)}" for r in required if not _fault(r))
    yield Finding("packages", versions)
    if problems:
        advice = "; run pip install warmstart again"
        yield Finding("packages", f"{', '.join(problems)}{advice}", "problem")


def examine_features() -> Iterator[Finding]:
    """Report on what an installation may have besides: how to get it, and what it costs."""
    extras = FEATURES if package_version() != SOURCE else {}
    for extra, (purpose, megabytes) in extras.items():
        missing = list(filter(None, map(_fault, _required_by(extra))))
        advice = f"pip install 'warmstart[{extra}]', about {megabytes} MB"
        detail = f"{purpose}: {', '.join(missing)}; {advice}" if missing else purpose
        yield Finding(extra, detail, "optional" if missing else "ok")
    services = [name for name in get_args(Tracker) if name != "tensorboard"]
    installed = [name for name in services if find_spec(name)]
    names = ", ".join(installed) or f"pip install {' or '.join(services)}"
    yield Finding("trackers", f"`--track`: {names}", "ok" if installed else "optional")
    yield from _examine_gpu()


def _examine_gpu() -> Iterator[Finding]:
    """Report on GPUs: whether this torch can use one, whether there is one, and its kernels."""
    try:
        import torch
    except (ImportError, OSError):
        yield Finding("GPU", "unknown: torch cannot be loaded", "optional")
        return
    if torch.cuda.is_available():
        yield Finding("GPU", torch.cuda.get_device_name())
        yield examine_kernels()
    elif torch.backends.mps.is_available():
        yield Finding("GPU", "of Apple, which warmstart was never tested on")
    elif torch.version.cuda:
        version = torch.version.cuda
        yield Finding("GPU", f"none found; torch is built for CUDA {version}", "optional")
    else:
        advice = "for an NVIDIA GPU see https://pytorch.org/get-started, several GB"
        yield Finding("GPU", f"torch is built without CUDA; {advice}", "optional")


def examine_kernels() -> Finding:
    """Report whether kernels for an NVIDIA GPU can be built."""
    from warmstart.runtime import kernel_fault

    fault = kernel_fault()
    if fault is None:
        return Finding("kernels", "built for this GPU by Triton")
    advice = "install gcc and the headers of Python, as python3-dev has them"
    if platform.system() == "Windows":
        advice = "pip install triton-windows, about 150 MB"
    detail = f"{fault}; training works without, but takes longer; {advice}"
    return Finding("kernels", detail, "optional")


def _required_by(extra: str) -> list[Requirement]:
    """Return what an extra requires; of the empty one, what the package itself does."""
    lines = metadata.requires("warmstart") or ()
    markers = [(r, r.marker) for r in map(Requirement, lines)]
    is_core = {r for r, marker in markers if marker is None or marker.evaluate({"extra": ""})}
    if not extra:
        return [r for r, _ in markers if r in is_core]
    return [r for r, m in markers if r not in is_core and m and m.evaluate({"extra": extra})]


def _fault(requirement: Requirement) -> str | None:
    """Say what is wrong with a package; None if it is installed in a version that suits."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"{requirement.name} is missing"
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"{requirement.name} {version} does not fit {requirement.specifier}"


def examine_machine(device: str, precision: str, threads: int | None) -> Iterator[Finding]:
    """Report on device, precision, threads, memory and disk, as a training would use them."""
    try:
        import torch

        from warmstart.runtime import choose_runtime, free_memory, num_cores
    except (ImportError, OSError) as error:  # a library that does not fit the system
        yield Finding("torch", f"cannot be loaded: {str(error).splitlines()[0]}", "problem")
        return
    runtime = choose_runtime(device, precision, threads)
    is_cuda = runtime.device.type == "cuda"
    name = torch.cuda.get_device_name(runtime.device) if is_cuda else _cpu_name()
    yield Finding("device", f"{runtime.device.type}, {name}")
    yield Finding("precision", runtime.precision_name)
    cores = quantity(num_cores(), "core")
    yield Finding("threads", f"{torch.get_num_threads()} on {cores}")
    if is_cuda:
        yield _free_space("GPU memory", free_memory(runtime.device))
    yield _free_space("memory", free_memory(torch.device("cpu")))
    folder = Path.cwd()
    yield _free_space("disk", shutil.disk_usage(folder).free, f" in {folder}")


def _free_space(name: str, free: int | None, where: str = "") -> Finding:
    if free is None:
        return Finding(name, "free amount unknown")
    detail = f"{free / GIB:.1f} GiB free{where}"
    return Finding(name, detail) if free >= LITTLE else Finding(name, f"only {detail}", "problem")


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
