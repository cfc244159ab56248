"""Tell a header from a row of data: does the first row look like the cells below it?

Every column is asked twice, how likely its first cell is among the cells below it, and how likely
it is as a name. The logarithms of the ratios are added up. Near zero, nobody can tell.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import log
from typing import Final

from warmstart.data.lengths import count_words

# Usual names of columns, beside the names of the roles.
TEXT_NAMES: Final = (
    "review sentence content body comment message tweet texte phrase avis texto satz"
)
LABEL_NAMES: Final = (
    "labels sentiment class category target rating stars polarity classe kategorie klasse"
)
_ROLE_NAMES = "text text2 label source target tokens tags spans question context answer answers"
_OTHER_NAMES = """
answer_start author bemerkung bewertung categoria category_id catégorie code comentario comments
commentaire created_at created customer date datum department description etikett etiqueta
feedback freitext headline id index intent intent_name kommentar language likes location name no.
note notes nr. number opinion post query queue rating reseña score sentimento sentimiento sms
specialty status subject summary ticket ticket_no timestamp title titre titel theme thema tema time
topic type url user user_id userid utterance verbatim votes word words
文本 内容 评论 标签 类别 分类 情感 テキスト ラベル текст отзыв метка категория
"""
_ANSWERS = """
yes no true false y n oui non ja nein sí positive negative neutral good bad great ok okay fine none
nothing n/a na nan null unknown unsure other - spam ham
"""
_PHRASES = ("no idea", "see above", "don't know", "dont know", "no comment", "not sure")
_ROLES: Final = frozenset(f"{TEXT_NAMES} {LABEL_NAMES} {_ROLE_NAMES}".split())
_NAMES: Final = _ROLES.union(_OTHER_NAMES.split())
_VALUES: Final = frozenset((*_ANSWERS.split(), *_PHRASES))

_NAME_WORDS, _PHRASE_WORDS = 2, 5  # most names have as many words; a few are phrases
_NAME_CHARS: Final = 40
_LOOKED_AT: Final = 200  # characters
_ENDS: Final = dict.fromkeys("?:？：؟", "?") | dict.fromkeys(".!…。！", ".")
# The share of names that are of each kind, and how those of words end.
_KINDS_OF_NAMES: Final = {
    "": 0.04,
    "number": 0.002,
    "code": 0.08,
    "name": 0.65,
    "phrase": 0.17,
    "sentence": 0.05,
}
_ENDS_OF_NAMES: Final = {
    "name": {"": 0.97, "?": 0.02, ".": 0.002},
    "phrase": {"": 0.8, "?": 0.2, ".": 0.002},
    "sentence": {"": 0.3, "?": 0.7, ".": 0.002},
}
_PRIOR_VALUES: Final = 1.0
_NEW: Final = 0.08  # a label of the first row may be new even where all others occur often
_SAME: Final = 0.003  # a name that is also a value of its column
_USUAL, _PARTLY_USUAL = 4.0, 2.0  # what a usual name says, or one that contains it
_SURE: Final = 3.0  # odds of 20 to 1


def is_header(first: Sequence[str], columns: Sequence[Sequence[str]]) -> bool | None:
    """Tell whether the first row names the columns; None: it may be either.

    `columns` are the cells below it, of the first columns at least.
    """
    names = [cell.strip().casefold() for cell in first]
    if len(_ROLES.intersection(names)) > 1 or _is_count(names, columns):
        return True
    odds = sum(_log_odds(name, column) for name, column in zip(first, columns, strict=False))
    is_sure = abs(odds) >= _SURE or not any(columns)  # a single row can only be data, or useless
    return odds >= _SURE if is_sure else None


def is_number(value: object) -> bool:
    """Tell whether a cell holds a number."""
    try:
        float(str(value).replace(",", "."))
    except ValueError:
        return False
    return True


def _is_count(names: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """Tell whether the names are 0, 1, …, as pandas writes them, over a column of words."""
    given = [name for name in names if name]
    has_words = any(not any(map(is_number, column)) for column in columns)
    return len(given) > 1 and given == list(map(str, range(len(given)))) and has_words


def _log_odds(cell: str, column: Sequence[str]) -> float:
    """Return how much more likely a cell is as a name than as another cell of its column."""
    cell, values = cell.strip().casefold(), [value.strip().casefold() for value in column]
    present = [value for value in values if value]
    if not present:
        return _usual(cell)
    odds = _kind_odds(cell, values)
    if not cell:
        return odds
    return odds + _end_odds(cell, present) + _value_odds(cell, present)


def _kind_odds(cell: str, values: Sequence[str]) -> float:
    """Compare how usual the cell's kind and its length are for names and for the values."""
    kind, num_words = _kind(cell)
    num_like = sum(
        other == kind if num_words == 0 else 0.5 <= other_words / num_words <= 2
        for other, other_words in map(_kind, values)
    )
    return _share_odds(num_like, len(values), _KINDS_OF_NAMES, kind)


def _end_odds(cell: str, values: Sequence[str]) -> float:
    """Compare how usual it is for names and for the values to end in a question mark or a stop."""
    of_names = _ENDS_OF_NAMES.get(_kind(cell)[0])
    if of_names is None:
        return 0.0
    ends = [_end(value) for value in values]
    return _share_odds(ends.count(_end(cell)), len(ends), of_names, _end(cell))


def _value_odds(cell: str, values: Sequence[str]) -> float:
    """Compare how likely the value is to be there, or not to be there, among those below it."""
    counts = Counter(values)
    num_single = sum(count == 1 for count in counts.values())
    new = max(_NEW, (num_single + 1) / (len(values) + 1))  # Good and Turing's estimate
    if cell in counts:
        return log(_SAME / max(_NEW, 1 - new))
    is_label = len(counts) <= len(values) / 2  # among texts, every other one is new
    return _usual(cell) + (log((1 - _SAME) / new) if is_label else 0.0)


def _kind(cell: str) -> tuple[str, int]:
    """Return what a cell holds, and its number of words; 0 for what is not made of words."""
    if not cell:
        return "", 0
    if is_number(cell):
        return "number", 0
    num_words = count_words(cell[:_LOOKED_AT])
    if num_words > _PHRASE_WORDS or len(cell) > _NAME_CHARS:
        return "sentence", num_words
    if num_words < _PHRASE_WORDS and any(map(str.isdigit, cell)):
        return "code", 0
    return "phrase" if num_words > _NAME_WORDS else "name", num_words


def _end(cell: str) -> str:
    return "" if cell in _NAMES else _ENDS.get(cell[-1], "")


def _share_odds(num_like: int, num_values: int, of_names: Mapping[str, float], kind: str) -> float:
    """Compare a kind's share of names with its share of values, which few values only suggest."""
    prior = max(of_names[kind], 1 / len(of_names))  # so that no values at all speak for no name
    share = (num_like + _PRIOR_VALUES * prior) / (num_values + _PRIOR_VALUES)
    return log(of_names[kind] / share)


def _usual(cell: str) -> float:
    """Return what it says that people often give a column this name, or a cell this value."""
    if cell in _NAMES:
        return _USUAL
    if cell.rstrip(".!") in _VALUES:
        return -_USUAL
    words = re.findall(r"[^\W\d_]+", cell)
    is_short = count_words(cell[:_LOOKED_AT]) <= _PHRASE_WORDS
    return _PARTLY_USUAL if is_short and not _NAMES.isdisjoint(words) else 0.0
