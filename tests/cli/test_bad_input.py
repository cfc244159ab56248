"""Mistakes a user makes: each gets exit code 2 and one sentence, and leaves nothing behind."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from product import QUICK, SHAPE, TINY, World, run, succeed, write_labelled

PRE = f"pretrain {{texts}} -o {{out}} {TINY}"
FINE = f"finetune --train {{train}} --valid {{valid}} -o {{out}} {QUICK}"
WARM = f"{FINE} --from {{base}}"
COMPARE = f"compare --from {{base}} --train {{train}} --valid {{valid}} -o {{out}} {QUICK}"

# what went wrong: the command, and what its sentence must name
MISTAKES: dict[str, tuple[str, list[str]]] = {
    "missing file": (PRE.replace("{texts}", "gone.txt"), ["gone.txt"]),
    "missing labelled file": (WARM.replace("{train}", "gone.tsv"), ["gone.tsv"]),
    "glob without match": (PRE.replace("{texts}", "'{bad}/*.nothing'"), ["*.nothing"]),
    "empty file": (PRE.replace("{texts}", "{bad}/empty.txt"), ["empty.txt"]),
    "empty labelled file": (WARM.replace("{train}", "{bad}/empty.tsv"), ["empty.tsv"]),
    "blank lines only": (PRE.replace("{texts}", "{bad}/blank.txt"), ["blank.txt"]),
    "too little text": (PRE.replace("{texts}", "{bad}/word.txt"), ["word.txt"]),
    "not UTF-8": (PRE.replace("{texts}", "{bad}/latin.txt"), ["latin.txt line 2", "UTF-8"]),
    "binary file": (PRE.replace("{texts}", "{bad}/binary.txt"), ["binary.txt", "binary"]),
    "truncated gzip": (PRE.replace("{texts}", "{bad}/cut.txt.gz"), ["cut.txt.gz", "truncated"]),
    "wrong column in JSON": (
        WARM.replace("{train}", "{bad}/columns.jsonl"),
        ["columns.jsonl line 1", "label", "stars"],
    ),
    "wrong number of columns": (WARM.replace("{train}", "{bad}/three.tsv"), ["three.tsv line 1"]),
    "column that is no role": (f"{WARM} --columns label,texte", ["--columns", "texte"]),
    "columns without label": (f"{WARM} --columns text", ["--columns", "label"]),
    "one class": (WARM.replace("{train}", "{bad}/one.tsv"), ["one.tsv", "'same'"]),
    "labels missing": (WARM.replace("{train}", "{texts}"), ["unlabelled.txt", "labels"]),
    "lengths differ": (
        f"{WARM} --train-labels {{bad}}/word.txt".replace("{train}", "{texts}"),
        ["200", "word.txt", "1"],
    ),
    "label not in training": (
        WARM.replace("{valid}", "{bad}/unseen.tsv"),
        ["unseen.tsv line 2", "'odd'", "negative, positive"],
    ),
    "labelled folder": (WARM.replace("{train}", "{bad}"), ["{bad}", "folder"]),
    "unknown preset": (PRE.replace("preset tiny", "preset tinny"), ["'tinny'", "'tiny'"]),
    "heads do not divide width": (f"{PRE} --heads 3", ["width", "16", "heads", "3"]),
    "existing run": (PRE.replace("{out}", "{base}"), ["{base}", "--resume"]),
    "existing run for finetune": (WARM.replace("{out}", "{base}"), ["{base}", "--resume"]),
    "out is a file": (PRE.replace("{out}", "{bad}/word.txt"), ["word.txt", "file"]),
    "out below a file": (PRE.replace("{out}", "{bad}/word.txt/run"), ["word.txt"]),
    "nested out": (PRE.replace("{out}", "a/b/c").replace("{texts}", "gone.txt"), ["gone.txt"]),
    "unknown key": (f"{PRE} --config {{bad}}/key.toml", ["key.toml", "'stepz'", "'steps'"]),
    "broken TOML": (f"{PRE} --config {{bad}}/broken.toml", ["broken.toml", "line 1"]),
    "missing TOML": (f"{PRE} --config gone.toml", ["gone.toml"]),
    "wrong type in TOML": (
        f"pretrain {{texts}} -o {{out}} {SHAPE} --config {{bad}}/type.toml",
        ["steps", "'many'"],
    ),
    "steps and tokens": (f"{PRE} --tokens 100", ["--steps", "--tokens"]),
    "negative steps": (f"{PRE} --steps -3", ["--steps", "-3"]),
    "rate is not a number": (f"{PRE} --learning-rate nan", ["--learning-rate", "nan"]),
    "rate without end": (f"{PRE} --learning-rate inf", ["--learning-rate", "inf"]),
    "small vocabulary": (f"{PRE} --vocab-size 100", ["--vocab-size", "100", "261"]),
    "room for no token": (f"{WARM} --max-length 2", ["--max-length", "2"]),
    "no CUDA": (f"{PRE} --device cuda", ["--device cuda"]),
    "frozen and cold": (f"{FINE} --frozen", ["--frozen", "--from"]),
    "from nothing": (f"{FINE} --from gone", ["gone"]),
    "from no run": (f"{FINE} --from {{bad}}", ["{bad}", "config.json"]),
    "from an absent checkpoint": (f"{WARM}/checkpoints/step-99", ["step-99"]),
    "pretrain from a classifier": (f"{PRE} --from {{warm}}", ["{warm}"]),
    "another shape with from": (f"{WARM} --width 32", ["--width", "--from"]),
    "tokenizer with from": (f"{WARM} --tokenizer {{warm}}/../other", ["--tokenizer", "--from"]),
    "more than learned positions": (
        f"{FINE} --from {{learned}} --max-length 32",
        ["--max-length 32", "16"],
    ),
    "compare beyond learned positions": (
        f"{COMPARE} --max-length 32".replace("{base}", "{learned}"),
        ["--max-length 32", "16"],
    ),
    "second stage beyond learned positions": (
        "pretrain {texts} -o {out} --steps 2 --from {learned} --max-length 32",
        ["--max-length 32", "16"],
    ),
    "too many labels": (f"{COMPARE} --labels 9999", ["--labels 9999", "48"]),
    "labels in letters": (f"{COMPARE} --labels abc", ["--labels", "'abc'"]),
    "fewer labels than classes": (f"{COMPARE} --labels 1", ["--labels", "1"]),
    "seeds twice": (f"{COMPARE} --seeds 0,0", ["--seeds", "0, 0"]),
    "seeds in letters": (f"{COMPARE} --seeds a,b", ["--seeds", "a,b"]),
    "negative seed": (f"{COMPARE} --seeds=-1", ["--seeds", "-1"]),
    "the same run twice": (f"{COMPARE} --from {{base}} --seeds 0 --trials 1", ["--from"]),
    "compare from a comparison": (f"{COMPARE}".replace("{base}", "{bad}/comparison"), ["compare"]),
    "predict with a language model": ("predict {base} {texts}", ["{base}", "language model"]),
    "predict a missing file": ("predict {warm} gone.txt", ["gone.txt"]),
    "predict into a folder": ("predict {warm} {texts} -o {bad}", ["{bad}", "folder"]),
    "generate with a classifier": ("generate {warm}", ["{warm}", "classifier"]),
    "long prompt": (f"generate {{base}} --prompt '{'word ' * 40}'", ["--prompt", "16"]),
    "evaluate on another task": ("evaluate {warm} --test {bad}/unseen.tsv", ["'odd'"]),
    "evaluate on a missing file": ("evaluate {warm} --test gone.tsv", ["gone.tsv"]),
    "data without files": ("data", ["FILES"]),
    "data against nothing": ("data {train} --against gone", ["gone"]),
    "demo onto a run": ("demo -o {base}", ["{base}", "--resume"]),
    "demo onto a file": ("demo -o {bad}/word.txt", ["word.txt"]),
    "tokenizer onto a run": ("tokenizer {texts} -o {base}", ["{base}"]),
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory, world: World, base: Path) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "empty.txt").touch()
    (folder / "empty.tsv").touch()
    (folder / "blank.txt").write_text("\n\n\n")
    (folder / "word.txt").write_text("word\n")
    (folder / "latin.txt").write_bytes("un\ncafé\n".encode("latin-1"))
    (folder / "binary.txt").write_bytes(bytes(range(256)) * 4)
    (folder / "cut.txt.gz").write_bytes(gzip.compress(world.texts.read_bytes())[:-300])
    (folder / "columns.jsonl").write_text('{"text": "a book", "stars": 3}\n')
    (folder / "three.tsv").write_text("1\tgood\ta book\n")
    write_labelled(folder / "one.tsv", [("same", f"book {n}") for n in range(4)])
    write_labelled(folder / "unseen.tsv", [("odd", "a book")])
    (folder / "key.toml").write_text("stepz = 3\n")
    (folder / "broken.toml").write_text("steps = \n")
    (folder / "type.toml").write_text('steps = "many"\n')
    (folder / "comparison").mkdir()
    config = json.loads((base / "config.json").read_text())
    shutil.copy(base / "tokenizer.json", folder / "comparison")
    (folder / "comparison" / "config.json").write_text(json.dumps({**config, "command": "compare"}))
    return folder


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory, world: World) -> Path:
    folder = tmp_path_factory.mktemp("learned") / "run"
    succeed(f"pretrain {world.texts} -o {folder} {TINY} --positions learned")
    return folder


def contents(*folders: Path) -> dict[Path, int]:
    return {p: p.stat().st_mtime_ns for f in folders for p in f.rglob("*") if p.is_file()}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(
    mistake: str, world: World, base: Path, warm: Path, bad: Path, learned: Path, here: Path
) -> None:
    command, named = MISTAKES[mistake]
    places = {**vars(world), "base": base, "warm": warm, "bad": bad, "learned": learned}
    before = contents(bad, base, warm, world.train.parent)
    ran = run(command, **places, out=here / "out")
    assert ran.code == 2, ran
    assert ran.said.startswith("warmstart: ")
    assert "Traceback" not in ran.err
    assert ran.err.count("warmstart: ") == 1
    for word in named:
        assert word.format(**places) in ran.said
    assert list(here.iterdir()) == []
    assert contents(bad, base, warm, world.train.parent) == before


# a run folder that came to harm: the file, its new content (None: gone), and what must be named
HARM: dict[str, tuple[str, bytes | None, list[str]]] = {
    "weights cut": ("model.safetensors", b"\x40\0\0\0\0\0\0\0{", ["model.safetensors"]),
    "weights gone": ("model.safetensors", None, ["model.safetensors"]),
    "config cut": ("config.json", b'{"command": "fine', ["config.json"]),
    "config empty": ("config.json", b"{}", ["config.json", "command"]),
    "config gone": ("config.json", None, ["config.json"]),
    "config of something else": ("config.json", b'{"hidden_size": 768}', ["config.json"]),
    "tokenizer cut": ("tokenizer.json", b"{", ["tokenizer.json"]),
    "tokenizer gone": ("tokenizer.json", None, ["tokenizer.json"]),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_run_is_named(harm: str, warm: Path, here: Path) -> None:
    name, content, named = HARM[harm]
    shutil.copytree(warm, here / "run")
    if content is None:
        (here / "run" / name).unlink()
    else:
        (here / "run" / name).write_bytes(content)
    ran = run("predict run", b"a book\n")
    assert ran.code == 2
    assert ran.err.startswith("warmstart: run")
    assert all(word in ran.said for word in named)
    assert ran.out == ""


EDITS = {
    "wrong type": ("model", {"width": "16"}),
    "wrong word": ("model", {"norm": "foo"}),
    "wrong width": ("model", {"width": 32}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_config_is_refused(edit: str, warm: Path, here: Path) -> None:
    key, change = EDITS[edit]
    shutil.copytree(warm, here / "run")
    config = json.loads((warm / "config.json").read_text())
    (here / "run" / "config.json").write_text(
        json.dumps({**config, key: {**config[key], **change}})
    )
    ran = run("predict run", b"a book\n")
    assert ran.code == 2
    assert "run" in ran.said


@pytest.mark.parametrize("key", ["classes", "pooling", "truncate"])
def test_a_config_that_lacks_a_key_is_refused_by_name(key: str, warm: Path, here: Path) -> None:
    shutil.copytree(warm, here / "run")
    config = json.loads((warm / "config.json").read_text())
    config.pop(key, None)
    config["settings"].pop(key, None)
    (here / "run" / "config.json").write_text(json.dumps(config))
    ran = run("predict run", b"a book\n")
    assert ran.code == 2
    assert key in ran.said


def test_a_tokenizer_that_does_not_fit_is_refused(world: World, warm: Path, here: Path) -> None:
    shutil.copytree(warm, here / "run")
    succeed(f"tokenizer {world.texts} -o other --vocab-size 400")
    shutil.copy(here / "other" / "tokenizer.json", here / "run")
    ran = run("predict run", b"a book\n")
    assert ran.code == 2
    assert "400" in ran.said
    assert "300" in ran.said


def test_a_comparison_reads_all_it_needs_before_it_trains(
    world: World, base: Path, here: Path
) -> None:
    shutil.copytree(base, here / "run")
    (here / "run" / "data.json").unlink()
    places = {**vars(world), "base": "run", "out": "out"}
    ran = run(f"{COMPARE} --seeds 0 --trials 1", **places)
    assert ran.code == 2
    assert "data.json" in ran.said
    assert not (here / "out").exists()
