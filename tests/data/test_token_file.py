from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from product import full_disk
from warmstart.data.token_file import TokenFile, TokenWriter
from warmstart.errors import WarmstartError


@pytest.mark.parametrize(("vocab_size", "dtype"), [(2**16, np.uint16), (2**16 + 1, np.uint32)])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(data=st.data())
def test_round_trip(tmp_path: Path, vocab_size: int, dtype: type, data: st.DataObject) -> None:
    tokens = st.lists(st.integers(0, vocab_size - 1), max_size=20)
    texts = data.draw(st.lists(tokens, max_size=5))
    path = tmp_path / "train.bin"
    with TokenWriter(path, vocab_size) as writer:
        for text in texts:
            writer.write(text, num_bytes=3 * len(text))
    file = TokenFile(path)
    written = [token for text in texts for token in text]
    assert file.ids.tolist() == written
    assert file.ids.dtype == dtype
    assert file.num_tokens == len(written)
    assert file.num_bytes == 3 * len(written)


@pytest.mark.parametrize("change", [-1, -4, 2])
def test_a_file_of_another_size_is_refused(tmp_path: Path, change: int) -> None:
    path = tmp_path / "train.bin"
    with TokenWriter(path, 100) as writer:
        writer.write([5, 6, 7])
    content = path.read_bytes()
    path.write_bytes(content[:change] if change < 0 else content + b"\0" * change)
    with pytest.raises(WarmstartError, match=r"train\.bin does not hold the 3 tokens"):
        TokenFile(path)


def test_a_writer_that_failed_leaves_no_finished_file(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    with pytest.raises(TypeError), TokenWriter(path, 100) as writer:
        writer.write([5], num_bytes=None)  # type: ignore[arg-type]
    assert not path.with_suffix(".json").exists()


def test_ids_outside_the_vocabulary_are_not_wrapped_around(tmp_path: Path) -> None:
    with TokenWriter(tmp_path / "train.bin", 100) as writer, pytest.raises(OverflowError):
        writer.write([2**16])


def test_a_full_disk_does_not_hide_the_error_before_it(tmp_path: Path) -> None:
    def write() -> None:
        with full_disk(), TokenWriter(tmp_path / "train.bin", 100) as writer:
            writer.write([5, 6, 7])
            raise WarmstartError("the real error")

    with pytest.raises(WarmstartError, match="the real error"):
        write()
