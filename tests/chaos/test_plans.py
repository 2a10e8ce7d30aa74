"""The order in which `script/chaos` chooses its faults."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from tests.chaos.plans import KINDS, order

ALL = [make for makes in KINDS.values() for make in makes]


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_comes_before_any_comes_twice(seed: int) -> None:
    first = list(islice(order(list(KINDS), Random(seed)), len(KINDS)))
    kinds = {kind for make in first for kind, makes in KINDS.items() if make in makes}
    assert kinds == set(KINDS)


@pytest.mark.parametrize("seed", range(20))
def test_every_fault_comes_before_any_comes_twice(seed: int) -> None:
    chosen = list(islice(order(list(KINDS), Random(seed)), len(ALL)))
    assert sorted(map(repr, chosen)) == sorted(map(repr, ALL))


def test_afterwards_chance_chooses() -> None:
    later = list(islice(order(list(KINDS), Random(1)), len(ALL), len(ALL) + 200))
    assert len({repr(make) for make in later}) > len(KINDS)


def test_the_same_seed_chooses_the_same_faults() -> None:
    def plan(seed: int) -> list[str]:
        return [repr(make) for make in islice(order(list(KINDS), Random(seed)), 60)]

    assert plan(7) == plan(7)
    assert plan(7) != plan(8)


def test_only_the_kinds_that_were_asked_for() -> None:
    chosen = islice(order(["rows", "copies"], Random(3)), 50)
    wanted = [*KINDS["rows"], *KINDS["copies"]]
    assert all(make in wanted for make in chosen)
