"""The settings of a record as the inputs of a form, and back: fields are read from their
declarations. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rota.errors import InputError
from rota.jobs.job_settings import SQL_ONLY, job_settings
from rota.model.fields import Argument
from rota.model.job import JobInfo
from rota.web.operations import text_of
from rota.web.words import refusal


def settings_of_job(job: JobInfo) -> list[Argument]:
    is_sql = job.kind == "sql"
    return [one for one in job_settings().values() if is_sql or one.name not in SQL_ONLY]


def texts_of(record: Any, settings: Iterable[Argument]) -> dict[str, str]:
    """Return the stored values as the texts of the inputs."""
    return {one.name: text_of(one, getattr(record, one.name)) for one in settings}


def read_changes(
    given: Mapping[str, str], before: Mapping[str, str], settings: Iterable[Argument]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the changes since the form was shown, and the problems by field."""
    changes: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for one in settings:
        text = _plain(given.get(one.name, before[one.name]))
        if text == _plain(before[one.name]):
            continue
        try:
            changes[one.name] = _read(one, text)
        except InputError as error:
            wrong[one.name] = refusal(error)
    return changes, wrong


def _read(one: Argument, text: str) -> Any:
    """An empty input is no value; an empty object, where there has to be one."""
    if not text and one.is_optional:
        return None
    return {} if not text and one.kind == "object" else one.parse(text)


def _plain(text: str) -> str:
    """Normalize line ends: forms send CR LF."""
    return text.replace("\r\n", "\n").strip()
