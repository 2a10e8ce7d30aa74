"""Real workers under a service manager that starts again whatever ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rota.testing import eventually_sync
from tests.apps.fleet import Release
from tests.workers import Loop, WorkerProcess

SETTINGS = {
    "worker.lease_seconds": 3.0,
    "worker.poll_seconds": 0.2,
    "worker.concurrency": 4,
    "worker.shutdown_seconds": 5.0,
    "logs.flush_seconds": 0.1,
    "runs.backoff_base_seconds": 0.05,
    "runs.backoff_jitter_seconds": 0.0,
    "runs.backoff_cap_seconds": 1.0,
}


class Member:
    """One place of the fleet: its processes come and go. Beside the common queue it has one of its
    own, by which it can be asked to show that it works."""

    def __init__(self, name: str, url: str, looking_at: str, loop: Loop, release: Release) -> None:
        self.name, self.url, self.loop, self.release = name, url, loop, release
        self._looking_at = looking_at
        self.process = self._start()

    def _start(self) -> WorkerProcess:
        settings: dict[str, Any] = SETTINGS | {"worker.queues": ["default", self.name]}
        app = f"tests.apps.fleet_{self.release}:app"
        return WorkerProcess(self.url, app, settings, loop=self.loop, looking_at=self._looking_at)

    @property
    def is_up(self) -> bool:
        return self.process.returncode is None

    @property
    def words(self) -> str:
        """The last ones of its log."""
        return " / ".join(self.process.output.strip().splitlines()[-3:]) or "not a word"

    def start_again(self) -> None:
        self.process.close()
        self.process = self._start()


class Fleet:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.members: list[Member] = []
        self._guard = threading.Lock()
        self._is_over = threading.Event()
        self._manager = threading.Thread(target=self._manage, name="manager", daemon=True)

    def add(self, url: str, looking_at: str, loop: Loop, release: Release) -> Member:
        member = Member(f"w{len(self.members) + 1}", url, looking_at, loop, release)
        self.members.append(member)
        return member

    def start(self) -> None:
        for member in self.members:
            member.process.wait_ready(60)
        self._manager.start()

    def _manage(self) -> None:
        while not self._is_over.wait(0.1):
            with self._guard:
                for member in self.members:
                    if not member.is_up:
                        self._say(f"{member.name} {_end(member)} and is started again")
                        member.start_again()

    def replace(self, member: Member, release: Release) -> None:
        """As a deployment does: stop in order, start what is new."""
        with self._guard:
            member.process.terminate()
            eventually_sync(lambda: not member.is_up, 60)
            member.release = release
            member.start_again()

    def stop(self) -> list[str]:
        """In order; answers what is wrong with how they ended."""
        self._is_over.set()
        if self._manager.is_alive():
            self._manager.join()
        for member in self.members:
            if member.is_up:
                member.process.terminate()
        return [problem for member in self.members if (problem := _stopped(member))]

    def close(self) -> None:
        self._is_over.set()
        for member in self.members:
            member.process.close()


def _end(member: Member) -> str:
    code = member.process.returncode or 0
    return f"was killed by signal {-code}" if code < 0 else f"ended with {code}: {member.words}"


def _stopped(member: Member) -> str:
    try:
        eventually_sync(lambda: not member.is_up, 30)
    except AssertionError:
        return f"{member.name} did not stop within 30 s of SIGTERM"
    code = member.process.returncode
    return f"{member.name} stopped with {code}" if code else ""
