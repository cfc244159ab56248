import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warmstart.batching.packing import pack
from warmstart.kernels.loss import IGNORE

documents = st.lists(st.lists(st.integers(3, 9), min_size=1, max_size=6), min_size=1, max_size=8)


def _running_text(texts: list[list[int]], bos: int, eos: int) -> tuple[list[int], list[int]]:
    """Return the tokens and, beside each, the number of the document it belongs to."""
    whole = [[bos, *text, eos] for text in texts]
    ids = [token for document in whole for token in document]
    owners = [number for number, document in enumerate(whole) for _ in document]
    return ids, owners


@pytest.mark.parametrize("eos", [2, 1], ids=["own-eos", "eos-is-bos"])
@given(texts=documents, start=st.integers(0, 9), length=st.integers(1, 12))
def test_pack_equals_a_slow_reference(
    texts: list[list[int]], start: int, length: int, eos: int
) -> None:
    bos = 1
    ids, owners = _running_text(texts, bos, eos)
    row, owner = ids[start : start + length + 1], owners[start : start + length + 1]
    if len(row) < 2:
        return
    batch = pack(torch.tensor([row]), bos, eos)
    T = len(row) - 1
    assert batch.ids.tolist() == [row[:T]]
    same = [owner[t] == owner[t + 1] for t in range(T)]
    assert batch.targets.tolist() == [[row[t + 1] if same[t] else IGNORE for t in range(T)]]
    assert batch.documents.tolist() == [[owner[t] - owner[0] for t in range(T)]]
    assert batch.positions.tolist() == [
        [sum(owner[s] == owner[t] for s in range(t)) for t in range(T)]
    ]


def test_rows_are_packed_one_by_one() -> None:
    rows = torch.tensor([[1, 5, 2, 1, 6], [5, 5, 5, 2, 1], [2, 1, 7, 2, 1]])
    together = pack(rows, 1, 2)
    for number in range(3):
        alone = pack(rows[number : number + 1], 1, 2)
        for name in ("ids", "targets", "documents", "positions"):
            assert torch.equal(getattr(together, name)[number], getattr(alone, name)[0])
    assert together.targets[1].tolist() == [5, 5, 2, IGNORE]  # nobody predicts a new beginning
