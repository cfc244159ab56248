"""Read sentence pairs: two line-aligned files, a table, or `translation` objects."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from warmstart.data.columns import Columns, parse_columns
from warmstart.data.tables import as_text, first_row, read_rows, row_name
from warmstart.errors import WarmstartError
from warmstart.textfiles import TABLE_SUFFIXES, format_of, read_aligned_lines

SIDES = ("source", "target")
LABELLED = {"label", "text", "text2"}  # column names of labelled texts
_TRANSLATION = Columns(("translation",), ("translation",))

Row = tuple[tuple[str, str], str, str]  # the name of each side's row, source, target


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
    """Read two files whose lines are translations of each other."""
    for path in (source, target):
        if path.is_dir():
            raise WarmstartError(f"{path} is a folder; sentence pairs are read from files")
        if format_of(path) != "lines":
            raise WarmstartError(f"{path} is a table; each side of a pair of files is plain lines")
    sources, targets = read_aligned_lines(source, target)
    names = ((f"{source} line {n}", f"{target} line {n}") for n in range(1, len(sources) + 1))
    return _collect((str(source), str(target)), zip(names, sources, targets, strict=True))


def read_pair_table(path: Path, columns: Sequence[str] = ()) -> Pairs:
    """Read a table with both sides, `source` and `target` or inside `translation`."""
    if path.is_dir():
        raise WarmstartError(f"{path} is a folder; sentence pairs are read from one file")
    if format_of(path) == "lines":
        raise WarmstartError(
            f"{path}: plain lines hold one side only; give both with --source and --target, "
            f"or a {TABLE_SUFFIXES} file"
        )
    parsed = parse_columns(columns or SIDES, SIDES)
    rows = _read_objects(path, parsed) if _has_objects(path, parsed) else _read_sides(path, parsed)
    pairs = _collect((str(path),), rows)
    if {pairs.sources[0].lower(), pairs.targets[0].lower()} <= LABELLED:
        raise WarmstartError(
            f"{path}: its columns are {pairs.sources[0]} and {pairs.targets[0]}, not source and "
            "target; name them with --columns source=NAME,target=NAME"
        )
    return pairs


def _collect(files: tuple[str, ...], rows: Iterator[Row]) -> Pairs:
    sources, targets, skipped = [], [], 0
    for names, source, target in rows:
        if source.strip() and target.strip():
            sources.append(source)
            targets.append(target)
            continue
        if source.strip() or target.strip():
            side = 1 if source.strip() else 0
            raise WarmstartError(
                f"{names[side]}: the {SIDES[side]} is empty but its other side is not; "
                "remove the pair or complete it"
            )
        skipped += 1
    if not sources:
        raise WarmstartError(f"{files[0]}: no pairs with text")
    return Pairs(files, tuple(sources), tuple(targets), skipped)


def _read_sides(path: Path, columns: Columns) -> Iterator[Row]:
    for row in read_rows(path, columns):
        name = row_name(path, row.number)
        source, target = (as_text(row.values[side], path, row.number, side) for side in SIDES)
        yield (name, name), source, target


def _has_objects(path: Path, columns: Columns) -> bool:
    """Tell whether a table keeps both sides in one object, under the names of the languages."""
    if format_of(path) not in ("jsonl", "parquet") or first_row(path, columns):
        return False
    first = first_row(path, _TRANSLATION)
    return first is not None and isinstance(first.values["translation"], dict)


def _read_objects(path: Path, columns: Columns) -> Iterator[Row]:
    names = columns.named()
    for row in read_rows(path, _TRANSLATION):
        where, value = row_name(path, row.number), row.values["translation"]
        if value == "":  # a blank line
            yield (where, where), "", ""
            continue
        if not isinstance(value, dict):
            raise WarmstartError(f"{where}: translation is {value!r:.40}, not an object")
        for side in SIDES:
            if names[side] not in value:
                listed = ", ".join(value) or "none"
                raise WarmstartError(
                    f"{where}: translation has no {names[side]} (there: {listed}); "
                    "name the languages with --columns source=NAME,target=NAME"
                )
        source, target = (as_text(value[names[side]], path, row.number, side) for side in SIDES)
        yield (where, where), source, target
