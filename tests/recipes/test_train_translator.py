"""train-translator: it learns, it resumes exactly, it starts warm, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from command_line import MACHINE, Ran, read, refuse, run, stop_at, succeed, weights_of
from toy_pairs import EARLY, FILES, SHAPE, SHORT, Toy, in_words
from warmstart.recipes import train_translator as module
from warmstart.runs.checkpoint import read_weights
from warmstart.tasks.registry import load

TRAIN = f"train-translator {FILES} -o run"
MASKED = (
    "pretrain {texts} -o {out} --objective masked --no-nsp --preset tiny --width 32 --heads 2 "
    "--depth 1 --ffn-width 64 --max-length 20 --vocab-size 320 --batch-tokens 256 --steps 3 "
    f"{MACHINE}"
)


@pytest.fixture(scope="module")
def masked(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("masked") / "run"
    succeed(MASKED, texts=toy.source, out=out)
    return out


def test_it_learns_a_toy_language(toy: Toy, translator: Path) -> None:
    lines = toy.test_source.read_text().splitlines()
    found = succeed(f"translate {translator} {toy.test_source} {MACHINE}").out.splitlines()
    right = [in_words(line) == text for line, text in zip(lines, found, strict=True)]
    assert sum(right) >= 0.9 * len(right)
    assert read(translator / "scores.json")["valid"]["bleu"] > 90


def test_a_run_folder_stands_alone_and_whole(toy: Toy, beginner: Path) -> None:
    names = {path.name for path in beginner.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "data.json"} <= names
    assert {"metrics.jsonl", "scores.json", "README.md", "checkpoints"} <= names
    assert "snapshots" not in names
    config = read(beginner / "config.json")
    assert (config["command"], config["task"]) == ("train-translator", "translate")
    facts = read(beginner / "data.json")
    assert {entry["path"] for entry in facts["files"]} == {
        str(path) for name, path in vars(toy).items() if not name.startswith("test")
    }
    assert facts["rows"] == 400
    lines = [json.loads(line) for line in (beginner / "metrics.jsonl").read_text().splitlines()]
    judged = [line for line in lines if "valid_bleu" in line]
    assert [line["step"] for line in judged] == [2, 4, 6]
    assert all({"valid_loss", "valid_bleu", "valid_accuracy"} <= set(line) for line in judged)
    assert "warmstart translate" in (beginner / "README.md").read_text()


def test_the_same_command_gives_the_same_weights(toy: Toy, beginner: Path, here: Path) -> None:
    succeed(f"train-translator --config {beginner}/config.json -o run")
    assert weights_of(here / "run") == weights_of(beginner)


def test_tokens_at_once_change_nothing_but_rounding(toy: Toy, beginner: Path, here: Path) -> None:
    succeed(f"{TRAIN} {SHORT} --micro-tokens 64", **vars(toy))
    ours, other = (load_file(path / "model.safetensors") for path in (here / "run", beginner))
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, other[name], rtol=0, atol=1e-3)


def test_patience_stops_early(toy: Toy, here: Path) -> None:
    succeed(f"{TRAIN} {SHORT} {EARLY}", **vars(toy))
    lines = map(json.loads, (here / "run/metrics.jsonl").read_text().splitlines())
    judged = {line["step"]: line["valid_loss"] for line in lines if "valid_loss" in line}
    steps, losses = list(judged), list(judged.values())
    best = losses.index(min(losses))
    assert steps[-1] < 40
    assert len(steps) == best + 1 + 2
    assert list((here / "run/checkpoints").iterdir())[-1].name == f"step-{steps[-1]}"


def test_of_equal_bleu_the_lower_loss_is_better(toy: Toy, here: Path) -> None:
    """BLEU is often zero at first: the first validation must not win, nor patience run out."""
    succeed(f"{TRAIN} {SHORT} --average 1 --patience 1", **vars(toy))
    lines = map(json.loads, (here / "run/metrics.jsonl").read_text().splitlines())
    judged = [line for line in lines if "valid_bleu" in line]
    assert len({line["valid_bleu"] for line in judged}) < len(judged) == 3
    best = max(judged, key=lambda line: (line["valid_bleu"], -line["valid_loss"]))
    assert read(here / "run/scores.json")["valid"]["step"] == best["step"] > 2


def test_a_kill_between_checkpoints_loses_no_snapshot(toy: Toy, here: Path) -> None:
    """The newest validations' weights are later than the checkpoint a resumed run begins at."""
    command = f"{TRAIN} {SHORT} --average 2 --steps 8 --save-every 3"
    succeed(command.replace("-o run", "-o whole"), **vars(toy))
    keep = module.keep_snapshot

    def killing(*given: object) -> None:
        keep(*given)  # type: ignore[arg-type]
        if given[2] == 4:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "keep_snapshot", killing)
        run(command, **vars(toy))
    assert not (here / "run/scores.json").exists()
    assert "continuing from step 3" in succeed(f"{command} --resume", **vars(toy)).err
    assert weights_of(here / "run") == weights_of(here / "whole")


