import random

from hypothesis import given
from hypothesis import strategies as st

from warmstart.seeds import derive_seed

parts = st.lists(
    st.integers() | st.text(st.characters(min_codepoint=32, codec="utf-8")), max_size=4
)


def test_known_values_stay() -> None:
    assert derive_seed(0) == 3_581_690_635_855_307_741
    assert derive_seed(0, "step", 1) == 3_006_999_585_370_916_577
    assert derive_seed(7, "été") == 3_767_935_859_263_076_003


@given(parts, parts)
def test_equal_only_for_equal_parts(one: list[int | str], other: list[int | str]) -> None:
    assert (derive_seed(*one) == derive_seed(*other)) == (one == other)


def test_order_type_and_cut_matter() -> None:
    assert derive_seed(1, 2) != derive_seed(2, 1)
    assert derive_seed(1) != derive_seed("1")
    assert derive_seed("ab", "c") != derive_seed("a", "bc")
    assert derive_seed(0, "x") != derive_seed(0, "x", 0)


@given(parts)
def test_fits_every_generator(given_parts: list[int | str]) -> None:
    seed = derive_seed(*given_parts)
    assert 0 <= seed < 2**63


def test_seeds_spread_evenly() -> None:
    seeds = [derive_seed(number, "step") for number in range(2000)]
    assert len(set(seeds)) == 2000
    assert 900 < sum(seed & 1 for seed in seeds) < 1100
    assert 900 < sum(seed >> 62 for seed in seeds) < 1100
    assert random.Random(seeds[0]).random() != random.Random(seeds[1]).random()
