"""Durations as counts on a fixed log scale, so that minutes and workers add up.

Bucket n holds what lasted less than 2^n microseconds and not less than half of that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

BUCKETS = 40


def bucket_of(seconds: float) -> int:
    return min(int(max(0.0, seconds) * 1e6).bit_length(), BUCKETS - 1)


def edge(bucket: int) -> float:
    """The upper end of a bucket, in seconds."""
    return (1 << bucket) / 1e6


_EDGES = tuple(edge(number) for number in range(BUCKETS))


def quantiles(
    buckets: Sequence[int], shares: Sequence[float], longest: float | None = None
) -> list[float | None]:
    """The durations, in seconds, that these shares did not exceed; None where nothing was counted.

    Inside a bucket they are taken to lie evenly: at most a factor of two wrong, usually far less.
    `longest` is known exactly, and nothing was longer.
    """
    sums = list(accumulate(buckets))
    total = sums[-1] if sums else 0
    if not total:
        return [None] * len(shares)
    found: list[float | None] = []
    for share in shares:
        wanted = share * total
        number = bisect_left(sums, wanted or 1e-9)
        seen, low = (sums[number - 1], _EDGES[number - 1]) if number else (0, 0.0)
        at = low + (_EDGES[number] - low) * (wanted - seen) / (sums[number] - seen)
        found.append(at if longest is None or at < longest else longest)
    return found
