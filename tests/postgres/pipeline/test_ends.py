"""Which ends go out as a span of ids, and what it says."""

from __future__ import annotations

import pytest

from rota.postgres.pipeline.ends import Ends


def ends(ids: list[int], *, attempts: list[int] | None = None, is_plain: bool = True) -> Ends:
    made = Ends()
    for run_id, attempt in zip(ids, attempts or [1] * len(ids), strict=True):
        made.succeeded(run_id, attempt, run_id / 10, None, is_plain)
    return made


def test_ends_close_together_are_a_span_with_places_for_the_others() -> None:
    assert ends([14, 11, 12]).span() == {
        "first_id": 11,
        "attempt": 1,
        "durations": "{1100, 1200, -1, 1400}",
        "results": None,
    }


def test_results_have_the_places_of_their_runs() -> None:
    made = ends([11])
    made.succeeded(13, 1, 1.0, '"done"', is_plain=True)
    span = made.span()
    assert span is not None
    assert span["results"] == [None, None, '"done"']


@pytest.mark.parametrize(
    "others",
    [
        Ends(),
        ends([1, 4000]),
        ends([1, 2], attempts=[1, 2]),
        ends([1], is_plain=False),
        ends([1, 2]).only({1}),
        next(ends([1, 2]).each()),
    ],
    ids=["none", "far apart", "attempts", "not plain", "a part", "one by one"],
)
def test_others_are_named_one_by_one(others: Ends) -> None:
    assert others.span() is None


def test_ends_that_come_later_can_make_it_none() -> None:
    made = ends([1])
    made.add(ends([2], is_plain=False))
    assert made.span() is None
