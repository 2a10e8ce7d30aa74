"""Durations as counts on a fixed log scale, so that minutes and workers add up.

Bucket n holds what lasted less than 2^n microseconds and not less than half of that. In the
database a histogram is one number, with the count of bucket n in the n-th sixteen digits from the
right: so the server adds histograms as it adds numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

BUCKETS = 40
_DIGITS = 16


def bucket_of(seconds: float) -> int:
    return min(int(max(0.0, seconds) * 1e6).bit_length(), BUCKETS - 1)


def edge(bucket: int) -> float:
    """The upper end of a bucket, in seconds."""
    return (1 << bucket) / 1e6


_EDGES = tuple(edge(number) for number in range(BUCKETS))


def quantiles(
    buckets: Sequence[int], shares: Sequence[float], longest: float | None = None, *, first: int = 0
) -> list[float | None]:
    """The durations, in seconds, that these shares did not exceed; None where nothing was counted.

    Inside a bucket they are taken to lie evenly: at most a factor of two wrong, usually far less.
    `longest` is known exactly, and nothing was longer. `first`: the buckets below it are left out.
    """
    sums = list(accumulate(buckets))
    total = sums[-1] if sums else 0
    if not total:
        return [None] * len(shares)
    found: list[float | None] = []
    for share in shares:
        wanted = share * total
        number = bisect_left(sums, wanted or 1e-9)
        seen = sums[number - 1] if number else 0
        high = _EDGES[first + number]
        low = _EDGES[first + number - 1] if first + number else 0.0
        at = low + (high - low) * (wanted - seen) / (sums[number] - seen)
        found.append(at if longest is None or at < longest else longest)
    return found


def pack(buckets: Sequence[int]) -> str:
    """As the database keeps it."""
    number = "".join([f"{count:0{_DIGITS}}" for count in reversed(buckets)])
    return number.lstrip("0") or "0"


def unpack(number: str) -> list[int]:
    """The counts of all buckets, of what `pack` has packed or the server has added up."""
    digits = number.zfill(BUCKETS * _DIGITS)
    starts = range((BUCKETS - 1) * _DIGITS, -1, -_DIGITS)
    return [int(digits[start : start + _DIGITS]) for start in starts]


def unpack_used(number: str, total: int) -> tuple[int, list[int]]:
    """The first bucket in which something was counted, and the counts from there on.

    Looks from the top until all `total` are found: usually a few buckets are used, and a chart
    has a thousand histograms.
    """
    buckets = (len(number) - 1) // _DIGITS + 1
    start, end = 0, len(number) - (buckets - 1) * _DIGITS
    counts: list[int] = []
    while total > 0 and len(counts) < buckets:
        count = int(number[start:end])
        counts.append(count)
        total -= count
        start, end = end, end + _DIGITS
    counts.reverse()
    return buckets - len(counts), counts
