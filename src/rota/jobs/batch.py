"""Many calls, as the arrays of one statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Unpack

from rota.errors import InputError
from rota.jobs.handle import R_co
from rota.jobs.options import NO_OPTIONS, OptionKeywords, Options

_OF_KEYS = {"key", "key_seconds", "on_conflict"}
# One round trip for usual batches; beyond this size, memory on both sides matters more.
MAX_ROWS = 10_000
MAX_BYTES = 32 * 1024 * 1024
# The job's default payload, which the database fills in; empty if the job has none.
NO_PAYLOAD = "null"
# A key belongs to one run; all other options may hold for a whole batch.
_UNIFORM = [name for name in NO_OPTIONS.parameters if name not in _OF_KEYS]


class Call(NamedTuple, Generic[R_co]):
    """A validated enqueue that has not been sent."""

    job: str
    payload: str
    validated_by: int | None
    options: Options
    decode: Callable[[Any], R_co] | None = None

    def with_options(self, **options: Unpack[OptionKeywords]) -> Call[R_co]:
        """Return the same call with these options changed, for hooks of `around_enqueue`."""
        return self._replace(options=self.options.merge(options))


class BatchPart(NamedTuple):
    """The parameters of one statement: `runs/enqueue_batch` for calls that differ only in their
    payloads, `runs/enqueue_many` for others."""

    is_uniform: bool
    parameters: dict[str, Any]


class Batch:
    """Calls in the order in which they are sent.

    Calls with a key that need more than one statement are sorted by key over all of them:
    concurrent callers then take their keys in the same order, which prevents deadlocks.
    """

    def __init__(
        self, calls: Iterable[Call], connection: Any = None, triggered_by: str | None = None
    ) -> None:
        self.calls = list(calls)
        refuse_others(self.calls)
        self.connection = _common_connection(self.calls, connection)
        self._order: list[int] | None = None
        chunks = list(_cut(self.calls))
        if len(chunks) > 1 and any(call.options.key is not None for call in self.calls):
            self._order = sorted(range(len(self.calls)), key=lambda n: _place(self.calls[n]))
            chunks = list(_cut([self.calls[n] for n in self._order]))
        self.parts = [_part(chunk, triggered_by) for chunk in chunks]

    def restore(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Return the rows in the order of the calls."""
        if self._order is None:
            return rows
        restored: list[Any] = [None] * len(rows)
        for n, row in zip(self._order, rows, strict=True):
            restored[n] = row
        return restored


def _part(calls: Sequence[Call], triggered_by: str | None) -> BatchPart:
    payloads = f"[{','.join([call.payload for call in calls])}]"
    first = calls[0]
    job, validated_by, options = first.job, first.validated_by, first.options
    is_one_job = all(call.job == job for call in calls)
    is_one_check = all(call.validated_by == validated_by for call in calls)
    is_uniform = is_one_job and is_one_check and options.key is None
    if is_uniform and all(call.options is options for call in calls):
        given = {name: options.parameters[name] for name in _UNIFORM}
        own = {"job": job, "payloads": payloads, "validated_by": validated_by}
        return BatchPart(True, given | own | {"triggered_by": triggered_by})
    several: dict[str, Any] = {
        "jobs": [job] if is_one_job else [call.job for call in calls],
        "payloads": payloads,
        "validated_by": [call.validated_by for call in calls],
        "triggered_by": triggered_by,
    }
    return BatchPart(False, _columns(calls) | several)


def _columns(calls: Sequence[Call]) -> dict[str, Any]:
    """Return an array for each option that any of the calls uses."""
    names = NO_OPTIONS.parameters
    columns: dict[str, Any] = {}
    for name in names:
        column = [call.options.parameters[name] for call in calls]
        columns[name] = column if any(value is not None for value in column) else None
    if columns["tags"] is not None:
        # SQL arrays of arrays must be rectangular; lists of tags are not.
        columns["tags"] = [tags and json.dumps(tags) for tags in columns["tags"]]
    return columns


def _cut(calls: Sequence[Call]) -> Iterator[Sequence[Call]]:
    start = size = 0
    for n, call in enumerate(calls):
        size += len(call.payload)
        if n > start and (n - start == MAX_ROWS or size > MAX_BYTES):
            yield calls[start:n]
            start, size = n, len(call.payload)
    if start < len(calls):
        yield calls[start:]


def _place(call: Call) -> tuple[bool, bytes, bytes, bytes]:
    # Bytes, because the database compares keys by them.
    options = call.options
    tenant, key = options.tenant or "", options.key or ""
    return options.key is not None, tenant.encode(), call.job.encode(), key.encode()


def refuse_others(calls: Sequence[Any]) -> None:
    for call in calls:
        if type(call) is not Call:
            raise InputError(
                f"enqueue_many takes calls, not {call!r}", hint="write job.call(…) for each"
            )


def _common_connection(calls: Sequence[Call], connection: Any) -> Any:
    for call in calls:
        own = call.options.connection
        if own is not None and connection is not None and own is not connection:
            raise InputError("calls with different connections cannot be enqueued together")
        connection = connection if own is None else own
    return connection
