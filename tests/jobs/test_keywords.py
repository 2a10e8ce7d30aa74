"""What type checkers know of keywords is what is taken at run time."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from rota.jobs import job_arguments, job_settings, options
from rota.model import schedule_fields

OF_ONE_ENQUEUE = set(options.NO_OPTIONS.__dataclass_fields__)
OF_SCHEDULES = {*schedule_fields.schedule_settings(), *schedule_fields.SHORT_NAMES}


@pytest.mark.parametrize(
    ("known", "taken"),
    [
        (job_arguments.JobKeywords, {*job_arguments.CHECKS, *job_arguments.OTHER_NAMES}),
        (options.OptionKeywords, {*OF_ONE_ENQUEUE, *options.OTHER_NAMES}),
        (schedule_fields.ScheduleKeywords, OF_SCHEDULES),
        (
            job_settings.JobChangeKeywords,
            {*job_settings.job_settings(), *job_settings.SHORT_NAMES},
        ),
    ],
)
def test_checkers_know_every_name(known: Any, taken: set[str]) -> None:
    assert set(known.__annotations__) == taken


def test_timings_know_the_arguments_of_schedules_and_a_name() -> None:
    named = {"cron", "every", "at", "init", "timezone", "gap", "fold", "with_seconds", "every_from"}
    named |= {"interval_seconds", "run_at", "has_seconds"}
    assert set(schedule_fields.PolicyKeywords.__annotations__) == OF_SCHEDULES - named | {"name"}


@pytest.mark.parametrize(
    ("given", "is_enabled"),
    [
        ({}, True),
        ({"enabled": None}, True),
        ({"enabled": False}, False),
        ({"is_enabled": False}, False),
        ({"is_enabled": True}, True),
    ],
)
def test_a_timing_is_enabled_unless_it_says_no(given: Any, is_enabled: bool) -> None:
    assert rota.every(60, **given).columns["is_enabled"] is is_enabled
