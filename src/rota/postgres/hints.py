"""What to do about errors of SQL, by their code, where interfaces have other words for it than SQL.

SQL gives the code in the field CONSTRAINT of its errors, the argument that is wrong in COLUMN, and
the values of the message as JSON in DETAIL. Without an entry here, its own hint is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rota.hints import Hint, Name, OperationCall
from rota.model.nearest import listed

Values = Mapping[str, Any]


def _always(text: str, *parts: Any) -> Callable[[Values], Hint]:
    return lambda _: Hint(text, *parts)


def _of_job(text: str, verb: str, **arguments: Any) -> Callable[[Values], Hint]:
    return lambda it: Hint(text, OperationCall("jobs", verb, it["job"], arguments))


def _of_schedule(text: str, *verbs: str) -> Callable[[Values], Hint]:
    def made(it: Values) -> Hint:
        tenant = {"tenant": it["tenant"]} if it["tenant"] else {}
        return Hint(
            text, *(OperationCall("schedules", verb, it["schedule"], tenant) for verb in verbs)
        )

    return made


_ARGUMENTS = "{} describes its arguments"


def described(job: str) -> Hint:
    return Hint(_ARGUMENTS, OperationCall("jobs", "get", job))


HINTS: dict[str, Callable[[Values], Hint]] = {
    "unknown_job": _always(
        "Jobs are registered when an application that declares them starts; {} lists them.",
        OperationCall("jobs", "list"),
    ),
    "schedule_not_found": lambda _: listed("schedules"),
    "limit_not_found": lambda _: listed("limits"),
    "watch_not_found": lambda _: listed("watches"),
    "job_has_schedules": _of_job(
        "Delete the schedules first, or with the job: {}.", "delete", cascade=True
    ),
    "job_has_open_runs": _of_job(
        "Wait until they end, or cancel them: {}.", "delete", cancel_open=True
    ),
    "payload_mismatch": _of_job(f"{_ARGUMENTS}.", "get"),
    "no_payload": _of_job(
        f"{_ARGUMENTS}; without a payload, the default payload of the job is used.", "get"
    ),
    "renamed_by_hand": _always(
        "{} renames it; or declare it under its new name with the old one among its aliases.",
        OperationCall("jobs", "rename"),
    ),
    "cap_out_of_range": _always("{} removes the cap.", None),
    "rate_without_period": _always(
        "For 100 runs per minute, set {} 100 and {} 60.", Name("cap"), Name("period_seconds")
    ),
    "key_seconds_out_of_range": _always("Pass forever to keep the key for ever."),
    "two_key_periods": _always(
        "{} counts from the event, {} from the end of each run.",
        Name("period_seconds", "key_period"),
        Name("key_seconds", "key_keep"),
    ),
    "too_many_events": _always(
        "Replay them in parts: narrow {} and {}.", Name("since"), Name("until")
    ),
    "next_time_infinite": _of_schedule(
        "To stop it, pause or disable it: {} or {}.", "pause", "disable"
    ),
    "next_time_past": _of_schedule("{} runs it now.", "trigger"),
}