def test_a_run_killed_before_its_scores_is_finished_by_resuming(
    toy: Toy, beginner: Path, here: Path
) -> None:
    command = f"{TRAIN} {SHORT}"

    def killing(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "write_card", killing)
        run(command, **vars(toy))
    assert not (here / "run/scores.json").exists()
    succeed(f"{command} --resume", **vars(toy))
    assert weights_of(here / "run") == weights_of(beginner)


def test_a_finished_run_says_so(toy: Toy, beginner: Path) -> None:
    before = weights_of(beginner)
    ran = succeed(f"train-translator {FILES} -o {beginner} {SHORT} --resume", **vars(toy))
    assert "already finished" in ran.err
    assert weights_of(beginner) == before


@pytest.mark.parametrize("flag", ["--steps 7", "--label-smoothing 0.2", "--average 2"])
def test_a_changed_setting_is_refused_by_name(flag: str, toy: Toy, beginner: Path) -> None:
    assert flag.split()[0] in refuse(
        f"train-translator {FILES} -o {beginner} {SHORT} --resume {flag}", **vars(toy)
    )


def test_a_file_that_changed_is_refused(toy: Toy, here: Path) -> None:
    shutil.copy(toy.valid_target, here / "own")
    places = {**vars(toy), "valid_target": here / "own"}
    stop_at(2, f"{TRAIN} {SHORT}", **places)
    (here / "own").write_text((here / "own").read_text().replace("one", "uno"))
    assert "own changed since the run started" in refuse(f"{TRAIN} {SHORT} --resume", **places)


def test_averaged_weights_are_the_mean_of_the_last_validations(toy: Toy, here: Path) -> None:
    parts = {}
    keep = module.keep_snapshot

    def noting(*given: object) -> None:
        keep(*given)  # type: ignore[arg-type]
        parts[given[2]] = {k: v.clone() for k, v in given[1].state_dict().items()}  # type: ignore[attr-defined]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "keep_snapshot", noting)
        succeed(f"{TRAIN} {SHORT} --average 2 --select loss --steps 10", **vars(toy))
    valid = read(here / "run/scores.json")["valid"]
    found = read_weights(here / "run/model.safetensors")
    chosen = (8, 10) if valid["averaged"] == 2 else (valid["step"],)
    for name, tensor in found.items():
        mean = torch.stack([parts[step][name].double() for step in chosen]).mean(0).float()
        assert torch.equal(tensor, mean)


