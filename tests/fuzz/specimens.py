"""Small whole folders of every kind that warmstart reads, and what is done with them."""

import contextlib
import json
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # when this is not run by pytest

from command_line import MACHINE, SHAPE, TINY, stop_at, succeed
from hub_folders import save_random
from warmstart.data.token_file import TokenFile
from warmstart.errors import WarmstartError
from warmstart.interop.family import HfConfig, HfFolder
from warmstart.interop.hf_read import read_folder
from warmstart.interop.tokenizers import read_tokenizer as read_folder_tokenizer
from warmstart.runs.checkpoint import list_checkpoints, load_checkpoint
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import check_unchanged
from warmstart.runs.saved import check_sizes, read_data, resumed_model
from warmstart.samples.samples import SampleFiles, SampleSizes, write_samples
from warmstart.settings.base import read_settings_file
from warmstart.settings.training import FinetuneConfig
from warmstart.tokenization.backends import load_tokenizer

TOKENIZER_FILES = ("tokenizer.json", "special_tokens_map.json")
HF_FILES = ("config.json", "tokenizer_config.json", "tokenizer.json", "special_tokens_map.json")
SIZES = SampleSizes(
    unlabelled=60, train=24, valid=12, test=8, train_pairs=24, valid_pairs=4, test_pairs=4
)
FAMILIES = {
    "bert": "BertForSequenceClassification",
    "roberta": "RobertaForMaskedLM",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
}


@dataclass(frozen=True)
class Specimen:
    """A file that a parser reads, given its folder."""

    folder: Path
    file: Path
    read: Callable[[Path], Any]


@dataclass(frozen=True)
class Use:
    """A command on a folder."""

    arguments: tuple[str, ...]  # {folder} and {out} stand for paths
    folder: Path
    files: tuple[str, ...]  # that are tampered with


def make_specimens(place: Path) -> tuple[list[Specimen], list[Use]]:
    """Write the folders; return what parsers read and what commands use."""
    samples = write_samples(place / "samples", sizes=SIZES)
    hub = {family: _hub_folder(place, family) for family in FAMILIES}
    runs = _make_runs(place, samples)
    succeed(f"import {hub['bert']} -o {runs['imported']}")
    return _specimens(runs, hub), _uses(runs, hub, samples)


def _make_runs(place: Path, samples: SampleFiles) -> dict[str, Path]:
    """Train a run of every kind for a few steps; two are stopped on the way."""
    names = ("base", "masked", "stopped", "classifier", "compared", "translator", "imported")
    runs = {name: place / name for name in names}
    text = str(samples.unlabelled)
    small = f"{SHAPE} --batch-tokens 64 {MACHINE}"
    succeed(f"pretrain {text} -o {runs['base']} {TINY} --save-every 3")
    succeed(f"pretrain {text} -o {runs['masked']} {TINY} --objective masked --document line")
    stop_at(3, f"pretrain {text} -o {runs['stopped']} {small} --steps 5 --save-every 2")
    labelled = f"--train {samples.train} --valid {samples.valid} {MACHINE} --epochs 1"
    succeed(f"finetune --from {runs['base']} {labelled} -o {runs['classifier']}")
    comparison = f"--labels all --seeds 0 --trials 1 -o {runs['compared']}"
    succeed(f"compare --from {runs['base']} {labelled} {comparison}")
    pairs, valid = samples.train_pairs, samples.valid_pairs
    succeed(
        f"train-translator --source {pairs.english} --target {pairs.french} "
        f"--valid-source {valid.english} --valid-target {valid.french} -o {runs['translator']} "
        f"{small.replace('--max-length 16', '--max-length 96')} --decoder-depth 1 --steps 2"
    )
    return runs


def _hub_folder(place: Path, family: str) -> Path:
    folder = place / f"hub-{family}"
    folder.mkdir()
    return save_random(folder, family, FAMILIES[family])


def _specimens(runs: dict[str, Path], hub: dict[str, Path]) -> list[Specimen]:
    kinds = ("base", "masked", "classifier", "translator")
    run_readers = {
        "config.json": read_config,
        "data.json": read_data_file,
        "scores.json": read_scores,
        "tokenizer.json": read_tokenizer,
    }
    hub_readers: dict[str, Callable[[Path], Any]] = dict.fromkeys(HF_FILES, read_hub_tokenizer)
    hub_readers["config.json"] = read_folder
    checkpoint = list_checkpoints(RunFolder(runs["base"]))[-1]
    tokens = runs["stopped"] / "cache/train.bin"
    tokenizer = _tokenizer_folder(runs["base"])
    return [
        *(s for name in kinds for s in _in_folder(runs[name], run_readers)),
        *(s for folder in hub.values() for s in _in_folder(folder, hub_readers)),
        *_in_folder(tokenizer, dict.fromkeys(TOKENIZER_FILES, read_tokenizer)),
        *_in_folder(checkpoint, {"state.json": read_checkpoint}),
        *_in_folder(tokens.parent, {"train.json": lambda _: TokenFile(tokens)}),
        *_in_folder(runs["classifier"], {"config.json": read_settings}),
    ]


