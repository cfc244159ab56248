"""Read questions about passages, each with its answer: tables, JSON lines, SQuAD's own JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmstart.data.labelled import Dataset, TextRow
from warmstart.data.table_files import show
from warmstart.data.tables import DEFAULT, Row, column_names, open_table
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.jsonfiles import read_object
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import base_suffix, format_of, refuse_pipe

PAIR = ("question", "context")
ANSWER, START, SEVERAL = "answer", "answer_start", "answers"
Answer = tuple[int, str]  # where an answer begins in its passage, and its characters
SHOWN = 60  # characters of a passage in a message


def questions_form(path: Path, tables: TableFormat = DEFAULT) -> str | None:
    """Say why a file can only hold questions with answers; None: it may hold something else."""
    if not path.is_file():
        return None
    try:
        if is_squad(path):
            return "it is a SQuAD file, with questions about passages"
        names = _column_names(path, tables)
    except WarmstartError:  # whoever reads the file gives the reason
        return None
    last = next((name for name in (ANSWER, SEVERAL) if name in names), None)
    if last is None or not set(PAIR) <= set(names):
        return None
    return f"it has the columns {', '.join(PAIR)} and {last}"


def is_squad(path: Path) -> bool:
    """Tell whether a file is one JSON object in the form of SQuAD."""
    return base_suffix(path) == ".json" and isinstance(read_object(path).get("data"), list)


def _column_names(path: Path, tables: TableFormat) -> list[str]:
    if tables.columns:
        return [column.partition("=")[0].strip() for column in tables.columns]
    return [] if format_of(path) == "lines" else column_names(path, tables)


@dataclass
class _Questions:
    """The questions of a file, as they are read."""

    path: Path
    questions: list[str] = field(default_factory=list)
    passages: list[str] = field(default_factory=list)
    answers: list[tuple[Answer, ...]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    num_skipped: int = 0

    def add(self, row: Row, answers: Sequence[Answer]) -> None:
        """Add a question; one without text, or without a passage, is skipped."""
        question, passage = map(row.text, PAIR)
        if not question.strip() or not passage.strip():
            self.num_skipped += 1
            return
        self.questions.append(question)
        self.passages.append(passage)
        self.answers.append(tuple(check_answer(row, passage, answer) for answer in answers))
        self.lines.append(row.number)

    def dataset(self, description: str) -> Dataset:
        """Return the questions as pairs with their passages."""
        if not self.questions:
            raise WarmstartError(f"{self.path}: no question with a passage; {description}")
        passages = quantity(len(set(self.passages)), "passage")
        num_none = sum(not answers for answers in self.answers)
        sizes = f"{quantity(len(self.questions), 'question')} about {passages}"
        return Dataset(
            str(self.path),
            tuple(self.questions),
            tuple(self.answers),
            tuple(self.lines),
            tuple(self.passages),
            groups=tuple(self.passages),
            files={self.path: len(self.questions)},
            skipped=self.num_skipped,
            description=f"{description}; {sizes}, {num_none:,} of them without an answer",
        )


def check_answer(row: Row, passage: str, answer: Answer) -> Answer:
    """Return an answer without spaces around it; refuse one that is not at its place."""
    start, text = answer
    end = start + len(text)
    if start < 0 or passage[start:end] != text:
        at = passage.find(text)
        hint = f"it first occurs at {at}" if at >= 0 else "it occurs nowhere in its passage"
        there = f"stands {show(passage[start:end][:SHOWN])}"
        if not 0 <= start < len(passage):
            there = f"nothing stands, the passage has {quantity(len(passage), 'character')}"
        raise WarmstartError(
            f"{_name(row)}: the answer {show(text)} is not at {START} {start}, where {there}; "
            f"{hint}; {START} counts characters from 0"
        )
    return start + len(text) - len(text.lstrip()), text.strip()


def _name(row: Row) -> str:
    if base_suffix(row.path) == ".json":
        return f"{row.path} question {row.number:,} (id {show(row.record.get('id'))})"
    return row.name


def read_questions(path: Path, tables: TableFormat = DEFAULT) -> Dataset:
    """Read questions with their passages and answers, in whichever form the file has."""
    if path.is_dir():
        raise WarmstartError(f"{path} is a folder; questions are read from files")
    refuse_pipe(path)
    questions = _Questions(path)
    if base_suffix(path) == ".json":
        for row in squad_rows(path):
            questions.add(row, list(_squad_answers(row)))
        return questions.dataset(f"{path}: SQuAD's JSON")
    if format_of(path) == "lines":
        raise WarmstartError(
            f"{path}: plain lines hold no questions; give a table with the columns "
            f"{', '.join(PAIR)}, {ANSWER} and {START}, or SQuAD's .json"
        )
    has_several = SEVERAL in _column_names(path, tables)
    roles = (*PAIR, SEVERAL if has_several else ANSWER)
    table = open_table(path, tables, roles, optional=() if has_several else (START,))
    num_found = 0
    for row in table.rows():
        answers = list(_listed_answers(row, row.values[SEVERAL]) if has_several else _answer(row))
        num_found += bool(answers) and not has_several and row.values.get(START) in (None, "")
        questions.add(row, answers)
    description = table.describe()
    if num_found:
        description += f"; {num_found:,} without {START}: the first occurrence is taken"
    return questions.dataset(description)


def _answer(row: Row) -> Iterator[Answer]:
    """Yield the answer of a row of a table; an empty cell is none."""
    text, start = row.text(ANSWER), row.values.get(START)
    if text.strip():
        if start in (None, ""):
            start = max(0, row.text(PAIR[1]).find(text))
        yield _whole(row, start), text


def _whole(row: Row, value: Any) -> int:
    """Return an offset, which tables may hold as text or as a float."""
    try:
        if isinstance(value, bool) or float(value) != int(float(value)):
            raise ValueError
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        raise WarmstartError(
            f"{_name(row)}: {START} is {show(value)}, not a whole number"
        ) from None


def _listed_answers(row: Row, value: Any) -> Iterator[Answer]:
    """Yield several answers: {"text": […], "answer_start": […]}, or a list of objects."""
    if value is None or value == "":
        return
    if isinstance(value, Mapping):
        texts, starts = (value.get(name) for name in ("text", START))
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise WarmstartError(
                f"{_name(row)}: {SEVERAL} is {show(value)}, which needs two lists of equal length, "
                f"text and {START}"
            )
        value = [{"text": text, START: start} for text, start in zip(texts, starts, strict=True)]
    if not isinstance(value, list):
        raise WarmstartError(f"{_name(row)}: {SEVERAL} is {show(value)}, not a list")
    for answer in value:
        text = answer.get("text") if isinstance(answer, Mapping) else None
        if not isinstance(text, str) or not text.strip():
            raise WarmstartError(f"{_name(row)}: the answer {show(answer)} has no text")
        yield _whole(row, answer.get(START)), text


def squad_rows(path: Path) -> Iterator[Row]:
    """Yield every question of a SQuAD file, numbered from 1."""
    data, number = read_object(path).get("data"), 0
    for article in _objects(path, data, "data"):
        for paragraph in _objects(path, article.get("paragraphs"), "paragraphs"):
            for question in _objects(path, paragraph.get("qas"), "qas"):
                number += 1
                context = paragraph.get("context")
                values = {"question": question.get("question"), "context": context}
                record = {"id": question.get("id"), **values}
                row = Row(path, number, {**values, SEVERAL: question}, record)
                for role in PAIR:
                    if not isinstance(values[role], str):
                        raise WarmstartError(
                            f"{_name(row)}: {role} is {show(values[role])}, not a string"
                        )
                yield row


def _objects(path: Path, values: Any, name: str) -> list[Mapping[str, Any]]:
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise WarmstartError(
            f"{path}: {name} is {show(values)}, not a list of objects; SQuAD's JSON is data, "
            "paragraphs, context and qas, one inside the other"
        )
    return values


def _squad_answers(row: Row) -> Iterator[Answer]:
    question = row.values[SEVERAL]
    answers = list(_listed_answers(row, question.get(SEVERAL)))
    if question.get("is_impossible"):
        if answers:
            raise WarmstartError(
                f"{_name(row)}: is_impossible is true, but it has the answer {show(answers[0][1])}"
            )
        return
    if not answers and "is_impossible" in question:
        raise WarmstartError(f"{_name(row)}: no answer, but is_impossible is false")
    yield from answers


def squad_texts(path: Path) -> Iterator[TextRow]:
    """Yield the questions of a SQuAD file as pairs to be answered."""
    for row in squad_rows(path):
        yield TextRow(row.text(PAIR[0]), row.text(PAIR[1]), row.record)
