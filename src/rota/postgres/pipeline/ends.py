"""Ends of attempts, in the form that their statements take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rota.model.outcome import Ended, Outcome, Refused, Requeue

# Run, attempt, duration in ms, outcome.
Other = tuple[int, int, float, Outcome]
_O = TypeVar("_O", Ended, Requeue, Refused)

# Ends whose ids are further apart than this are listed individually.
_SPARSE = 3
_NO_END = -1


@dataclass(slots=True, eq=False)
class Ends:
    """Attempts that have ended and are not yet written, as columns of their statements."""

    ids: list[int] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    results: list[str | None] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    # Whether all succeeded runs have neither key nor schedule, as far as is known.
    is_plain: bool = True

    def __len__(self) -> int:
        return len(self.ids) + len(self.others)

    def succeeded(
        self,
        run_id: int,
        attempt: int,
        duration_ms: float,
        result: str | None,
        is_plain: bool = False,
    ) -> None:
        if not is_plain:
            self.is_plain = False
        self.ids.append(run_id)
        self.attempts.append(attempt)
        self.durations.append(duration_ms)
        self.results.append(result)

    def add(self, later: Ends) -> None:
        self.ids += later.ids
        self.attempts += later.attempts
        self.durations += later.durations
        self.results += later.results
        self.others += later.others
        self.is_plain = self.is_plain and later.is_plain

    def each(self) -> Iterator[Ends]:
        """Yield each end separately."""
        for column in zip(self.ids, self.attempts, self.durations, self.results, strict=True):
            single = Ends(is_plain=False)
            single.succeeded(*column)
            yield single
        for other in self.others:
            yield Ends(others=[other])

    def refused(self, outcome: Outcome) -> Ends:
        """Return this single end with another outcome."""
        (run_id,) = self.all_ids()
        attempt = self.attempts[0] if self.ids else self.others[0][1]
        duration = self.durations[0] if self.ids else self.others[0][2]
        return Ends(others=[(run_id, attempt, duration, outcome)])

    def all_ids(self) -> list[int]:
        return self.ids + [run_id for run_id, *_ in self.others]

    def only(self, wanted: set[int]) -> Ends:
        """Return the ends of the wanted runs, as non-plain ends."""
        rows = zip(self.ids, self.attempts, self.durations, self.results, strict=True)
        part = Ends(others=[other for other in self.others if other[0] in wanted])
        for run_id, attempt, duration, result in rows:
            if run_id in wanted:
                part.succeeded(run_id, attempt, duration, result)
        return part

    def span(self) -> dict[str, Any] | None:
        """Return the parameters of `runs/finish_span`, or None if it does not apply: it takes plain
        runs with one attempt number and close ids, as in a drain."""
        if not self.is_plain or not self.ids:
            return None
        first, last = min(self.ids), max(self.ids)
        attempt, width = self.attempts[0], last - first + 1
        if width > _SPARSE * len(self.ids) or any(number != attempt for number in self.attempts):
            return None
        microseconds = [_NO_END] * width
        for run_id, duration in zip(self.ids, self.durations, strict=True):
            microseconds[run_id - first] = int(duration * 1000)
        return {
            "first_id": first,
            "attempt": attempt,
            "durations": array(microseconds),
            "results": self._results_of(first, width),
        }

    def _results_of(self, first: int, width: int) -> list[str | None] | None:
        if all(result is None for result in self.results):
            return None
        placed: list[str | None] = [None] * width
        for run_id, result in zip(self.ids, self.results, strict=True):
            placed[run_id - first] = result
        return placed


def ended_columns(worker: int, rows: Sequence[Other]) -> dict[str, Any]:
    """Return the parameters of `runs/end`, from the rows whose runs have ended."""
    rows, outcomes = _of(Ended, rows)
    return _columns(worker, rows) | {
        "results": [outcome.result for outcome in outcomes],
        "states": [outcome.state for outcome in outcomes],
        "end_reasons": [outcome.end_reason for outcome in outcomes],
    }


def requeue_columns(worker: int, rows: Sequence[Other]) -> dict[str, Any]:
    """Return the parameters of `runs/requeue`, from the rows whose runs go on."""
    rows, outcomes = _of(Requeue, rows)
    return _columns(worker, rows) | {
        "delays": [outcome.delay for outcome in outcomes],
        "spent": [outcome.is_spent for outcome in outcomes],
    }


def refuse_columns(worker: int, rows: Sequence[Other]) -> dict[str, Any]:
    """Return the parameters of `runs/refuse`, from the rows whose payload this worker refuses."""
    rows, outcomes = _of(Refused, rows)
    return _columns(worker, rows) | {
        "intakes": [outcome.intake for outcome in outcomes],
        "signatures": [outcome.signature for outcome in outcomes],
    }


def kept_columns(worker: int, ends: Ends) -> dict[str, Any]:
    """Return the parameters of `runs/keep_ends`, from all rows, whatever their outcomes."""
    successes = zip(ends.ids, ends.attempts, ends.durations, ends.results, strict=True)
    rows: list[Other] = [
        (run_id, attempt, duration, Ended("succeeded", "succeeded", result=result))
        for run_id, attempt, duration, result in successes
    ]
    rows += ends.others
    outcomes = [outcome for *_, outcome in rows]
    return _columns(worker, rows) | {
        "states": [end.state if isinstance(end, Ended) else None for end in outcomes],
        "end_reasons": [end.end_reason if isinstance(end, Ended) else None for end in outcomes],
        "results": [end.result if isinstance(end, Ended) else None for end in outcomes],
        "delays": [end.delay if isinstance(end, Requeue) else None for end in outcomes],
        "spent": [end.is_spent if isinstance(end, Requeue) else None for end in outcomes],
        "intakes": [end.intake if isinstance(end, Refused) else None for end in outcomes],
        "signatures": [end.signature if isinstance(end, Refused) else None for end in outcomes],
    }


def _of(kind: type[_O], rows: Sequence[Other]) -> tuple[list[Other], list[_O]]:
    found = [(row, outcome) for row in rows if isinstance(outcome := row[3], kind)]
    return [row for row, _ in found], [outcome for _, outcome in found]


def _columns(worker: int, rows: Sequence[Other]) -> dict[str, Any]:
    failures = [outcome.failure for *_, outcome in rows]
    return {
        "worker": worker,
        "ids": [row[0] for row in rows],
        "attempts": [row[1] for row in rows],
        "durations": [row[2] for row in rows],
        "attempt_states": [outcome.attempt_state for *_, outcome in rows],
        "messages": [outcome.message for *_, outcome in rows],
        "error_types": [failure and failure.error_type for failure in failures],
        "errors": [failure and failure.error for failure in failures],
        "tracebacks": [failure and failure.traceback for failure in failures],
        "details": [outcome.details for *_, outcome in rows],
    }


def array(numbers: list[int] | list[float]) -> str:
    """Format numbers as a Postgres array: the list's own text in other brackets costs a tenth of
    the driver's walk over the elements."""
    return f"{{{str(numbers)[1:-1]}}}"
