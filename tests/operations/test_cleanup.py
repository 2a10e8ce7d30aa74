"""`app.cleanup`: rules over tables of the user."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota import errors
from tests.sql_engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    return Engine(conn)


@pytest.fixture
def tables(engine: Engine) -> Engine:
    engine.conn.execute(
        "CREATE TABLE public.sessions (id int, expires_at timestamptz, note text);"
        'CREATE TABLE public."Odd name" (at timestamptz);'
        "CREATE TABLE public.notes (id int);"
        "INSERT INTO public.sessions SELECT n, rota.now() - n * interval '1 day',"
        " CASE WHEN n > 5 THEN 'keep' END FROM generate_series(1, 9) n"
    )
    return engine


async def test_added_counted_run_and_removed(app: rota.App, tables: Engine) -> None:
    face = app.cleanup.by("alice")
    made = await face.add(
        "sessions", column="expires_at", older_than_seconds=timedelta(days=3), reason="too many",
        where="note is null", cron="30 4 * * *", timezone="Europe/Paris",
    )  # fmt: skip
    (rule,) = made.rules
    assert (made.name, made.timezone) == ("cleanup_sessions", "Europe/Paris")
    assert (rule.table, rule.column) == ("public.sessions", "expires_at")
    assert (rule.older_than, rule.where) == ("3 days", "note is null")
    assert [one.name for one in await app.cleanup.list()] == ["cleanup_sessions"]
    (count,) = await app.cleanup.plan("cleanup_sessions")
    assert (count.table, count.matching) == ("public.sessions", 3)
    assert tables.one("SELECT count(*) FROM public.sessions") == 9
    done = await face.run("cleanup_sessions")
    async with app.worker():
        ended = await app.runs.wait(done.run_id, timeout=30)
    assert (ended.message, ended.schedule) == ("3 expired rows removed", "cleanup_sessions")
    assert await app.cleanup.plan() == [
        type(count)("cleanup_sessions", "public.sessions", "expires_at", 0)
    ]
    await face.remove("cleanup_sessions", reason="enough")
    assert await app.cleanup.list() == []
    audit = [(one.actor, one.action, one.reason) for one in await app.audit.list()]
    assert ("alice", "schedule.created", "too many") in audit
    assert ("alice", "schedule.deleted", "enough") in audit


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("session", {}, 'there is no table "session"'),
        ("a; DROP TABLE sessions", {}, "there is no table"),
        ("notes", {"column": "id"}, "is integer, not a time"),
        ("sessions", {"column": "expired_at"}, 'has no column "expired_at"'),
        ("sessions", {"older_than_seconds": -1}, "from 0 to"),
        ("sessions", {"where": "status = 1"}, 'has no column "status"'),
        ("sessions", {"where": "id = 'x'"}, "does not match column"),
        ("sessions", {"where": "id = 1 or true"}, "cannot be read"),
        ("rota.jobs", {"column": "created_at"}, "cannot be removed"),
        ("sessions", {"cron": "0 25 * * *"}, "25"),
        ("sessions", {"timezone": "PST"}, "unknown time zone"),
    ],
)
async def test_what_does_not_fit_is_refused_and_leaves_nothing(
    app: rota.App, tables: Engine, table: str, change: dict[str, Any], words: str
) -> None:
    given = {"column": "expires_at", "older_than_seconds": 60} | change
    with pytest.raises((errors.InputError, errors.TimingError), match=words):
        await app.cleanup.add(table, **given)
    assert await app.cleanup.list() == []


async def test_a_table_gets_a_hint(app: rota.App, tables: Engine) -> None:
    with pytest.raises(errors.InputError) as caught:
        await app.cleanup.add("public.sesions", column="expires_at", older_than_seconds=0)
    assert caught.value.hint == "did you mean public.sessions?"
    with pytest.raises(errors.InputError) as caught:
        await app.cleanup.add("sessions", column="expired", older_than_seconds=0)
    assert caught.value.hint == "Its columns are id, expires_at, note."


async def test_names(app: rota.App, tables: Engine) -> None:
    made = await app.cleanup.add('"Odd name"', column="at", older_than_seconds=0)
    assert (made.name, made.rules[0].table) == ("cleanup_Odd name", 'public."Odd name"')
    with pytest.raises(errors.WrongState, match="already exists"):
        await app.cleanup.add('"Odd name"', column="at", older_than_seconds=0)
    tables.job("work")
    tables.conn.execute(
        "INSERT INTO rota.schedules (name, job, cron) VALUES ('other', 'work', '0 3 * * *')"
    )
    for name in ("other", "nothing"):
        for call in (app.cleanup.get, app.cleanup.run, app.cleanup.remove, app.cleanup.plan):
            with pytest.raises(errors.ScheduleNotFound, match="no cleanup is named"):
                await call(name)


async def test_the_one_of_rota(app: rota.App, tables: Engine) -> None:
    assert await app.cleanup.list() == []
    rules = (
        '{"rules": [{"table": "public.sessions", "column": "expires_at", "older_than": "1 day"}]}'
    )
    tables.conn.execute(
        "UPDATE rota.schedules SET payload = %s WHERE name = 'rota.cleanup'", [rules]
    )
    (found,) = await app.cleanup.list()
    assert (found.name, found.rules[0].older_than) == ("rota.cleanup", "1 day")
    with pytest.raises(errors.WrongState, match="belongs to Rota"):
        await app.cleanup.remove("rota.cleanup")


async def test_recipes_are_offered_where_their_tables_are(app: rota.App, engine: Engine) -> None:
    assert await app.cleanup.recipes() == []
    engine.conn.execute(
        "CREATE TABLE public._shop_sessions (expires_at timestamptz);"
        "CREATE TABLE public._shop_magic_links (expires_at timestamptz);"
        "CREATE TABLE public._shop_webhook_deliveries (created_at timestamptz, status text);"
        "CREATE TABLE public.oauth_tokens (expires_at timestamptz);"
        "CREATE TABLE public.password_resets (at timestamptz)"
    )
    found = await app.cleanup.recipes()
    assert [(one.name, one.prefix, len(one.rules)) for one in found] == [
        ("stale_session_cleanup", "public._shop_", 1),
        ("webhook_delivery_prune", "public._shop_", 1),
        ("expired_oauth_cleanup", "public.", 1),
        ("expired_auth_cleanup", "public._shop_", 1),
    ]
    made = await app.cleanup.add_recipe("webhook_delivery_prune")
    (rule,) = made.rules
    assert (rule.older_than, rule.where) == ("7 days", "status <> 'pending'")
    assert [one.is_used for one in await app.cleanup.recipes()] == [False, True, False, False]
    engine.conn.execute("CREATE TABLE public.sessions (expires_at timestamptz)")
    with pytest.raises(errors.WrongState) as caught:
        await app.cleanup.add_recipe("stale_session_cleanup")
    assert "public., public._shop_" in str(caught.value.hint) or "public._shop_, public." in str(
        caught.value.hint
    )
    await app.cleanup.add_recipe("stale_session_cleanup", prefix="public._shop_")
    used = {(one.name, one.prefix): one.is_used for one in await app.cleanup.recipes()}
    assert used["stale_session_cleanup", "public._shop_"]
    assert not used["stale_session_cleanup", "public."], "of other tables"
    second = await app.cleanup.add_recipe("stale_session_cleanup", prefix="public.")
    assert (second.name, second.rules[0].table) == (
        "stale_session_cleanup_public",
        "public.sessions",
    )
    with pytest.raises(errors.TemplateNotFound, match="no recipe is named"):
        await app.cleanup.add_recipe("nothing")


async def test_a_prefix_needs_no_schema(app: rota.App, engine: Engine) -> None:
    engine.conn.execute(
        "CREATE SCHEMA crm; CREATE SCHEMA hr;"
        "CREATE TABLE public._shop_sessions (expires_at timestamptz);"
        "CREATE TABLE crm._shop_sessions (expires_at timestamptz);"
        "CREATE TABLE crm._club_sessions (expires_at timestamptz);"
        "CREATE TABLE crm._team_sessions (expires_at timestamptz);"
        "CREATE TABLE hr._team_sessions (expires_at timestamptz)"
    )

    async def added(prefix: str) -> tuple[str, str]:
        made = await app.cleanup.add_recipe("stale_session_cleanup", prefix=prefix)
        return made.name, made.rules[0].table

    assert await added("_shop_") == ("stale_session_cleanup", "public._shop_sessions")
    assert await added("_club_") == ("stale_session_cleanup_crm_club", "crm._club_sessions")
    assert await added("hr._team_") == ("stale_session_cleanup_hr_team", "hr._team_sessions")
    with pytest.raises(errors.WrongState, match="matches several tables") as several:
        await added("_team_")
    assert several.value.hint in (
        "pass one of the prefixes crm._team_, hr._team_",
        "pass one of the prefixes hr._team_, crm._team_",
    )
    with pytest.raises(errors.WrongState, match='no tables with the prefix "_odd_"') as none:
        await added("_odd_")
    assert "public._shop_" in str(none.value.hint)
    with pytest.raises(errors.WrongState, match="already exists") as taken:
        await added("_club_")
    assert taken.value.hint == "pass another name, or remove it first"


async def test_all_four_recipes_keep_their_times(app: rota.App, engine: Engine) -> None:
    engine.conn.execute(
        "CREATE TABLE sessions (expires_at timestamptz);"
        "CREATE TABLE webhook_deliveries (created_at timestamptz, status text);"
        "CREATE TABLE oauth_tokens (expires_at timestamptz, revoked_at timestamptz);"
        "CREATE TABLE oauth_authorization_codes (expires_at timestamptz, used_at timestamptz);"
        "CREATE TABLE magic_links (expires_at timestamptz);"
        "CREATE TABLE password_resets (expires_at timestamptz)"
    )
    for one in await app.cleanup.recipes():
        await app.cleanup.add_recipe(one.name)
    rows = engine.rows("SELECT name, cron, payload FROM rota.schedules WHERE NOT is_system")
    told = {row["name"]: (row["cron"], len(row["payload"]["rules"])) for row in rows}
    assert told == {
        "stale_session_cleanup": ("0 * * * *", 1),
        "webhook_delivery_prune": ("0 3 * * *", 1),
        "expired_oauth_cleanup": ("0 4 * * *", 4),
        "expired_auth_cleanup": ("0 5 * * *", 2),
    }


async def test_tables_with_a_time(app: rota.App, tables: Engine) -> None:
    found = await app.cleanup.tables()
    assert [(one.name, one.times) for one in found] == [
        ('public."Odd name"', ["at"]),
        ("public.sessions", ["expires_at"]),
    ]


def test_a_bad_rule_by_plain_sql_is_refused_at_the_insert(tables: Engine) -> None:
    for rules, words in (
        ('{"rules": [{"table": "nowhere"}]}', 'cleanup rule 1: there is no table "nowhere"'),
        ('{"rules": [7]}', "must be an object"),
        ('{"rules": 7}', "the payload of cleanup must be"),
        ('{"rules": [{"table": "sessions", "column": "expires_at", "older_than": 0,'
         ' "batch_size": 0}]}', "batch_size must be a whole number"),
    ):  # fmt: skip
        write = "INSERT INTO rota.schedules (name, job, cron, payload) VALUES ('a', %s, %s, %s)"
        with pytest.raises(Exception, match=words):
            tables.conn.execute(write, ["rota.cleanup", "0 3 * * *", rules])
