"""Token ids on disk, written as a stream and read through a memory map."""

import json
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import WarmstartError

Ids = NDArray[np.unsignedinteger]


class TokenWriter:
    """Appends ids to a new token file, which is complete once closed without an error."""

    def __init__(self, path: Path, vocab_size: int) -> None:
        self.path = path
        self.dtype = np.dtype(np.uint16 if vocab_size <= 2**16 else np.uint32)
        self.num_tokens = 0
        self.num_bytes = 0
        self._file = open(path, "wb", buffering=1 << 20)  # noqa: SIM115 (closed in __exit__)

    def write(self, ids: list[int], num_bytes: int = 0) -> None:
        """Append the ids of `num_bytes` bytes of text."""
        self._file.write(np.asarray(ids, dtype=self.dtype).tobytes())
        self.num_tokens += len(ids)
        self.num_bytes += num_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._file.close()
        if error is None:
            facts = {"dtype": self.dtype.name, "tokens": self.num_tokens, "bytes": self.num_bytes}
            self.path.with_suffix(".json").write_text(json.dumps(facts))


class TokenFile:
    """A finished token file, mapped into memory."""

    def __init__(self, path: Path) -> None:
        try:
            facts = json.loads(path.with_suffix(".json").read_text())
            self.num_tokens, self.num_bytes = int(facts["tokens"]), int(facts["bytes"])
            dtype = np.dtype(facts["dtype"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WarmstartError(f"{path.with_suffix('.json')} cannot be read: {error}") from None
        if path.stat().st_size != self.num_tokens * dtype.itemsize:
            raise WarmstartError(f"{path} does not hold the {self.num_tokens} tokens it should")
        self.ids: Ids = np.memmap(path, dtype, mode="r") if self.num_tokens else np.empty(0, dtype)
