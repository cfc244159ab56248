"""The commands that train: call the recipe, print the result and the next command."""

from warmstart.cli.options import Command
from warmstart.cli.printing import print_comparison, print_json, print_table, quoted, say, say_next
from warmstart.errors import WarmstartError
from warmstart.formats import duration
from warmstart.results.comparison import Arm
from warmstart.settings.finetuning import CompareConfig, FinetuneConfig
from warmstart.settings.pretraining import PretrainConfig
from warmstart.settings.shared import LabelledFiles
from warmstart.settings.starting import VerifyResumeConfig
from warmstart.settings.translating import TrainTranslatorConfig

FILES = "--train train.tsv --valid valid.tsv"
PAIRS = "--source train.en --target train.de --valid-source val.en --valid-target val.de"


def pretrain(config: PretrainConfig) -> None:
    """Pretrain a backbone on text."""
    from warmstart.recipes.pretrain import pretrain as run

    result = run(config)
    say(f"{result.summary}, after {result.tokens:,} tokens in {duration(result.elapsed_s)}")
    say_next(result.run, f"compare --from {quoted(result.run)} {FILES} -o comparison")


def finetune(config: FinetuneConfig) -> None:
    """Train a classifier: a warm start with --from, else a cold start."""
    from warmstart.recipes.finetune import finetune as run

    result = run(config)
    elapsed = duration(result.elapsed_s)
    say(f"validation {result.summary} at epoch {result.best_epoch}, in {elapsed}")
    say_next(result.run, f"predict {quoted(result.run)} texts.txt -o labelled.csv")


def compare(config: CompareConfig) -> None:
    """Compare warm, frozen and cold starts and TF-IDF over label subsets and seeds."""
    from warmstart.recipes.compare import compare as run

    result = run(config)
    print_comparison(result.comparison, result.summary)
    model = result.models.get(result.advised.name)
    command = _training(config, result.advised)
    if model:
        command = f"predict {quoted(model)} texts.txt -o labelled.csv"
    say_next(f"{result.report}: open it in a browser", command)


def _training(config: CompareConfig, arm: Arm) -> str | None:
    """Return the command that trains the advised arm on the same files; None: it cannot."""
    if arm.source is None:
        return None
    command = ["finetune", "--from", quoted(arm.source), *["--frozen"] * (arm.kind == "frozen")]
    for setting in LabelledFiles.declared():
        value = getattr(config, setting.name)
        if value == setting.default:
            continue
        values = value if setting.is_list and not setting.comma_separated else [value]
        for item in values:
            text = ",".join(item) if setting.comma_separated else item
            command += [setting.flag] if item is True else [setting.flag, quoted(text)]
    return f"{' '.join(command)} -o runs/classifier"


def train_translator(config: TrainTranslatorConfig) -> None:
    """Train an encoder-decoder on sentence pairs."""
    from warmstart.recipes.train_translator import train_translator as run

    result = run(config)
    weights = f"step {result.step:,}"
    if result.num_averaged > 1:
        weights = f"mean of the last {result.num_averaged} validations' weights"
    say(
        f"validation BLEU {result.bleu:.2f} (greedy), loss {result.loss:.3f}, {weights}, "
        f"in {duration(result.elapsed_s)}"
    )
    say_next(result.run, f"translate {quoted(result.run)} sentences.txt")


def verify_resume(config: VerifyResumeConfig, as_json: bool) -> None:
    """Kill and resume a short run at random moments; check that the weights are equal."""
    from warmstart.recipes.verify_resume import verify_resume as run

    result = run(config)
    if as_json:
        kills = [{**vars(kill), "is_identical": kill.is_identical} for kill in result.kills]
        print_json({"kills": kills, "identical": result.num_identical})
    else:
        rows = [
            (k.moment, f"{k.unit} {k.step}", "identical" if k.is_identical else "different")
            for k in result.kills
        ]
        print_table(("killed while", "resumed from", "final weights"), rows)
        say(f"{result.num_identical}/{len(result.kills)} identical")
    for kill in result.kills:
        if not kill.is_identical:
            what = ", ".join(kill.differs) or "the first step"
            raise WarmstartError(f"a resumed run differs from an uninterrupted one in: {what}")


COMMANDS = (
    Command("pretrain", pretrain, "reviews.txt -o runs/base --preset lab --steps 2000"),
    Command("finetune", finetune, f"--from runs/base {FILES} -o runs/warm"),
    Command("compare", compare, f"--from runs/base {FILES} --labels 100,400,all -o comparison"),
    Command("train-translator", train_translator, f"{PAIRS} -o en-de"),
    Command("verify-resume", verify_resume, "runs/base/config.json --kills 20"),
)
