"""Tagged words in every form, and awkward files, each with its sentence."""

import json
from pathlib import Path

import pytest

from warmstart.data.tagged import find_words, read_tagged, tagged_form
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat

WORDS, TAGS = ["Anna", "Keller", "left", "#Lyon", "."], ["B-per", "I-per", "O", "B-loc", "O"]
CONLL = "".join(f"{word}\t{tag}\n" for word, tag in zip(WORDS, TAGS, strict=True))
SPANS = [{"start": 0, "end": 11, "label": "per"}, {"start": 17, "end": 22, "label": "loc"}]


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_every_form_reads_the_same(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"tokens": [WORDS, ["x"]], "tags": [TAGS, ["O"]]})
    pq.write_table(table, tmp_path / "a.parquet")
    record = {"tokens": WORDS, "tags": TAGS}
    other = {"tokens": ["x"], "tags": ["O"]}
    lines = "".join(json.dumps(row) + "\n" for row in (record, other))
    cells = f"tokens;tags\n{WORDS};{TAGS}\n['x'];['O']\n"
    files = [
        write(tmp_path / "a.conll", f"\n{CONLL}\n\nx\tO\n"),
        write(tmp_path / "b.conll", CONLL.replace("\t", "  ") + "\nx O"),
        write(tmp_path / "c.conll", f"-DOCSTART- -X- O\n\n{CONLL.replace(chr(9), ' NN ')}\nx NN O"),
        write(tmp_path / "a.jsonl", lines),
        write(tmp_path / "a.csv", cells),
        tmp_path / "a.parquet",
    ]
    for file in files:
        data = read_tagged(file)
        assert data.texts == ("Anna Keller left #Lyon .", "x"), file
        assert data.labels == (tuple(TAGS), ("O",)), file
        text, words = data.texts[0], data.words[0]
        assert [text[a:b] for a, b in words] == WORDS
        assert tagged_form(file) is not None, file
        assert "tags of 2 kinds of entity (loc, per)" in data.description


def test_spans_mark_the_text_as_it_is(tmp_path: Path) -> None:
    row = {"text": "Anna Keller left #Lyon.", "spans": SPANS}
    data = read_tagged(write(tmp_path / "a.jsonl", json.dumps(row)))
    assert data.texts == (row["text"],)
    assert data.labels == (tuple(TAGS),)
    triples = {**row, "spans": [[0, 12, "per"]]}  # the space after a name is left out
    data = read_tagged(write(tmp_path / "b.jsonl", json.dumps(triples)))
    assert data.labels[0][:3] == ("B-per", "I-per", "O")
    inside = {"text": "Annabel", "spans": [[0, 4, "per"]]}
    data = read_tagged(write(tmp_path / "c.jsonl", json.dumps(inside)))
    assert (data.words[0], data.labels[0]) == (((0, 4), (4, 7)), ("B-per", "O"))


def test_words_that_begin_with_a_hash_are_words(tmp_path: Path) -> None:
    data = read_tagged(write(tmp_path / "a.conll", "#\tO\n#tag\tO\n# x\tB-a\n"))
    assert data.texts == ("# #tag # x",)
    assert data.words[0][-1] == (7, 10)


def test_columns_are_chosen(tmp_path: Path) -> None:
    file = write(tmp_path / "a.conll", "1\tAnna\tNOUN\tB-x\n")
    data = read_tagged(file, TableFormat(columns=("_", "tokens", "tags", "_")))
    assert (data.texts, data.labels) == (("Anna",), (("NOUN",),))
    assert "columns 2 and 3 of 4" in data.description


def test_a_file_that_may_be_something_else_is_not_claimed(tmp_path: Path) -> None:
    assert tagged_form(write(tmp_path / "a.tsv", "label\ttext\npositive\tA fine book.\n")) is None
    assert tagged_form(write(tmp_path / "a.txt", "A fine book.\n\nAnother.\n")) is None
    assert tagged_form(write(tmp_path / "b.txt", f"{CONLL}\n{CONLL}")) is not None
    assert tagged_form(tmp_path / "absent.conll") is None


def test_words_of_a_text() -> None:
    text = "It's @paul's l'homme, see http://x.org/a?b! U.S.-based “test”…"
    words = [text[a:b] for a, b in find_words(text)]
    assert words[:6] == ["It", "'s", "@paul", "'s", "l'", "homme"]
    assert "http://x.org/a?b!" in words
    assert "".join(words) == "".join(text.split())


AWKWARD = {
    "one field.conll": ("Anna B-x\nleft\n", "line 2: 1 field, but 2 expected; a line is a word"),
    "comment.conll": ("# text = Anna left\nAnna\tO\n", "line 2: 2 fields, but 5 expected"),
    "tab comment.conll": ("Anna\tO\n# sent 2\nx\tO\n", "there are no comments"),
    "no word.conll": ("Anna\tO\n\tO\n", "line 2: no word; a line is a word"),
    "no tag.conll": ("Anna\tO\nleft\t\n", "line 2: no tag"),
    "one column.conll": ("Anna\nleft\n", "line 1: 1 field, but 2 expected"),
    "empty.conll": ("\n\n \n", "no sentence with tagged words"),
    "unequal.jsonl": ({"tokens": ["a", "b"], "tags": ["O"]}, "2 words but 1 tag; every word needs"),
    "text.jsonl": ({"tokens": "Anna left", "tags": ["O"]}, "tokens is 'Anna left', not a list"),
    "number.jsonl": ({"tokens": ["a", 5], "tags": ["O", "O"]}, "the word 5 is no text, or empty"),
    "null.jsonl": ({"tokens": ["a"], "tags": [None]}, "the tag null is neither text nor a number"),
    "overlap.jsonl": (
        {"text": "Anna Keller", "spans": [[0, 11, "per"], [5, 11, "loc"]]},
        "the spans 'per' and 'loc' overlap at character 5",
    ),
    "outside.jsonl": (
        {"text": "Anna", "spans": [[2, 9, "per"]]},
        "marks nothing in its text, which has 4 characters",
    ),
    "blank.jsonl": ({"text": "Anna left", "spans": [[4, 5, "x"]]}, "marks nothing in its text"),
    "label.jsonl": ({"text": "Anna", "spans": [[0, 4, ""]]}, "has no label"),
    "keys.jsonl": ({"text": "Anna", "spans": [{"from": 0}]}, "needs start, end and label"),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_files_are_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    content, complaint = AWKWARD[name]
    written = content if isinstance(content, str) else json.dumps(content)
    with pytest.raises(WarmstartError) as caught:
        read_tagged(write(tmp_path / name, written))
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_sentences_without_words_are_skipped_and_counted(tmp_path: Path) -> None:
    rows = [{"tokens": [], "tags": []}, {"tokens": ["a"], "tags": ["B-x"]}]
    data = read_tagged(write(tmp_path / "a.jsonl", "".join(json.dumps(r) + "\n" for r in rows)))
    assert (len(data), data.skipped, data.lines) == (1, 1, (2,))


def test_an_inside_tag_with_nothing_before_is_told(tmp_path: Path) -> None:
    data = read_tagged(write(tmp_path / "a.conll", "Anna\tI-per\nKeller\tI-per\nx\tO\n"))
    assert data.labels == (("B-per", "I-per", "O"),)
    assert "1 tag I- or E- with nothing to continue, read as B-" in data.description
