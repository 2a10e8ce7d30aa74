"""The form that asks for a run, made from the schema of the job's payload."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pydantic
import pytest

import rota
from rota.errors import InputError, PayloadError
from rota.web.payload_form import blamed, fields_of, read_fields
from tests.web.conftest import Browser


class Colour(Enum):
    red = "red"
    blue = "blue"


class Place(pydantic.BaseModel):
    street: str


@pytest.fixture
def many(shop: rota.App) -> rota.App:
    @shop.job
    async def order(
        product: str,
        pieces: int,
        share: float = 0.5,
        is_gift: bool = False,
        colour: Colour = Colour.red,
        size: Literal["s", "m"] | None = None,
        day: date | None = None,
        at: datetime | None = None,
        price: Decimal | None = None,
        place: Place | None = None,
        notes: list[str] | None = None,
    ) -> None: ...

    return shop


async def test_the_form_of_a_job(many: rota.App, web: Browser) -> None:
    await many.jobs.list()
    await web.get("/runs/new")
    assert "Choose a job" in web.text
    await web.get("/runs/new?job=order")
    for told in (
        "product text", "pieces whole number", "share number, optional", "colour choice, optional",
        "is_gift yes or no, optional", "size choice, optional", "day date, optional",
        "at date and time, optional", "price number, optional", "place JSON, optional",
        "notes JSON, optional", "No live worker knows this job",
    ):  # fmt: skip
        assert told in web.text, told
    await web.get("/runs/new?job=none", 404)


async def test_a_run_by_its_fields(many: rota.App, web: Browser) -> None:
    await many.jobs.list()
    await web.get("/runs/new?job=order")
    fields = {
        "job": "order", "p.product": "lamp", "p.pieces": "9007199254740993", "p.share": "0.25",
        "p.is_gift": "true", "p.colour": '"blue"', "p.size": '"m"', "p.day": "2026-01-31",
        "p.at": "2026-01-31T14:30", "p.price": "19.9000000000000000001",
        "p.place": '{"street": "High"}', "p.notes": '["a"]', "queue": "other", "priority": "2",
        "run_at": "2099-01-01T10:00", "key": "k1", "tags": "a, b", "tenant": "acme",
        "max_attempts": "7", "expires_in": "15min", "timeout": "90s", "metadata": '{"by": "me"}',
    }  # fmt: skip
    await web.post("/runs/new", **fields)
    assert "is enqueued" in web.text
    (run,) = await many.runs.list()
    assert run.payload["pieces"] == 9007199254740993
    assert run.payload["price"] == "19.9000000000000000001"
    assert run.payload["at"] == "2026-01-31T14:30:00Z"
    assert (run.payload["is_gift"], run.payload["colour"]) == (True, "blue")
    assert (run.queue, run.priority, run.key, run.tags) == ("other", 2, "k1", ["a", "b"])
    assert (run.state, run.tenant, run.max_attempts) == ("scheduled", "acme", 7)
    assert run.run_at == datetime(2099, 1, 1, 10, tzinfo=UTC)
    assert run.expires_at == datetime(2099, 1, 1, 10, 15, tzinfo=UTC)
    assert run.metadata == {"by": "me"}
    await web.get("/runs/new?job=order")
    await web.post("/runs/new", **fields)
    assert f"Run {run.id} already holds this key" in web.text


async def test_what_is_wrong_stands_beside_its_field(many: rota.App, web: Browser) -> None:
    await many.jobs.list()
    await web.get("/runs/new?job=order")
    await web.post(
        "/runs/new", 422, job="order", **{"p.pieces": "twenty", "p.share": "x", "p.notes": "["}
    )
    assert "product text This field is required." in web.text
    assert "A whole number, such as 20." in web.text
    assert "A number, such as 2.5." in web.text
    assert "This is not JSON" in web.text
    assert 'value="twenty"' in web.page, "what was typed stays"
    await web.post(
        "/runs/new", 422, job="order", **{"p.product": "lamp", "p.pieces": "1", "p.day": "soon"}
    )
    assert "day date, optional Input should be a valid date" in web.text
    assert await many.runs.list() == []
    await web.post("/runs/new", 422, job="order", priority="high", run_at="soon", **{"p.a": "1"})
    assert "A whole number, such as 5." in web.text
    assert "A date and time" in web.text
    await web.post("/runs/new", 422, job="nobody")
    assert "nobody" in web.text


async def test_as_json_and_again(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 7}, tags=["vip"], queue="slow")
    await web.get("/runs/new?job=send&as=json")
    await web.post("/runs/new", 422, job="send", payload="[1]")
    assert "This must be an object" in web.text
    await web.post("/runs/new", 422, job="send", payload='{"user_id": "x"}')
    assert "user_id" in web.text
    await web.post("/runs/new", job="send", payload='{"user_id": 8}')
    assert "is enqueued" in web.text

    await web.get(f"/runs/new?from={run.id}")
    assert f"Filled in from run {run.id}" in web.text
    assert 'value="7"' in web.page
    assert 'value="vip"' in web.page
    assert 'value="slow"' in web.page
    await web.get("/runs/new?from=999", 404)


async def test_a_job_without_a_schema_is_asked_for_json(
    web: Browser, shop: rota.App, conn: Any
) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('free')")
    await web.get("/runs/new?job=free")
    assert "an object of the job’s arguments" in web.text


def test_fields_of_odd_schemas() -> None:
    assert fields_of({}) == []
    odd = {"properties": {"a": {"$ref": "#/$defs/none"}, "b": True, "c": {"anyOf": [{}]}}}
    assert [(one.name, one.kind) for one in fields_of(odd)] == [("a", "json"), ("c", "json")]
    (loop,) = fields_of({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "a"}}})
    assert loop.kind == "json"


def test_nothing_is_needed_where_none_will_do() -> None:
    schema = {
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["a"]
    }  # fmt: skip
    assert read_fields(fields_of(schema), {}, UTC) == ({"a": None}, {})


def test_which_arguments_an_error_is_about() -> None:
    about = {"a": "Input should be a number, not 'x'", "b": "is missing"}
    error = PayloadError("whole", values={"arguments": about})
    told = {"a": "Input should be a number, not 'x'.", "b": "This field is required."}
    assert blamed(error, {"a", "b"}) == (told, [])
    assert blamed(error, {"a"}) == ({"a": told["a"]}, ["Whole."])
    assert blamed(InputError("too large"), {"a"}) == ({}, ["Too large."])
