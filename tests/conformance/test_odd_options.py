"""SQL refuses what the other faces refuse, and one odd row takes no other along."""

from __future__ import annotations

import psycopg
import pytest

from tests.sql_engine import Engine

_BAD = [
    ("key => 'k', key_seconds => 'NaN'", "key_seconds NaN"),
    ("key => 'k', key_seconds => 1e300", "key_seconds 1e+300"),
    ("key => 'k', key_seconds => -1", "key_seconds -1"),
    ("run_at => 'infinity'", "run_at infinity"),
    ("run_at => '9999-12-31 00:00Z'", "the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)"),
    ("run_at => '-infinity'", "run_at -infinity"),
    ("run_at => '0044-03-15 00:00Z BC'", "run_at 0044"),
    ("run_at => '9999-12-31T23:59:59-14:00'", "run_at 10000"),
    ("expires_at => 'infinity'", "expires_at infinity"),
    ("delay => '200000 years'", "delay 200000 years"),
    ("delay => '-200000 years'", "delay -200000 years"),
    ("delay => '-1 second'", "is not between 0 and 100 years"),
    ("timeout_seconds => 'NaN'", "timeout_seconds NaN"),
    ("timeout_seconds => 1e300", "timeout_seconds 1e+300"),
    ("timeout_seconds => 'infinity'", "timeout_seconds Infinity"),
    ("tags => ARRAY['a', NULL]", "tags"),
    ("tags => ARRAY[['a'], ['b']]", "tags"),
    ("tags => ARRAY['']", "tags"),
    ("tenant => repeat('t', 201)", "tenant"),
    ("payload => '{\"n\": 1e5000}'", "payload"),
    ("payload => ('{\"n\":' || repeat('[', 500) || repeat(']', 500) || '}')::jsonb", "payload"),
    ("metadata => '{\"n\": -1e5000}'", "metadata"),
    ("metadata => ('{\"n\":' || repeat('[', 500) || repeat(']', 500) || '}')::jsonb", "metadata"),
    ("backoff => '{\"base_seconds\": 1e5000}'", "backoff"),
    ('backoff => \'{"kind": "odd"}\'', "backoff"),
    ("backoff => '{\"base_seconds\": -1}'", "backoff"),
]


@pytest.fixture
def engine(conn: psycopg.Connection) -> Engine:
    engine = Engine(conn)
    engine.job("ok")
    return engine