@pytest.mark.parametrize(
    ("options", "shared", "tied"),
    [
        ("--vocabulary separate", False, True),
        ("--vocabulary separate --no-tied --tokenizer-kind unigram", False, False),
        ("--no-shared", False, True),
        ("--no-tied", True, False),
    ],
)
def test_vocabularies_joint_and_separate(
    options: str, shared: bool, tied: bool, toy: Toy, here: Path
) -> None:
    succeed(f"{TRAIN} {SHORT} {options}", **vars(toy))
    model = read(here / "run/config.json")["model"]
    assert (model["shared"], model["tied"]) == (shared, tied)
    is_joint = "separate" not in options
    assert (here / "run/target/tokenizer.json").exists() != is_joint
    assert (model["target_vocab_size"] == 0) == is_joint
    names = set(read_weights(here / "run/model.safetensors"))
    assert ("decoder.embed.weight" in names) != shared
    assert ("head.output.weight" in names) != tied
    assert len(succeed("translate run", b"1 2 3\n4 5\n").out.splitlines()) == 2
    total = succeed("params run --json").json["total"]
    assert total == sum(p.numel() for p in load(here / "run").model.parameters())


def test_a_table_gives_the_same_as_two_files(toy: Toy, beginner: Path, here: Path) -> None:
    for name, prefix in (("train", ""), ("valid", "valid_")):
        sides = [
            getattr(toy, prefix + side).read_text().splitlines() for side in ("source", "target")
        ]
        rows = [{"translation": {"d": s, "w": t}} for s, t in zip(*sides, strict=True)]
        (here / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    files = "--train train.jsonl --valid valid.jsonl --columns source=d,target=w"
    succeed(f"train-translator {files} -o run {SHORT}")
    assert weights_of(here / "run") == weights_of(beginner)


def test_the_papers_schedule_and_muon(toy: Toy, here: Path) -> None:
    options = "--schedule inverse-sqrt --warmup 0.5 --log-every 1 --learning-rate 0.01"
    succeed(f"{TRAIN} {SHORT} {options}", **vars(toy))
    lines = map(json.loads, (here / "run/metrics.jsonl").read_text().splitlines())
    rates = [line["learning_rate"] for line in lines if "learning_rate" in line]
    expected = [0.01 * min(n / 3, (3 / n) ** 0.5) for n in range(1, 7)]
    assert rates == pytest.approx(expected)
    succeed(f"{TRAIN.replace('-o run', '-o muon')} {SHORT} --optimizer muon", **vars(toy))


@pytest.mark.parametrize("positions", ["learned", "rope"])
def test_other_positions_train_and_translate(positions: str, toy: Toy, here: Path) -> None:
    succeed(f"{TRAIN} {SHORT} --positions {positions}", **vars(toy))
    assert succeed("translate run --threads 1", b"1 2 3\n4\n").out.count("\n") == 2


def test_samples_are_shown_while_it_trains(toy: Toy, here: Path) -> None:
    ran = succeed(f"{TRAIN} {SHORT} --samples 2 --average 1", **vars(toy))
    first = toy.valid_source.read_text().splitlines()[0]
    assert ran.err.count(f"{first} -> ") == 3


def test_pairs_that_do_not_fit_are_left_out_and_counted(toy: Toy, here: Path) -> None:
    for name, line in (("s", "1 2 3"), ("t", "one two three")):
        path = toy.source if name == "s" else toy.target
        (here / name).write_text(path.read_text() + f"{line} " * 20 + "\n\n")
    ran = succeed(f"{TRAIN} {SHORT}", **{**vars(toy), "source": "s", "target": "t"})
    assert "1 pair of 401 in s left out" in ran.err
    assert "--max-length 20" in ran.err
    assert "s: skipped 1 pair with an empty side" in ran.err
    assert read(here / "run/data.json")["skipped"] == 1
    assert "s: no pair fits into --max-length 3" in refuse(
        f"train-translator {FILES} -o none {SHORT} --max-length 3",
        **{**vars(toy), "source": "s", "target": "t"},
    )
    assert not (here / "none").exists()


def test_a_masked_run_becomes_the_encoder(toy: Toy, masked: Path, here: Path) -> None:
    options = (
        f"--from {masked} --decoder-depth 2 --batch-tokens 256 --steps 2 --samples 0 {MACHINE}"
    )
    # At so small a rate the weights stay what they were at the start.
    ran = succeed(f"{TRAIN} {options} --learning-rate 1e-30", **vars(toy))
    seen = read_weights(here / "run/model.safetensors")
    weights = read_weights(masked / "model.safetensors")
    base = {k.removeprefix("backbone."): v for k, v in weights.items() if k.startswith("backbone.")}
    encoder = {k.removeprefix("encoder."): v for k, v in seen.items() if k.startswith("encoder.")}
    assert set(encoder) == set(base)
    assert all(torch.equal(encoder[name], base[name]) for name in base)
    assert f"encoder from {masked}: {len(base)} tensors loaded" in ran.err
    assert (here / "run/tokenizer.json").read_bytes() == (masked / "tokenizer.json").read_bytes()
    facts = read(here / "run/data.json")
    assert [one["run"] for one in facts["lineage"]] == [str(masked)]
    assert len(succeed("translate run", b"1 2 3\n").out.splitlines()) == 1


def test_a_base_with_segments_and_a_pooler_becomes_the_encoder(toy: Toy, here: Path) -> None:
    lines = toy.target.read_text().splitlines()
    (here / "texts").write_text("".join(f"{line}. {line}. {line}.\n" for line in lines))
    command = MASKED.replace("--no-nsp", "--nsp --document line").replace("tiny", "bert-base")
    succeed(command, texts="texts", out="nsp")
    options = f"--from nsp --batch-tokens 256 --steps 2 --samples 0 {MACHINE}"
    succeed(f"{TRAIN} {options}", **vars(toy))
    names = set(read_weights(here / "run/model.safetensors"))
    assert "encoder.embed_segments.weight" in names
    assert not any("pooler" in name or "transform" in name for name in names)
    assert len(succeed("translate run", b"1 2 3\n").out.splitlines()) == 1


def test_a_warm_start_resumes_exactly(toy: Toy, masked: Path, here: Path) -> None:
    options = f"--from {masked} --batch-tokens 256 --steps 4 --eval-every 2 --samples 0 {MACHINE}"
    succeed(f"train-translator {FILES} -o whole {options}", **vars(toy))
    stop_at(3, f"{TRAIN} {options}", **vars(toy))
    succeed(f"{TRAIN} {options} --resume", **vars(toy))
    assert weights_of(here / "run") == weights_of(here / "whole")


def test_a_masked_encoder_and_a_vocabulary_of_its_own(toy: Toy, masked: Path, here: Path) -> None:
    options = f"--batch-tokens 256 --steps 2 --samples 0 {MACHINE}"
    command = f"{TRAIN} --from {masked} --vocabulary separate --vocab-size 280 {options}"
    succeed(command, **vars(toy))
    model = read(here / "run/config.json")["model"]
    assert model["target_vocab_size"] == 280
    assert not model["shared"]


def _refused(ran: Ran, here: Path) -> str:
    assert ran.code == 2, ran
    assert not (here / "run").exists()
    assert len(ran.err.strip().splitlines()) <= 2
    return ran.said


def test_a_translator_goes_on_from_another(toy: Toy, beginner: Path, here: Path) -> None:
    options = f"--from {beginner} --batch-tokens 256 --steps 4 --eval-every 2 --samples 0 {MACHINE}"
    ran = succeed(f"{TRAIN} {options} --consistency 2 --learning-rate 1e-30", **vars(toy))
    start, end = (read_weights(path / "model.safetensors") for path in (beginner, here / "run"))
    assert set(start) == set(end)
    assert all(torch.equal(start[name], end[name]) for name in start)
    assert f"from {beginner}: {len(start)} tensors loaded" in ran.err
    assert (here / "run/tokenizer.json").read_bytes() == (beginner / "tokenizer.json").read_bytes()
    facts = read(here / "run/data.json")
    assert [one["run"] for one in facts["lineage"]] == [str(beginner)]


@pytest.mark.parametrize("flag", ["--decoder-depth 1", "--width 16", "--vocab-size 300"])
def test_a_translators_shape_cannot_change(flag: str, toy: Toy, beginner: Path, here: Path) -> None:
    said = _refused(run(f"{TRAIN} --from {beginner} {flag} {MACHINE}", **vars(toy)), here)
    assert flag.split()[0] in said
    assert "--from" in said


@pytest.mark.parametrize("kind", ["base", "warm"])
def test_only_a_base_that_sees_both_sides_is_taken(
    kind: str, toy: Toy, here: Path, request: pytest.FixtureRequest
) -> None:
    parent = request.getfixturevalue(kind)
    said = _refused(run(f"{TRAIN} --from {parent} {MACHINE}", **vars(toy)), here)
    words = {"base": "a causal", "warm": "a classifier"}
    assert words[kind] in said
    assert "--objective masked" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--width 64", "--width cannot change with --from"),
        ("--tokenizer {masked}", "--tokenizer has no effect with --from"),
        ("--vocab-size 300", "--vocab-size has no effect with --from"),
    ],
)
def test_what_a_warm_start_fixes_cannot_be_changed(
    options: str, words: str, toy: Toy, masked: Path, here: Path
) -> None:
    command = f"{TRAIN} --from {masked} {options.format(masked=masked)} {MACHINE}"
    assert words in _refused(run(command, **vars(toy)), here)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--vocabulary separate --shared", "--shared needs one vocabulary"),
        ("--tokenizer {beginner}", "--vocab-size has no effect with --tokenizer"),
        ("--target-tokenizer {beginner}", "--target-tokenizer needs --tokenizer"),
        ("--epochs 3", "--epochs"),
        ("--preset nothing", "nothing"),
        ("--label-smoothing 1", "--label-smoothing"),
        ("--average 0", "--average"),
        ("--train {beginner}", "--train holds both sides"),
        ("--columns source,target", "--columns needs --train"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    options: str, words: str, toy: Toy, beginner: Path, here: Path
) -> None:
    command = f"{TRAIN} {SHORT} {options.format(beginner=beginner)}"
    assert words in _refused(run(command, **vars(toy)), here)


