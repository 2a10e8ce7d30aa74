"""Plays a random plan of faults against real workers, and says whether the books balance.

    ./script/chaos                          a minute of faults, one of each kind first
    ./script/chaos --seconds 3600 --seed 7  an hour; the same seed chooses the same faults
    ./script/chaos --only rows,sockets      some kinds of faults

The database is an embedded server of its own, reached by TCP. The exit code is 1 if the books do
not balance.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator

from tests.chaos.faults.base import Fault
from tests.chaos.plans import KINDS, order
from tests.chaos.runner import play
from tests.chaos.server import make_server
from tests.chaos.stage import Stage
from tests.database import tcp_url


def main() -> int:
    given = parser().parse_args()
    seed = given.seed if given.seed is not None else random.randrange(2**32)
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {what}", flush=True)

    say(f"seed {seed}, {given.seconds:g} s of faults: {', '.join(given.only)}")
    with make_server() as server:
        stage = Stage(tcp_url(server), seed=seed, say=say, server=server)
        try:
            plan = endless(given.only, seed, given.seconds)
            problems = play(stage, plan, given.claim_seconds)
        finally:
            stage.close()
    accounts = stage.workload.accounts
    say(f"{len(accounts.committed)} runs promised, {len(accounts.rolled_back)} rolled back")
    for problem in problems:
        say(f"WRONG: {problem}")
    say("the books do not balance" if problems else "the books balance")
    return 1 if problems else 0


def endless(kinds: list[str], seed: int, seconds: float) -> Iterator[Fault]:
    """Faults until the time is up."""
    until = time.monotonic() + seconds
    for make in order(kinds, random.Random(seed)):
        if time.monotonic() >= until:
            return
        yield make()


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="./script/chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = found.add_argument
    add("--seconds", type=float, default=60, help="how long faults are injected (%(default)g)")
    add("--seed", type=int, help="chooses the faults; a random one is printed")
    add("--only", type=_kinds, default=list(KINDS), metavar="KINDS", help=", ".join(KINDS))
    add(
        "--claim-seconds",
        type=float,
        default=5,
        help="within which every worker claims, in the end (%(default)g)",
    )
    return found


def _kinds(text: str) -> list[str]:
    kinds = text.split(",")
    if unknown := set(kinds) - KINDS.keys():
        raise argparse.ArgumentTypeError(f"no kind of faults: {', '.join(sorted(unknown))}")
    return kinds


if __name__ == "__main__":
    sys.exit(main())
