"""What happens to workers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from rota.testing import eventually_sync
from tests.chaos.faults.base import Fault
from tests.chaos.fleet import Member
from tests.chaos.stage import Stage


class _OfOne(Fault):
    member: Member

    def choose(self, stage: Stage) -> Member:
        self.member = stage.random.choice(stage.fleet.members)
        return self.member

    def struck(self, stage: Stage) -> Collection[str]:
        return [self.member.name]


class KillWorker(_OfOne):
    def inject(self, stage: Stage) -> str:
        member = self.choose(stage)
        member.process.kill()
        return f"{member.name} is killed"


class StopWorker(_OfOne):
    def inject(self, stage: Stage) -> str:
        member = self.choose(stage)
        member.process.terminate()
        return f"{member.name} is told to stop"


class FreezeWorker(_OfOne):
    """Longer than its lease."""

    def inject(self, stage: Stage) -> str:
        member = self.choose(stage)
        process = self._process = member.process
        process.freeze()
        return f"{member.name} is frozen"

    def heal(self, stage: Stage) -> None:
        lost = "SELECT FROM rota.workers WHERE pid = %s AND state = 'live'"
        eventually_sync(lambda: not stage.rows(lost, self._process.pid), 30)
        self._process.thaw()


class Deploy(Fault):
    """Everybody gets the other release, one after another, in any order: for a while both are
    there."""

    def inject(self, stage: Stage) -> str:
        members = stage.random.sample(stage.fleet.members, len(stage.fleet.members))
        for member in members:
            stage.fleet.replace(member, "new" if member.release == "old" else "old")
        return f"{', '.join(member.name for member in members)} get the other release"


_DECLARED = ("jobs", "queues", "limits", "schedules")


class DeployBesideHolder(Deploy):
    """A deployment while somebody's transaction holds what both releases declare: workers start
    and work, and what is held is stored afterwards."""

    def inject(self, stage: Stage) -> str:
        self._conn = stage.connect()
        self._conn.execute("BEGIN")
        for table in _DECLARED:
            self._conn.execute(f"SELECT FROM rota.{table} FOR UPDATE".encode())
        names = stage.rows("SELECT name FROM rota.schedules")
        self._schedules = [name for (name,) in names]
        return f"{super().inject(stage)}, while a transaction holds {', '.join(_DECLARED)}"

    def struck(self, stage: Stage) -> Collection[str]:
        return self._schedules

    def heal(self, stage: Stage) -> None:
        self._conn.close()


class RollBack(Fault):
    """Everybody gets the old release: nobody takes what only the new one accepts, until it is
    there again."""

    def inject(self, stage: Stage) -> str:
        self._before = [(member, member.release) for member in stage.fleet.members]
        for member, _ in self._before:
            stage.fleet.replace(member, "old")
        return "everybody gets the old release"

    def heal(self, stage: Stage) -> None:
        for member, release in self._before:
            if release == "new":
                stage.fleet.replace(member, release)


class Poison(Fault):
    """A run that kills whatever process it runs in, among others that do no harm."""

    def __init__(self, innocents: int = 30) -> None:
        self._innocents = innocents

    def inject(self, stage: Stage) -> str:
        before = [stage.enqueue("pay") for _ in range(self._innocents // 2)]
        self._run = stage.enqueue("poison")
        rest = self._innocents - len(before)
        for _ in range(rest):
            stage.enqueue("pay_slowly" if rest < 10 else "pay")
        return f"a poison run {self._run} among {self._innocents} others"

    def heal(self, stage: Stage) -> None:
        shown = "SELECT state, held_by, attempt, attempts_used FROM rota.runs WHERE id = %s"

        def has_ended() -> None:
            ((state, *rest),) = stage.rows(shown, self._run)
            assert state == "failed", f"run {self._run} is {state}, {rest}"

        eventually_sync(has_ended, 60)

    def struck(self, stage: Stage) -> Collection[str]:
        return [member.name for member in stage.fleet.members]


ISOLATING = """
SELECT w.pid FROM rota.workers w JOIN rota.open_runs r
ON (r.id, r.attempt, r.worker) = (w.isolating_run, w.isolating_attempt, w.id)
WHERE r.state = 'running' AND w.state = 'live'
"""


class KillWhileIsolating(Poison):
    """The worker is killed that has taken a poison run apart."""

    def inject(self, stage: Stage) -> str:
        super().inject(stage)
        pid = eventually_sync(lambda: self._isolating(stage), 60)
        (member,) = [one for one in stage.fleet.members if one.process.pid == pid]
        member.process.kill()
        return f"{member.name} is killed while it isolates run {self._run}"

    def _isolating(self, stage: Stage) -> int | Literal[False]:
        pids = {member.process.pid for member in stage.fleet.members if member.is_up}
        return next((pid for (pid,) in stage.rows(ISOLATING) if pid in pids), False)
