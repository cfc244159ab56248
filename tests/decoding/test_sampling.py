import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from one_sample import GREEDY, sample
from warmstart.decoding.beam import SpecialIds, Step, draw
from warmstart.errors import WarmstartError
from warmstart.settings.using import Sampling

EOS = 0
SPECIAL = SpecialIds(bos=1, eos=EOS)
logits = st.lists(st.integers(-16, 16), min_size=2, max_size=12, unique=True)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _table_step(table: Tensor) -> Step:
    """Return a step that looks the next token up by the last one."""
    return lambda prefixes, _: table[prefixes[:, -1]].log()


@given(logits)
def test_temperature_zero_takes_the_likeliest(values: list[int]) -> None:
    logs = torch.tensor(values).float().log_softmax(-1)
    assert draw(logs, GREEDY, _generator()) == values.index(max(values))
    assert draw(logs, Sampling(temperature=0.5, top_k=1), _generator()) == int(logs.argmax())
    assert draw(logs, Sampling(temperature=2.0, top_p=1e-6), _generator()) == int(logs.argmax())


@given(logits, st.integers(1, 15), st.sampled_from([0.5, 1.0, 3.0]), st.integers(0, 99))
def test_top_k_never_draws_outside(
    values: list[int], k: int, temperature: float, seed: int
) -> None:
    logs = torch.tensor(values).float().log_softmax(-1)
    allowed = set(logs.topk(min(k, len(values))).indices.tolist())
    sampling, generator = Sampling(temperature=temperature, top_k=k), _generator(seed)
    assert {draw(logs, sampling, generator) for _ in range(8)} <= allowed


@given(logits, st.floats(0.05, 1), st.sampled_from([0.5, 1.0, 3.0]), st.integers(0, 99))
def test_top_p_never_draws_outside(
    values: list[int], share: float, temperature: float, seed: int
) -> None:
    logs = torch.tensor(values).float().log_softmax(-1)
    shares = (logs / temperature).softmax(-1).double()
    allowed, held = set(), 0.0
    for token in shares.argsort(descending=True).tolist():
        allowed.add(token)
        held += float(shares[token])
        if held >= share + 1e-6:  # the smallest set that holds the share, give or take rounding
            break
    sampling, generator = Sampling(temperature=temperature, top_p=share), _generator(seed)
    assert {draw(logs, sampling, generator) for _ in range(8)} <= allowed


def test_draws_follow_the_shares() -> None:
    logs = torch.tensor([0.5, 0.3, 0.2, 0.0]).log()
    plain, generator = Sampling(temperature=1.0), _generator()
    drawn = [draw(logs, plain, generator) for _ in range(4000)]
    shares = torch.bincount(torch.tensor(drawn), minlength=4) / 4000
    torch.testing.assert_close(shares, logs.exp(), rtol=0, atol=0.03)
    assert shares[3] == 0
    both, generator = Sampling(temperature=1.0, top_k=3, top_p=0.6), _generator()
    drawn = [draw(logs, both, generator) for _ in range(2000)]
    assert set(drawn) == {0, 1}
    assert drawn.count(0) / 2000 == pytest.approx(0.5 / 0.8, abs=0.04)


def test_temperature_sharpens() -> None:
    logs = torch.tensor([0.6, 0.4]).log()
    generator = _generator()
    num_cold, num_hot = (
        sum(draw(logs, Sampling(temperature=t), generator) for _ in range(500)) for t in (0.2, 5.0)
    )
    assert num_cold < 100 < num_hot


def test_greedy_walks_the_table_to_the_end() -> None:
    table = torch.full((5, 5), 0.1)
    for here, there in ((1, 3), (3, 4), (4, 2), (2, EOS)):
        table[here, there] = 0.6
    step = _table_step(table)
    assert sample(step, [1], 10, SPECIAL) == [3, 4, 2]
    assert sample(step, [2, 1, 3], 10, SPECIAL) == [4, 2]
    assert sample(step, [1], 2, SPECIAL) == [3, 4]
    assert sample(step, [1], 0, SPECIAL) == []


def test_the_step_sees_the_whole_prefix() -> None:
    seen = []

    def step(prefixes: Tensor, parents: Tensor) -> Tensor:
        seen.append(prefixes.tolist())
        assert parents.tolist() == [0]
        return torch.eye(5)[prefixes.shape[1] % 5][None].log()

    assert sample(step, [1, 2], 9, SPECIAL) == [2, 3, 4]
    assert seen == [[[1, 2]], [[1, 2, 2]], [[1, 2, 2, 3]], [[1, 2, 2, 3, 4]]]


def test_suppressed_tokens_are_never_drawn() -> None:
    table = torch.tensor([0.05, 0.4, 0.3, 0.2, 0.05]).expand(5, 5)
    step = _table_step(table)
    for settings in ({"temperature": 0}, {"temperature": 1.0}, {"temperature": 1.0, "top_k": 2}):
        drawn = sample(step, [1], 50, SpecialIds(1, EOS, [1, 4]), Sampling(**settings), seed=4)
        assert drawn
        assert set(drawn) <= {2, 3}


def test_what_the_step_returns_is_not_changed() -> None:
    logs = torch.tensor([[0.1, 0.5, 0.2, 0.2]]).log()
    before = logs.clone()
    sample(lambda *_: logs, [1], 3, SpecialIds(1, EOS, [1]))
    assert torch.equal(logs, before)


def test_a_seed_gives_its_text() -> None:
    step = _table_step(torch.full((9, 9), 1 / 9))
    texts = [sample(step, [1], 30, SPECIAL, Sampling(temperature=1.0), seed) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_probabilities_that_are_no_numbers_are_refused(temperature: float) -> None:
    logs = torch.tensor([-1.0, float("nan"), -2.0])
    with pytest.raises(WarmstartError, match="NaN"):
        draw(logs, Sampling(temperature=temperature), _generator())


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-45, 1e38, 1e308])
@pytest.mark.parametrize("top_p", [None, 5e-324, 1e-45, 1.0])
@pytest.mark.parametrize("top_k", [None, 1, 2**62])
def test_no_setting_is_too_extreme(
    temperature: float, top_p: float | None, top_k: int | None
) -> None:
    logs = torch.tensor([-30.0, -0.1, -2.0, float("-inf")])
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    generator = _generator()
    drawn = {draw(logs, sampling, generator) for _ in range(50)}
    assert 3 not in drawn
    if temperature < 1 or top_k == 1 or (top_p or 1) < 1e-3:
        assert len(drawn) == 1
    if temperature < 1:
        assert drawn == {1}
