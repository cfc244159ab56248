"""The script that prepares public data sets, on archives laid out as the published ones."""

import gzip
import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "examples/public_data.py"


def prepare(name: str, source: Path) -> Path:
    """Run the script and return the folder that it wrote."""
    out = source / "prepared"
    command = [sys.executable, str(SCRIPT), name, str(out), "--source", str(source)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out


def write_tar(path: Path, files: Mapping[str, str]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))


def review(name: str) -> str:
    return f'« {name} » est\n"un livre"<br />\tà lire'


def clean(name: str) -> str:
    return f'« {name} » est "un livre" à lire'


def rows(path: Path) -> list[tuple[str, str]]:
    header, *lines = path.read_text("utf-8").splitlines()
    assert header == "label\ttext"
    return [(label, text) for label, text in (line.split("\t") for line in lines)]


def test_reviews_in_french(tmp_path: Path) -> None:
    def page(names: list[str]) -> str:
        stars = (5.0, 1.0, 4.0, 2.0)
        items = "".join(
            f"<item><rating>{stars[n % 4]}</rating><text><![CDATA[{review(name)}]]></text></item>"
            for n, name in enumerate(names)
        )
        return f"<?xml version='1.0' encoding='utf-8'?>\n<items>{items}</items>"

    train = [f"train {n}" for n in range(12)]
    parts = {"train": train, "test": ["test 0", "test 1"], "unlabeled": ["other", train[0]]}
    folder = "cls-acl10-unprocessed"
    files = {f"{folder}/fr/books/{part}.review": page(names) for part, names in parts.items()}
    files |= {f"{folder}/de/books/train.review": "<no xml", f"{folder}/README": "read me"}
    write_tar(tmp_path / f"{folder}.tar.gz", files)

    out = prepare("webis-cls", tmp_path)
    parts = {name: rows(out / f"{name}.tsv") for name in ("train", "valid", "test")}
    assert parts["test"] == [("positive", clean("test 0")), ("negative", clean("test 1"))]
    assert sorted(text for part in ("train", "valid") for _, text in parts[part]) == sorted(
        map(clean, train)
    )
    assert {label for label, _ in parts["valid"]} == {"negative", "positive"}
    assert (out / "unlabelled.txt").read_text("utf-8") == clean("other") + "\n"


def test_reviews_of_films(tmp_path: Path) -> None:
    kinds = [f"train/{kind}" for kind in ("pos", "neg", "unsup")] + ["test/pos", "test/neg"]
    files = {f"aclImdb/{kind}/{n}_7.txt": review(f"{kind} {n}") for kind in kinds for n in range(5)}
    files |= {"aclImdb/README": "read me", "aclImdb/train/urls_pos.txt": "http"}
    write_tar(tmp_path / "aclImdb_v1.tar.gz", files)

    out = prepare("imdb", tmp_path)
    assert len(rows(out / "train.tsv")) == 8
    assert len(rows(out / "valid.tsv")) == 2
    assert ("positive", clean("test/pos 3")) in rows(out / "test.tsv")
    assert len((out / "unlabelled.txt").read_text("utf-8").splitlines()) == 5


def test_captions_stay_aligned(tmp_path: Path) -> None:
    for part in ("train", "val", "test_2016_flickr"):
        for language in ("en", "de", "fr"):
            text = f"{part} {language}\u2028\x85\n\nlast\n"
            (tmp_path / f"{part}.{language}.gz").write_bytes(gzip.compress(text.encode()))

    out = prepare("multi30k", tmp_path)
    assert (out / "valid.de").read_bytes().decode() == "val de\u2028\x85\n\nlast\n"
    assert len(list(out.iterdir())) == 9
