"""Mistakes a user makes: each gets exit code 2 and one sentence, and leaves nothing behind."""

import bz2
import gzip
import json
import lzma
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save

from command_line import QUICK, SHAPE, TINY, World, refuse, run, succeed, weights_of, write_labelled

VOCAB = "--vocab-size 300"
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
    "only carriage returns": (PRE.replace("{texts}", "{bad}/mac.txt"), ["mac.txt", "(CR) alone"]),
    "a table with only carriage returns": (
        WARM.replace("{train}", "{bad}/mac.csv"),
        ["mac.csv", "(CR) alone", "LF"],
    ),
    "a carriage return in a row": (
        WARM.replace("{train}", "{bad}/mixed.csv"),
        ["mixed.csv line 2", "carriage return"],
    ),
    "nothing below the header": (
        WARM.replace("{train}", "{bad}/head.csv"),
        ["head.csv: no rows with text and label;", "only a header"],
    ),
    "a second text": ("predict {base} --text one --text two", ["--text was given 2 times"]),
    "columns in two options": (
        "data {train} --columns text=a --columns label=b",
        ["--columns was given 2 times"],
    ),
    "a model that is not in a folder": ("import gone/model -o {out}", ["hf:OWNER/NAME"]),
    "missing job": ("verify-resume gone.toml", ["warmstart: gone.toml does not exist"]),
    "blank lines only": (PRE.replace("{texts}", "{bad}/blank.txt"), ["blank.txt"]),
    "too little text": (PRE.replace("{texts}", "{bad}/word.txt"), ["word.txt"]),
    "not UTF-8": (PRE.replace("{texts}", "{bad}/latin.txt"), ["latin.txt line 2", "UTF-8"]),
    "binary file": (PRE.replace("{texts}", "{bad}/binary.txt"), ["binary.txt", "binary"]),
    "truncated gzip": (PRE.replace("{texts}", "{bad}/cut.txt.gz"), ["cut.txt.gz", "truncated"]),
    "wrong column in JSON": (
        WARM.replace("{train}", "{bad}/columns.jsonl"),
        ["columns.jsonl", "[text | n | m]", "--columns text=text,label=n"],
    ),
    "wrong number of columns": (
        WARM.replace("{train}", "{bad}/three.tsv"),
        ["three.tsv", "--columns"],
    ),
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
    "labelled folder": (WARM.replace("{valid}", "{bad}"), ["{bad}", "folder"]),
    "unknown preset": (PRE.replace("preset tiny", "preset tinny"), ["'tinny'", "'tiny'"]),
    "heads do not divide width": (f"{PRE} --heads 3", ["--width 16", "--heads 3"]),
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
    "long prompt": (f"generate {{base}} --prompt '{'word ' * 40}'", ["the prompt has", "reads 16"]),
    "evaluate on another task": ("evaluate {warm} --test {bad}/unseen.tsv", ["'odd'"]),
    "evaluate on a missing file": ("evaluate {warm} --test gone.tsv", ["gone.tsv"]),
    "data without files": ("data", ["FILES"]),
    "data against nothing": ("data {train} --against gone", ["gone"]),
    "demo onto a run": ("demo -o {base}", ["{base}", "--resume"]),
    "demo onto a file": ("demo -o {bad}/word.txt", ["word.txt"]),
    "tokenizer onto a run": ("tokenizer {texts} -o {base}", ["{base}"]),
    "UTF-16": (PRE.replace("{texts}", "{bad}/wide.txt"), ["wide.txt line 1", "UTF-16"]),
    "NUL in a later line": (PRE.replace("{texts}", "{bad}/nul.txt"), ["nul.txt line 2", "NUL"]),
    "truncated xz": (PRE.replace("{texts}", "{bad}/cut.txt.xz"), ["cut.txt.xz", "truncated"]),
    "truncated bz2": (PRE.replace("{texts}", "{bad}/cut.txt.bz2"), ["cut.txt.bz2", "truncated"]),
    "truncated zst": (PRE.replace("{texts}", "{bad}/cut.txt.zst"), ["cut.txt.zst", "truncated"]),
    "gzip in name only": (PRE.replace("{texts}", "{bad}/plain.txt.gz"), ["plain.txt.gz line 1"]),
    "xz in name only": (PRE.replace("{texts}", "{bad}/plain.txt.xz"), ["plain.txt.xz line 1"]),
    "zst in name only": (PRE.replace("{texts}", "{bad}/plain.txt.zst"), ["plain.txt.zst line 1"]),
    "damage inside gzip": (PRE.replace("{texts}", "{bad}/hurt.txt.gz"), ["hurt.txt.gz"]),
    "a pipe": (PRE.replace("{texts}", "{bad}/pipe"), ["pipe", "more than once"]),
    "truncated Parquet": (WARM.replace("{train}", "{bad}/cut.parquet"), ["cut.parquet", "Parquet"]),
    "Parquet in name only": (PRE.replace("{texts}", "{bad}/plain.parquet"), ["plain.parquet"]),
    "Parquet without the column": (
        WARM.replace("{train}", "{bad}/other.parquet"),
        ["other.parquet", "label", "[text | n | m]"],
    ),
    "Parquet with numbers for texts": (
        WARM.replace("{train}", "{bad}/numbers.parquet"),
        ["numbers.parquet row 1", "7"],
    ),
    "Parquet with a column twice": (
        WARM.replace("{train}", "{bad}/twice.parquet"),
        ["twice.parquet", "text", "more than once"],
    ),
    "CSV with a column twice": (
        WARM.replace("{train}", "{bad}/twice.csv"),
        ["twice.csv", "text", "more than once"],
    ),
    "CSV with an open quote": (WARM.replace("{train}", "{bad}/open.csv"), ["open.csv line 2"]),
    "CSV with a short row": (
        WARM.replace("{train}", "{bad}/short.csv"),
        ["short.csv line 3", "1 field", "2 expected"],
    ),
    "JSON cut off": (WARM.replace("{train}", "{bad}/cut.jsonl"), ["cut.jsonl line 2", "JSON"]),
    "JSON that is no object": (WARM.replace("{train}", "{bad}/list.jsonl"), ["list.jsonl line 1"]),
    "JSON with a key twice": (
        WARM.replace("{train}", "{bad}/twice.jsonl"),
        ["twice.jsonl line 1", "'text'", "more than once"],
    ),
    "JSON nested without end": (WARM.replace("{train}", "{bad}/deep.jsonl"), ["deep.jsonl line 1"]),
    "JSON with half a character": (
        WARM.replace("{train}", "{bad}/half.jsonl"),
        ["half.jsonl line 1", "surrogate"],
    ),
    "JSON with half a character in another column": (
        "predict {warm} {bad}/half-note.jsonl -o {bad}/half.csv",
        ["half-note.jsonl line 2", "'note'", "surrogate"],
    ),
    "no label": (WARM.replace("{train}", "{bad}/unlabelled.tsv"), ["unlabelled.tsv", "no rows"]),
    "header only": (WARM.replace("{train}", "{bad}/header.tsv"), ["header.tsv", "no rows"]),
    "labels not UTF-8": (
        f"{WARM} --train-labels {{bad}}/latin.txt".replace("{train}", "{bad}/two.txt"),
        ["latin.txt line 2", "UTF-8"],
    ),
    "negative width": (f"{PRE} --width -8", ["--width", "-8"]),
    "no heads": (f"{PRE} --heads 0", ["--heads", "0"]),
    "dropout above one": (f"{PRE} --dropout 1.5", ["--dropout", "1.5"]),
    "negative keep": (f"{PRE} --keep 0", ["--keep", "0"]),
    "no minutes between checkpoints": (f"{PRE} --save-minutes 0", ["--save-minutes", "0"]),
    "true for a number": (f"{PRE} --config {{bad}}/true.toml", ["--keep", "True"]),
    "a table for a number": (f"{PRE} --config {{bad}}/table.toml", ["--keep", "a"]),
    "settings that are a list": (f"{PRE} --config {{bad}}/list.json", ["list.json"]),
    "settings nested without end": (f"{PRE} --config {{bad}}/deep.json", ["deep.json"]),
    "settings of another command": (f"{PRE} --config {{warm}}/config.json", ["finetune"]),
    "settings in a folder": (f"{PRE} --config {{bad}}", ["{bad}"]),
    "settings in another encoding": (f"{PRE} --config {{bad}}/latin.toml", ["latin.toml"]),
    "no tokenizer there": (f"{PRE} --tokenizer {{bad}}".replace(VOCAB, ""), ["{bad}"]),
    "another JSON for a tokenizer": (
        f"{PRE} --tokenizer {{base}}/config.json".replace(VOCAB, ""),
        ["config.json", "tokenizer"],
    ),
    "noise for a SentencePiece model": (
        f"{PRE} --tokenizer {{bad}}/noise.model".replace(VOCAB, ""),
        ["noise.model", "SentencePiece"],
    ),
    "an empty destination": (PRE.replace("{out}", "''"), ["--out is empty"]),
    "an empty input": ("predict {warm} ''", ["FILE is empty"]),
    "the current folder": ("tokenizer {texts} -o .", ["-o .", "current folder"]),
    "a loop of links": (PRE.replace("{out}", "{bad}/loop"), ["loop", "leads back to itself"]),
    "a loop of links to write": ("tokenizer {texts} -o {bad}/loop", ["loop", "leads back"]),
    "a loop of links to read": (PRE.replace("{texts}", "{bad}/loop"), ["loop"]),
    "a loop of links for data": ("data {bad}/loop", ["{bad}/loop is a symbolic link", "itself"]),
    "a link to nothing": ("data {bad}/dangling", ["{bad}/dangling is a symbolic link", "gone.txt"]),
    "an argument that is not UTF-8": ("data caf\udce9.txt", ["caf\\udce9.txt", "rename it"]),
    "too few labels to validate on": (
        "compare --from {base} --train {train} --labels 3 -o {out}",
        ["--labels 3", "2 classes", "2 set aside"],
    ),
    "too many entries to count": ("params lab --vocab-size 100000000", ["--vocab-size 100000000"]),
    "a loop of links for texts": ("predict {warm} {bad}/loop -o {bad}/loop", ["loop"]),
    "a pipe for a table": (WARM.replace("{train}", "{bad}/pipe.tsv"), ["pipe.tsv", "a pipe"]),
    "a pipe for labels": (
        f"{WARM} --train-labels {{bad}}/pipe".replace("{train}", "{texts}"),
        ["a pipe or a device"],
    ),
    "a pipe for sentences": (
        "train-translator --source {bad}/pipe --target {texts} --valid-source {texts} "
        "--valid-target {texts} -o {out}",
        ["a pipe or a device"],
    ),
    "a pipe for the test": (f"{COMPARE} --test {{bad}}/pipe.tsv", ["a pipe or a device"]),
    "a pipe to score": ("evaluate {warm} --test {bad}/pipe.tsv", ["pipe.tsv"]),
    "a table in a pipe": ("predict {warm} {bad}/pipe.tsv", ["pipe.tsv"]),
    "NUL in a path": (f"{PRE} --config {{bad}}/nul.toml", ["--tokenizer", "NUL"]),
    "a name that is not UTF-8": (PRE.replace("{texts}", "{bad}/names"), ["not UTF-8", "udcff.txt"]),
    "a billion blocks": (f"{PRE} --depth 1000000000", ["--depth 1000000000", "10,000"]),
    "a billion dimensions": (f"{PRE} --width 1000000000", ["--width 1000000000"]),
    "a billion positions": (f"{PRE} --max-length 1000000000000", ["--max-length"]),
    "a billion positions to count": ("params lab --max-length 100000000000", ["--max-length 1"]),
    "a vocabulary for all words of the world": (
        "tokenizer {texts} -o {out} --vocab-size 99999999999",
        ["--vocab-size 99999999999", "16,777,216"],
    ),
    "a rate that no number holds": (f"{PRE} --learning-rate 1e300", ["--learning-rate 1e+300"]),
    "an empty list": (f"{COMPARE} --seeds ''", ["--seeds is empty"]),
    "a figure over a file of the user": (
        "look positions {base} -o {bad}/mine.png",
        ["mine.png exists already", "did not draw it"],
    ),
    "a demo in a folder of the user": ("demo -o {bad} --resume", ["{bad}", "not the folder of"]),
    "a demo in a file": ("demo -o {bad}/word.txt", ["word.txt is a file"]),
    "a file to import": ("import {bad}/word.txt -o {out}", ["word.txt is a file"]),
    "a name on a hub": (
        "import bert-base-uncased -o {out}",
        ["bert-base-uncased", "hf:OWNER/NAME"],
    ),
    "a folder of settings": (f"{PRE} --config {{bad}}", ["--config {bad}", "Is a directory"]),
    "a model larger than the machine": (f"{PRE} --width 200000 --heads 2", ["GiB", "--width"]),
    "more than 64 bits": (f"{PRE} --steps {10**20}", ["--steps", f"{10**20}", "64 bits"]),
    "more than a float": (f"{PRE} --config {{bad}}/large.toml", ["--learning-rate", "finite"]),
    "prove nothing": ("verify-resume gone.toml", ["gone.toml"]),
    "prove with an unknown key": ("verify-resume {bad}/key.toml", ["key.toml", "'stepz'"]),
    "prove into a full folder": ("verify-resume -o {bad}", ["{bad}", "not empty"]),
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory, world: World, base: Path) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "empty.txt").touch()
    (folder / "empty.tsv").touch()
    (folder / "blank.txt").write_text("\n\n\n")
    (folder / "mac.txt").write_bytes(b"a book\ra film\ra song\r")
    (folder / "mac.csv").write_bytes(b"label,text\rpos,a book\rneg,a film\r")
    (folder / "mixed.csv").write_bytes(b"label,text\npos,a book\rneg,a film\n")
    (folder / "head.csv").write_text("label,text\n")
    (folder / "word.txt").write_text("word\n")
    (folder / "latin.txt").write_bytes("un\ncafé\n".encode("latin-1"))
    (folder / "binary.txt").write_bytes(bytes(range(256)) * 4)
    (folder / "cut.txt.gz").write_bytes(gzip.compress(world.texts.read_bytes())[:-300])
    _damage(folder, world.texts.read_bytes())
    (folder / "columns.jsonl").write_text('{"text": "a book", "n": 3, "m": 4}\n')
    (folder / "three.tsv").write_text("1\tgood\ta book\n")
    write_labelled(folder / "one.tsv", [("same", f"book {n}") for n in range(4)])
    write_labelled(folder / "unseen.tsv", [("odd", "a book")])
    (folder / "key.toml").write_text("stepz = 3\n")
    (folder / "broken.toml").write_text("steps = \n")
    (folder / "type.toml").write_text('steps = "many"\n')
    (folder / "comparison").mkdir()
    config = json.loads((base / "config.json").read_text())
    shutil.copy(base / "tokenizer.json", folder / "comparison")
    (folder / "comparison" / "config.json").write_text(
        json.dumps({**config, "command": "compare", "task": None})
    )
    return folder


