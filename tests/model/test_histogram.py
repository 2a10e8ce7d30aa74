from __future__ import annotations

from math import inf
from struct import pack as pack_bytes

from hypothesis import given
from hypothesis import strategies as st

from rota.model.histogram import BUCKETS, bucket_of, edge, pack, quantiles, unpack

SECONDS = st.floats(min_value=1e-6, max_value=3600)


def counted(durations: list[float]) -> list[int]:
    found = [0] * BUCKETS
    for one in durations:
        found[bucket_of(one)] += 1
    return found


def sent(number: int) -> bytes:
    """As Postgres sends it: groups of four digits, without zeros at the ends."""
    digits = str(number)
    digits = digits.zfill(-len(digits) // 4 * -4)
    groups = [int(digits[at : at + 4]) for at in range(0, len(digits), 4)]
    weight = len(groups) - 1 if number else 0
    while groups and not groups[-1]:
        groups.pop()
    return pack_bytes(f"!4h{len(groups)}h", len(groups), weight, 0, 0, *groups)


def of(buckets: list[int], *shares: float, longest: float = inf) -> list[float | None]:
    return quantiles(sent(int(pack(buckets))), sum(buckets), shares, longest)


def test_nothing_counted_has_no_quantiles() -> None:
    assert of([0] * BUCKETS, 0.99, 0.5) == [None, None]


def test_inside_a_bucket_they_lie_evenly() -> None:
    buckets = counted([0.003] * 4)
    low, high = edge(bucket_of(0.003) - 1), edge(bucket_of(0.003))
    assert of(buckets, 1.0, 0.5) == [high, (low + high) / 2]
    assert of(buckets, 1.0, longest=0.003) == [0.003]


@given(st.lists(SECONDS, min_size=1, max_size=50), st.floats(min_value=0.01, max_value=1))
def test_they_are_at_most_a_factor_of_two_wrong(durations: list[float], share: float) -> None:
    ordered = sorted(durations)
    exact = ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
    (found,) = of(counted(durations), share, longest=max(durations))
    assert found is not None
    assert exact / 2.01 <= found <= exact * 2.01


COUNTS = st.lists(st.integers(0, 10**15), min_size=BUCKETS, max_size=BUCKETS)
FEW = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(0, 10**15), max_size=3).map(
    lambda found: [found.get(number, 0) for number in range(BUCKETS)]
)


@given(COUNTS | FEW, COUNTS | FEW)
def test_packed_ones_add_up_as_numbers(one: list[int], other: list[int]) -> None:
    added = int(pack(one)) + int(pack(other))
    assert unpack(sent(added)) == [a + b for a, b in zip(one, other, strict=True)]


@given(FEW.filter(any))
def test_shares_lie_in_the_bucket_where_the_sum_reaches_them(buckets: list[int]) -> None:
    shares = (0.99, 0.95, 0.5)
    for share, found in zip(shares, of(buckets, *shares), strict=True):
        number = next(n for n in range(BUCKETS) if sum(buckets[: n + 1]) >= share * sum(buckets))
        assert found is not None
        assert edge(number) / 2 * (number > 0) <= found <= edge(number)


def test_a_total_that_is_wrong_is_no_error() -> None:
    shares = (0.99, 0.5)
    assert quantiles(sent(0), 5, shares, inf) == [None, None]
    assert quantiles(sent(int(pack([0, 2]))), 9, shares, inf)[1] is None
    assert None not in quantiles(sent(int(pack([7, 2]))), 1, shares, inf)
