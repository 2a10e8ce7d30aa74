"""Durations as counts on a fixed log scale, so that minutes and workers add up.

Bucket n holds what lasted less than 2^n microseconds and not less than half of that.
"""

from __future__ import annotations

from collections.abc import Sequence

BUCKETS = 40


def bucket_of(seconds: float) -> int:
    return min(int(max(0.0, seconds) * 1e6).bit_length(), BUCKETS - 1)


def edge(bucket: int) -> float:
    """The upper end of a bucket, in seconds."""
    return (1 << bucket) / 1e6


def quantile(buckets: Sequence[int], share: float, longest: float | None = None) -> float | None:
    """The duration, in seconds, that this share did not exceed; None where nothing was counted.

    Inside a bucket they are taken to lie evenly: at most a factor of two wrong, usually far less.
    `longest` is known exactly, and nothing was longer.
    """
    total = sum(buckets)
    if total == 0:
        return None
    wanted, seen = share * total, 0
    for number, count in enumerate(buckets):
        if count and seen + count >= wanted:
            low = edge(number - 1) if number else 0.0
            found = low + (edge(number) - low) * (wanted - seen) / count
            return found if longest is None else min(found, longest)
        seen += count
    return longest
