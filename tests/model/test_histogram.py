from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rota.model.histogram import BUCKETS, bucket_of, edge, quantiles

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
