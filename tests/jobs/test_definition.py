from __future__ import annotations

import functools
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from rota.config import Config
from rota.errors import JobError
from rota.jobs.definition import JobDefinition
from rota.model.backoff import Backoff

CONFIG = Config.load(env={}, runs={"backoff_base_seconds": 40, "backoff_jitter_seconds": 0})


def define(function: Any, **arguments: Any) -> JobDefinition:
    return JobDefinition.of(function, CONFIG, arguments)  # type: ignore[arg-type]


def tidy(days: int) -> None:
    """Remove what is old.

    And more.
    """


async def fetch(url: str) -> None: ...
def numbers() -> Iterator[int]:
    yield 1


async def stream() -> AsyncIterator[int]:
    yield 1


class Handler:
    def __call__(self) -> None: ...
    def method(self, n: int) -> None: ...


def test_what_the_function_says_itself() -> None:
    job = define(tidy)
    assert (job.name, job.description, job.executor) == ("tidy", "Remove what is old.", "thread")
    assert job.source.startswith("tests.jobs.test_definition:tidy (")
    assert job.source.endswith(f"test_definition.py:{tidy.__code__.co_firstlineno})")
    assert (define(fetch).executor, define(fetch).description) == ("async", "")


def test_what_the_declaration_says() -> None:
    job = define(
        tidy,
        name="cleanup.tidy",
        queue="slow",
        priority=0,
        timeout=timedelta(seconds=90),
        retry_on=OSError,
        give_up_on=[ValueError, KeyError],
        tags=["a"],
        metadata={"team": "x"},
        executor="process",
        description="other",
    )
    assert (job.name, job.queue, job.priority, job.timeout) == ("cleanup.tidy", "slow", 0, 90.0)
    assert (job.retry_on, job.give_up_on) == ((OSError,), (ValueError, KeyError))
    assert (job.tags, job.metadata, job.executor) == (("a",), {"team": "x"}, "process")


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (Handler, "a job must be a function"),
        (Handler(), "a job must be a function"),
        (functools.partial(tidy, 1), "a job must be a function"),
        (print, "written in Python"),
        (numbers, "is a generator"),
        (stream, "is a generator"),
        (5, "a job must be a function"),
    ],
)
def test_only_a_function_is_a_job(function: Any, problem: str) -> None:
    with pytest.raises(JobError, match=problem):
        define(function)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"name": ""}, "name must have 1 to 200"),
        ({"queue": 5}, "queue must be a string"),
        ({"priority": -1}, "priority must be"),
        ({"max_attempts": 101}, "max_attempts must be"),
        ({"timeout": 0}, "timeout must be"),
        ({"backoff": "cubic"}, "backoff kind"),
        ({"backoff": 5}, "backoff must be"),
        ({"retry_on": "OSError"}, "retry_on must be exception types"),
        ({"give_up_on": (OSError, 5)}, "give_up_on must be exception types"),
        ({"tags": "a"}, "tags must be a list"),
        ({"metadata": 5}, "metadata must be a mapping"),
        ({"executor": "fork"}, "executor must be one of async, thread, process"),
        ({"executor": "async"}, 'executor "async" needs an async def'),
        ({"retries": 5}, "unknown job option retries; choose from name, queue"),
    ],
)
def test_a_bad_argument_names_the_function_and_the_option(arguments: Any, problem: str) -> None:
    with pytest.raises(JobError, match=problem) as caught:
        define(tidy, **arguments)
    assert "tests.jobs.test_definition:tidy" in str(caught.value)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("expires_at", "a decorator takes expires_in"),
        ("run_at", "a decorator takes delay"),
        ("on_conflict", r"job\.options\(on_conflict=…\)"),
        ("max_attemps", r"did you mean max_attempts\?"),
        ("cron", r"schedules=\[rota\.cron\("),
        ("every", r"schedules=\[rota\.every\("),
    ],
)
@pytest.mark.parametrize("value", [None, 5])
def test_an_unknown_argument_comes_with_what_to_write(option: str, hint: str, value: Any) -> None:
    with pytest.raises(JobError, match=f"unknown job option {option}") as caught:
        define(tidy, **{option: value})
    assert re.search(hint, caught.value.hint or "")


def test_the_process_executor_needs_what_another_process_can_import() -> None:
    def local() -> None: ...

    for function in (local, Handler().method, lambda: None):
        with pytest.raises(JobError, match='executor "process"'):
            define(function, executor="process")
    assert define(fetch, executor="process").executor == "process"
    with pytest.raises(JobError, match='executor "thread" needs a def'):
        define(fetch, executor="thread")


def delay_of(job: JobDefinition, attempt: int = 1, **override: Any) -> float:
    stored = override.get("override")
    return job.policy(CONFIG, lambda: 0.0, stored).delay_after(attempt)


def test_the_backoff_of_a_job_or_the_configurations() -> None:
    assert delay_of(define(tidy)) == 40
    assert delay_of(define(tidy, backoff="fixed"), attempt=3) == 40, "its numbers too"
    assert delay_of(define(tidy, backoff=Backoff(base=1, jitter=0))) == 1
    assert delay_of(define(tidy, backoff=lambda attempt: attempt * 2), attempt=3) == 6
    assert delay_of(define(tidy, backoff=lambda attempt: timedelta(minutes=1))) == 60


def test_a_stored_override_beats_the_code() -> None:
    job = define(tidy, backoff=lambda attempt: 1)
    assert delay_of(job, override={"kind": "fixed", "base_seconds": 9, "jitter_seconds": 0}) == 9


def _raise(attempt: int) -> float:
    raise RuntimeError("broken")


@pytest.mark.parametrize("function", [_raise, lambda attempt: "x", lambda attempt: -1])
def test_a_broken_backoff_function_does_not_cost_the_retry(
    function: Callable[[int], Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "rota.jobs"):
        assert delay_of(define(tidy, backoff=function)) == 40
    assert "the default backoff is used" in caplog.text


def test_a_stored_override_that_makes_no_sense_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert delay_of(define(tidy, backoff=lambda attempt: 1), override={"kind": "cubic"}) == 1
    assert "stored backoff is ignored" in caplog.text


def test_which_errors_are_worth_a_retry() -> None:
    policy = define(tidy, retry_on=OSError, give_up_on=FileNotFoundError).policy(CONFIG, float)
    assert policy.allows_retry(OSError())
    assert not policy.allows_retry(FileNotFoundError())
    assert not policy.allows_retry(ValueError())