def test_a_tokenizer_is_taken_from_where_it_is_named(toy: Toy, beginner: Path, here: Path) -> None:
    options = f"{SHAPE} --batch-tokens 256 --steps 2 --samples 0 {MACHINE}"
    both = f"--tokenizer {beginner} --target-tokenizer {beginner}"
    succeed(f"{TRAIN} {options} --tokenizer {beginner}", **vars(toy))
    assert (here / "run/tokenizer.json").read_bytes() == (beginner / "tokenizer.json").read_bytes()
    succeed(f"train-translator {FILES} -o two {options} {both}", **vars(toy))
    assert (here / "two/target/tokenizer.json").exists()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("target", b"one\n", "has 400 lines but"),
        ("source", b"\n" * 400, "no pairs with text"),
        ("target", b"\x00\x01" * 50, "line 1: byte 1 is NUL"),
        ("valid_source", b"", "has 0 lines but"),
        ("valid_target", b"\xff\xd8\xff\xe0\n" * 30, "line 1: byte 1 (0xFF) is not UTF-8"),
    ],
)
def test_bad_pairs_are_refused_in_one_sentence(
    name: str, content: bytes, words: str, toy: Toy, here: Path
) -> None:
    (here / "own").write_bytes(content)
    said = _refused(run(f"{TRAIN} {SHORT}", **{**vars(toy), name: "own"}), here)
    assert words in said
    assert "own" in said


@pytest.mark.parametrize("missing", ["source", "target", "valid_source", "valid_target"])
def test_a_missing_side_is_named(missing: str, toy: Toy, here: Path) -> None:
    flag = f"--{missing.replace('_', '-')}"
    command = TRAIN.replace(f"{flag} {{{missing}}}", "")
    said = _refused(run(f"{command} {SHORT}", **vars(toy)), here)
    assert flag in said


def test_a_folder_or_an_absent_file_is_named(toy: Toy, here: Path) -> None:
    (here / "folder").mkdir()
    for path in ("folder", "absent"):
        said = _refused(run(f"{TRAIN} {SHORT}", **{**vars(toy), "target": path}), here)
        assert path in said
