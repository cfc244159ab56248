from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bytes], Path]:
    """Return a function that writes a file into a folder of the module's own."""
    folder = tmp_path_factory.mktemp("fuzz")

    def write(name: str, content: bytes) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    return write
