"""Old and new code side by side, applications side by side: who may say what jobs are."""

from __future__ import annotations

import threading
from typing import Any

import psycopg

import rota
from tests.jobs.conftest import MakeCode
from tests.jobs.processes import Code


def marks(one: Code) -> list[dict[str, Any]]:
    return one.rows(
        "SELECT tableoid, xmin, ctid FROM rota.jobs UNION ALL SELECT tableoid, xmin, ctid "
        "FROM rota.job_applications UNION ALL SELECT tableoid, xmin, ctid FROM rota.builds "
        "UNION ALL SELECT tableoid, xmin, ctid FROM rota.schedules ORDER BY 1, 3"
    )


def test_a_job_gone_from_the_code_is_marked_when_a_worker_starts_without_it(code: MakeCode) -> None:
    old = code(a={}, b={})
    worker = old.work()
    new = code(a={})
    new.open()
    assert not new.is_deleted("b"), "a process that only enqueues marks nothing"
    newer = new.work()
    assert not new.is_deleted("b"), "a live worker knows it"
    old.end(worker)
    assert new.look(newer)
    assert new.is_deleted("b")
    assert not new.is_deleted("a")
    assert new.rows("SELECT action FROM rota.audit WHERE object_id = 'b'") == [
        {"action": "job.deleted_from_code"}
    ]
    assert not new.look(newer)


def test_coming_back_revives(code: MakeCode) -> None:
    old = code(a={}, b={"priority": 7})
    old.end(old.work())
    new = code(a={})
    worker = new.work()
    assert new.is_deleted("b")
    again = code(a={"priority": 1}, b={"priority": 7})
    again.work()
    assert not again.is_deleted("b")
    assert again.job("b")["priority"] == 7
    actions = again.rows("SELECT action FROM rota.audit WHERE object_id = 'b' ORDER BY id")
    assert [row["action"] for row in actions] == ["job.deleted_from_code", "job.revived"]
    new.end(worker)


def test_old_code_that_restarts_beside_new_code_changes_nothing(code: MakeCode) -> None:
    code(a={"priority": 3}, gone={}).work()
    new = code(a={"priority": 4})
    new.work()
    assert new.job("a")["priority"] == 4
    before = marks(new)
    restarted = code(a={"priority": 3}, gone={})
    restarted.open()
    worker = restarted.work()
    assert not restarted.look(worker)
    assert marks(new) == before


def test_old_code_may_still_add_what_is_missing(code: MakeCode) -> None:
    code(a={}).work()
    code(a={"priority": 1}).work()
    code(a={}, extra={}).open()
    late = code(a={})
    assert late.job("extra")["application"] == "shop"


def test_a_roll_back_counts_when_the_newer_workers_are_gone(code: MakeCode) -> None:
    first = code(a={"priority": 3})
    first.end(first.work())
    second = code(a={"priority": 4}, b={})
    newer = second.work()
    back = code(a={"priority": 3})
    worker = back.work()
    assert back.job("a")["priority"] == 4
    second.end(newer)
    assert back.look(worker)
    assert back.job("a")["priority"] == 3
    assert back.is_deleted("b")
    assert not back.look(worker)


def test_new_code_that_only_enqueues_so_far_is_not_undone_by_old_workers(code: MakeCode) -> None:
    old = code(a={"priority": 3})
    worker = old.work()
    code(a={"priority": 4}).open()
    assert not old.look(worker)
    assert old.job("a")["priority"] == 4
    code(a={"priority": 3}).open()
    assert old.job("a")["priority"] == 4
    newer = code(a={"priority": 4})
    assert not newer.look(newer.work())
    assert old.job("a")["priority"] == 4


def test_applications_that_share_a_database_do_not_delete_each_others_jobs(code: MakeCode) -> None:
    shop = code(name="shop", a={})
    shop.end(shop.work())
    bank = code(name="bank", b={})
    bank.work()
    assert not bank.is_deleted("a")
    assert not bank.is_deleted("b")


def test_a_job_of_two_applications_follows_the_first_and_lives_until_both_drop_it(
    code: MakeCode,
) -> None:
    shop = code(name="shop", a={"priority": 1}, own={})
    worker = shop.work()
    bank = code(name="bank", a={"priority": 2})
    bank.work()
    assert bank.job("a")["priority"] == 1
    shop.end(worker)
    code(name="shop", own={}).work()
    assert not bank.is_deleted("a")
    code(name="bank", a={"priority": 2, "tags": ["x"]}).work()
    assert (bank.job("a")["priority"], bank.job("a")["application"]) == (2, "bank")


def test_nothing_is_written_when_nothing_changed(code: MakeCode) -> None:
    arguments = {"timeout": 0.3, "schedules": [rota.every(60)], "payload": {"n": 2}}
    first = code(a=arguments)
    worker = first.work()
    before = marks(first)
    again = code(a=arguments)
    again.open()
    again.work()
    assert not first.look(worker)
    assert marks(first) == before


def test_many_processes_start_at_once(code: MakeCode, database_url: str) -> None:
    names = {f"job{number}": {"tags": [str(number)]} for number in range(20)}
    processes = [code(**dict(sorted(names.items(), reverse=bool(i % 2)))) for i in range(8)]
    errors: list[BaseException] = []

    def go(one: Code) -> None:
        try:
            one.work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=go, args=[one]) for one in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with psycopg.connect(database_url) as conn:
        counted = conn.execute("SELECT count(*), count(DISTINCT build) FROM rota.builds").fetchone()
        assert counted == (1, 1)
        assert conn.execute("SELECT count(*) FROM rota.job_applications").fetchone() == (20,)