@pytest.mark.parametrize(("given", "named"), _BAD)
def test_enqueue_refuses_odd_options_and_says_which(engine: Engine, given: str, named: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        engine.one(f"SELECT rota.enqueue('ok', {given})")
    assert caught.value.sqlstate == ("RO018" if named == "payload" else "RO002"), caught.value
    assert named in str(caught.value)
    assert 'job "ok"' in str(caught.value)
    assert engine.one("SELECT count(*) FROM rota.open_runs") == 0


_MANY = [
    ("expires_ats => ARRAY['infinity'::timestamptz]", "expires_at"),
    ("run_ats => ARRAY['infinity'::timestamptz]", "run_at"),
    ("delays => ARRAY['200000 years'::interval]", "delay"),
    ("keys => ARRAY['k'], key_seconds => ARRAY['NaN'::double precision]", "key_seconds"),
    ("timeouts => ARRAY[1e300::double precision]", "timeout_seconds"),
    ("tags => ARRAY['[null]'::jsonb]", "tags"),
    ("metadatas => ARRAY['{\"n\": 1e5000}'::jsonb]", "metadata"),
]


@pytest.mark.parametrize(("given", "named"), _MANY)
def test_enqueue_many_refuses_them_too(engine: Engine, given: str, named: str) -> None:
    with pytest.raises(psycopg.Error, match=named) as caught:
        engine.rows(f"SELECT * FROM rota.enqueue_many(ARRAY['ok'], ARRAY['{{}}'::jsonb], {given})")
    assert caught.value.sqlstate == "RO002", caught.value


_BATCH = [
    ("run_at => 'infinity'", "run_at"),
    ("delay => '200000 years'", "delay"),
    ("expires_at => '-infinity'", "expires_at"),
    ("timeout_seconds => 'NaN'", "timeout_seconds"),
    ("tags => ARRAY[NULL]", "tags"),
]


@pytest.mark.parametrize(("given", "named"), _BATCH)
def test_enqueue_batch_refuses_them_too(engine: Engine, given: str, named: str) -> None:
    with pytest.raises(psycopg.Error, match=named) as caught:
        engine.one(f"SELECT rota.enqueue_batch('ok', '[{{}}]', {given})")
    assert caught.value.sqlstate == "RO002", caught.value


def test_a_batch_with_one_odd_payload_is_refused(engine: Engine) -> None:
    with pytest.raises(psycopg.Error, match="payload") as caught:
        engine.one("SELECT rota.enqueue_batch('ok', '[{}, {\"n\": 1e5000}]')")
    assert caught.value.sqlstate == "RO018"


def test_retry_refuses_an_odd_delay(engine: Engine) -> None:
    run = engine.enqueue("ok")
    engine.one("SELECT rota.cancel_run(%s)", run)
    with pytest.raises(psycopg.Error, match="delay") as caught:
        engine.one("SELECT rota.retry_run(%s, delay => '200000 years')", run)
    assert caught.value.sqlstate == "RO002"
    assert engine.state(run) == "cancelled"


def test_what_the_other_faces_take_is_taken(engine: Engine) -> None:
    engine.one(
        "SELECT rota.enqueue('ok', key => 'k', key_seconds => 'infinity', delay => '99 years', "
        "tags => '{a,b}', timeout_seconds => 31536000, tenant => 't', expires_at => '9000-01-01', "
        """metadata => '{"n": 1e300}', backoff => '{"kind": "fixed", "base_seconds": 1}')"""
    )
    deep = "[" * 98 + "1" + "]" * 98
    assert engine.enqueue("ok", {"n": 1, "text": "9" * 400})
    engine.one(f"SELECT rota.enqueue('ok', '{{\"n\": {deep}}}')")


@pytest.mark.parametrize("seconds", ["NaN", "1e300", "-1e300", "-Infinity"])
def test_a_run_with_an_odd_number_ends_and_takes_no_other_along(
    engine: Engine, seconds: str
) -> None:
    """As rows of before, or of somebody who dropped the constraint."""
    worker = engine.worker("ok")
    odd = [engine.enqueue("ok", key=f"k{n}", key_seconds=1.0) for n in range(4)]
    fine = engine.enqueue("ok")
    engine.rows("ALTER TABLE rota.open_runs DROP CONSTRAINT open_runs_sound")
    engine.rows("UPDATE rota.open_runs SET key_seconds = %s WHERE id = ANY (%s)", seconds, odd)
    waiting, finished, requeued, lost = odd
    assert engine.one("SELECT rota.cancel_run(%s)", waiting) == "cancelled"
    claimed = {row["id"]: row["attempt"] for row in engine.claim(worker, jobs=("ok",))}
    assert set(claimed) == {finished, requeued, lost, fine}
    ended = engine.rows(
        "SELECT * FROM rota.finish_runs(%s, %s::bigint[], %s::integer[], %s::real[])",
        worker, [finished, fine], [1, 1], [1.0, 1.0],
    )  # fmt: skip
    assert len(ended) == 2
    assert engine.cancel(lost) == "requested"
    engine.lose(worker)
    engine.rescue()
    assert engine.state(finished) == engine.state(fine) == "succeeded"
    assert engine.state(lost) == "cancelled"
    assert engine.state(requeued) == "queued"


@pytest.mark.parametrize("delay", ["NaN", "Infinity", "1e300"])
def test_an_odd_delay_of_a_retry_is_cut_to_the_longest(engine: Engine, delay: str) -> None:
    worker = engine.worker("ok")
    odd, fine = engine.enqueue("ok"), engine.enqueue("ok")
    engine.claim(worker, jobs=("ok",))
    again = engine.rows(
        "SELECT * FROM rota.requeue_runs(%s, %s::bigint[], %s::integer[], %s::real[], %s::text[], "
        "%s::double precision[], %s::boolean[])",
        worker, [odd, fine], [1, 1], [1.0, 1.0], ["failed"] * 2, f"{{{delay},5}}", [True] * 2,
    )  # fmt: skip
    assert len(again) == 2
    assert engine.state(odd) == engine.state(fine) == "scheduled"
    assert engine.one(
        "SELECT run_at BETWEEN rota.now() + '99 years' AND rota.now() + '101 years' "
        "FROM rota.open_runs WHERE id = %s",
        odd,
    )


@pytest.mark.parametrize("run_at", ["infinity", "-infinity"])
def test_an_odd_time_keeps_no_other_run_from_being_promoted(engine: Engine, run_at: str) -> None:
    odd, fine = (engine.enqueue("ok", delay="1 second") for _ in range(2))
    engine.rows("ALTER TABLE rota.open_runs DROP CONSTRAINT open_runs_sound")
    engine.rows("UPDATE rota.open_runs SET run_at = %s WHERE id = %s", run_at, odd)
    engine.advance(2)
    engine.promote()
    assert engine.state(fine) == "queued"
    assert engine.one("SELECT next_due_seconds FROM rota.promote_runs(10)") is None


@pytest.mark.parametrize("seconds", ["NaN", "1e300"])
def test_a_schedule_with_an_odd_interval_keeps_no_run_from_ending(
    engine: Engine, seconds: str
) -> None:
    engine.rows(
        "INSERT INTO rota.schedules (name, job, interval_seconds, every_from) "
        "VALUES ('s', 'ok', 60, 'end')"
    )
    run, fine = engine.enqueue("ok"), engine.enqueue("ok")
    worker = engine.worker("ok")
    engine.claim(worker, jobs=("ok",))
    engine.rows("ALTER TABLE rota.schedules DROP CONSTRAINT schedules_interval_seconds_value")
    engine.rows("DROP TRIGGER a_values ON rota.schedules")
    engine.rows("UPDATE rota.schedules SET interval_seconds = %s WHERE name = 's'", seconds)
    engine.rows(
        "UPDATE rota.open_runs o SET schedule_id = s.id, schedule = s.name, "
        "scheduled_for = rota.now() FROM rota.schedules s WHERE s.name = 's' AND o.id = %s",
        run,
    )
    ended = engine.rows(
        "SELECT * FROM rota.finish_runs(%s, %s::bigint[], %s::integer[], %s::real[])",
        worker, [run, fine], [1, 1], [1.0, 1.0],
    )  # fmt: skip
    assert len(ended) == 2


@pytest.mark.distribution
def test_the_distributions_server_refuses_them_too(engine: Engine) -> None:
    for given, named in _BAD:
        test_enqueue_refuses_odd_options_and_says_which(engine, given, named)
    test_what_the_other_faces_take_is_taken(engine)
    engine.rows("DELETE FROM rota.open_runs")
    test_an_odd_time_keeps_no_other_run_from_being_promoted(engine, "infinity")


def test_a_run_that_cannot_be_written_stops_no_other_of_a_bulk_action(engine: Engine) -> None:
    odd, fine = engine.enqueue("ok", {"odd": True}), engine.enqueue("ok")
    engine.rows(
        "CREATE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '23514'; END $$"
    )
    engine.rows(
        "CREATE TRIGGER odd BEFORE INSERT ON rota.ended_runs FOR EACH ROW "
        "WHEN (NEW.payload ? 'odd') EXECUTE FUNCTION pg_temp.refuse()"
    )
    answers = engine.rows("SELECT * FROM rota.act_on_runs('cancel', %s::bigint[])", [odd, fine])
    assert [(row["answer"], row["refusal"]) for row in answers] == [
        (None, "no room"),
        ("cancelled", None),
    ]
