from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rota.model.histogram import BUCKETS, bucket_of, edge, pack, quantiles, unpack, unpack_used

SECONDS = st.floats(min_value=1e-6, max_value=3600)


def counted(durations: list[float]) -> list[int]:
    found = [0] * BUCKETS
    for one in durations:
        found[bucket_of(one)] += 1
    return found


def test_nothing_counted_has_no_quantiles() -> None:
    assert quantiles([0] * BUCKETS, (0.5, 0.99)) == [None, None]
    assert quantiles([], (0.5,)) == [None]


def test_inside_a_bucket_they_lie_evenly() -> None:
    buckets = counted([0.003] * 4)
    low, high = edge(bucket_of(0.003) - 1), edge(bucket_of(0.003))
    assert quantiles(buckets, (0.5, 1.0)) == [(low + high) / 2, high]
    assert quantiles(buckets, (1.0,), longest=0.003) == [0.003]
    assert quantiles(buckets, (0.0,)) == [low]


@given(st.lists(SECONDS, min_size=1, max_size=50), st.floats(min_value=0.01, max_value=1))
def test_they_are_at_most_a_factor_of_two_wrong(durations: list[float], share: float) -> None:
    ordered = sorted(durations)
    exact = ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
    (found,) = quantiles(counted(durations), (share,), max(durations))
    assert found is not None
    assert exact / 2.01 <= found <= exact * 2.01


COUNTS = st.lists(st.integers(0, 10**15), min_size=BUCKETS, max_size=BUCKETS)
FEW = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(0, 10**15), max_size=3).map(
    lambda found: [found.get(number, 0) for number in range(BUCKETS)]
)


@given(COUNTS | FEW, COUNTS | FEW)
def test_packed_ones_add_up_as_numbers(one: list[int], other: list[int]) -> None:
    added = int(pack(one)) + int(pack(other))
    assert unpack(str(added)) == [a + b for a, b in zip(one, other, strict=True)]


@given(COUNTS | FEW)
def test_buckets_without_counts_change_no_quantile(buckets: list[int]) -> None:
    number = str(int(pack(buckets)))
    first, counts = unpack_used(number, sum(buckets))
    shares = (0.0, 0.5, 0.99, 1.0)
    assert quantiles(counts, shares, first=first) == quantiles(buckets, shares)


def test_a_total_that_is_wrong_reads_no_further_than_the_number() -> None:
    assert unpack_used("0", 5) == (0, [0])
    assert unpack_used(pack([0, 2]), 5) == (0, [0, 2])
