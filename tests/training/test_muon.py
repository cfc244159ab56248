import torch
from torch import nn
from torch.optim import Muon
from torch.testing import assert_close

from warmstart.training.optimizers import BatchedMuon, orthogonal

SHAPES = [(6, 4), (4, 6), (5, 5), (6, 4), (4, 6), (6, 4)]
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def _trained(kind: type[Muon]) -> tuple[list[nn.Parameter], Muon]:
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    optimizer = kind(parameters, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for step in range(4):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        if step == 2:
            parameters[0].grad = None  # frozen for a while
        optimizer.step()
    return parameters, optimizer


def test_steps_are_those_of_torch() -> None:
    ours, our_state = _trained(BatchedMuon)
    theirs, their_state = _trained(Muon)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=0, atol=2e-3)  # the turning is done in bfloat16
    moments, expected = our_state.state_dict()["state"], their_state.state_dict()["state"]
    assert moments.keys() == expected.keys()
    for key, state in expected.items():
        assert_close(moments[key], state)


def test_singular_values_come_near_one() -> None:
    turned = orthogonal(torch.randn(3, 8, 20), COEFFICIENTS, 5, 1e-7)
    values = torch.linalg.svdvals(turned.float())
    assert values.min() > 0.5
    assert values.max() < 1.4


def test_a_matrix_is_turned_alike_in_any_company() -> None:
    matrices = torch.randn(4, 8, 6)
    together = orthogonal(matrices, COEFFICIENTS, 5, 1e-7)
    alone = torch.cat([orthogonal(one[None], COEFFICIENTS, 5, 1e-7) for one in matrices])
    assert_close(together, alone, rtol=0, atol=0.02)
