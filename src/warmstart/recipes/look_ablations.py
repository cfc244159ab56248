"""Train small models without one of their parts and show side by side what each lacks."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from warmstart import progress
from warmstart.decoding.sample import Sampling
from warmstart.errors import DivergedError
from warmstart.evaluation.metrics import WordPairs
from warmstart.loading import load_on
from warmstart.recipes.make_tokenizer import make_tokenizer
from warmstart.recipes.pretrain import pretrain
from warmstart.report.ablations_figure import ablation_sections, draw_ablations
from warmstart.report.html import write_picture
from warmstart.report.notebook import ShownFile
from warmstart.results.metrics_file import read_metrics
from warmstart.results.training_views import AblatedTraining, Variant, variants_of
from warmstart.samples.sample_files import SampleSizes, write_samples
from warmstart.settings.looking import LookAblationsConfig
from warmstart.settings.model import Ablation
from warmstart.settings.pretraining import PretrainConfig
from warmstart.settings.starting import TokenizerConfig
from warmstart.tasks.registry import pretraining_task

SIZES = SampleSizes(
    unlabelled=4_000, train=1, valid=1, test=1, train_pairs=1, valid_pairs=1, test_pairs=1
)
VOCAB_SIZE = 600
BATCH_TOKENS = 1_024
LEARNING_RATE = 1e-2
NUM_VALIDATIONS = 5  # in each training
PROMPTS = ("The", "This", "I", "A")
SAMPLING = Sampling(temperature=0.7)


@dataclass(frozen=True)
class AblationsResult(ShownFile):
    """What each variant reached, and the file that shows it."""

    out: Path
    variants: tuple[Variant, ...]


def look_ablations(config: LookAblationsConfig) -> AblationsResult:
    """Train the whole model and each broken one on the built-in text, and show them together."""
    parts: list[Ablation] = ["nothing", *(part for part in config.parts if part != "nothing")]
    with TemporaryDirectory(prefix="warmstart-ablations-") as name:
        jobs = [_job(config, Path(name), part, seed) for part in parts for seed in config.seeds]
        for job in jobs:
            pretraining_task(job.objective).check(job)
        with progress.silenced():
            text = _write_text(Path(name))
        pairs = WordPairs(text.read_text(encoding="utf-8").splitlines())
        trainings = []
        with progress.bar("training without one part", len(jobs), "model") as bar:
            for job in jobs:
                with progress.silenced():
                    trainings.append(_train(job, pairs))
                bar.advance(1, job.ablate)
    variants = variants_of(trainings)
    title = f"What each part is for: {config.objective} models after {config.steps} steps"
    sections = ablation_sections(variants, title)
    out = write_picture(draw_ablations(variants, title), title, sections, Path(config.out))
    return AblationsResult(out, tuple(variants))


def _write_text(folder: Path) -> Path:
    """Write the text and the tokenizer that all trainings share; return the file of the text."""
    text = write_samples(folder / "data", sizes=SIZES).unlabelled
    out = str(folder / "tokenizer")
    make_tokenizer(TokenizerConfig(files=(str(text),), out=out, vocab_size=VOCAB_SIZE))
    return text


def _job(config: LookAblationsConfig, folder: Path, part: Ablation, seed: int) -> PretrainConfig:
    workload = pretraining_task(config.objective).workload
    is_masked = workload is not None and workload.masks_tokens
    return PretrainConfig(
        document_loss=0.0 if is_masked else None,  # the plain objective, on every machine
        semantic_start=False if is_masked else None,
        files=(str(folder / "data" / "unlabelled.txt"),),
        out=str(folder / f"{part}-{seed}"),
        tokenizer=str(folder / "tokenizer"),
        objective=config.objective,
        preset="tiny",
        depth=config.depth,
        heads=1,  # the wider a head, the more it needs the scale
        ablate=part,
        steps=config.steps,
        batch_tokens=BATCH_TOKENS,
        learning_rate=LEARNING_RATE,
        eval_every=max(1, config.steps // NUM_VALIDATIONS),
        seed=seed,
        device=config.device,
        precision=config.precision,
        threads=config.threads,
    )


def _train(job: PretrainConfig, pairs: WordPairs) -> AblatedTraining:
    failure, written = None, ""
    try:
        pretrain(job)
        written = _write(job)
    except DivergedError as error:
        failure = str(error)
    metrics = read_metrics(Path(job.out) / "metrics.jsonl")
    points = [(int(line["step"]), line["valid_loss"]) for line in metrics if "valid_loss" in line]
    return AblatedTraining(
        part=job.ablate,
        seed=job.seed,
        steps=tuple(step for step, _ in points),
        losses=tuple(loss for _, loss in points),
        written=written,
        known_pairs=pairs.known_share(written) if written else None,
        failure=failure,
    )


def _write(job: PretrainConfig) -> str:
    """Return what a model writes after each prompt; a model that cannot generate writes nothing."""
    if not pretraining_task(job.objective).can_generate:
        return ""
    model = load_on(job.out, job)
    texts = [model.generate(prompt, 40, sampling=SAMPLING, seed=job.seed) for prompt in PROMPTS]
    return "\n".join(texts)
