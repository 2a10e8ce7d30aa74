from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rota.errors import DuplicateKey, InputError, PayloadError, UnknownJob
from rota.jobs import batch
from rota.jobs.context import Context
from rota.jobs.decorator import Job
from rota.jobs.options import Options
from rota.postgres.migrate import migrate
from tests.jobs.conftest import Setting, make_setting

pytestmark = pytest.mark.both_loops

SOON = datetime(2099, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def welcome(setting: Setting) -> Job[Any]:
    @setting.job(queue="mail", max_attempts=5)
    async def welcome(ctx: Context, user_id: int, locale: str = "en") -> None: ...

    return welcome


async def test_enqueue_stores_what_was_asked_and_the_schema_that_checked_it(
    setting: Setting, welcome: Job[Any]
) -> None:
    run = await welcome.enqueue(user_id=7)
    (row,) = setting.runs()
    assert (row["id"], row["job"], run.is_duplicate) == (run.id, "welcome", False)
    assert (row["queue"], row["max_attempts"], row["state"]) == ("mail", 5, "queued")
    assert (row["payload"], row["triggered_by"]) == ({"user_id": 7}, {"type": "code"})
    (hot,) = setting.rows("SELECT validated_by FROM rota.open_runs")
    assert hot["validated_by"] == welcome.definition.schema.hash


async def test_enqueue_sync_does_the_same(setting: Setting, welcome: Job[Any]) -> None:
    run = welcome.enqueue_sync(8, "de")
    (row,) = setting.runs()
    assert (row["id"], row["payload"]) == (run.id, {"user_id": 8, "locale": "de"})


async def test_every_option_reaches_its_column(setting: Setting, welcome: Job[Any]) -> None:
    bound = welcome.options(
        queue="other",
        priority=1,
        run_at=SOON,
        expires_at=SOON + timedelta(days=1),
        key="k",
        key_keep="forever",
        tenant="acme",
        max_attempts=9,
        timeout=timedelta(minutes=1),
        backoff="fixed",
        tags=["a", "b"],
        metadata={"team": "x"},
    )
    await bound.enqueue(user_id=1)
    (row,) = setting.runs()
    expected = {
        "queue": "other",
        "priority": 1,
        "run_at": SOON,
        "expires_at": SOON + timedelta(days=1),
        "key": "k",
        "tenant": "acme",
        "max_attempts": 9,
        "tags": ["a", "b"],
        "metadata": {"team": "x"},
        "state": "scheduled",
    }
    assert {name: row[name] for name in expected} == expected
    (hot,) = setting.rows("SELECT timeout_seconds, key_seconds, backoff FROM rota.open_runs")
    assert (hot["timeout_seconds"], hot["key_seconds"]) == (60, float("inf"))
    assert hot["backoff"]["kind"] == "fixed"


async def test_a_delay_counts_from_the_databases_now(setting: Setting, welcome: Job[Any]) -> None:
    await welcome.options(delay=3600).enqueue(user_id=1)
    (row,) = setting.rows("SELECT run_at - created_at AS wait, state FROM rota.runs")
    assert (row["wait"], row["state"]) == (timedelta(hours=1), "scheduled")


async def test_a_key_returns_the_first_run_or_raises_or_replaces(
    setting: Setting, welcome: Job[Any]
) -> None:
    first = await welcome.options(key="k").enqueue(user_id=1)
    second = await welcome.options(key="k").enqueue(user_id=2)
    assert (second.id, second.is_duplicate) == (first.id, True)
    with pytest.raises(DuplicateKey, match=f"held by run {first.id}"):
        await welcome.options(key="k", on_conflict="raise").enqueue(user_id=3)
    third = await welcome.options(key="k", on_conflict="replace").enqueue(user_id=4)
    assert third == first
    assert [row["payload"] for row in setting.runs()] == [{"user_id": 4}]


async def test_bad_input_leaves_no_trace(setting: Setting, welcome: Job[Any]) -> None:
    with pytest.raises(PayloadError, match="argument user_id"):
        await welcome.enqueue(user_id="seven")
    with pytest.raises(InputError, match="priority"):
        await welcome.options(priority=10).enqueue(user_id=1)
    with pytest.raises(InputError, match="takes calls"):
        await setting.enqueuer.send_many([welcome.call(1), welcome])  # type: ignore[list-item]
    assert setting.runs() == []


async def test_a_job_declared_after_the_first_enqueue_is_known(
    setting: Setting, welcome: Job[Any]
) -> None:
    await welcome.enqueue(user_id=1)

    @setting.job
    def late() -> None: ...

    late.enqueue_sync()
    assert [row["job"] for row in setting.runs()] == ["welcome", "late"]


async def test_a_job_that_vanished_from_the_database_is_unknown(
    setting: Setting, welcome: Job[Any]
) -> None:
    await welcome.enqueue(user_id=1)
    setting.rows("SELECT rota.delete_job('welcome', cancel_open => true)")
    with pytest.raises(UnknownJob, match='"welcome"'):
        await welcome.enqueue(user_id=1)


async def test_many_are_one_statement_and_answer_in_order(
    setting: Setting, welcome: Job[Any]
) -> None:
    runs = await setting.enqueuer.send_many(welcome.call(user_id=n) for n in range(1000))
    stored = {row["id"]: row["payload"]["user_id"] for row in setting.runs()}
    assert [stored[run.id] for run in runs] == list(range(1000))
    (times,) = setting.rows("SELECT count(DISTINCT created_at) AS count FROM rota.runs")
    assert times["count"] == 1


async def test_many_of_several_jobs_with_options(setting: Setting, welcome: Job[Any]) -> None:
    @setting.job(tags=["job"])
    def other(text: str) -> None: ...

    calls = [
        welcome.options(tags=["a", "b"], delay=60).call(1),
        other.options(tags=["c"], run_at=SOON, metadata={"x": 'quo"te'}).call('back\\slash "x"'),
        other.options(key="k", tags=["d"], tenant="t", backoff="linear", timeout=5).call("ünï"),
        other.call("plain"),
    ]
    runs = await setting.enqueuer.send_many(calls)
    rows = {row["id"]: row for row in setting.runs()}
    first, second, third, last = (rows[run.id] for run in runs)
    assert (first["tags"], first["state"], first["queue"]) == (["a", "b"], "scheduled", "mail")
    assert (second["tags"], second["run_at"]) == (["c"], SOON)
    assert (second["metadata"], second["payload"]["text"]) == ({"x": 'quo"te'}, 'back\\slash "x"')
    assert (third["key"], third["tags"], third["tenant"]) == ("k", ["d"], "t")
    assert third["payload"] == {"text": "ünï"}
    assert (last["tags"], last["key"], last["state"]) == (["job"], None, "queued")


async def test_many_in_chunks_are_all_or_nothing(
    setting: Setting, welcome: Job[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MAX_ROWS", 3)
    runs = await setting.enqueuer.send_many(welcome.call(n) for n in range(10))
    assert len(runs) == len(setting.runs()) == 10
    await welcome.options(key="taken").enqueue(user_id=1)
    calls = [welcome.call(n) for n in range(9)]
    calls.append(welcome.options(key="taken", on_conflict="raise").call(9))
    with pytest.raises(DuplicateKey):
        setting.enqueuer.send_many_sync(calls)
    assert len(setting.runs()) == 11


async def test_keys_over_several_chunks_keep_the_order_of_the_answers(
    setting: Setting, welcome: Job[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MAX_ROWS", 2)
    keys = ["c", "a", None, "b", "a", None, "c"]
    calls = [welcome.options(key=key).call(n) for n, key in enumerate(keys)]
    runs = setting.enqueuer.send_many_sync(calls)
    rows = {row["id"]: row for row in setting.runs()}
    assert [rows[run.id]["key"] for run in runs] == keys
    assert [run.is_duplicate for run in runs] == [False] * 4 + [True, False, True]
    assert runs[4] == runs[1]


async def test_nothing_is_nothing(setting: Setting) -> None:
    assert await setting.enqueuer.send_many([]) == []
    assert setting.enqueuer.send_many_sync([]) == []


async def test_errors_of_the_database_keep_their_cause(setting: Setting, welcome: Job[Any]) -> None:
    past_the_edge = welcome.call(1)._replace(options=Options(key="x" * 500))
    with pytest.raises(InputError, match="1 to 400") as caught:
        await setting.enqueuer.send(past_the_edge)
    assert isinstance(caught.value.__cause__, psycopg.Error)


@pytest.mark.parametrize("is_bulk", [False, True])
async def test_a_run_due_soon_calls_the_waiting_worker(
    setting: Setting, welcome: Job[Any], is_bulk: bool
) -> None:
    await setting.database.open()
    setting.rows(
        "INSERT INTO rota.workers (name, host, pid, concurrency, is_waiting, lease_seconds, "
        "lease_expires_at) VALUES ('w', 'h', 1, 1, true, 30, now())"
    )
    call = welcome.options(delay=5).call(1)
    async with await psycopg.AsyncConnection.connect(setting.url, autocommit=True) as conn:
        row = await (await conn.execute("SELECT channel FROM rota.settings")).fetchone()
        assert row is not None
        await conn.execute(f"LISTEN {row[0]}".encode())
        send = setting.enqueuer.send_many([call]) if is_bulk else setting.enqueuer.send(call)
        await send
        async for notice in conn.notifies(timeout=60, stop_after=1):
            assert notice.payload == "due"
            break
        else:
            pytest.fail("nobody was called")


async def test_plain_sql_is_told_what_is_wrong(setting: Setting, welcome: Job[Any]) -> None:
    await setting.database.open()
    for argument, problem in {
        "priority => 100000": "priority 100000",
        "max_attempts => 0": "max_attempts 0",
        "on_conflict => 'bogus'": "on_conflict must be one of",
        "payload => '[]'": "must be a JSON object",
        "on_conflict => 'raise'": "on_conflict needs a key",
        "key_seconds => 5": "key_seconds needs a key",
        "expires_in => '-1 s'": "expires_in -00:00:01",
        "expires_in => '1 s', expires_at => now()": "cannot be combined",
    }.items():
        with pytest.raises(psycopg.Error, match=problem) as caught:
            setting.rows(f"SELECT rota.enqueue('welcome', {argument})")
        assert caught.value.sqlstate == ("RO018" if "payload" in argument else "RO002")


async def test_another_name_of_the_schema(database_url: str) -> None:
    migrate(database_url, "elsewhere")
    setting = make_setting(database_url, schema="elsewhere")

    @setting.job
    def job(n: int) -> None: ...

    calls = [job.call(1), job.options(key="k", tags=["a"]).call(2)]
    runs = [await job.enqueue(3), *setting.enqueuer.send_many_sync(calls)]
    async with await psycopg.AsyncConnection.connect(database_url) as conn:
        runs.append(await job.options(connection=conn, delay=1).enqueue(4))
    stored = setting.rows("SELECT id FROM elsewhere.runs ORDER BY id")
    assert [row["id"] for row in stored] == sorted(run.id for run in runs)
    assert setting.runs() == []
    await setting.database.close()
