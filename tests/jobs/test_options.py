from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rota.errors import InputError, UnknownOption
from rota.jobs.options import NO_OPTIONS, Options
from rota.model.backoff import Backoff

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def options(**given: Any) -> Options:
    return NO_OPTIONS.merge(given, Backoff(base=7)).check_whole()  # type: ignore[arg-type]


def test_none_means_not_given() -> None:
    assert options(queue=None, delay=None) == NO_OPTIONS
    assert set(NO_OPTIONS.parameters.values()) == {None}


def test_later_options_win_and_the_others_stay() -> None:
    merged = options(queue="a", priority=1).merge({"priority": 0})
    assert (merged.queue, merged.priority) == ("a", 0)


@pytest.mark.parametrize(
    ("given", "name", "expected"),
    [
        ({"delay": timedelta(minutes=1)}, "delay", 60.0),
        ({"delay": 0}, "delay", 0.0),
        ({"timeout": 1.5}, "timeout_seconds", 1.5),
        ({"run_at": NOON}, "run_at", "2026-01-02T12:00:00+00:00"),
        (
            {"expires_at": NOON.astimezone(timezone(timedelta(hours=2)))},
            "expires_at",
            "2026-01-02T14:00:00+02:00",
        ),
        ({"key": "k", "key_keep": "forever"}, "key_seconds", float("inf")),
        ({"key": "k", "key_keep": timedelta(days=1)}, "key_seconds", 86_400.0),
        ({"key": "k", "key_keep": 0}, "key_seconds", 0.0),
        ({"tags": ("a", "b")}, "tags", ["a", "b"]),
        ({"tags": []}, "tags", []),
        ({"metadata": {"at": NOON}}, "metadata", '{"at":"2026-01-02T12:00:00Z"}'),
        ({"tenant": ""}, "tenant", ""),
    ],
)
def test_a_value_as_the_database_gets_it(given: Any, name: str, expected: Any) -> None:
    assert options(**given).parameters[name] == expected


def test_a_kind_of_backoff_takes_its_numbers_from_the_job() -> None:
    assert options(backoff="fixed").backoff == Backoff(kind="fixed", base=7)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"priority": 10}, "priority must be a whole number from 0 to 9, not 10"),
        ({"priority": True}, "priority"),
        ({"priority": "1"}, "priority"),
        ({"max_attempts": 0}, "max_attempts must be a whole number from 1 to 100"),
        ({"timeout": 0}, "timeout must be a duration"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": 10**400}, "timeout"),
        ({"delay": "soon"}, "delay"),
        ({"delay": -5}, "delay must be a duration from 0 to"),
        ({"delay": timedelta(seconds=-1)}, "delay must be"),
        ({"delay": 1e12}, "delay"),
        ({"run_at": datetime(2026, 1, 2)}, "run_at .* has no time zone"),  # noqa: DTZ001
        ({"run_at": 5}, "run_at must be a datetime"),
        ({"expires_at": 60}, "expires_at must be a datetime"),
        ({"run_at": NOON, "delay": 1}, "run_at and delay cannot be combined"),
        ({"key": ""}, "key must have 1 to 400 characters"),
        ({"key": "x" * 401}, "key"),
        ({"key": "a\0"}, "key contains a NUL"),
        ({"key": "\ud800"}, "key .* is not valid Unicode"),
        ({"key_keep": 5}, "key_keep needs a key"),
        ({"on_conflict": "raise"}, "on_conflict needs a key"),
        ({"key": "k", "on_conflict": "skip"}, "on_conflict must be one of return, raise, replace"),
        ({"key": "k", "key_keep": "always"}, "key_keep"),
        ({"key": "k", "on_conflict": "debounce"}, "debounce needs a delay"),
        ({"key": "k", "on_conflict": "throttle"}, "throttle needs key_keep"),
        ({"queue": "q" * 101}, "queue must have 1 to 100"),
        ({"tags": "abc"}, "tags must be a list of strings"),
        ({"tags": [1]}, "each of tags must be a string"),
        ({"metadata": [1]}, "metadata must be a mapping"),
        ({"backoff": lambda attempt: 1}, "declare it on the job"),
        ({"backoff": "cubic"}, "backoff kind must be one of"),
    ],
)
def test_a_bad_value_is_refused_when_it_is_given(given: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        options(**given)


def test_metadata_that_json_cannot_say_is_refused() -> None:
    with pytest.raises(InputError, match="metadata cannot be stored as JSON"):
        _ = options(metadata={"x": object()}).parameters


def test_an_unknown_option_suggests_the_near_one() -> None:
    with pytest.raises(UnknownOption, match="unknown enqueue option prioriti") as caught:
        options(prioriti=1)
    assert caught.value.hint == "did you mean priority?"
