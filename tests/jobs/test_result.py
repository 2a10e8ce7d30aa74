"""A result comes back as the type that the handler declares."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any

import pydantic
import pytest

import rota
from rota.errors import ResultError
from rota.jobs.encoding import encode_result
from rota.jobs.result import result_decoder
from rota.postgres.rows import read_json_column
from rota.testing import run_all


@dataclass
class Receipt:
    number: int
    paid_at: dt.datetime


class Colour(Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    name: str
    data: Decimal


class Foreign:
    """Nothing that JSON could hold."""


NOW = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (int, 7),
        (float, 1e20),
        (list[float], [1.0, 1e300]),
        (dict[str, str], {"to": "x"}),
        (Receipt, Receipt(7, NOW)),
        (list[Receipt], [Receipt(7, NOW)]),
        (Model, Model(name="x", data=Decimal("1.10"))),
        (dt.date, dt.date(2026, 2, 28)),
        (bytes, b"\x00\xff"),
        (tuple[int, str], (1, "x")),
        (Colour, Colour.RED),
        (Receipt | None, None),
        (None, None),
        (Any, {"a": 1}),
    ],
)
def test_what_was_returned_is_what_comes_back(declared: Any, value: Any) -> None:
    def handler() -> Any: ...

    handler.__annotations__["return"] = declared
    raw = encode_result(value, 1_000_000)
    stored = None if raw is None else read_json_column(raw)
    found = result_decoder(handler, "job")(stored)
    assert found == value
    assert type(found) is type(value)


def test_a_result_of_another_type() -> None:
    def handler() -> Receipt: ...  # type: ignore[empty-body]

    with pytest.raises(ResultError, match=r'the result of job "pay" .* paid_at: Field required'):
        result_decoder(handler, "pay")({"number": 1})


def test_what_nobody_can_check_comes_as_it_is() -> None:
    def unknown() -> Missing: ...  # type: ignore[name-defined]  # noqa: F821
    def foreign() -> Foreign: ...  # type: ignore[empty-body]
    def silent(): ...  # type: ignore[no-untyped-def]

    for function in (unknown, foreign, silent):
        assert result_decoder(function, "job")({"a": 1}) == {"a": 1}


async def test_a_waiter_gets_it(app: rota.App) -> None:
    @app.job
    async def pay(number: int) -> Receipt:
        return Receipt(number, NOW)

    async with app.worker():
        run = await pay.enqueue(7)
        assert await run.wait(30) == Receipt(7, NOW)
        (same,) = await app.enqueue_many([pay.call(8)])
        assert await same.wait(30) == Receipt(8, NOW)
        assert (await run.info()).result == {"number": 7, "paid_at": "2026-03-29T01:30:00Z"}


async def test_mappings_of_the_context_may_be_returned_and_passed_on(app: rota.App) -> None:
    @app.job
    async def tell(ctx: rota.Context, about: Any = None) -> Any:
        return {"by": ctx.triggered_by, "with": ctx.metadata, "about": about}

    run = await tell.options(metadata={"team": "x"}).enqueue(about=MappingProxyType({"a": 1}))
    by_name = await app.runs.enqueue("tell", MappingProxyType({"about": MappingProxyType({})}))
    await run_all(app)
    assert await run.wait(20) == {
        "by": {"type": "code"}, "with": {"team": "x"}, "about": {"a": 1},
    }  # fmt: skip
    assert (await by_name.info()).payload == {"about": {}}


async def test_so_may_payloads_of_jobs_of_others(make_app: Any) -> None:
    first: rota.App = make_app()

    @first.job
    async def work(about: dict[str, Any]) -> None: ...

    await first.database.open()
    nested = MappingProxyType({"about": MappingProxyType({"day": dt.date(2026, 1, 2)})})
    other: rota.App = make_app()
    run = await other.runs.enqueue("work", nested)
    await other.schedules.create("s", "work", every=60, payload=nested)
    triggered = await other.schedules.trigger("s", nested)
    for run_id in (run.id, triggered.run_id):
        assert (await other.runs.get(run_id)).payload == {"about": {"day": "2026-01-02"}}
