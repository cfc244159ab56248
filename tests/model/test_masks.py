import torch

from warmstart.model.attention import causal_mask, document_mask, padding_mask, window_mask

CPU = torch.device("cpu")


def test_square_mask_sees_itself_and_what_precedes() -> None:
    mask = causal_mask(4, 4, CPU)[0, 0]
    assert [[bool(mask[t, s]) for s in range(4)] for t in range(4)] == [
        [s <= t for s in range(4)] for t in range(4)
    ]


def test_new_queries_are_the_last_of_the_keys() -> None:
    assert torch.equal(causal_mask(2, 5, CPU), causal_mask(5, 5, CPU)[:, :, 3:])
    assert causal_mask(1, 5, CPU).all()


def test_a_window_has_two_sides() -> None:
    mask = window_mask(6, 2, CPU)[0, 0]
    assert [mask[t].nonzero().flatten().tolist() for t in (0, 3, 5)] == [
        [0, 1, 2],
        [1, 2, 3, 4, 5],
        [3, 4, 5],
    ]


def test_padding_mask_is_the_same_for_every_query() -> None:
    is_token = torch.tensor([[True, True, False], [True, False, False]])
    mask = padding_mask(is_token).expand(2, 1, 3, 3)
    assert all(torch.equal(mask[:, 0, t], is_token) for t in range(3))


def test_documents_see_themselves() -> None:
    documents = torch.tensor([[0, 0, 1, 2, 2]])
    mask = document_mask(documents)
    assert mask.shape == (1, 1, 5, 5)
    assert torch.equal(mask, mask.mT)
    assert mask[0, 0].sum(1).tolist() == [2, 2, 1, 2, 2]
