"""The pages of jobs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import rota
from rota.testing import run_due
from tests.sql_engine import Engine
from tests.web.conftest import Browser


@pytest.fixture
def engine(conn: Any) -> Engine:
    return Engine(conn)


@pytest.fixture
async def known(shop: rota.App) -> rota.App:
    """Its jobs are registered."""
    await shop.runs.enqueue("send", {"user_id": 1})
    return shop


async def test_the_list(web: Browser, known: rota.App, engine: Engine) -> None:
    await web.get("/jobs")
    assert "send mail on demand 1 0 0 none" in web.text
    assert 'href="/jobs/send"' in web.page
    assert "rota.prune" not in web.text

    await web.get("/jobs?system=1")
    assert "rota.prune_runs" in web.text


async def test_failed_runs_are_retried_from_its_page(web: Browser, known: rota.App) -> None:
    await web.get("/jobs/boom")
    assert "Retry failed…" not in web.text, "there are none"
    await known.runs.enqueue("boom", {"text": "a"})
    await run_due(known)
    await web.get("/jobs/boom")
    (path,) = re.findall(r'href="(/runs/selected[^"]+)"', web.page)
    await web.get(path.replace("&amp;", "&"))
    assert "Retry 1 run?" in web.text


async def test_the_times_of_retries_are_said_where_they_are_set(
    web: Browser, known: rota.App
) -> None:
    await known.jobs.update("send", backoff={"base": 5, "factor": 2}, max_attempts=4)
    await web.get("/jobs/send/edit")
    assert "retried after 5 s, 10 s, 20 s, each up to 1 s later" in web.text


async def test_the_list_is_narrowed_and_says_so(web: Browser, known: rota.App) -> None:
    await web.get("/jobs?text=SEN&queue=mail")
    assert 'href="/jobs/send"' in web.page
    assert 'href="/jobs/clean"' not in web.page
    assert "Remove the filter text SEN" in web.page
    assert "Remove the filter queue mail" in web.page
    await web.get("/jobs?text=nothing+like+it")
    assert "No job matches this filter" in web.text
    await known.jobs.disable("clean", "not now")
    await web.get("/jobs?disabled=1")
    assert "clean disabled" in web.text
    assert 'href="/jobs/send"' not in web.page


async def test_a_list_of_many_goes_on_by_key(web: Browser, known: rota.App, conn: Any) -> None:
    conn.execute(
        "INSERT INTO rota.jobs (name)"
        " SELECT 'many-' || lpad(n::text, 3, '0') FROM generate_series(1, 120) n"
    )
    await web.get("/jobs")
    seen = []
    while True:
        seen += [part.split('"')[0] for part in web.page.split('href="/jobs/many-')[1:]]
        if 'rel="next"' not in web.page:
            break
        start = web.page.index('rel="next" href="') + 17
        await web.get(web.page[start : web.page.index('"', start)].replace("&amp;", "&"))
    assert seen == [f"{n:03}" for n in range(1, 121)]


async def test_one_job(web: Browser, known: rota.App) -> None:
    await known.schedules.create("nightly", job="clean", cron="0 3 * * *")
    await web.get("/jobs/send")
    assert "Waiting 1" in web.text
    assert "No worker is running." in web.text
    assert "1 run waits" in web.text
    assert "Attempts 2 attempts" in web.text
    assert "user_id integer yes" in web.text
    assert 'locale text no; default: "en"' in web.text
    assert "Runs 30 days as configured" in web.text
    assert 'href="/runs/new?job=send"' in web.page
    assert "Differs from the code" not in web.text
    await web.get("/jobs/clean?range=7d")
    assert 'href="/schedules/nightly"' in web.page
    assert 'Default payload {"days": 7}' in web.text
    await web.get("/jobs/nope", 404)
    assert "Not found" in web.text


async def test_how_it_did(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("boom", {"text": "no luck today"})
    async with shop.worker():
        with pytest.raises(rota.RunFailed):
            await run.wait(20)
    await web.get("/jobs/boom?range=1h")

    assert "Failed 100 % 1 of 1 attempt in 1 h" in web.text
    assert "Failure rate" in web.text
    assert "RuntimeError" in web.text
    assert 'href="/errors/' in web.page


async def test_what_differs_from_the_code(web: Browser, known: rota.App, conn: Any) -> None:
    await known.jobs.by("ada").update("send", priority=1, timeout=300)
    await web.get("/jobs/send")
    assert "Differs from the code" in web.text
    assert "Priority 1 (0 to 9, lower runs first)" in web.text
    assert "Timeout 5 min no time limit ada, " in web.text
    assert "@app.job(priority=1, timeout=300.0)" in web.text

    await web.get("/jobs/send/follow")
    assert "from “5 min” to “no time limit" in web.text
    await web.post("/jobs/send/follow", field="timeout_seconds", reason="the code knows")
    assert "Reset to the code: timeout" in web.text
    found = await known.jobs.get("send")
    assert (found.priority, found.timeout_seconds, list(found.edited)) == (1, None, ["priority"])
    await web.get("/jobs/send/follow")
    await web.post("/jobs/send/follow")
    assert "nothing was changed" in web.text


async def test_settings_are_edited(web: Browser, known: rota.App, conn: Any) -> None:
    await web.get("/jobs/send/edit")
    await web.post(
        "/jobs/send/edit", reason="campaign", priority="1", timeout_seconds="5min",
        tags="mail, urgent", default_payload='{"user_id":\r\n 12345678901234567890}',
        log_level="warning",
        retention="days=90, failed_days=365", backoff="fixed",
    )  # fmt: skip
    assert "7 settings of send saved" in web.text
    found = await known.jobs.get("send")
    assert (found.priority, found.timeout_seconds, found.tags) == (1, 300, ["mail", "urgent"])
    assert found.default_payload == {"user_id": 12345678901234567890}
    assert (found.retention, found.log_level) == ({"days": 90, "failed_days": 365}, "warning")
    assert found.queue == "mail", "what was not sent stays"
    (deed,) = await known.audit.list(object_type="job", object_id="send", limit=1)
    assert (deed.actor, deed.reason) == ("web:admin", "campaign")

    await web.get("/jobs/send/edit")
    assert 'value="5min"' in web.page
    await web.post(
        "/jobs/send/edit", timeout_seconds="", was_timeout_seconds="5min", version=found.version
    )
    assert (await known.jobs.get("send")).timeout_seconds is None
    await web.get("/jobs/send/edit")
    await web.post("/jobs/send/edit", priority="1", was_priority="1")
    assert "Nothing was changed" in web.text


async def test_what_its_runs_have_is_edited_and_shown(web: Browser, known: rota.App) -> None:
    await web.get("/jobs/send/edit")
    await web.post(
        "/jobs/send/edit",
        delay_seconds="90s",
        expires_in_seconds="2h",
        key="user:{user_id}",
        tenant="acme",
    )
    assert "4 settings of send saved" in web.text
    found = await known.jobs.get("send")
    assert (found.delay_seconds, found.expires_in_seconds) == (90, 7200)
    assert (found.key, found.tenant) == ("user:{user_id}", "acme")
    for words in ("Delay 1 min 30 s", "Expires in 2 h", "Key user:{user_id}", "Tenant acme"):
        assert words in web.text, words
    assert f"Definition hash {found.definition_hash}" in web.text
    await web.get("/jobs/send/edit")
    await web.post("/jobs/send/edit", key="{", was_key="user:{user_id}", status=422)
    assert "a brace that does not enclose the name" in web.text


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("priority", "soon", "must be a whole number"),
        ("priority", "12", "from 0 to 9"),
        ("timeout_seconds", "later", "must be a duration"),
        ("timeout_seconds", "0.0000001", "from 0.001"),
        ("default_payload", "{", "is not JSON"),
        ("default_payload", '{"user_id": "x"}', "user_id"),
        ("metadata", "[1]", "must be a mapping"),
        ("retention", "days", "Retention must be"),
        ("retention", "weeks=3", "unknown option weeks"),
        ("backoff", "sometimes", "backoff"),
        ("queue", "", "Queue must have 1 to 100 characters"),
    ],
)
async def test_what_cannot_be_is_said_beside_its_field(
    web: Browser, known: rota.App, name: str, text: str, said: str
) -> None:
    await web.get("/jobs/send/edit")
    await web.post("/jobs/send/edit", 422, reason="why not", **{name: text})

    start = web.page.index(f'id="e-{name}"')
    assert said in web.page[start : web.page.index("</p>", start)]
    assert 'value="why not"' in web.page, "what was typed stays"


async def test_two_who_edit_at_once(web: Browser, known: rota.App) -> None:
    before = await known.jobs.get("send")
    await known.jobs.by("grace").update("send", queue="slow", priority=3)
    await web.get("/jobs/send/edit")
    await web.post(
        "/jobs/send/edit", 409, version=before.version, priority="1", was_priority="5",
        queue="mail", was_queue="mail",
    )  # fmt: skip
    assert "Not saved: grace changed this job" in web.text
    assert "Stored value: 3" in web.text
    assert 'name="queue" type="text" value="slow"' in web.page, "not touched here"
    after = await known.jobs.get("send")
    assert (after.priority, after.queue) == (3, "slow")
    await web.post("/jobs/send/edit", version=after.version, priority="1", was_priority="3")
    assert (await known.jobs.get("send")).priority == 1


async def test_a_job_is_deleted(web: Browser, known: rota.App) -> None:
    await web.get("/jobs/send/delete")
    assert "0 schedules and 1 unfinished run" in web.text
    await web.post("/jobs/send/delete", 422, reason="renamed")
    await web.get("/jobs/send/delete")
    await web.post("/jobs/send/delete", cancel_open="true", reason="renamed")
    assert "Job send deleted, 1 run cancelled" in web.text
    await web.get("/jobs/send", 404)


async def test_a_sql_job_shows_its_function(web: Browser, known: rota.App, conn: Any) -> None:
    conn.execute(
        "CREATE FUNCTION public.tidy(payload jsonb) RETURNS jsonb LANGUAGE sql AS"
        " $$ SELECT jsonb_build_object('success', true, 'message', '<b>') $$"
    )
    conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name) VALUES ('tidy', 'sql', 'public.tidy')"
    )
    await web.get("/jobs/tidy")
    assert "as the workers’ role" in web.text
    assert "Any object, passed to its function as jsonb" in web.text
    assert "as the workers’ role, transaction whole: ends with the run" in web.text
    assert "SELECT jsonb_build_object" in web.text
    assert "<b>" not in web.page
    conn.execute("DROP FUNCTION public.tidy")
    await web.get("/jobs/tidy")
    assert "This function no longer exists" in web.text


async def test_hostile_text_is_text(web: Browser, known: rota.App, conn: Any) -> None:
    evil = '<script>alert("x")</script>'
    conn.execute(
        "UPDATE rota.jobs SET description = %(evil)s, tags = ARRAY[%(evil)s], source = %(evil)s,"
        " metadata = jsonb_build_object(%(evil)s, %(evil)s), payload_schema = %(schema)s"
        " WHERE name = 'send'",
        {
            "evil": evil,
            "schema": json.dumps({"properties": {evil: {"type": evil, "default": evil}}}),
        },
    )
    for path in ("/jobs", "/jobs/send", "/jobs/send/edit", "/jobs/send/follow"):
        await web.get(path)
        assert "<script>alert" not in web.page
    name = "<i>/a b?#%"
    conn.execute("INSERT INTO rota.jobs (name) VALUES (%s)", [name])
    await web.get("/jobs?text=%3Ci")
    start = web.page.index('href="/jobs/%3C') + 6
    await web.get(web.page[start : web.page.index('"', start)])
    assert name in web.text


async def test_odd_marks_keep_nobody_from_reading(web: Browser, known: rota.App, conn: Any) -> None:
    conn.execute(
        "UPDATE rota.jobs SET edited = %s, payload_schema = %s WHERE name = 'send'",
        [
            json.dumps({"priority": {"by": None, "at": "infinity"}, "tags": 7, "queue": {}}),
            json.dumps(
                {"properties": {"a": 1, "b": {"$ref": "#/nowhere"}, "c": {"type": ["null"]}}}
            ),
        ],
    )
    await web.get("/jobs/send")
    await web.get("/jobs/send/edit")
