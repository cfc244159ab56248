"""Read sentence pairs: two line-aligned files, a table, or `translation` objects.

Knows nothing about tokens or lengths.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.data.columns import Columns, parse_columns
from warmstart.data.tables import as_text, place, read_rows
from warmstart.errors import WarmstartError
from warmstart.textfiles import format_of, read_lines

SIDES = ("source", "target")
LABELLED = {"label", "text", "text2"}  # what a table of labelled texts calls its columns


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations, in file order."""

    files: tuple[str, ...]
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    skipped: int  # pairs that were empty on both sides

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.sources)


def read_aligned(source: Path, target: Path) -> Pairs:
    """Read two files whose lines translate each other."""
    for path in (source, target):
        if path.is_dir():
            raise WarmstartError(f"{path} is a folder; sentence pairs are read from files")
        if format_of(path) != "lines":
            raise WarmstartError(f"{path} is a table; one side of a pair of files is plain lines")
    sources, targets = list(read_lines(source)), list(read_lines(target))
    if len(sources) != len(targets):
        raise WarmstartError(
            f"{source} has {len(sources):,} lines but {target} has {len(targets):,}; "
            "line-aligned files need the same number"
        )
    places = ((f"{source} line {n}", f"{target} line {n}") for n in range(1, len(sources) + 1))
    rows = zip(places, sources, targets, strict=True)
    return _pairs((str(source), str(target)), rows)


def read_pair_table(path: Path, columns: Sequence[str] = ()) -> Pairs:
    """Read a table with both sides, `source` and `target` or inside `translation`."""
    if path.is_dir():
        raise WarmstartError(f"{path} is a folder; sentence pairs are read from one file")
    if format_of(path) == "lines":
        raise WarmstartError(
            f"{path}: plain lines hold one side only; give both with --source and --target, "
            "or a .csv .tsv .jsonl .parquet file"
        )
    wanted = parse_columns(columns or SIDES, SIDES)
    rows = _objects(path, wanted) if _has_objects(path, wanted) else _rows(path, wanted)
    found = _pairs((str(path),), rows)
    if {found.sources[0].lower(), found.targets[0].lower()} <= LABELLED:
        raise WarmstartError(
            f"{path}: its columns are {found.sources[0]} and {found.targets[0]}, not source and "
            "target; name them with --columns source=NAME,target=NAME"
        )
    return found


Row = tuple[tuple[str, str], str, str]  # where each side stands, source, target


def _pairs(files: tuple[str, ...], rows: Iterator[Row]) -> Pairs:
    sources, targets, skipped = [], [], 0
    for places, source, target in rows:
        if source.strip() and target.strip():
            sources.append(source)
            targets.append(target)
            continue
        if source.strip() or target.strip():
            side = 1 if source.strip() else 0
            raise WarmstartError(
                f"{places[side]}: the {SIDES[side]} is empty but its other side is not; "
                "drop the pair or fill it in"
            )
        skipped += 1
    if not sources:
        raise WarmstartError(f"{files[0]}: no pairs with text")
    return Pairs(files, tuple(sources), tuple(targets), skipped)


def _rows(path: Path, columns: Columns) -> Iterator[Row]:
    for row in read_rows(path, columns):
        where = place(path, row.number)
        source, target = (as_text(row.values[side], path, row.number, side) for side in SIDES)
        yield (where, where), source, target


_OBJECT = Columns(("translation",), ("translation",))


def _has_objects(path: Path, columns: Columns) -> bool:
    """Tell whether a table keeps both sides in one object, with a name for each language."""
    if format_of(path) not in ("jsonl", "parquet") or _first_values(path, columns):
        return False
    values = _first_values(path, _OBJECT)
    return isinstance(values.get("translation"), dict)


def _first_values(path: Path, columns: Columns) -> dict[str, Any]:
    """Return the first row that is not blank; nothing where the columns are not there."""
    try:
        rows = (row.values for row in read_rows(path, columns))
        return next((values for values in rows if any(v != "" for v in values.values())), {})
    except WarmstartError:
        return {}


def _objects(path: Path, columns: Columns) -> Iterator[Row]:
    names = columns.named()
    for row in read_rows(path, _OBJECT):
        where, value = place(path, row.number), row.values["translation"]
        if value == "":  # a blank line
            yield (where, where), "", ""
            continue
        if not isinstance(value, dict):
            raise WarmstartError(f"{where}: translation is {value!r:.40}, not an object")
        for side in SIDES:
            if names[side] not in value:
                there = ", ".join(value) or "none"
                raise WarmstartError(
                    f"{where}: translation has no {names[side]} (there: {there}); "
                    "name the languages with --columns source=NAME,target=NAME"
                )
        source, target = (as_text(value[names[side]], path, row.number, side) for side in SIDES)
        yield (where, where), source, target
