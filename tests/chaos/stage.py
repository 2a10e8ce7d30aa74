"""Where a fault plan plays: a database, a network in front of it, a fleet, and programs that
enqueue."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Collection
from typing import Any

import psycopg

from rota.embedded import EmbeddedPostgres
from rota.testing import eventually_sync
from tests.chaos.fleet import Fleet, Member
from tests.chaos.workload import Workload
from tests.proxy import Proxy

Say = Callable[[str], None]

SETUP = """
CREATE TABLE public.effects (run bigint NOT NULL, attempt integer NOT NULL);
CREATE FUNCTION public.pay_in_sql(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    run bigint := split_part(current_setting('application_name'), ' ', 3);
BEGIN
    INSERT INTO public.effects VALUES (run, 0);
    RETURN '{"success": true, "message": "paid"}';
END $$;
INSERT INTO rota.jobs (name, kind, function_name, max_attempts)
VALUES ('pay_in_sql', 'sql', 'public.pay_in_sql', 100);
"""
SCHEDULES = """
INSERT INTO rota.schedules (name, job, interval_seconds, overlap, payload) VALUES
('often', 'pay', 1, 'allow', NULL), ('skipping', 'pay_slowly', 1, 'skip', '{"token": ""}'),
('old', 'pay_in_cash', 1, 'allow', NULL), ('new', 'pay_by_card', 1, 'allow', NULL),
('sql', 'pay_in_sql', 1, 'queue_all', NULL);
"""


class Stage:
    """`server` is there if it is the stage's own and may be killed."""

    def __init__(
        self, url: str, *, seed: int, say: Say, server: EmbeddedPostgres | None = None
    ) -> None:
        self.url, self.say, self.server = url, say, server
        self.random = random.Random(seed)
        self.proxy = Proxy(url)
        self.fleet = Fleet(say)
        self.workload = Workload(url, self.proxy.url, seed)
        self.poison: set[str] = set()

    def open(self) -> None:
        self.rows(SETUP)
        self.fleet.add(self.proxy.url, self.url, "uvloop", "old")
        self.fleet.add(self.proxy.url, self.url, "asyncio", "new")
        self.fleet.add(self.url, self.url, "uvloop", "new")
        self.fleet.start()
        self.rows(SCHEDULES)
        self.workload.start()

    def close(self) -> None:
        self.workload.accounts.is_over.set()
        self.proxy.heal()
        self.proxy.reset_half_open()
        self.workload.stop()
        self.fleet.close()
        self.proxy.close()

    # Past the proxy, and on a new connection each time: the server may have been restarted.

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, **options)

    def rows(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        with self.connect() as conn:
            cursor = conn.execute(query, params or None)
            return cursor.fetchall() if cursor.description else []

    def enqueue(self, job: str, queue: str = "default", priority: int = 5) -> int:
        token = str(uuid.uuid4())
        if job == "poison":
            self.poison.add(token)
        given = [job, json.dumps({"token": token}), queue, priority]
        ((run,),) = self.rows(
            "SELECT rota.enqueue(%s, %s, queue => %s, priority => %s::smallint)", *given
        )
        self.workload.accounts.committed[token] = run
        return int(run)

    def idle(self, seconds: float, but: Collection[str] = ()) -> list[Member]:
        """Members that do not run what only they may run, within so many seconds."""
        asked = {
            self.enqueue("pay", member.name, priority=0): member
            for member in self.fleet.members
            if member.name not in but
        }

        def all_ended() -> bool:
            return not self._waiting(asked)

        try:
            eventually_sync(all_ended, seconds)
        except AssertionError:
            return [asked[run] for run in self._waiting(asked)]
        return []

    def _waiting(self, runs: dict[int, Member]) -> list[int]:
        found = self.rows("SELECT id FROM rota.open_runs WHERE id = ANY (%s)", list(runs))
        return [run for (run,) in found]
