"""Errors in the words of the API: its fields, its parameters and its endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

import rota
from rota.api import create_api
from rota.api.schemas.runs import NewRun
from rota.api.unknown import guess, unknown
from rota.model.wording import FIELDS
from tests.api.conftest import TOKEN, problem

V1 = "/api/v1"
RUN = {"job": "send", "payload": {"user_id": 7}}
SCHEDULE = {"name": "x", "job": "clean"}


@pytest.mark.parametrize(
    ("path", "body", "unknown", "meant"),
    [
        ("/schedules", SCHEDULE | {"every": 60}, "every", "interval_seconds"),
        ("/schedules", SCHEDULE | {"at": "2030-01-01T00:00:00Z"}, "at", "run_at"),
        ("/schedules", SCHEDULE | {"cron": "@daily", "shadow": True}, "shadow", "is_shadow"),
        ("/schedules", SCHEDULE | {"cron": "@daily", "enabled": True}, "enabled", "is_enabled"),
        ("/schedules", SCHEDULE | {"cron": "@daily", "max-runs": 3}, "max-runs", "max_runs"),
        ("/schedules", SCHEDULE | {"cron": "@daily", "timezon": "UTC"}, "timezon", "timezone"),
        ("/schedules", SCHEDULE | {"cron": "@daily", "requires": [{"name": "a", "within": 5}]},
         "requires[0].within", "within_seconds"),
        ("/schedules/digest/reschedule", {"run_at": "2030-01-01T00:00:00Z"}, "run_at", "at"),
        ("/schedules/digest/pause", {"why": "x"}, "why", None),
        ("/runs", RUN | {"delay": 5}, "delay", "delay_seconds"),
        ("/runs", RUN | {"timeout": 5}, "timeout", "timeout_seconds"),
        ("/runs", RUN | {"key_keep": 5}, "key_keep", "key_seconds"),
        ("/runs", {"name": "send"}, "name", "job"),
        ("/events", {"event": "paid", "key": "k", "key_period": 5}, "key_period", "period_seconds"),
        ("/bulk", {"action": "cancel", "filter": {"state": ["failed"]}}, "filter.state", "states"),
    ],
)  # fmt: skip
async def test_an_unknown_field_says_what_was_meant(
    api: httpx.AsyncClient, path: str, body: dict[str, Any], unknown: str, meant: str | None
) -> None:
    found = problem(await api.post(f"{V1}{path}", json=body), 422, "invalid")
    assert found["field"] == unknown
    end = "choose from reason, until" if meant is None else f"did you mean {meant}?"
    assert found["detail"] == f'unknown field "{unknown}"; {end}'
    told = {"field": unknown, "code": "unknown_field", "message": found["detail"]}
    assert found["errors"][0] == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (r"\u0000", "a string contains a NUL character, which Postgres cannot store"),
        (r"\ud800", "a string contains half of a surrogate pair, which Postgres cannot store"),
    ],
)
async def test_json_that_cannot_be_stored(api: httpx.AsyncClient, text: str, told: str) -> None:
    """It is JSON all the same."""
    answer = await api.post(
        f"{V1}/runs",
        content=f'{{"job": "send", "key": "{text}"}}',
        headers={"Content-Type": "application/json"},
    )
    assert problem(answer, 400, "malformed")["detail"] == told


async def test_values_are_refused_without_the_library_speaking(api: httpx.AsyncClient) -> None:
    found = problem(await api.get(f"{V1}/runs?since=yesterday"), 422, "invalid")
    assert found["detail"].startswith("since: ")
    assert "Value error" not in found["detail"]


async def test_all_unknown_fields_are_listed(api: httpx.AsyncClient) -> None:
    body = {"name": "paid", "key_keep": 5, "key": 7}
    found = problem(await api.post(f"{V1}/events", json=body), 422, "invalid")
    assert [(one["field"], one["code"]) for one in found["errors"]] == [
        ("name", "unknown_field"),
        ("key_keep", "unknown_field"),
        ("event", "missing"),
        ("key", "string_type"),
    ]


async def test_a_flood_of_what_is_unknown_gets_a_short_answer(api: httpx.AsyncClient) -> None:
    body = {f"f{n:05}": 1 for n in range(100_000)} | {"n" * 100_000: 1}
    answer = await api.post(f"{V1}/runs", json=body)
    assert len(problem(answer, 422, "invalid")["errors"]) == 20
    assert len(answer.content) < 20_000
    with pytest.raises(ValidationError) as caught:
        NewRun.model_validate(body)
    assert caught.value.error_count() == 21  # for each a value is copied: the job is missing too
    query = "&".join(f"f{n:05}=1" for n in range(3000))
    answer = await api.get(f"{V1}/runs?{query}")
    assert len(problem(answer, 422, "unknown_parameter")["errors"]) == 20
    assert len(answer.content) < 20_000


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/runs?states=failed", 'unknown parameter "states"; did you mean state?'),
        ("/runs?tags=a", 'unknown parameter "tags"; did you mean tag?'),
        ("/runs?jbo=a", 'unknown parameter "jbo"; did you mean job?'),
        ("/runs?after=a", 'unknown parameter "after"; did you mean cursor?'),
        ("/runs/7?odd=1", 'unknown parameter "odd"; choose from wait_seconds'),
    ],
)
async def test_so_does_an_unknown_parameter(api: httpx.AsyncClient, path: str, meant: str) -> None:
    found = problem(await api.get(f"{V1}{path}"), 422, "unknown_parameter")
    assert found["detail"] == meant
    assert [one["message"] for one in found["errors"]] == [meant]


def bodies() -> Iterator[dict[str, Any]]:
    """The schemas of all bodies."""
    described = create_api(rota.App(embedded=False, server={"token": TOKEN})).openapi()
    schemas = described["components"]["schemas"]
    for methods in described["paths"].values():
        for operation in methods.values():
            for name in re.findall(r"schemas/(\w+)", str(operation.get("requestBody", ""))):
                yield schemas[name]


def test_every_other_name_of_a_field_is_known() -> None:
    """By which Python calls it, on each body that has it."""
    seen = set()
    for body in bodies():
        known = set(body["properties"])
        for other, field in FIELDS.items():
            if field in known and other not in known:
                assert guess(other, known) == field, (body, other)
                seen.add(other)
    assert seen == set(FIELDS)


def test_nothing_is_guessed_from_nothing() -> None:
    assert guess("odd", {"name", "payload"}) is None
    assert unknown("field", "odd", {"b", "a"}) == 'unknown field "odd"; choose from a, b'


@pytest.mark.parametrize(
    ("method", "path", "body", "hint"),
    [
        ("GET", "/jobs/none", None, "GET /api/v1/jobs lists them"),
        ("GET", "/schedules/none", None, "GET /api/v1/schedules lists them"),
        ("GET", "/calendars/none", None, "GET /api/v1/calendars lists them"),
        ("GET", "/limits/none", None, "GET /api/v1/limits lists them"),
        ("GET", "/cleanup/none", None, "GET /api/v1/cleanup lists them"),
        ("GET", "/schedule-templates/none", None, "GET /api/v1/schedule-templates lists them"),
        ("GET", "/watches/99", None, "GET /api/v1/watches lists them"),
        ("DELETE", "/watches/99", None, "GET /api/v1/watches lists them."),
        ("DELETE", "/jobs/clean", None,
         "Delete the schedules first, or with the job: cascade=true."),
        ("POST", "/runs", RUN | {"on_conflict": "raise"},
         "Pass a key, or declare one for the job."),
        ("POST", "/schedules", SCHEDULE | {"job": "send", "cron": "@daily"},
         "payload_schema of GET /api/v1/jobs/{name} describes its arguments; "
         "without a payload, the default payload of the job is used."),
        ("POST", "/schedules", SCHEDULE | {"cron": "0 0 9 * * *"},
         "drop the first field (the seconds), or set has_seconds"),
        ("POST", "/schedules/digest/reschedule", {"at": "1999-01-01T00:00:00Z"},
         "POST /api/v1/schedules/{name}/trigger runs it now."),
    ],
)  # fmt: skip
async def test_hints_name_endpoints_and_fields(
    api: httpx.AsyncClient, shop: rota.App, method: str, path: str, body: Any, hint: str
) -> None:
    await shop.schedules.create("digest", "clean", cron="0 8 * * *")
    answer = await api.request(method, f"{V1}{path}", json=body)
    assert answer.status_code in (404, 409, 422)
    assert answer.json()["hint"] == hint


async def test_details_name_fields(api: httpx.AsyncClient) -> None:
    none = await api.post(f"{V1}/schedules", json=SCHEDULE)
    assert none.json()["detail"] == (
        "a schedule needs exactly one of cron, interval_seconds, run_at and init, found none"
    )
    late = await api.post(f"{V1}/events", json={"event": "paid", "period_seconds": 5})
    assert late.json()["detail"] == "period_seconds needs a key"


async def test_python_is_told_of_calls(shop: rota.App) -> None:
    with pytest.raises(rota.UnknownJob) as unknown_job:
        await shop.jobs.get("none")
    assert unknown_job.value.hint == "app.jobs.list() lists them"
    with pytest.raises(rota.UnknownJob) as enqueued:
        await shop.runs.enqueue("none")
    assert str(enqueued.value.hint).endswith("; app.jobs.list() lists them.")
    await shop.schedules.create("digest", "clean", cron="0 8 * * *")
    with pytest.raises(rota.WrongState) as busy:
        await shop.jobs.delete("clean")
    assert "app.jobs.delete(…, cascade=True)" in str(busy.value.hint)
    with pytest.raises(rota.InputError) as weight:
        await shop.tenants.set("acme", weight=-1)
    assert weight.value.hint is None
