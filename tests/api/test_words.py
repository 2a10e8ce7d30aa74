"""Errors in the words of the API: its fields, its parameters and its endpoints."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

import rota
from rota.api import create_api
from rota.api.schemas.runs import NewRun
from rota.api.unknown import guess, unknown
from tests.api.conftest import TOKEN, problem

V1 = "/api/v1"
RUN = {"job": "send", "payload": {"user_id": 7}}
SCHEDULE = {"name": "x", "job": "clean"}


@pytest.mark.parametrize(
    ("path", "body", "unknown", "meant"),
    [
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


@pytest.mark.slow
async def test_what_is_refused_is_not_sent_back_whole(api: httpx.AsyncClient) -> None:
    """A large value in each field of each body."""
    described = create_api(rota.App(embedded=False, server={"token": TOKEN})).openapi()
    schemas, large = described["components"]["schemas"], "a" * 100_000
    for path, methods in described["paths"].items():
        address = re.sub(r"\{[^}]+\}", "1", path)
        for method, operation in methods.items():
            for name in re.findall(r"schemas/(\w+)", str(operation.get("requestBody", ""))):
                for field in schemas[name].get("properties", ()):
                    for value in (large, [large], {large: large}):
                        answer = await api.request(method, address, json={field: value})
                        about = f"{method} {path} {field}: {answer.text[:300]}"
                        assert answer.is_success or len(answer.content) < 50_000, about


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/runs?states=failed", 'unknown parameter "states"; did you mean state?'),
        ("/runs?tags=a", 'unknown parameter "tags"; did you mean tag?'),
        ("/runs?jbo=a", 'unknown parameter "jbo"; did you mean job?'),
        ("/runs/7?odd=1", 'unknown parameter "odd"; choose from wait_seconds'),
    ],
)
async def test_so_does_an_unknown_parameter(api: httpx.AsyncClient, path: str, meant: str) -> None:
    found = problem(await api.get(f"{V1}{path}"), 422, "unknown_parameter")
    assert found["detail"] == meant
    assert [one["message"] for one in found["errors"]] == [meant]


def test_another_name_of_a_declared_field_is_known() -> None:
    assert guess("function", {"name", "function_name"}) == "function_name"
    assert guess("payload", {"name", "default_payload"}) == "default_payload"
    assert guess("timeout", {"timeout_seconds"}) == "timeout_seconds"


def test_nothing_is_guessed_from_nothing() -> None:
    assert guess("odd", {"name", "payload"}) is None
    assert unknown("field", "odd", {"b", "a"}) == 'unknown field "odd"; choose from a, b'


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "field"),
    [
        ("GET", "/jobs/none", None, "unknown_job", None),
        ("GET", "/templates/none", None, "template_not_found", None),
        ("DELETE", "/watches/99", None, "watch_not_found", None),
        ("DELETE", "/jobs/clean", None, "job_has_schedules", None),
        ("POST", "/runs", RUN | {"on_conflict": "raise"}, "input_error", None),
        ("POST", "/schedules", SCHEDULE | {"job": "send", "cron": "@daily"}, "no_payload",
         "payload"),
        ("POST", "/schedules/digest/reschedule", {"at": "1999-01-01T00:00:00Z"}, "next_time_past",
         "next_run_at"),
    ],
)  # fmt: skip
async def test_problems_have_data(
    api: httpx.AsyncClient,
    shop: rota.App,
    method: str,
    path: str,
    body: Any,
    code: str,
    field: str | None,
) -> None:
    await shop.schedules.create("digest", "clean", cron="0 8 * * *")
    answer = await api.request(method, f"{V1}{path}", json=body)
    assert answer.status_code in (404, 409, 422)
    found = answer.json()
    assert (found["code"], found.get("field")) == (code, field)
    assert found["operation"]
    assert found["hint"]


async def test_details_name_fields(api: httpx.AsyncClient) -> None:
    late = await api.post(f"{V1}/events", json={"event": "paid", "period_seconds": 5})
    assert late.json()["detail"].endswith("needs a key")
