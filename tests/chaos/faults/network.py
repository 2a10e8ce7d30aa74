"""What happens between programs and their database."""

from __future__ import annotations

from tests.chaos.faults.base import Fault
from tests.chaos.stage import Stage
from tests.proxy import Way


class Reset(Fault):
    def inject(self, stage: Stage) -> str:
        return f"{stage.proxy.reset()} connections are reset"


class HalfOpen(Fault):
    """Nobody tells the clients, ever: they find out by themselves."""

    holds_up_all = True

    def inject(self, stage: Stage) -> str:
        return f"{stage.proxy.half_open()} connections are half-open for good"


class HalfOpenThenReset(HalfOpen):
    def heal(self, stage: Stage) -> None:
        stage.proxy.reset_half_open()


class Cut(Fault):
    def __init__(self, after: int | None = None, way: Way | None = None) -> None:
        self._after, self._way = after, way

    def inject(self, stage: Stage) -> str:
        after = self._after or stage.random.randint(1, 3000)
        way: Way = self._way or stage.random.choice(["to_client", "to_server"])
        return f"{stage.proxy.cut(after, way)} connections end after {after} bytes {way}"


class _Weather(Fault):
    """A state of the whole network, until it is over."""

    holds_up_all = True

    def heal(self, stage: Stage) -> None:
        stage.proxy.heal()


class Freeze(_Weather):
    def inject(self, stage: Stage) -> str:
        self.seconds = stage.random.choice([0.5, 2.0, 5.0])
        stage.proxy.freeze()
        return f"nothing passes for {self.seconds:g} s"


class Delay(_Weather):
    def inject(self, stage: Stage) -> str:
        stage.proxy.delay(0.1)
        return "everything takes 0.1 s longer"


class Refuse(_Weather):
    def inject(self, stage: Stage) -> str:
        stage.proxy.refuse()
        return f"{stage.proxy.reset()} connections are reset and new ones refused"