def _damage(folder: Path, text: bytes) -> None:
    """Write files that were cut, mixed up or are something else."""
    (folder / "wide.txt").write_bytes("deux\nlignes\n".encode("utf-16"))
    (folder / "nul.txt").write_bytes(b"one\ntw\0o\n")
    zst = pa.Codec("zstd").compress(text, asbytes=True)
    packed = {"gz": gzip.compress(text), "xz": lzma.compress(text), "bz2": bz2.compress(text)}
    for ending, content in {**packed, "zst": zst}.items():
        (folder / f"cut.txt.{ending}").write_bytes(content[:-300])
        (folder / f"plain.txt.{ending}").write_bytes(b"these are plain words\n" * 9)
    hurt = bytearray(packed["gz"])
    hurt[len(hurt) // 2] ^= 0xFF
    (folder / "hurt.txt.gz").write_bytes(hurt)
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "pipe.tsv")
    tables: dict[str, pa.Table] = {
        "other": pa.table({"text": ["a"], "n": [3], "m": [4]}),
        "numbers": pa.table({"text": [7], "label": ["a"]}),
        "twice": pa.Table.from_arrays([["a"], ["b"], ["c"]], names=["text", "text", "label"]),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    (folder / "cut.parquet").write_bytes((folder / "other.parquet").read_bytes()[:-9])
    (folder / "plain.parquet").write_bytes(text)
    contents = {
        "twice.csv": "text,text,label\na,b,1\n",
        "open.csv": 'text,label\n"a,1\nb,2\n',
        "short.csv": "text,label\na,1\nb\n",
        "cut.jsonl": '{"text": "a", "label": "b"}\n{"text": "a", "la\n',
        "list.jsonl": '["text", "label"]\n',
        "twice.jsonl": '{"text": "a", "text": "b", "label": "c"}\n',
        "deep.jsonl": "[" * 100_000 + "\n",
        "half-note.jsonl": '{"text": "a"}\n{"text": "b", "note": ["\\ud800"]}\n',
        "half.jsonl": '{"text": "\\ud800", "label": "c"}\n',
        "unlabelled.tsv": "label\ttext\n \tb\n",
        "header.tsv": "label\ttext\n",
        "two.txt": "one\ntwo\n",
        "true.toml": "keep = true\n",
        "table.toml": "[keep]\na = 1\n",
        "list.json": "[1, 2]",
        "deep.json": "[" * 100_000,
    }
    for name, content in contents.items():
        (folder / name).write_text(content)
    (folder / "nul.toml").write_text('tokenizer = "a\\u0000b"\n')
    (folder / "large.toml").write_text(f"learning_rate = {10**400}\n")
    (folder / "loop").symlink_to("loop")
    (folder / "mine.png").write_bytes(b"a picture of mine")
    (folder / "dangling").symlink_to(folder / "gone.txt")
    (folder / "names").mkdir()
    Path(os.fsdecode(os.fsencode(folder / "names") + b"/\xff.txt")).write_text("text\n")
    (folder / "latin.toml").write_bytes("title = 'é'\n".encode("latin-1"))
    (folder / "noise.model").write_bytes(bytes(range(256)))


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


HEADER = b'{"a": {"dtype": "F32", "shape": [1099511627776], "data_offsets": [0, 4398046511104]}}'
TERABYTES = len(HEADER).to_bytes(8, "little") + HEADER
ELSE = save({"somebody.elses.weight": torch.zeros(2)})

# a run folder that came to harm: the file, its new content (None: gone), and what must be named
HARM: dict[str, tuple[str, bytes | None, list[str]]] = {
    "weights cut": ("model.safetensors", b"\x40\0\0\0\0\0\0\0{", ["model.safetensors"]),
    "weights gone": ("model.safetensors", None, ["model.safetensors"]),
    "config cut": ("config.json", b'{"command": "fine', ["config.json"]),
    "config empty": ("config.json", b"{}", ["config.json", "format"]),
    "config gone": ("config.json", None, ["config.json"]),
    "config of something else": ("config.json", b'{"hidden_size": 768}', ["config.json"]),
    "tokenizer cut": ("tokenizer.json", b"{", ["tokenizer.json"]),
    "tokenizer gone": ("tokenizer.json", None, ["tokenizer.json"]),
    "weights empty": ("model.safetensors", b"", ["model.safetensors"]),
    "weights that claim terabytes": ("model.safetensors", TERABYTES, ["model.safetensors"]),
    "weights of something else": ("model.safetensors", ELSE, ["run"]),
    "weights are a pickle": ("model.safetensors", b"\x80\x04\x95", ["model.safetensors"]),
    "config nested without end": ("config.json", b"[" * 100_000, ["config.json"]),
    "config not UTF-8": ("config.json", b'{"command": "\xff"}', ["config.json"]),
    "config is a list": ("config.json", b"[1]", ["config.json"]),
    "tokenizer of something else": ("tokenizer.json", b'{"a": 1}', ["tokenizer.json"]),
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
    assert "run" in refuse("predict run", b"a book\n")


@pytest.mark.parametrize("key", ["classes", "pooling", "truncate"])
def test_a_config_that_lacks_a_key_is_refused_by_name(key: str, warm: Path, here: Path) -> None:
    shutil.copytree(warm, here / "run")
    config = json.loads((warm / "config.json").read_text())
    config.pop(key, None)
    config["settings"].pop(key, None)
    (here / "run" / "config.json").write_text(json.dumps(config))
    assert key in refuse("predict run", b"a book\n")


def test_a_tokenizer_that_does_not_fit_is_refused(world: World, warm: Path, here: Path) -> None:
    shutil.copytree(warm, here / "run")
    succeed(f"tokenizer {world.texts} -o other --vocab-size 400")
    shutil.copy(here / "other" / "tokenizer.json", here / "run")
    said = refuse("predict run", b"a book\n")
    assert "400" in said
    assert "300" in said


def test_a_comparison_reads_all_it_needs_before_it_trains(
    world: World, base: Path, here: Path
) -> None:
    shutil.copytree(base, here / "run")
    (here / "run" / "data.json").unlink()
    places = {**vars(world), "base": "run", "out": "out"}
    assert "data.json" in refuse(f"{COMPARE} --seeds 0 --trials 1", **places)
    assert not (here / "out").exists()


def _unusual(name: str, text: bytes) -> bytes:
    return {
        "BOM": b"\xef\xbb\xbf" + text,
        "CRLF": text.replace(b"\n", b"\r\n"),
        "no end of line at the end": text.rstrip(b"\n"),
        "gzip": gzip.compress(text),
        "several gzip members": gzip.compress(text[:100]) + gzip.compress(text[100:]),
    }[name]


@pytest.mark.parametrize(
    "name", ["BOM", "CRLF", "no end of line at the end", "gzip", "several gzip members"]
)
def test_what_is_merely_unusual_gives_the_same_weights(
    name: str, world: World, base: Path, here: Path
) -> None:
    file = "texts.txt.gz" if "gzip" in name else "texts.txt"
    (here / file).write_bytes(_unusual(name, world.texts.read_bytes()))
    succeed(f"pretrain {file} -o run {TINY}")
    assert weights_of(here / "run") == weights_of(base)


def test_very_long_lines_work(world: World, base: Path, here: Path) -> None:
    (here / "texts.txt").write_text(world.texts.read_text().replace("\n", " ") * 40)
    succeed(f"pretrain texts.txt -o run {TINY} --tokenizer {base}".replace(VOCAB, ""))
