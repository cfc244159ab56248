"""Read sentence pairs: two line-aligned files, a table, or `translation` objects."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from warmstart.data.tables import Columns, Row, aligned_rows, first_row, parse_columns, read_rows
from warmstart.errors import WarmstartError
from warmstart.textfiles import TABLE_SUFFIXES, format_of

SIDES = ("source", "target")
LABELLED = {"label", "text", "text2"}  # column names of labelled texts
_TRANSLATION = Columns(("translation",), ("translation",))


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations, in file order."""

    files: tuple[str, ...]
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    skipped: int  # pairs that were empty on both sides

    def __len__(self) -> int:
        return len(self.sources)


def read_aligned(source: Path, target: Path) -> Pairs:
    """Read two files whose lines are translations of each other."""
    for path in (source, target):
        if path.is_dir():
            raise WarmstartError(f"{path} is a folder; sentence pairs are read from files")
        if format_of(path) != "lines":
            raise WarmstartError(f"{path} is a table; each side of a pair of files is plain lines")
    return _collect((str(source), str(target)), aligned_rows((source, target), SIDES))


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
    rows = _read_objects(path, parsed) if _has_objects(path, parsed) else read_rows(path, parsed)
    pairs = _collect((str(path),), ((row, row) for row in rows))
    if {pairs.sources[0].lower(), pairs.targets[0].lower()} <= LABELLED:
        raise WarmstartError(
            f"{path}: its columns are {pairs.sources[0]} and {pairs.targets[0]}, not source and "
            "target; name them with --columns source=NAME,target=NAME"
        )
    return pairs


def _collect(files: tuple[str, ...], rows: Iterable[tuple[Row, Row]]) -> Pairs:
    sources, targets, skipped = [], [], 0
    for row, target_row in rows:
        source, target = row.text("source"), target_row.text("target")
        has_source, has_target = bool(source.strip()), bool(target.strip())
        if has_source and has_target:
            sources.append(source)
            targets.append(target)
        elif has_source or has_target:
            name, side = (target_row.name, "target") if has_source else (row.name, "source")
            raise WarmstartError(
                f"{name}: the {side} is empty but its other side is not; "
                "remove the pair or complete it"
            )
        else:
            skipped += 1
    if not sources:
        raise WarmstartError(f"{files[0]}: no pairs with text")
    return Pairs(files, tuple(sources), tuple(targets), skipped)


def _has_objects(path: Path, columns: Columns) -> bool:
    """Tell whether a table keeps both sides in one object, under the names of the languages."""
    if format_of(path) not in ("jsonl", "parquet") or first_row(path, columns):
        return False
    first = first_row(path, _TRANSLATION)
    return first is not None and isinstance(first.values["translation"], dict)


def _read_objects(path: Path, columns: Columns) -> Iterator[Row]:
    names = columns.named()
    for row in read_rows(path, _TRANSLATION):
        value = row.values["translation"]
        if value == "":  # a blank line
            yield row._replace(values=dict.fromkeys(SIDES, ""))
            continue
        if not isinstance(value, dict):
            raise WarmstartError(f"{row.name}: translation is {value!r:.40}, not an object")
        for side in SIDES:
            if names[side] not in value:
                listed = ", ".join(value) or "none"
                raise WarmstartError(
                    f"{row.name}: translation has no {names[side]} (there: {listed}); "
                    "name the languages with --columns source=NAME,target=NAME"
                )
        yield row._replace(values={side: value[names[side]] for side in SIDES})
