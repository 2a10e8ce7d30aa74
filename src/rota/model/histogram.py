"""Durations as counts on a fixed log scale, so that minutes and workers add up.

Bucket n counts durations below 2^n microseconds and not below half of that. In the database a
histogram is one number, with the count of bucket n in the n-th sixteen digits from the right, so
that the server adds histograms as it adds numbers. It is read in the format of `numeric_send`,
which omits the zeros of empty buckets at both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from struct import Struct

BUCKETS = 40
_DIGITS = 16
# The server sends four digits at a time, after a head of eight bytes: the number of these groups,
# the place of the first one, sign, scale.
_GROUP = 10**4
_GROUPS = _DIGITS // 4
_HEAD = 8


def bucket_of(seconds: float) -> int:
    return min(int(max(0.0, seconds) * 1e6).bit_length(), BUCKETS - 1)


def edge(bucket: int) -> float:
    """Return the upper end of a bucket, in seconds."""
    return (1 << bucket) / 1e6


_EDGES = tuple(edge(number) for number in range(BUCKETS))


def quantiles(
    sent: bytes, total: int, shares: Sequence[float], longest: float
) -> list[float | None]:
    """Return the durations, in seconds, that these shares of `total` did not exceed; None if
    nothing was counted. Shares are above 0, the largest first.

    Inside a bucket durations are assumed to be distributed evenly: the error is at most a factor of
    two, usually far less. `longest` is exact, and is the upper bound. A chart has a thousand
    histograms, so buckets below the last share are not read.
    """
    wanted = [share * total for share in shares]
    found: list[float | None] = []
    for bucket, count in _from_top(sent):
        below = total - count
        while count and wanted[len(found)] > below:
            high, low = _EDGES[bucket], _EDGES[bucket - 1] if bucket else 0.0
            at = low + (high - low) * (wanted[len(found)] - below) / count
            found.append(at if at < longest else longest)
            if len(found) == len(wanted):
                return found
        total = below
    return found + [None] * (len(wanted) - len(found))


def pack(buckets: Sequence[int]) -> str:
    """Write the counts as the number that the database stores."""
    number = "".join([f"{count:0{_DIGITS}}" for count in reversed(buckets)])
    return number.lstrip("0") or "0"


def unpack(sent: bytes) -> list[int]:
    """Return the counts of all buckets."""
    counts = [0] * BUCKETS
    for bucket, count in _from_top(sent):
        counts[bucket] = count
    return counts


def _from_top(sent: bytes) -> Iterator[tuple[int, int]]:
    """Yield buckets and their counts, from the highest non-empty one."""
    groups = (len(sent) - _HEAD) // 2
    bucket, left = divmod(int.from_bytes(sent[2:4], "big"), _GROUPS)
    count = 0
    for group in _reader(groups)(sent, _HEAD):
        count = count * _GROUP + group
        if left:
            left -= 1
        else:
            yield bucket, count
            bucket, left, count = bucket - 1, _GROUPS - 1, 0
    if count:
        yield bucket, count * _GROUP ** (left + 1)


@cache
def _reader(groups: int) -> Callable[[bytes, int], tuple[int, ...]]:
    return Struct(f"!{groups}H").unpack_from
