import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import MACHINE, TINY, World, read, refuse, succeed, weights_of

FORMATS = ["txt", "txt.gz", "jsonl", "csv", "parquet"]


def write_as(path: Path, texts: list[str]) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress("\n".join(texts).encode()))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    elif path.suffix == ".csv":
        path.write_text("text\n" + "".join(f'"{text}"\n' for text in texts))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"text": texts}), path)
    else:
        path.write_text("\n".join(texts) + "\n")
    return path


@pytest.fixture(scope="module")
def texts(world: World) -> list[str]:
    return world.texts.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_trains_the_same_model(
    ending: str, texts: list[str], base: Path, here: Path
) -> None:
    write_as(here / f"texts.{ending}", texts)
    succeed(f"pretrain texts.{ending} -o run {TINY}")
    assert weights_of(here / "run") == weights_of(base)
    (file,) = read(here / "run/data.json")["files"]
    assert file["path"] == f"texts.{ending}"
    assert len(file["sha256"]) == 64


def test_a_folder_is_the_files_in_it(texts: list[str], base: Path, here: Path) -> None:
    (here / "texts" / "deep").mkdir(parents=True)
    write_as(here / "texts" / "a.txt", texts[:100])
    write_as(here / "texts" / "deep" / "b.jsonl", texts[100:])
    (here / "texts" / "picture.png").write_bytes(b"\0")
    succeed(f"pretrain texts -o run {TINY}")
    assert weights_of(here / "run") == weights_of(base)
    assert len(read(here / "run/data.json")["files"]) == 2


def test_the_end_says_what_was_written_and_what_to_run_next(world: World, here: Path) -> None:
    ran = succeed(f"pretrain {world.texts} -o run {TINY}")
    assert "validation perplexity" in ran.out
    assert "bits per byte" in ran.out
    wrote, then = ran.out.splitlines()[-2:]
    assert wrote == "wrote run"
    assert then.startswith("next: warmstart compare --from run ")


def test_held_out_text_is_not_trained_on(world: World, base: Path) -> None:
    facts = read(base / "data.json")
    assert 0 < facts["held_out"] < 1
    seen = succeed(f"data {world.texts} --against {base} --json").json["against"][0]["rows"]
    assert 180 < seen < facts["rows"] == 200


def test_validation_text_of_ones_own_leaves_all_the_rest_for_training(
    world: World, texts: list[str], here: Path
) -> None:
    write_as(here / "valid.txt", texts[:20])
    write_as(here / "train.txt", texts[20:])
    succeed(f"pretrain train.txt --valid valid.txt -o run {TINY}")
    against = succeed("data train.txt valid.txt --against run --json").json["against"]
    assert [entry["rows"] for entry in against] == [180, 0]
    assert read(here / "run/data.json")["valid"]["files"][0]["path"] == "valid.txt"


@pytest.mark.parametrize(("batch_tokens", "tokens"), [(64, 400), (100, 1000), (8, 100)])
def test_tokens_asked_for_are_tokens_seen(
    batch_tokens: int, tokens: int, world: World, here: Path
) -> None:
    options = TINY.replace("--steps 6", f"--tokens {tokens}")
    options = options.replace("--batch-tokens 64", f"--batch-tokens {batch_tokens}")
    succeed(f"pretrain {world.texts} -o run {options}")
    seen = read(here / "run/scores.json")["tokens_seen"]
    assert tokens <= seen < tokens + max(batch_tokens, 16)


def test_seeds_differ_and_repeat(world: World, base: Path, here: Path) -> None:
    for name, seed in (("same", 0), ("other", 1)):
        succeed(f"pretrain {world.texts} -o {name} {TINY} --seed {seed}")
    assert weights_of(here / "same") == weights_of(base) != weights_of(here / "other")


def test_a_tokenizer_can_be_brought_along(world: World, here: Path) -> None:
    succeed(f"tokenizer {world.texts} -o words --kind unigram --vocab-size 350")
    succeed(
        f"pretrain {world.texts} --tokenizer words -o run {TINY}".replace("--vocab-size 300", "")
    )
    assert (here / "run/tokenizer.json").read_bytes() == (
        here / "words/tokenizer.json"
    ).read_bytes()
    assert read(here / "run/config.json")["model"]["vocab_size"] == 350


def test_a_second_stage_keeps_tokenizer_and_shape_and_says_what_it_loaded(
    world: World, base: Path, here: Path
) -> None:
    stage = f"pretrain {world.train} --columns _,text -o run --from {base} --batch-tokens 64"
    ran = succeed(f"{stage} --steps 2 {MACHINE}")
    assert "tensors loaded" in ran.err
    assert " new" not in ran.err
    for name in ("tokenizer.json",):
        assert (here / "run" / name).read_bytes() == (base / name).read_bytes()
    assert read(here / "run/config.json")["model"] == read(base / "config.json")["model"]
    assert weights_of(here / "run") != weights_of(base)
    first, second = (
        read(folder / "config.json")["in_force"]["learning_rate"]["value"]
        for folder in (base, here / "run")
    )
    assert second < first  # lest it undo what the first one learned


def test_a_second_stage_remembers_what_the_first_one_saw(
    world: World, base: Path, here: Path
) -> None:
    succeed(
        f"pretrain {world.train} --columns _,text -o run --from {base} --steps 2 "
        f"--batch-tokens 64 {MACHINE}"
    )
    files = f"{world.texts} {world.train} {world.test}"
    first, second, none = succeed(f"data {files} --against run --json").json["against"]
    assert first["rows"] > 180
    assert second["rows"] > 40
    assert none["rows"] == 0


def test_a_second_stage_ignores_no_flag_silently(world: World, base: Path, here: Path) -> None:
    assert "--vocab-size" in refuse(
        f"pretrain {world.texts} -o run --from {base} --steps 1 {MACHINE} --vocab-size 999"
    )


def test_text_that_the_tokenizer_cannot_read_is_refused(world: World, here: Path) -> None:
    (here / "dict.txt").write_text("▁some 1\n▁pieces 1\n", encoding="utf-8")
    assert "does not know 9" in refuse(
        f"pretrain {world.texts} --tokenizer dict.txt -o run {TINY}".replace("--vocab-size 300", "")
    )
    assert not (here / "run").exists()


def test_bits_per_byte_are_those_of_an_evaluation_on_the_same_text(
    world: World, here: Path
) -> None:
    """Short documents: first tokens are never predicted, but their bytes count all the same."""
    lines = Path(world.texts).read_text(encoding="utf-8").splitlines()
    (here / "held.txt").write_text("\n".join(lines[:40]) + "\n", encoding="utf-8")
    succeed(f"pretrain {world.texts} --valid held.txt -o run {TINY}")
    ran = succeed(f"evaluate run --test held.txt --json {MACHINE}")
    valid = read(here / "run/scores.json")["valid"]
    found = json.loads(ran.out)
    assert found["perplexity"] == pytest.approx(valid["perplexity"], rel=1e-5)
    assert found["bits_per_byte"] == pytest.approx(valid["bits_per_byte"], rel=1e-5)
