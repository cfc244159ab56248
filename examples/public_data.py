"""Fetch a public data set from its usual address, and write files that warmstart reads.

    python examples/public_data.py imdb data/imdb
    python examples/public_data.py multi30k data/multi30k --source /media/usb/multi30k

`--source` is another address, or a folder, with the same files: fetch once, carry them to class.
The data sets have licences of their own; read them before you pass anything on.
"""

import argparse
import gzip
import io
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.request import urlopen

SOURCES = {
    "webis-cls": "https://zenodo.org/records/3251672/files/",
    "imdb": "https://ai.stanford.edu/~amaas/data/sentiment/",
    "multi30k": "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/",
}
Rows = list[tuple[str, str]]  # label, text


def fetch(source: str, name: str) -> bytes:
    """Return a file of an address or of a folder."""
    if "://" not in source:
        return (Path(source) / name).read_bytes()
    print(f"fetching {source}{name}")
    with urlopen(source + name) as answer:
        return bytes(answer.read())


def members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of every file of a .tar.gz; nothing is unpacked to the disk."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name, file.read()


def one_line(text: str) -> str:
    """Return a text without line breaks, those of HTML too."""
    return " ".join(text.replace("<br />", " ").split())


def webis_cls(source: str, out: Path) -> None:
    """French book reviews (Webis-CLS-10): 4 and 5 stars against 1 and 2."""
    reviews: dict[str, Rows] = {}
    for path, content in members(fetch(source, "cls-acl10-unprocessed.tar.gz")):
        folder, _, name = path.rpartition("/")
        if folder.endswith("fr/books") and name.endswith(".review"):
            items = ET.fromstring(content).iter("item")
            rows = [(item.findtext("rating") or "", item.findtext("text") or "") for item in items]
            reviews[name.removesuffix(".review")] = [
                ("positive" if float(stars) > 3 else "negative", one_line(text))
                for stars, text in rows
            ]
    write_reviews(out, reviews["train"], reviews["test"], [t for _, t in reviews["unlabeled"]])


def imdb(source: str, out: Path) -> None:
    """English film reviews (Maas et al., 2011)."""
    labels = {"pos": "positive", "neg": "negative", "unsup": ""}
    reviews: dict[str, Rows] = {"train": [], "test": []}
    for path, content in sorted(members(fetch(source, "aclImdb_v1.tar.gz"))):
        *_, part, kind, name = ("", "", *path.split("/"))
        if part in reviews and kind in labels and name.endswith(".txt"):
            reviews[part].append((labels[kind], one_line(content.decode("utf-8"))))
    train = [(label, text) for label, text in reviews["train"] if label]
    write_reviews(out, train, reviews["test"], [t for label, t in reviews["train"] if not label])


def multi30k(source: str, out: Path) -> None:
    """Image captions in English, German and French, a sentence on each line."""
    for ours, theirs in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):
        for language in ("en", "de", "fr"):
            text = gzip.decompress(fetch(source, f"{theirs}.{language}.gz")).decode("utf-8")
            write(out / f"{ours}.{language}", text.removesuffix("\n").split("\n"))


def write_reviews(out: Path, train: Rows, test: Rows, unlabelled: Iterable[str]) -> None:
    """Write tables, with every fifth training text of a label in valid.tsv, and the other texts.

    Training and test texts are left out of the unlabelled ones.
    """
    rest, valid, seen = [], [], {text for _, text in (*train, *test)}
    for label in sorted({label for label, _ in train}):
        texts = [text for found, text in train if found == label]
        valid += [(label, text) for text in texts[::5]]
        rest += [(label, text) for number, text in enumerate(texts) if number % 5]
    for name, rows in (("train", rest), ("valid", valid), ("test", test)):
        write(out / f"{name}.tsv", ["label\ttext", *map("\t".join, rows)])
    write(out / "unlabelled.txt", (text for text in dict.fromkeys(unlabelled) if text not in seen))


def write(path: Path, lines: Iterable[str]) -> None:
    """Write lines, and say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    print(f"wrote {path}")


def main() -> None:
    """Read the arguments, fetch, write."""
    parser = argparse.ArgumentParser(description="Fetch a public data set, write it for warmstart.")
    parser.add_argument("name", choices=SOURCES)
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--source", help="another address, which ends with /, or a folder")
    chosen = parser.parse_args()
    prepare = {"webis-cls": webis_cls, "imdb": imdb, "multi30k": multi30k}[chosen.name]
    prepare(chosen.source or SOURCES[chosen.name], chosen.out)


if __name__ == "__main__":
    main()
