"""Limits declared by a job's code: `@app.job(limits=[rota.concurrency(5)])`.

Declarations are checked here and stored when the application starts. From then on they are rows of
`rota.limits` that operators may change; their changes are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from rota.errors import JobError
from rota.jobs.values import YEAR, check_duration, check_number, check_text
from rota.model.durations import Duration
from rota.model.limit import MOST, NextAfter, OnFull

_TEMPLATE = re.compile(r"(?:[^{}]|\{[A-Za-z_][A-Za-z0-9_.]*\})+")
_RATE_ON_FULL = ("wait", "skip", "replace")


@dataclass(frozen=True, slots=True)
class DeclaredLimit:
    """A checked declaration, as columns of `rota.limits`. Without a name, it is made from the
    job's."""

    kind: Literal["concurrency", "rate", "sequence"]
    cap: int
    name: str | None = None
    key: str | None = None
    on_full: OnFull = "wait"
    period_seconds: float | None = None
    burst: int | None = None
    cost: str | None = None
    next_after: NextAfter | None = None

    def to_json(self) -> dict[str, Any]:
        columns = {field: getattr(self, field) for field in self.__slots__}
        return {name: value for name, value in columns.items() if value is not None}


def concurrency(
    cap: int, *, key: str | None = None, on_full: OnFull = "wait", name: str | None = None
) -> DeclaredLimit:
    """At most this many runs at once, across all workers; with a key, for each of its values:
    `rota.concurrency(5, key="customer:{customer_id}")`. Jobs that use the same name share the
    limit."""
    return _declare("concurrency", cap, key, on_full, name)


def rate(
    cap: int,
    per: Duration,
    *,
    burst: int | None = None,
    cost: str | None = None,
    key: str | None = None,
    on_full: OnFull = "wait",
    name: str | None = None,
) -> DeclaredLimit:
    """At most this many starts in any period of `per` seconds, and at most `burst` at one moment.
    `cost` names the payload field that says how many starts a run counts as. With a key, each of
    its values has its own limit."""
    made = _declare("rate", cap, key, on_full, name)
    try:
        if cost is not None:
            check_text("cost", cost, most=100)
        if burst is not None:
            check_number("burst", burst, 1, max(cap, 1))
        period = check_duration("per", per, least=0.01, most=YEAR)
    except ValueError as error:
        raise JobError(f"limit: {error}") from None
    return replace(made, period_seconds=period, burst=burst, cost=cost)


def sequence(
    key: str | None = None,
    *,
    after: NextAfter = "end",
    on_full: OnFull = "wait",
    name: str | None = None,
) -> DeclaredLimit:
    """One run after another, in the order of their enqueues; with a key, for each of its values.
    The next run starts after the `end` of the previous one, or only after its `success`."""
    if after not in get_args(NextAfter):
        raise JobError(
            f"limit: after must be one of {', '.join(get_args(NextAfter))}, not {after!r}"
        )
    return replace(_declare("sequence", 1, key, on_full, name), next_after=after)


def is_template(text: str) -> bool:
    """Return whether the text is a valid key template, with or without fields in braces:
    `customer:{customer_id}`."""
    return _TEMPLATE.fullmatch(text) is not None


def _declare(kind: Any, cap: int, key: str | None, on_full: Any, name: str | None) -> DeclaredLimit:
    choices = _RATE_ON_FULL if kind == "rate" else get_args(OnFull)
    try:
        check_number("cap", cap, 0, MOST)
        if name is not None:
            check_text("name", name, most=200)
        if key is not None and not is_template(check_text("key", key, most=200)):
            raise ValueError(f'key {key!r} is not a template, such as "customer:{{id}}"')
        if on_full not in choices:
            raise ValueError(f"on_full must be one of {', '.join(choices)}, not {on_full!r}")
    except ValueError as error:
        raise JobError(f"limit: {error}") from None
    return DeclaredLimit(kind, cap, name, key, on_full)


def name_limits(job: str, declared: Iterable[DeclaredLimit]) -> list[dict[str, Any]]:
    """Return the limits as the database reads them. Two limits without a name must differ in what
    they count."""
    named: dict[str, dict[str, Any]] = {}
    for limit in declared:
        key = "" if limit.key is None else "/" + limit.key.replace("{", "").replace("}", "")
        name = limit.name or f"{job}/{limit.kind}{key}"[:200]
        if name in named:
            raise JobError(f'job "{job}" declares limit "{name}" twice; give one of them a name')
        named[name] = limit.to_json() | {"name": name}
    return [named[name] for name in sorted(named)]
