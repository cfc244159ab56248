"""Read sentences with a tag for each word: CoNLL files, lists of words and tags, spans in texts."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from warmstart.data.columns import parse_columns
from warmstart.data.labelled import Dataset, WordSpan
from warmstart.data.table_files import show
from warmstart.data.tables import DEFAULT, Row, column_names, open_table
from warmstart.data.tags import OUTSIDE, describe_tags, marks_entities, to_bio
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import base_suffix, format_of, read_lines, refuse_pipe

SUFFIXES = (".conll", ".iob", ".iob2", ".bio")
DOCUMENT = "-DOCSTART-"  # the first word of a line that begins a document
SNIFFED_LINES = 400  # of a file whose name says nothing
FORMS = (("tokens", "tags"), ("text", "spans"))  # the columns of tables
# A word keeps what links its parts (a.b, a-b, a/b); 's, l' and punctuation are words of their own.
WORD = re.compile(r"https?://\S+|[@#]?\w['’](?=\w{3})|[@#]?\w+(?:[-._/:&@]\w+)*|['’]\w+|\S")


def find_words(text: str) -> list[WordSpan]:
    """Return where the words of a text begin and end; punctuation marks are words."""
    return [match.span() for match in WORD.finditer(text)]


def join_words(words: Sequence[str]) -> tuple[str, tuple[WordSpan, ...]]:
    """Return words with a space between them as a text, and where each begins and ends in it."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), tuple(spans)


def tagged_form(path: Path, tables: TableFormat = DEFAULT) -> str | None:
    """Say why a file can only hold tagged words; None: it may hold something else."""
    if not path.is_file():
        return None
    if base_suffix(path) in SUFFIXES:
        return "it is a CoNLL file, with a word and its tag on each line"
    try:
        names = _column_names(path, tables)
        if form := _form_of(names):
            return f"it has the columns {' and '.join(form)}"
        if not names and _looks_like_conll(path, tables):
            return "it has a word and its tag on each line"
    except WarmstartError:  # whoever reads the file gives the reason
        return None
    return None


def _column_names(path: Path, tables: TableFormat) -> list[str]:
    if tables.columns:
        return [column.partition("=")[0].strip() for column in tables.columns]
    return [] if format_of(path) == "lines" else column_names(path, tables)


def _form_of(names: Sequence[str]) -> tuple[str, str] | None:
    return next((form for form in FORMS if set(form) <= set(names)), None)


def _looks_like_conll(path: Path, tables: TableFormat) -> bool:
    """Tell whether lines with tags of entities, and blank lines between them, begin a file."""
    if format_of(path) not in ("lines", "tsv"):
        return False
    lines = list(islice(read_lines(path, tables.encoding), SNIFFED_LINES))
    fields = [line.split("\t") for line in lines if line.strip()]
    if len(fields) == len(lines) or {len(of_line) for of_line in fields} != {2}:
        return False
    tags = {of_line[-1].strip() for of_line in fields}
    return marks_entities(tags) and tags != {OUTSIDE}


@dataclass
class _Sentences:
    """The sentences of a file, as they are read."""

    path: Path
    texts: list[str] = field(default_factory=list)
    words: list[tuple[WordSpan, ...]] = field(default_factory=list)
    tags: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    num_skipped: int = 0

    def add(self, line: int, text: str, words: Sequence[WordSpan], tags: Sequence[str]) -> None:
        """Add a sentence; one without words is skipped."""
        if not words:
            self.num_skipped += 1
            return
        self.texts.append(text)
        self.words.append(tuple(words))
        self.tags.append(list(tags))
        self.lines.append(line)

    def dataset(self, description: str) -> Dataset:
        """Return the sentences, their tags as B-, I- and O if they mark entities."""
        if not self.texts:
            raise WarmstartError(f"{self.path}: no sentence with tagged words; {description}")
        tags, num_repaired = self.tags, 0
        if marks_entities(set(chain.from_iterable(tags))):
            repaired = [to_bio(of_words) for of_words in tags]
            tags, num_repaired = [bio for bio, _ in repaired], sum(num for _, num in repaired)
        description += f"; {describe_tags(tags)}"
        if num_repaired:
            description += (
                f"; {quantity(num_repaired, 'tag')} I- or E- with nothing to continue, read as B-"
            )
        return Dataset(
            str(self.path),
            tuple(self.texts),
            tuple(map(tuple, tags)),
            tuple(self.lines),
            words=tuple(self.words),
            files={self.path: len(self.texts)},
            skipped=self.num_skipped,
            description=description,
        )


def read_tagged(path: Path, tables: TableFormat = DEFAULT) -> Dataset:
    """Read sentences with a tag for each word, in whichever form the file has."""
    if path.is_dir():
        raise WarmstartError(f"{path} is a folder; tagged words are read from files")
    refuse_pipe(path)
    form = None if base_suffix(path) in SUFFIXES else _form_of(_column_names(path, tables))
    if form is None and format_of(path) in ("lines", "tsv"):
        return _read_conll(path, tables)
    sentences = _Sentences(path)
    table = open_table(path, tables, form or FORMS[0])
    add = _add_spans if form == FORMS[1] else _add_lists
    for row in table.rows():
        add(sentences, row)
    return sentences.dataset(table.describe())


