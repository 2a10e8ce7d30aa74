"""The records of events: source, payload and deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, TypedDict

from rota.model.asked import OfJob, OfTenant, Since, Until
from rota.model.durations import Duration
from rota.model.exclusion import Exclude
from rota.model.fields import BIGGEST_ID, Field
from rota.model.formatting import duration
from rota.model.instants import LONGEST_SECONDS

Outcome = Literal["started", "debounced", "throttled", "unbound", "filtered", "duplicate"]


EventId = Annotated[int, Field("Event ID.", 7, least=1, most=BIGGEST_ID, metavar="ID")]
EventName = Annotated[str, Field("Event name.", "order.paid", shortest=1, metavar="EVENT")]
EventPattern = Annotated[
    str | None,
    Field("Event name, or a pattern where `*` matches any characters.", "order.*", metavar="EVENT"),
]
EventPayload = Annotated[
    Mapping[str, Any] | None,
    Field(
        "Payload passed to the jobs.",
        {"order_id": 7},
        metavar="JSON|@FILE|-",
        is_long=True,
        none_means="an empty one",
        is_argument=True,
    ),
]
EventTenant = Annotated[str, Field("Tenant of the event.", "acme", metavar="NAME")]
EventKey = Annotated[
    str | None,
    Field(
        "Idempotency key: one run per job and key.",
        "order-7",
        shortest=1,
        longest=400,
        none_means="every event counts",
        metavar="KEY",
    ),
]
KeySeconds = Annotated[
    Duration | None,
    Field(
        "How long the key stays reserved after the runs end.",
        "1h",
        "Keep the key",
        least=0,
        most=LONGEST_SECONDS,
        none_means="not at all",
        short="key_keep",
        endless="forever",
        metavar="DURATION|forever",
    ),
]
PeriodSeconds = Annotated[
    Duration | None,
    Field(
        "Alternatively: accept only one event per key in this period, whatever it starts.",
        "1h",
        "Period of the key",
        least=0.001,
        most=LONGEST_SECONDS,
        short="key_period",
        metavar="DURATION",
    ),
]
EventMetadata = Annotated[
    Mapping[str, Any] | None,
    Field("Metadata of the event and its runs.", {"team": "shop"}, metavar="JSON|@FILE"),
]
EventHook = Annotated[
    str | None,
    Field("Name of the hook that emits it, such as a Django signal.", "django", shortest=1),
]
ReplayJob = Annotated[str, Field("Job to deliver the events to.", "send_receipt", shortest=1)]
EventIds = Annotated[
    list[int] | None,
    Field(
        "IDs of the events, in place of a name.",
        [1],
        "Events",
        least=1,
        most=BIGGEST_ID,
        short="id",
        metavar="ID",
    ),
]
ReplayAgain = Annotated[
    bool, Field("Include events already delivered to the job.", label="Deliver again")
]
DryRun = Annotated[bool, Field("Only count; change nothing.")]
OfHook = Annotated[
    str | None,
    Field("Filter by webhook; `(unknown)`: those that do not exist.", "stripe", metavar="HOOK"),
]


class EventFilters(TypedDict, total=False):
    """Filters of events."""

    name: EventPattern
    tenant: OfTenant
    job: OfJob
    key: Annotated[str | None, Field("Filter by key.", "order-7", longest=400, metavar="KEY")]
    outcome: Annotated[
        Outcome | None,
        Field(
            "Filter by outcome.",
            metavar="OUTCOME",
            choices={
                "started": "it started a run",
                "debounced": "it waits, or joined another",
                "throttled": "its period had one",
                "unbound": "no job was bound",
                "filtered": "no filter matched",
                "duplicate": "its key was there",
            },
        ),
    ]
    text: Annotated[
        str | Sequence[str] | None,
        Field(
            "Text in the name or the payload; all of them if there are several.",
            "lamp",
            shortest=1,
            longest=400,
            metavar="TEXT",
        ),
    ]
    since: Since
    until: Until
    exclude: Exclude


@dataclass(frozen=True, slots=True)
class EventInfo:
    """One row of `rota.events`: an event and what it started.

    `deliveries` has an object for each job that was bound to it: `job` with `run` (`is_duplicate`
    if it already existed, `is_disabled` if it waits for its job to be enabled, `debounced` or
    `throttled_until` if the job combines bursts), or with `skipped` and the reason. `outcome`
    summarises them; `unbound` means that no job was bound.
    """

    tenant: Annotated[str, Field("Tenant.", "")]
    name: Annotated[str, Field("Name.", "order.paid")]
    id: Annotated[int, Field("ID.", 7)]
    at: Annotated[datetime, Field("When it was emitted.")]
    payload: Annotated[Any, Field("Payload passed to the jobs.", {"order_id": 7})]
    key: Annotated[str | None, Field("Idempotency key.", "order-7")]
    actor: Annotated[str | None, Field("User of the application, if given.", "ada")]
    role: Annotated[str | None, Field("Database role that emitted it.", "shop")]
    source: Annotated[
        Any, Field("Where it came from: a table, a hook, a webhook, a run.", {"hook": "django"})
    ]
    metadata: Annotated[Any, Field("Metadata passed on to its runs.")]
    duplicate_of: Annotated[int | None, Field("First event with this key.")]
    deliveries: Annotated[
        Any,
        Field(
            "One entry for each bound job: its run, or why there is none.",
            [{"job": "send_receipt", "run": 42}, {"job": "book", "skipped": "filter"}],
        ),
    ]
    outcome: Annotated[
        str,
        Field(
            "started, debounced, throttled, unbound (no job bound), filtered, duplicate.", "started"
        ),
    ]

    @property
    def told(self) -> list[Delivery]:
        """The deliveries, one for each job. Entries that cannot be read are omitted."""
        given = self.deliveries if isinstance(self.deliveries, list) else []
        return [Delivery.of(entry) for entry in given if isinstance(entry, Mapping)]


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that an event has started, or that already held its key."""

    run_id: Annotated[int, Field("Run ID.", 42)]
    job: Annotated[str, Field("Job.", "send_receipt")]
    is_duplicate: Annotated[
        bool, Field("Whether an existing run with the same key was returned.", False)
    ]


