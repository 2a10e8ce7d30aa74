from __future__ import annotations

import os
import tempfile
import time

from rota.engine.processes.worker_page import Overdue, SharedPage


def both_sides(attempts: int = 2) -> tuple[SharedPage, SharedPage]:
    """The supervisor's and the worker's."""
    ours, fd = SharedPage.create(attempts)
    theirs = SharedPage.open(fd)
    os.close(fd)
    assert theirs is not None
    return ours, theirs


def test_each_side_sees_what_the_other_wrote() -> None:
    ours, theirs = both_sides()
    assert (ours.worker, ours.is_leaving, theirs.renewed_at, theirs.lost_worker) == (0, False, 0, 0)
    before = ours.stamped_at
    theirs.worker = 2**40
    theirs.stamp()
    theirs.leave()
    ours.renewed_at = 17
    ours.lost_worker = 2**40
    assert (ours.worker, ours.is_leaving) == (2**40, True)
    assert ours.stamped_at > before
    assert (theirs.renewed_at, theirs.lost_worker) == (17, 2**40)


def test_overdue_are_those_past_their_deadline() -> None:
    ours, theirs = both_sides()
    theirs.add_attempt(run=1, attempt=2, started=100.0, timeout=1.5)
    theirs.add_attempt(run=2, attempt=1, started=100.0, timeout=30.0)
    assert list(ours.overdue(int(101.4e9))) == []
    assert list(ours.overdue(int(101.6e9))) == [Overdue(1, 2, 1.5)]
    assert {overdue.run for overdue in ours.overdue(int(200e9))} == {1, 2}


def test_place_of_an_ended_attempt_is_used_again() -> None:
    ours, theirs = both_sides(attempts=1)
    for run in range(5):
        place = theirs.add_attempt(run, 1, started=1.0, timeout=1.0)
        assert place is not None
        # No room is no error: the attempt is only not watched from outside.
        assert theirs.add_attempt(99, 1, started=1.0, timeout=1.0) is None
        theirs.remove_attempt(place)
    assert list(ours.overdue(time.monotonic_ns())) == []


def test_other_descriptors_are_no_card() -> None:
    with tempfile.TemporaryFile() as file:
        assert SharedPage.open(file.fileno()) is None
        file.write(b"x" * 800)
        file.flush()
        assert SharedPage.open(file.fileno()) is None
        fd = file.fileno()
    assert SharedPage.open(fd) is None
