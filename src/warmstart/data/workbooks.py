"""Read the first sheet of .xlsx, .xls, .xlsb and .ods files, row by row.

The library sets up every cell of the used area at once, and ends its process where memory runs
out. So this module also runs as a process of its own, with limits of memory and time: it reads a
workbook from standard input and writes a JSON line for each row.
"""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO

from warmstart.data.detection import MOST_COLUMNS
from warmstart.errors import WarmstartError
from warmstart.textfiles import (
    MAX_EXPANSION,
    UNREADABLE,
    bomb_error,
    most_expanded,
    open_seekable,
)

MOST_ROWS = 1 << 20  # of a sheet, as Excel and LibreOffice have
SAFE_MEMORY = 1 << 29  # bytes; enough for 12 million cells
SAFE_CELLS = 1 << 17  # of the used area, empty ones included
SAFE_SECONDS = 60
_CELLS_PER_BYTE = 16  # of a compressed file; even repeated cells take a byte each
_BYTES_PER_SECOND = 1 << 17  # of a compressed file; a slow machine reads some ten times as much
_ADVICE = "delete what is far below or to the right of the table, or save the sheet as CSV"
_BROKEN_ZIP = (zipfile.BadZipFile, NotImplementedError, ValueError, *UNREADABLE)

Cells = tuple[int, list[str]]  # number of a row, and its cells; none on a blank row


def read_workbook(path: Path) -> Iterator[Cells]:
    """Yield the cells of the first sheet's used area as text, without empty ones at a row's end."""
    if find_spec("python_calamine") is None:
        raise WarmstartError(
            f"{path}: reading workbooks needs python-calamine; pip install 'warmstart[excel]', "
            "or save the sheet as CSV"
        )
    with open_seekable(path) as stream:
        _refuse_zip_bomb(path, stream)
        size = stream.seek(0, 2)
        stream.seek(0)
        with _reader(stream, size) as lines:
            for line in lines:
                row = json.loads(line)
                if isinstance(row, str):
                    raise WarmstartError(f"{path}: {row}")
                if row is None:  # the last line: the sheet was read to its end
                    return
                yield row[0], row[1]
        raise WarmstartError(
            f"{path}: its first sheet takes far more memory or time than a file of {size:,} bytes "
            f"should; {_ADVICE}"
        )


def _refuse_zip_bomb(path: Path, stream: BinaryIO) -> None:
    """Refuse an archive whose files are too large; .xls is none."""
    size = 0
    with suppress(*_BROKEN_ZIP), zipfile.ZipFile(stream) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > most_expanded(path.stat().st_size):
        raise bomb_error(str(path))


@contextmanager
def _reader(stream: BinaryIO, size: int) -> Iterator[IO[bytes]]:
    """Start the process that reads a workbook; yield its lines; end it with the block."""
    memory = SAFE_MEMORY + MAX_EXPANSION * size
    seconds = SAFE_SECONDS + size // _BYTES_PER_SECOND
    limits = memory, seconds, SAFE_CELLS + _CELLS_PER_BYTE * size
    words = [sys.executable, "-P", "-m", __name__, *map(str, limits)]
    with subprocess.Popen(
        words, stdin=stream, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


def _main(memory: int, seconds: int, most_cells: int) -> None:
    """Write the rows of the workbook on standard input, then null; or a sentence."""
    _limit(memory, seconds)
    try:
        for row in _first_sheet(sys.stdin.buffer, most_cells):
            sys.stdout.write(f"{json.dumps(row)}\n")
        sys.stdout.write("null\n")
    except WarmstartError as error:
        sys.stdout.write(f"{json.dumps(str(error))}\n")


def _limit(memory: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # Windows, where only the end of this process is noticed
        return
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, hard))


def _first_sheet(stream: BinaryIO, most_cells: int) -> Iterator[Cells]:
    sheet = _load_sheet(stream)
    if sheet.start is None:
        return
    (top, left), (bottom, right) = sheet.start, sheet.end
    if bottom >= MOST_ROWS or right >= MOST_COLUMNS:
        raise WarmstartError(
            f"a cell in row {bottom + 1:,}, column {right + 1:,} of its first sheet, which may "
            f"have {MOST_ROWS:,} rows and {MOST_COLUMNS:,} columns"
        )
    if (bottom + 1 - top) * (right + 1 - left) > most_cells:
        raise WarmstartError(
            f"its first sheet is used from row {top + 1:,} to {bottom + 1:,} and from column "
            f"{left + 1:,} to {right + 1:,}, but almost empty; {_ADVICE}"
        )
    rows = islice(sheet.iter_rows(), top, None)  # it begins with the rows above the used area
    for number, cells in enumerate(rows, top + 1):
        yield number, _texts(cells)


def _load_sheet(stream: BinaryIO) -> Any:
    import python_calamine

    try:
        with python_calamine.load_workbook(stream) as book:
            kinds = [sheet.typ for sheet in book.sheets_metadata]
            first = kinds.index(python_calamine.SheetTypeEnum.WorkSheet)
            return book.get_sheet_by_index(first)
    except python_calamine.PasswordError:
        raise WarmstartError("it is protected by a password; save it without one") from None
    except BaseException as error:  # panics of its Rust code have a class that cannot be imported
        reason = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise WarmstartError(f"not a whole workbook ({reason[:200]})") from None


def _texts(cells: Iterable[Any]) -> list[str]:
    texts = [_cell_text(cell) for cell in cells]
    while texts and not texts[-1]:
        texts.pop()
    return texts


def _cell_text(cell: object) -> str:
    """Return a cell as Excel shows it in a column of text."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