@dataclass(frozen=True, slots=True)
class Emitted:
    """The event, and the runs that it started."""

    event_id: Annotated[int, Field("Event ID.", 7)]
    runs: Annotated[list[StartedRun], Field("Runs, one for each bound job.")]

    @classmethod
    def of(cls, started: Any) -> Self:
        """From the runs that `app.events.emit` returns."""
        runs = [StartedRun(run.id, run.job, run.is_duplicate) for run in started]
        return cls(started.event_id, runs)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one job got from an event."""

    job: str
    run: int | None
    word: str
    is_debounced: bool = False
    is_throttled: bool = False

    @property
    def brief(self) -> str:
        """`ship 7`, and whether other events share that run."""
        how = "debounced" if self.is_debounced else "throttled" if self.is_throttled else ""
        return f"{self.job} {self.run}" + (f" ({how})" if how else "")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Delivery:
        run = given.get("run")
        number = run if isinstance(run, int) and not isinstance(run, bool) else None
        return cls(
            str(given.get("job")),
            number,
            _word(given, number),
            bool(given.get("debounced")),
            bool(given.get("throttled_until")),
        )


def _word(given: Mapping[str, Any], run: int | None) -> str:
    if run is None:
        return "its filter did not match" if given.get("skipped") == "filter" else "skipped"
    if given.get("debounced"):
        return _replayed(f"debounced into run {run}", given)
    if until := given.get("throttled_until"):
        return _replayed(f"throttled until {_time(until)}: run {run} covers this period", given)
    if given.get("is_duplicate"):
        return "duplicate: another run holds the key"
    if by := given.get("replayed_by"):
        return f"replayed by {by}"
    return "waiting: the job was disabled" if given.get("is_disabled") else "started"


def _time(text: Any) -> str:
    """Return a time that the database wrote as JSON, in UTC and without fractions."""
    try:
        return f"{datetime.fromisoformat(str(text)).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):
        return str(text)


def _replayed(words: str, given: Mapping[str, Any]) -> str:
    by = given.get("replayed_by")
    return f"{words}, replayed by {by}" if by else words


def delivery_words(rule: Any) -> str:
    """Return `debounced: the last after 5 s of quiet, at the latest 60 s after the first, for each
    order:{order_id}`; empty if each event starts a run."""
    if not isinstance(rule, Mapping) or not rule:
        return ""
    each = f", for each {rule['key']}" if rule.get("key") else ""
    if (period := rule.get("throttle_seconds")) is not None:
        return f"throttled: only the first in {_span(period)}{each}"
    most = rule.get("longest_seconds")
    latest = "" if most is None else f", at the latest {_span(most)} after the first"
    return f"debounced: the last after {_span(rule.get('debounce_seconds'))} of quiet{latest}{each}"


def _span(seconds: Any) -> str:
    return duration(seconds) if isinstance(seconds, int | float) else str(seconds)


@dataclass(frozen=True, slots=True)
class BindingInfo:
    """A job, the event name or pattern that it is bound to, and the filter that payloads must
    match."""

    pattern: Annotated[
        str, Field("Event name, or a pattern where `*` matches any characters.", "order.*")
    ]
    job: Annotated[str, Field("Bound job.", "send_receipt")]
    is_pattern: Annotated[bool, Field("Whether it is a pattern.", True)]
    filter: Annotated[
        Any, Field("Filter that payloads must match; null: none.", {"status": "paid"})
    ]
    is_enabled: Annotated[bool, Field("Whether the job is enabled; if not, its runs wait.", True)]


def where_from(source: Any) -> str:
    """Return `update of public.orders`, `hook django`, `run 7`, `webhook stripe`; empty for a plain
    emit."""
    origin = source if isinstance(source, Mapping) else {}
    if origin.get("table"):
        return f"{origin.get('operation', 'change')} of {origin['table']}"
    for word in ("webhook", "hook", "run"):
        if origin.get(word) is not None:
            return f"{word} {origin[word]}"
    return ""