def _in_folder(folder: Path, readers: Mapping[str, Callable[[Path], Any]]) -> list[Specimen]:
    present = {name: read for name, read in readers.items() if (folder / name).exists()}
    return [Specimen(folder, folder / name, read) for name, read in present.items()]


def _tokenizer_folder(run: Path) -> Path:
    folder = run.parent / "tokenizer"
    folder.mkdir()
    load_tokenizer(run).save(folder)
    (folder / "special_tokens_map.json").write_text('{"bos_token": "<s>", "mask_token": null}')
    return folder


def read_config(folder: Path) -> None:
    """Read config.json as commands do, and compare its sizes with the weights."""
    run = RunFolder(folder)
    check_sizes(resumed_model(run), run.weights_file, run.config_file)


def read_data_file(folder: Path) -> None:
    """Read data.json: the files it lists, and the texts seen."""
    run = RunFolder(folder)
    with contextlib.suppress(WarmstartError):
        check_unchanged(run)
    data = read_data(run)
    for stage in (data, *data.lineage):
        stage.fingerprints.unpack()


def read_scores(folder: Path) -> None:
    """Read scores.json."""
    run = RunFolder(folder)
    if run.is_finished:
        run.valid_scores()["loss"]


def read_hub_tokenizer(folder: Path) -> None:
    """Read the tokenizer of a Hugging Face folder."""
    values = json.loads((folder / "config.json").read_text())
    config = HfConfig(values, folder / "config.json")
    read_folder_tokenizer(HfFolder(folder), config, values["vocab_size"])


def read_checkpoint(folder: Path) -> None:
    """Read a checkpoint as training does."""
    load_checkpoint(folder)


def read_tokenizer(folder: Path) -> None:
    """Load a tokenizer and use all of it."""
    tokenizer = load_tokenizer(folder)
    ids = tokenizer.encode(["a text, été 12", "漢字"])
    for row in ids:
        tokenizer.decode(row)
    tokenizer.labels(range(min(300, tokenizer.vocab_size)))
    tokenizer.with_mask()


def read_settings(folder: Path) -> None:
    """Read a run's config.json as the settings of another."""
    FinetuneConfig.from_values(read_settings_file(folder / "config.json", "finetune"))


def _uses(runs: dict[str, Path], hub: dict[str, Path], samples: SampleFiles) -> list[Use]:
    cpu = "--device cpu --threads 1"
    lines, test, pairs = samples.valid, samples.test, samples.test_pairs
    training = f"--train {test} --valid {test} --epochs 1 {MACHINE} --device cpu"
    small = f"--preset tiny --width 16 --heads 2 --depth 1 --max-length 16 {MACHINE} --device cpu"
    commands = {
        f"predict {{folder}} {pairs.english} --json {cpu}": ("classifier", "imported", "compared"),
        f"evaluate {{folder}} --test {test} --json {cpu}": ("classifier", "compared"),
        f"evaluate {{folder}} --source {pairs.english} --target {pairs.french} --json {cpu}": (
            "translator",
        ),
        f"data {test} --against {{folder}} --json": ("base", "classifier", "compared"),
        f"fill-mask {{folder}} --text 'a [MASK]' --json {cpu}": ("masked",),
        "plan {folder} --no-measure --json --threads 1": ("base", "classifier"),
        "look mask {folder} --text good -o {out}.png": ("base",),
        f"evaluate {{folder}} --test {lines} --json {cpu}": ("base", "masked"),
        f"embed {{folder}} {pairs.english} {cpu}": ("classifier", "masked", "imported"),
        "params {folder} --json": ("classifier", "translator"),
        f"look attention {{folder}} --text good -o {{out}}.html {cpu}": ("classifier",),
        f"generate {{folder}} --prompt The --max-tokens 4 --json {cpu}": ("base",),
        f"translate {{folder}} {pairs.english} --json {cpu}": ("translator",),
        f"finetune --from {{folder}} {training} -o {{out}}": ("base",),
        f"pretrain {lines} --tokenizer {{folder}} {small} --steps 1 -o {{out}}": ("base",),
        "pretrain --config {folder}/config.json -o {folder} --resume": ("stopped", "base"),
        "finetune --config {folder}/config.json -o {folder} --resume": ("classifier",),
        "train-translator --config {folder}/config.json -o {folder} --resume": ("translator",),
        "compare --config {folder}/config.json -o {folder} --resume": ("compared",),
        "export {folder} -o {out}": ("imported", "base"),
    }
    uses = [
        Use(tuple(shlex.split(line)), runs[name], _json_of(runs[name]))
        for line, names in commands.items()
        for name in names
    ]
    importing = ("import", "{folder}", "-o", "{out}")
    return uses + [Use(importing, folder, _json_of(folder)) for folder in hub.values()]


def _json_of(folder: Path) -> tuple[str, ...]:
    """Return every JSON file of a folder that is read, by its path inside the folder."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json"))
    return tuple(name for name in names if name != "generation_config.json")
