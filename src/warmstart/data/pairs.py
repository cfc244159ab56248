"""Read sentence pairs: two line-aligned files, a table, or `translation` objects."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from warmstart.data.columns import parse_columns
from warmstart.data.tables import DEFAULT, Row, aligned_rows, column_names, open_table
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import TABLE_SUFFIXES, format_of

SIDES = ("source", "target")


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations, in file order."""

    files: tuple[str, ...]
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    skipped: int  # pairs with an empty side
    description: str = ""  # how a table was read

    def __len__(self) -> int:
        return len(self.sources)


def read_aligned(source: Path, target: Path, encoding: str = "utf-8") -> Pairs:
    """Read two files whose lines are translations of each other."""
    for path in (source, target):
        if path.is_dir():
            raise WarmstartError(f"{path} is a folder; sentence pairs are read from files")
        if format_of(path) != "lines":
            raise WarmstartError(f"{path} is a table; each side of a pair of files is plain lines")
    return _collect((str(source), str(target)), aligned_rows((source, target), SIDES, encoding))


def read_pair_table(path: Path, tables: TableFormat = DEFAULT) -> Pairs:
    """Read a table with both sides, `source` and `target` or inside `translation`."""
    if path.is_dir():
        raise WarmstartError(f"{path} is a folder; sentence pairs are read from one file")
    if format_of(path) == "lines":
        raise WarmstartError(
            f"{path}: plain lines hold one side only; give both with --source and --target, "
            f"or a {TABLE_SUFFIXES} file"
        )
    if format_of(path) in ("jsonl", "parquet") and column_names(path, tables) == ["translation"]:
        return _collect((str(path),), ((row, row) for row in _read_objects(path, tables)))
    table = open_table(path, tables, SIDES)
    return _collect((str(path),), ((row, row) for row in table.rows()), table.describe())


def _collect(
    files: tuple[str, ...], rows: Iterable[tuple[Row, Row]], description: str = ""
) -> Pairs:
    sources, targets, skipped = [], [], 0
    for row, target_row in rows:
        source, target = row.text("source"), target_row.text("target")
        if source.strip() and target.strip():
            sources.append(source)
            targets.append(target)
        else:
            skipped += 1
    if not sources:
        raise WarmstartError(f"{files[0]}: no pairs with text")
    return Pairs(files, tuple(sources), tuple(targets), skipped, description)


def _read_objects(path: Path, tables: TableFormat) -> Iterator[Row]:
    """Yield rows that keep both sides in one object, under the names of the languages."""
    columns = parse_columns(tables.columns or SIDES, SIDES).columns
    names = {column.role: column.name for column in columns}
    translation = replace(tables, columns=("text=translation",))
    for row in open_table(path, translation).rows():
        value = row.values["text"]
        if value in ("", None):  # a blank line
            yield row._replace(values=dict.fromkeys(SIDES, ""))
            continue
        if not isinstance(value, dict):
            raise WarmstartError(f"{row.name}: translation is {value!r:.40}, not an object")
        for side in SIDES:
            if names.get(side) not in value:
                listed = ", ".join(value) or "none"
                raise WarmstartError(
                    f"{row.name}: translation has no {names.get(side, side)} (there: {listed}); "
                    "name the languages with --columns source=NAME,target=NAME"
                )
        yield row._replace(values={side: value[names[side]] for side in SIDES})
