"""The validated filter of a log search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from rota.errors import FilterError, SearchError
from rota.model.asked import OfJob, OfQueue, OfTenant
from rota.model.durations import Duration
from rota.model.exclusion import Exclude, read_exclusions
from rota.model.fields import BIGGEST_ID, Field, Moment
from rota.model.log import LEVELS, Level, LogKey, levels_from
from rota.model.log_text import LogText

MOST_LINES = 1000
_NOTHING = LogText()


SearchTerms = Annotated[
    str,
    Field(
        'Search terms: word, "a phrase", -exclude, field:value, prefix*. All must match.',
        'timeout "order 17" -retry user:7',
        longest=1000,
        metavar="TEXT",
        is_argument=True,
    ),
]
Patience = Annotated[
    Duration | None,
    Field("Time limit of the search, which continues from its cursor.", "10s", least=0),
]
TailLines = Annotated[
    int,
    Field("Number of recent lines to start with.", 10, least=0, most=1000, metavar="N", letter="n"),
]
LogRun = Annotated[int, Field("Run ID.", 42, least=1, most=BIGGEST_ID, metavar="RUN")]
OfAttempt = Annotated[
    int | None, Field("Only lines of this attempt.", 3, least=1, most=2**31 - 1, metavar="N")
]


class LogFilters(TypedDict, total=False):
    """Filters of log searches and tails."""

    job: OfJob
    run_id: Annotated[
        int | None,
        Field("Only lines of this run.", 42, least=1, most=BIGGEST_ID, short="run", metavar="ID"),
    ]
    attempt: OfAttempt
    level: Annotated[
        Level | None, Field("Minimum level.", metavar="LEVEL", word="minimum", is_bound=True)
    ]
    levels: Annotated[
        str | Sequence[str] | None,
        Field(
            "Only lines of these levels.",
            "error",
            word="level",
            metavar="LEVEL",
            choices=dict.fromkeys(LEVELS, ""),
        ),
    ]
    tenant: OfTenant
    queue: OfQueue
    worker: Annotated[
        int | None,
        Field("Only lines written by this worker.", 3, least=1, most=BIGGEST_ID, metavar="ID"),
    ]
    exclude: Exclude


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """Lines that match all of its parts. A `since` or `until` that is a timedelta counts back from
    now."""

    text: LogText = _NOTHING
    job: str | None = None
    run_id: int | None = None
    attempt: int | None = None
    levels: tuple[str, ...] | None = None
    tenant: str | None = None
    queue: str | None = None
    worker: int | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: int = 100
    cursor: LogKey | None = None
    exclude: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        text: str,
        filters: LogFilters,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> LogQuestion:
        known: dict[str, Any] = dict(filters)
        levels = levels_from(known.pop("level", None), known.pop("levels", None))
        if not 1 <= limit <= MOST_LINES:
            raise SearchError(f"limit must be from 1 to {MOST_LINES}, not {limit}")
        return cls(
            text=LogText.parse(text),
            levels=None if levels is None else tuple(levels),
            since=since,
            until=until,
            limit=limit,
            cursor=LogKey.parse(cursor) if cursor else None,
            exclude=_exclusions(known.pop("exclude", None)),
            **known,
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The filters, under the names of the statements' parameters."""
        return {
            "job": self.job,
            "attempt": self.attempt,
            "levels": None if self.levels is None else list(self.levels),
            "tenant": self.tenant,
            "queue": self.queue,
            "worker": self.worker,
            # Filled in later: the jobs of that queue are read first.
            "sole": [],
            "mixed": [],
            "names": [name for name, _ in self.text.fields],
            "values": [value for _, value in self.text.fields],
            "other_names": [name for name, _ in self.text.other_fields],
            "other_values": [value for _, value in self.text.other_fields],
            "not_names": [name for name, _ in self.exclude],
            "not_values": [value for _, value in self.exclude],
        }


def _exclusions(given: str | Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    try:
        return read_exclusions(given, LogFilters)
    except FilterError as error:
        raise error.retold(SearchError) from None