def _read_conll(path: Path, tables: TableFormat) -> Dataset:
    """Read a word and its tag from each line; a blank line ends a sentence."""
    sentences, columns = _Sentences(path), _conll_columns(tables) or (0, -1)
    words: list[str] = []
    tags: list[str] = []
    delimiter, width, first = "\t", 0, 0

    def finish() -> None:
        if words:
            sentences.add(first, *join_words(words), tags)
        words.clear()
        tags.clear()

    for number, line in enumerate(read_lines(path, tables.encoding), 1):
        if not line.strip() or line.startswith(DOCUMENT):
            finish()
            continue
        if not width:
            delimiter = "\t" if "\t" in line else " "
            width = len(_fields(line, delimiter))
            columns = (columns[0], columns[1] % max(width, 2))
        fields = _fields(line, delimiter)
        _check_fields(path, number, fields, width, delimiter, columns)
        first = first if words else number
        words.append(fields[columns[0]])
        tags.append(fields[columns[1]])
    finish()
    between = "a tab" if delimiter == "\t" else "spaces"
    taken = f"columns {columns[0] + 1} and {columns[1] + 1} of {width}"
    return sentences.dataset(f"{path}: word and tag on each line, {between} between; {taken}")


def _conll_columns(tables: TableFormat) -> tuple[int, int] | None:
    """Return the columns of word and tag that `--columns` names; None: the first and the last."""
    if not tables.columns:
        return None
    roles = [column.role for column in parse_columns(tables.columns, FORMS[0]).columns]
    return roles.index("tokens"), roles.index("tags")


def _fields(line: str, delimiter: str) -> list[str]:
    return line.split() if delimiter == " " else [part.strip() for part in line.split(delimiter)]


def _check_fields(
    path: Path,
    number: int,
    fields: Sequence[str],
    width: int,
    delimiter: str,
    columns: tuple[int, int],
) -> None:
    between = "a tab" if delimiter == "\t" else "spaces"
    rule = f"a line is a word and its tag with {between} between, and a blank line ends a sentence"
    if len(fields) != width or width <= max(*columns, 1):
        wanted = max(width, *columns, 2)
        raise WarmstartError(
            f"{path} line {number}: {quantity(len(fields), 'field')}, but {wanted} expected; "
            f"{rule}; there are no comments"
        )
    for name, column in zip(("word", "tag"), columns, strict=True):
        if not fields[column]:
            raise WarmstartError(f"{path} line {number}: no {name}; {rule}")


def _add_lists(sentences: _Sentences, row: Row) -> None:
    """Add a row of words and tags."""
    words = [_word(row, word) for word in _list_of(row, "tokens")]
    tags = [_tag(row, tag) for tag in _list_of(row, "tags")]
    if len(words) != len(tags):
        raise WarmstartError(
            f"{row.name}: {quantity(len(words), 'word')} but {quantity(len(tags), 'tag')}; "
            "every word needs one tag"
        )
    sentences.add(row.number, *join_words(words), tags)


def _list_of(row: Row, role: str) -> list[Any]:
    """Return a cell that is a list, or the text of one."""
    value = row.values[role]
    if value is None or value == "":
        return []
    if isinstance(value, str):
        value = parse_list(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list):
        raise WarmstartError(f"{row.name}: {role} is {show(row.values[role])}, not a list")
    return value


def parse_list(text: str) -> Any:
    """Return the list that a cell of text holds, as JSON or as Python writes it; else None."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _word(row: Row, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise WarmstartError(f"{row.name}: the word {show(value)} is no text, or empty")
    _check_text(row, value)
    return " ".join(value.split())


def _check_text(row: Row, text: str) -> None:
    """Refuse characters that are none, as every text does."""
    Row(row.path, row.number, {"text": text}).text("text")


def _tag(row: Row, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise WarmstartError(f"{row.name}: the tag {show(value)} is neither text nor a number")
    return str(value).strip()


def _add_spans(sentences: _Sentences, row: Row) -> None:
    """Add a text with the spans of its entities; words are also cut where a span begins or ends."""
    text = row.text("text")
    spans = sorted(_spans(row, text))
    for (_, end, label), (start, _, other) in pairwise(spans):
        if start < end:
            raise WarmstartError(
                f"{row.name}: the spans '{label}' and '{other}' overlap at character {start}; "
                "a word has one tag, so leave one of them out"
            )
    edges = sorted({edge for start, end, _ in spans for edge in (start, end)})
    words = list(_cut(find_words(text), edges))
    sentences.add(row.number, text, words, [_tag_of(word, spans) for word in words])


def _spans(row: Row, text: str) -> Iterator[tuple[int, int, str]]:
    for value in _list_of(row, "spans"):
        span = value
        if isinstance(value, dict):
            span = [value.get(name) for name in ("start", "end", "label")]
        if not isinstance(span, (list, tuple)) or len(span) != 3 or None in span:
            raise WarmstartError(f"{row.name}: the span {show(value)} needs start, end and label")
        start, end, label = span
        is_whole = all(isinstance(edge, int) and not isinstance(edge, bool) for edge in span[:2])
        if not is_whole or not 0 <= start < end <= len(text) or not text[start:end].strip():
            raise WarmstartError(
                f"{row.name}: the span {show(value)} marks nothing in its text, which has "
                f"{quantity(len(text), 'character')}: start counts from 0, end is the character "
                "after the last"
            )
        if not isinstance(label, str) or not label.strip():
            raise WarmstartError(f"{row.name}: the span {show(value)} has no label")
        marked = text[start:end]
        start, end = end - len(marked.lstrip()), start + len(marked.rstrip())
        yield start, end, label.strip()


def _cut(words: Sequence[WordSpan], edges: Sequence[int]) -> Iterator[WordSpan]:
    for start, end in words:
        inner = [edge for edge in edges if start < edge < end]
        yield from zip([start, *inner], [*inner, end], strict=True)


def _tag_of(word: WordSpan, spans: Sequence[tuple[int, int, str]]) -> str:
    for start, end, label in spans:
        if start <= word[0] and word[1] <= end:
            return f"{'I' if word[0] > start else 'B'}-{label}"
    return OUTSIDE
