"""One fault after another, and after each the question whether everybody is back at work."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.chaos.at_work import at_work
from tests.chaos.books import balance
from tests.chaos.faults.base import Fault
from tests.chaos.stage import Stage

# Long enough for whoever has to find out for himself that something is gone.
BACK_SECONDS = 45.0


def play(stage: Stage, plan: Iterable[Fault], claim_seconds: float = BACK_SECONDS) -> list[str]:
    """What is wrong after all of it; nothing, if the books balance. `claim_seconds` are what a
    worker has, in the end, to show that it works: a machine may be busy with other tests."""
    stage.open()
    problems = [f"before any fault: {problem}" for problem in at_work(stage, BACK_SECONDS)]
    for fault in plan:
        problems += _suffer(stage, fault)
    return problems + balance(stage, claim_seconds)


def _suffer(stage: Stage, fault: Fault) -> list[str]:
    what = fault.inject(stage)
    stage.say(what)
    time.sleep(fault.seconds)
    problems = []
    if not fault.holds_up_all:
        found = at_work(stage, BACK_SECONDS, fault.struck(stage))
        problems += [f"while {what}: {problem}" for problem in found]
    problems += _heal(stage, fault, what)
    began = time.monotonic()
    problems += [f"after {what}: {problem}" for problem in at_work(stage, BACK_SECONDS)]
    for problem in problems:
        stage.say(f"   WRONG {problem}")
    stage.say(f"   back after {time.monotonic() - began:.1f} s")
    return problems


def _heal(stage: Stage, fault: Fault, what: str) -> list[str]:
    try:
        fault.heal(stage)
    except AssertionError as error:
        return [f"{what}, and does not come right: {error}"]
    return []
