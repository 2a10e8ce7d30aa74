"""The editor: made, changed and copied from a page; two people at once; words while one types."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import psycopg
import pytest

import rota
from rota.web.cron_builder import PARTS, build, compress, in_words, values_of
from tests.web.conftest import Browser


def fields(page: str) -> dict[str, Any]:
    """What the browser would send of the form: its fields as they are filled in."""
    form = page[page.index('<form class="contents editor"') :]
    found: dict[str, Any] = {}
    for tag in re.findall(r"<input\b[^>]*>", form):
        given = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        kind, name = given.get("type", "text"), given.get("name")
        if name is None or (kind in ("radio", "checkbox") and " checked" not in tag):
            continue
        value = unescape(given.get("value", ""))
        if kind == "checkbox":
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    for name, text in re.findall(
        r'<textarea\b[^>]*name="(\w+)"[^>]*>\n?(.*?)</textarea>', form, re.S
    ):
        found[name] = unescape(text)
    for name, options in re.findall(r'<select\b[^>]*name="(\w+)"[^>]*>(.*?)</select>', form, re.S):
        chosen = re.search(r"<option[^>]* selected[^>]*>([^<]*)", options)
        found[name] = unescape(chosen[1]) if chosen else ""
    return found


@pytest.fixture
async def digest(shop: rota.App) -> rota.App:
    await shop.schedules.create(
        "digest", "send", cron="30 8 * * 1-5", timezone="Europe/Vienna", payload={"user_id": 7}
    )
    return shop


async def send(web: Browser, path: str, status: int = 200, **changes: Any) -> str:
    return await web.post(path, status, **(fields(web.page) | changes))


async def test_a_new_one(web: Browser, shop: rota.App) -> None:
    await web.get("/schedules/new?job=send")
    await send(
        web, "/schedules/new", name="nightly", cron="15 2 * * *", timezone="Europe/Vienna",
        payload='{"user_id": 12345678901234567}', overlap="queue_one",
        jitter_seconds="30s", tags="a, b", timeout_seconds="10min",
        run_metadata='{"team": "shop"}', requires="",
        reason="the board asked",
    )  # fmt: skip
    assert "Schedule nightly created" in web.text
    found = await shop.schedules.get("nightly")
    assert (found.cron, found.timezone, found.overlap) == (
        "15 2 * * *",
        "Europe/Vienna",
        "queue_one",
    )
    assert (found.jitter_seconds, found.tags, found.timeout_seconds) == (30, ["a", "b"], 600)
    assert found.payload == {"user_id": 12345678901234567}
    assert found.run_metadata == {"team": "shop"}
    (entry,) = (await shop.schedules.edits("nightly")).items
    assert (entry.actor, entry.reason) == ("web:admin", "the board asked")


@pytest.mark.parametrize(
    ("given", "column", "value"),
    [
        ({"when": "interval_seconds", "interval_seconds": "1h 30min"}, "interval_seconds", 5400),
        ({"when": "init", "init": "start"}, "init", "start"),
        ({"when": "cron", "cron": "*/10 * * * * *"}, "has_seconds", True),
    ],
)
async def test_other_kinds(
    web: Browser, shop: rota.App, given: dict[str, str], column: str, value: Any
) -> None:
    await web.get("/schedules/new")
    await send(web, "/schedules/new", name="x", job="clean", **given)
    assert "Schedule x created" in web.text
    assert getattr(await shop.schedules.get("x"), column) == value


async def test_clock_changes_are_of_cron_alone(web: Browser, digest: rota.App) -> None:
    chosen = {"when": "interval_seconds", "interval_seconds": "1h", "gap": "skip", "fold": "both"}
    await web.get("/schedules/new")
    await send(web, "/schedules/new", name="x", job="clean", **chosen)
    assert "Schedule x created" in web.text
    await digest.schedules.update("digest", gap="skip")
    await web.get("/schedules/digest/edit")
    await send(
        web, "/schedules/digest/edit", when="interval_seconds", interval_seconds="1h", fold="both"
    )
    for name in ("x", "digest"):
        found = await digest.schedules.get(name)
        assert (found.interval_seconds, found.gap, found.fold) == (3600, "run_after", "first")


async def test_once_is_by_the_clocks_of_its_zone(web: Browser, shop: rota.App) -> None:
    await web.get("/schedules/new")
    given = {"when": "run_at", "run_at": "2036-07-01T08:00", "timezone": "Europe/Vienna"}
    await send(web, "/schedules/new", name="x", job="clean", **given)
    found = (await shop.schedules.get("x")).run_at
    assert found is not None
    assert found.isoformat() == "2036-07-01T06:00:00+00:00"


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("cron", "30 2 32 * 1-5", "it takes 1-31"),
        ("cron", "", "Required: a cron expression"),
        ("timezone", "Europe/Wien", "Europe/Wien"),
        ("name", "", "The name must have 1 to 200 characters."),
        ("job", "", "Select the job that it runs."),
        ("job", "nope", "nope"),
        ("jitter_seconds", "soon", "90s"),
        ("priority", "11", "from 0 to 9"),
        ("max_attempts", "many", "whole number"),
        ("payload", "[1]", "must be an object"),
        ("payload", '{"user_id": "x"}', "user_id"),
        ("run_metadata", "{", "is not JSON"),
        ("end_at", "soon", "a date and time"),
        ("requires", "nobody", "nobody"),
    ],
)
async def test_what_is_wrong_stands_beside_it(
    web: Browser, shop: rota.App, field: str, value: str, told: str
) -> None:
    await web.get("/schedules/new")
    given = {"name": "x", "job": "send", "cron": "0 9 * * *", "payload": '{"user_id": 1}'}
    page = await send(web, "/schedules/new", 422, **(given | {field: value}))
    assert told.lower() in web.text.lower()
    sent = fields(page)
    assert sent[field] == value, "what was typed stays"
    assert await shop.schedules.list() == []


async def test_a_name_that_is_taken(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules/digest/duplicate")
    assert fields(web.page)["name"] == "digest-copy"
    await send(web, "/schedules/new", 422, name="digest")
    assert "already exists" in web.text
    await send(web, "/schedules/new", name="digest-copy")
    copy = await digest.schedules.get("digest-copy")
    assert (copy.cron, copy.payload) == ("30 8 * * 1-5", {"user_id": 7})


async def test_zero_is_a_value_and_copied(web: Browser, digest: rota.App) -> None:
    zeros = {"priority": 0, "catch_up_window_seconds": 0, "grace_seconds": 0, "run_metadata": {}}
    await digest.schedules.update("digest", catch_up="all", **zeros)  # type: ignore[arg-type]
    await web.get("/schedules/digest")
    assert "if it is no more than 0 ms old" in web.text
    await web.get("/schedules/digest/edit")
    shown = fields(web.page)
    assert [shown[name].replace("\n", "") for name in zeros] == ["0", "0s", "0s", "{}"]
    await web.get("/schedules/digest/duplicate")
    await send(web, "/schedules/new", name="copy", reason="another")
    copy = await digest.schedules.get("copy")
    assert {name: getattr(copy, name) for name in zeros} == zeros
    await web.get("/schedules/copy/edit")
    await send(web, "/schedules/copy/edit", priority="", catch_up_window_seconds="", reason="x")
    copy = await digest.schedules.get("copy")
    assert (copy.priority, copy.catch_up_window_seconds) == (None, None)


async def test_only_what_changed_is_written(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules/digest/edit")
    await send(web, "/schedules/digest/edit")
    assert "Nothing was changed" in web.text
    await web.get("/schedules/digest/edit")
    await send(web, "/schedules/digest/edit", cron="0 9 * * *", reason="later", is_enabled="")
    assert "2 changes of digest saved" in web.text
    edit = (await digest.schedules.edits("digest")).items[0]
    assert {one.field for one in edit.changes} == {"cron", "is_enabled"}
    assert edit.reason == "later"
    await web.get("/schedules/digest/edit")
    await send(web, "/schedules/digest/edit", when="interval_seconds", interval_seconds="5min")
    found = await digest.schedules.get("digest")
    assert (found.cron, found.interval_seconds) == (None, 300)
    await web.get("/schedules/nope/edit", 404)


async def test_two_people_at_once(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules/digest/edit")
    mine = fields(web.page)
    await digest.schedules.by("grace").update("digest", cron="0 7 * * *", jitter=60)
    await web.post(
        "/schedules/digest/edit", 409, **(mine | {"cron": "0 9 * * *", "description": "board"})
    )
    assert "Not saved: grace changed this schedule" in web.text
    assert "0 7 * * *" in web.text
    again = fields(web.page)
    assert (again["cron"], again["description"]) == ("0 9 * * *", "board")
    assert again["jitter_seconds"] == "1min", "what only the other one changed is theirs"
    await web.post("/schedules/digest/edit", **again)
    found = await digest.schedules.get("digest")
    assert (found.cron, found.description, found.jitter_seconds) == ("0 9 * * *", "board", 60)


async def test_templates_fields_and_boxes_without_scripts(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules/digest/edit")
    await send(web, "/schedules/digest/edit", template="Hourly")
    assert fields(web.page)["cron"] == "0 * * * *"
    assert "Every hour, on the hour" in web.text
    await send(web, "/schedules/digest/edit", cron_hour="6", check="1")
    assert fields(web.page)["cron"] == "0 6 * * *"
    await send(web, "/schedules/digest/edit", box_weekday=["1", "2", "3"], check="1")
    assert fields(web.page)["cron"] == "0 6 * * 1-3"
    assert (await digest.schedules.get("digest")).cron == "30 8 * * 1-5", "nothing is saved yet"
    await send(web, "/schedules/digest/edit")
    assert (await digest.schedules.get("digest")).cron == "0 6 * * 1-3"


async def test_while_one_types(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules/digest/edit")
    sent = fields(web.page) | {"cron": "0 12 * * *"}
    answer = await web.client.post(
        "/schedules/digest/edit", data=sent, headers={"X-Rota-Part": "side"}
    )
    assert answer.status_code == 200
    assert "Every day at 12:00 (Europe/Vienna)" in answer.text
    assert "Save 1 change" in answer.text
    assert 'id="cron-line"' not in answer.text, "nothing is renewed under the hand"
    assert 'id="cron-fields"' in answer.text
    answer = await web.client.post(
        "/schedules/digest/edit",
        data=sent | {"cron": "0 24 * * *"},
        headers={"X-Rota-Part": "side"},
    )
    assert "takes 0-23" in answer.text
    assert (await digest.schedules.get("digest")).cron == "30 8 * * 1-5"


async def test_hostile_texts(web: Browser, shop: rota.App) -> None:
    text = '"><script>alert(1)</script>'
    await shop.schedules.create(text, "clean", every=60, description=text, tags=[text])
    await web.get("/schedules/new")
    await send(web, "/schedules/new", 422, name=text, job=text, cron=text, metadata=text)
    assert "<script>alert" not in web.page
    await web.get(f"/schedules/{text.replace('/', '%2F')}/edit")
    assert "<script>alert" not in web.page


def test_fields_and_boxes() -> None:
    weekday, hour, day = PARTS[4], PARTS[1], PARTS[2]
    assert values_of(weekday, "MON-FRI") == {1, 2, 3, 4, 5}
    assert values_of(weekday, "7") == {0}
    assert values_of(hour, "*/6") == {0, 6, 12, 18}
    assert values_of(hour, "8-18/5") == {8, 13, 18}
    assert values_of(day, "L") is None
    assert values_of(hour, "25") is None
    assert values_of(hour, "*") == set()
    assert compress({1, 2, 3, 5, 8, 9}) == "1-3,5,8,9"
    assert compress(set()) == "*"
    assert in_words(hour, "2") == "at 02"
    assert in_words(weekday, "*") == "every day of the week"
    assert build("@daily").fields[1].value == "0"
    assert build("*/10 * * * * *").fields == []


LONG = '{"rate": 12345678901234567.123, "large": 9007199254740993}'
STORED = '{"rate": 12345678901234567.123, "large": 9007199254740993}'


async def test_a_payload_keeps_its_digits(
    web: Browser, shop: rota.App, conn: psycopg.Connection[Any]
) -> None:
    """Written by SQL; shown as it is, and left as it is by who changes something else."""
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('import')")
    await shop.schedules.create("long", "import", cron="0 9 * * *")
    conn.execute("UPDATE rota.schedules SET payload = %s WHERE name = 'long'", [LONG])
    query = "SELECT payload::text, description FROM rota.schedules WHERE name = 'long'"
    assert "12345678901234567.123" in await web.get("/schedules/long/edit")
    await send(web, "/schedules/long/edit", description="other")
    assert conn.execute(query).fetchone() == (STORED, "other")
    assert "12345678901234567.123" in await web.get("/schedules/long/duplicate")
    await send(web, "/schedules/new", 422)
    assert "12345678901234567.123 has more digits than can be stored" in web.text


async def test_a_run_by_hand_gets_the_digits_too(
    web: Browser, shop: rota.App, conn: psycopg.Connection[Any]
) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('import')")
    await shop.schedules.create("long", "import", cron="0 9 * * *")
    conn.execute("UPDATE rota.schedules SET payload = %s WHERE name = 'long'", [LONG])
    page = await web.get("/schedules/long/trigger")
    given = re.search(r"<textarea\b[^>]*>\n?(.*?)</textarea>", page, re.S)
    assert given is not None
    text = unescape(given[1]).replace("\n", "\r\n")  # as browsers send it
    await web.post("/schedules/long/trigger", payload=text)
    query = "SELECT id, payload::text FROM rota.open_runs"
    run, payload = conn.execute(query).fetchone() or (0, "")
    assert payload == STORED
    conn.execute("SELECT rota.cancel_run(%s)", [run])
    page = await web.get(f"/runs/{run}/retry?edit=1")
    given = re.search(r"<textarea\b[^>]*>\n?(.*?)</textarea>", page, re.S)
    assert given is not None
    await web.post(f"/runs/{run}/retry", payload=unescape(given[1]))
    assert conn.execute(query).fetchone() == (run, STORED)


async def test_one_that_starts_with_any_number_of_others(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules/digest/edit")
    assert "burst_allowed" not in fields(web.page)
    await send(web, "/schedules/digest/edit", burst_allowed="true", reason="it must be on time")
    assert (await digest.schedules.get("digest")).burst_allowed
    await web.get("/schedules/digest")
    assert "Start on time." in web.text
    await web.get("/schedules/digest/edit")
    assert fields(web.page)["burst_allowed"] == ["true"]
