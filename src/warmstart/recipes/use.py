"""Use a run: predict, translate, generate, fill masks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from warmstart import progress
from warmstart.data.corpus import cut_chunks, read_input
from warmstart.data.labelled import TextRow, join_pair, read_text_rows
from warmstart.data.outputs import write_table
from warmstart.data.questions import PAIR as QUESTION_PAIR
from warmstart.data.questions import is_squad, squad_texts
from warmstart.data.tables import column_names, delimiter_of
from warmstart.data.tagged import SUFFIXES as TAGGED_SUFFIXES
from warmstart.decoding.translator import Translation
from warmstart.errors import WarmstartError
from warmstart.files import write_lines
from warmstart.formats import one_line, quantity
from warmstart.runs.saved import SavedRun, read_run
from warmstart.settings.shared import TableFormat
from warmstart.settings.using import (
    FillMaskConfig,
    GenerateConfig,
    PredictConfig,
    TranslateConfig,
)
from warmstart.tasks.explaining import Explanation
from warmstart.tasks.labelled_data import map_texts
from warmstart.tasks.registry import load_on, open_saved
from warmstart.tasks.text_model import FilledText, Prediction, Predictions, TextModel
from warmstart.tasks.translate import report_overlong
from warmstart.tasks.unusual import (
    Reference,
    Unusualness,
    find_reference,
    read_usual_texts,
)
from warmstart.textfiles import base_suffix, file_or_stream, format_of, standard_input

CHUNK = 1024  # texts sorted by length and labelled together
UNSURE = "unsure"  # the label of a text whose probability is below the threshold
PREFIX = "predicted_"  # of new columns, where the input has columns of the same name
WINDOW = 2048  # sentences read together, so that those of similar length share a batch
TEXTS_TOGETHER = 32  # generated in one batch; each keeps its keys and values in memory


@dataclass(frozen=True)
class PredictedRow:
    """One row of the input with its prediction."""

    row: TextRow
    prediction: Any
    explanation: Explanation | None = None  # None: --explain was not given
    unusualness: Unusualness | None = None  # None: --unusual was not given

    @property
    def label(self) -> str:
        """Return the label; an empty text has none."""
        return "" if self.row.is_empty else self.prediction.label

    def values(self) -> dict[str, Any]:
        """Return the prediction as JSON values."""
        prediction = {**asdict(self.prediction), **self._marks()}
        return self._unless_empty({**prediction, **explained_values(self.explanation)})

    def columns(self) -> dict[str, Any]:
        """Return the prediction as columns of a table."""
        words = {} if self.explanation is None else {"words": self.explanation.decisive_words}
        return self._unless_empty({**self.prediction.columns(), **self._marks(), **words})

    def line(self) -> str:
        """Return the label on one line, and behind it what else was asked for."""
        parts = [one_line(self.label)]
        if self.unusualness is not None:
            parts.append("unusual" if self.unusualness.unusual and not self.row.is_empty else "")
        if self.explanation is not None:
            parts.append(self.explanation.decisive_words)
        return "\t".join(parts)

    def _marks(self) -> dict[str, Any]:
        return {} if self.unusualness is None else asdict(self.unusualness)

    def _unless_empty(self, values: dict[str, Any]) -> dict[str, Any]:
        return dict.fromkeys(values) if self.row.is_empty else values


def explained_values(explanation: Explanation | None) -> dict[str, Any]:
    """Return the weights of words, and of sentences if there are any, as JSON values."""
    if explanation is None:
        return {}
    parts = {"words": explanation.words, "sentences": explanation.sentences}
    values = {
        name: [{"text": part.text, "weight": part.weight} for part in of_kind]
        for name, of_kind in parts.items()
    }
    return values if explanation.sentences else {"words": values["words"]}


def label_lines(answers: Iterable[PredictedRow]) -> Iterator[str]:
    """Yield one line for each answer: its label, with line breaks escaped."""
    is_told = False
    for answer in answers:
        label = one_line(answer.label)
        if label != answer.label and not is_told:
            is_told = True
            progress.say(f"labels with line breaks are written as {label}; --json keeps them")
        yield answer.line()


class PredictedTable(Predictions):
    """The prediction of every row; as a table, the rows of the input with the new columns."""

    def __init__(self, answers: Sequence[PredictedRow]) -> None:
        super().__init__(None if a.row.is_empty else a.explanation or a.prediction for a in answers)
        self.answers = answers

    def records(self) -> list[Mapping[str, Any]]:
        return list(_table_rows(self.answers))


def predict(config: PredictConfig) -> PredictedTable:
    """Label the rows of a file, or of standard input; a row without text gets None.

    With `explain` each result is an explanation, which has the prediction.
    """
    answers = list(predict_file(config, standard_input()))
    if config.out:
        write_predictions(config, config.out, answers)
    return PredictedTable(answers)


def predict_file(config: PredictConfig, stream: BinaryIO | None) -> Iterator[PredictedRow]:
    """Yield an answer for every row, in order."""
    saved = read_run(config.run)
    model = open_saved(saved, config)
    if config.threshold is not None and UNSURE in model.classes:
        raise WarmstartError(
            f"--threshold answers '{UNSURE}', which is also a class of {config.run}: leave it out"
        )
    readable = model.text_reader(config.pieces)
    reference = _reference(config, saved, model) if config.unusual else None
    num_rows = num_empty = num_unsure = num_unusual = 0
    for rows in cut_chunks(_rows(config, model, stream), CHUNK):
        seconds = [readable(row.text2) for row in rows if row.text2 is not None]
        texts = [readable(row.text) for row in rows]
        explanations: Sequence[Explanation | None] = [None] * len(rows)
        if config.explain:
            explanations = model.explain(texts, seconds or None)
            predictions = [explanation.prediction for explanation in explanations if explanation]
        else:
            predictions = model.predict(texts, seconds or None)
        marks: Sequence[Unusualness | None] = [None] * len(rows)
        if reference is not None:
            marks = reference.compare(list(map(join_pair, texts, seconds)) if seconds else texts)
        for row, prediction, why, mark in zip(rows, predictions, explanations, marks, strict=True):
            answer = PredictedRow(row, _apply_threshold(prediction, config), why, mark)
            num_rows += 1
            num_unusual += mark is not None and mark.unusual and not row.is_empty
            num_empty += row.is_empty
            num_unsure += config.threshold is not None and answer.label == UNSURE
            yield answer
    if num_empty:
        progress.say(f"{quantity(num_empty, 'row')} of {num_rows:,} without text: no label")
    if config.threshold is not None:
        progress.say(f"{num_unsure:,} of {num_rows:,} below --threshold {config.threshold:g}")
    if config.unusual:
        progress.say(f"{num_unusual:,} of {quantity(num_rows, 'text')} unusual")


def _reference(config: PredictConfig, saved: SavedRun, model: TextModel) -> Reference:
    usual = None
    if config.like is not None:
        tables = TableFormat(delimiter=config.delimiter, encoding=config.encoding)
        usual = read_usual_texts(Path(config.like), tables, model)
        usual = map_texts(usual, model.text_reader(config.pieces))
    return find_reference(saved, model, usual, config.seed)


def _apply_threshold(prediction: Any, config: PredictConfig) -> Any:
    """Return a prediction, with another label if its probability is below the threshold."""
    if config.threshold is None:
        return prediction
    if not isinstance(prediction, Prediction):
        raise WarmstartError(
            f"--threshold needs the probability of a class, and {config.run} gives none: "
            "leave it out"
        )
    is_unsure = prediction.probability < config.threshold
    return replace(prediction, label=UNSURE) if is_unsure else prediction


def _rows(config: PredictConfig, model: TextModel, stream: BinaryIO | None) -> Iterator[TextRow]:
    """Yield the rows to label: those of a file or a stream, or the one text given."""
    if config.text is not None:
        texts = {"text": config.text, "text2": config.text2}
        record = {name: text for name, text in texts.items() if text is not None}
        return iter([TextRow(config.text, config.text2, record)])
    source = file_or_stream(config.file, stream)
    if isinstance(source, Path) and base_suffix(source) in TAGGED_SUFFIXES:
        raise WarmstartError(
            f"{source} has a word and its tag on each line: predict reads texts, one on each line; "
            "evaluate scores tagged words"
        )
    if isinstance(source, Path) and model.pair_names == QUESTION_PAIR and is_squad(source):
        return squad_texts(source)
    return read_text_rows(source, config, reads_pairs(config, model, source), model.pair_names)


def reads_pairs(config: TableFormat, model: TextModel, source: Path | BinaryIO) -> bool:
    """Tell whether to read pairs: `--columns` names them, or the model or the table has them."""
    if config.columns:
        second = model.pair_names[1]
        return any(column.split("=")[0].strip() == second for column in config.columns)
    if model.reads_pairs is None and isinstance(source, Path) and format_of(source) != "lines":
        return "text2" in column_names(source, config)
    return bool(model.reads_pairs)


def write_predictions(config: PredictConfig, out: str, answers: Iterable[PredictedRow]) -> Path:
    """Write labels as lines, or the rows of the input with the new columns as a table."""
    path = Path(out)
    if format_of(path) == "lines":
        return write_lines(path, label_lines(answers))
    delimiter = delimiter_like(config.file, config)
    return write_table(path, _table_rows(answers), delimiter, config.raw_cells)


def delimiter_like(file: str | None, tables: TableFormat) -> str:
    """Return the delimiter of a .csv input, so that the same program opens the output."""
    is_csv = file is not None and format_of(Path(file)) == "csv"
    return delimiter_of(Path(file), tables) if file and is_csv else ","


def _table_rows(answers: Iterable[PredictedRow]) -> Iterator[Mapping[str, Any]]:
    prefix: str | None = None
    for chunk in cut_chunks(answers, CHUNK):
        if prefix is None:
            present = {name for answer in chunk for name in answer.row.record}
            prefix = "" if present.isdisjoint(chunk[0].columns()) else PREFIX
            if prefix:
                progress.say(
                    f"names of new columns begin with '{PREFIX}': the input has the others"
                )
        for answer in chunk:
            added = {f"{prefix}{name}": value for name, value in answer.columns().items()}
            taken = next((name for name in added if name in answer.row.record), None)
            if taken is not None:
                raise WarmstartError(f"the input already has a column '{taken}': rename it")
            yield {**answer.row.record, **added}


@dataclass(frozen=True)
class TranslatedText:
    """One sentence with its translations, best first."""

    source: str
    translations: list[Translation]

    def lines(self, has_scores: bool) -> list[str]:
        """Return a line for each translation, after its score if asked."""
        return [
            f"{translation.score:.4f}\t" * has_scores + one_line(translation.text)
            for translation in self.translations
        ]


def translate(config: TranslateConfig) -> list[TranslatedText]:
    """Translate the lines of a file, or of standard input when there is none."""
    results = list(translate_file(config, standard_input()))
    if config.out:
        lines = (line for result in results for line in result.lines(config.scores))
        write_lines(Path(config.out), lines)
    return results


def translate_file(config: TranslateConfig, stream: BinaryIO | None) -> Iterator[TranslatedText]:
    """Yield the translations of each line, in order."""
    is_typed = config.file in (None, "-") and stream is not None and stream.isatty()
    sentences = read_input(config, stream)
    model = load_on(config.run, config)
    first_number, num_overlong = 1, 0
    for texts in cut_chunks(sentences, 1 if is_typed else WINDOW):
        translations = model.translate_texts(
            texts, config, config.n_best, config.overlong, first_number
        )
        for text, best in zip(texts, translations, strict=True):
            num_overlong += best[0].num_parts > 1
            yield TranslatedText(text, best)
        first_number += len(texts)
    report_overlong(num_overlong)


def generate(config: GenerateConfig) -> list[str]:
    """Write texts with a causal language model."""
    texts = list(generate_texts(config))
    if config.out:
        write_lines(Path(config.out), texts)
    return texts


def generate_texts(config: GenerateConfig) -> Iterator[str]:
    """Yield as many texts as asked for, each from its own seed.

    In half precision a text also depends on the size of its batch: kernels round differently.
    """
    model = load_on(config.run, config)
    seeds = range(config.seed, config.seed + config.num)
    for start in range(0, config.num, TEXTS_TOGETHER):
        together = seeds[start : start + TEXTS_TOGETHER]
        yield from model.generate_texts(config.prompt, config.max_tokens, config, together)


def fill_mask(config: FillMaskConfig) -> list[FilledText]:
    """Fill the masked words of a file, of standard input or of one text."""
    filled = list(fill_file(config, standard_input()))
    if config.out:
        write_lines(Path(config.out), (one_line(text.line()) for text in filled))
    return filled


def fill_file(config: FillMaskConfig, stream: BinaryIO | None) -> Iterator[FilledText]:
    """Yield every text with the words for its masks."""
    model = load_on(config.run, config)
    readable = model.text_reader(config.pieces)
    first_number = 1
    for chunk in cut_chunks(map(readable, read_input(config, stream)), CHUNK):
        yield from model.fill_mask(chunk, config.top_k, first_number)
        first_number += len(chunk)
