"""What docs/reference/faces.md tells, read from the code: options and fields, and what each face
calls them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import typer.main

import rota
from rota.api.schemas import runs as run_schemas
from rota.app import App
from rota.cli.program import program
from rota.jobs.job_arguments import JobArguments
from rota.jobs.job_settings import SHORT_NAMES, SQL_ONLY, job_settings
from rota.jobs.options import OTHER_NAMES, OptionArguments
from rota.model.event import EventInfo
from rota.model.fields import arguments_of, settings_of
from rota.model.job import JobInfo
from rota.model.limit import LimitChanges, LimitInfo
from rota.model.occurrence import OccurrenceInfo
from rota.model.queue import QueueInfo
from rota.model.run import RunInfo
from rota.model.schedule_fields import PolicyKeywords, schedule_settings
from rota.model.schedule_info import ScheduleInfo
from rota.model.worker import WorkerInfo
from rota.operations.registry import commands_of, operations_of, plan_of
from rota.web.pages.run_new import OPTIONS
from rota.web.schedule_form import FIELDS as SCHEDULE_FORM

DOCS = Path(__file__).parents[2] / "docs" / "reference"
TEMPLATES = Path(__file__).parents[2] / "src" / "rota" / "web" / "templates"
SQL = (DOCS / "sql.md").read_text(encoding="utf-8")

# What the command line calls them.
_FLAGS = {
    "function": "sql",
    "timeout": "attempt-timeout",
    "period_seconds": "period",
}  # fmt: skip
_SECONDS = {short: other for other, short in OTHER_NAMES.items()}
_PERIOD = {"key_period": "period_seconds"}
Face = tuple[str, Callable[[str], str | None]]


def _among(names: Iterable[str], others: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """What a face calls an option; None: it has none."""
    known = set(names)

    def find(option: str) -> str | None:
        called = (others or {}).get(option, option)
        return called if called in known else (option if option in known else None)

    return find


def _names_of(many: str, verb: str) -> set[str]:
    """The arguments of a declared operation."""
    return {one.name for one in arguments_of(plan_of(commands_of(many), verb))}


def _command(path: str) -> Any:
    found: Any = typer.main.get_command(program())
    for name in path.split():
        found = found.commands[name]
    return found


def flags(path: str) -> set[str]:
    return {flag for one in _command(path).params for flag in one.opts}


def _flag(path: str) -> Callable[[str], str | None]:
    command = _command(path)
    known = {flag for one in command.params for flag in one.opts}

    def find(option: str) -> str | None:
        if option == "payload" and "--payload" not in known:
            return "JSON"
        flag = "--" + _FLAGS.get(option, option).replace("_", "-")
        short = "--" + option.removesuffix("_seconds").replace("_", "-")
        shown = next((it.metavar for it in command.params if it.name == option), None)
        return next((one for one in (flag, short) if one in known), shown)

    return find


def sql_arguments(function: str) -> list[str]:
    found = re.search(rf"^rota\.{function}\((.*?)\) RETURNS", SQL, re.DOTALL | re.MULTILINE)
    assert found
    return [part.split()[0] for part in re.split(r",\s*", found[1].strip()) if part]


def sql_columns(relation: str) -> list[str]:
    found = re.search(rf"^## \w+ `rota\.{relation}`\n(.*?)(?=^## )", SQL, re.DOTALL | re.MULTILINE)
    assert found
    return re.findall(r"^\| `(\w+)` \|", found[1], re.MULTILINE)


def _of(function: Callable[..., Any]) -> set[str]:
    """Its parameters by name."""
    found = inspect.signature(function).parameters.values()
    return {one.name for one in found if one.kind is not inspect.Parameter.VAR_KEYWORD}


def _form(template: str) -> set[str]:
    """What the fields of a page are called."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    return set(re.findall(r"""(?:name=|\bfield\()"(\w+)\"""", text))


def _timings() -> set[str]:
    """What `rota.cron`, `rota.every`, … take beside the policies; the first is the timing."""
    rest = {
        name
        for one in (rota.cron, rota.every, rota.once, rota.on_start)
        for name in list(inspect.signature(one).parameters)[1:]
    }
    return {"cron", "every", "at", "init", *rest} - {"policies"}


# Options of runs.

RUN_OPTIONS = ["payload", *OptionArguments.__annotations__]
RUN_FACES: dict[str, Face] = {
    "`@app.job`": (
        "JobError",
        _among(JobArguments.__annotations__, {"payload": "default_payload"}),
    ),
    "`job.options`": (
        "UnknownOption",
        _among({*OptionArguments.__annotations__, "arguments"}, {"payload": "arguments"}),
    ),
    "`app.runs.enqueue`": ("UnknownOption", _among(RUN_OPTIONS)),
    "`rota.enqueue` (SQL)": ("42883", _among(sql_arguments("enqueue"), _SECONDS)),
    "`POST /runs`": ("422", _among(run_schemas.NewRun.model_fields, _SECONDS)),
    "`rota runs enqueue`": ("exit 2", _flag("runs enqueue")),
    "page “Enqueue a run”": ("", _among({*OPTIONS, "payload"})),
    "`app.schedule`": (
        "TimingError",
        _among(
            {*schedule_settings()} - {"run_at"},
            {"tags": "run_tags", "metadata": "run_metadata", "timeout": "timeout_seconds"},
        ),
    ),
}  # fmt: skip
EVENT_OPTIONS = [
    "payload", "tenant", "key", "key_keep", "key_period", "metadata", "hook", "connection",
]  # fmt: skip
EVENT_FACES: dict[str, Face] = {
    "`app.emit`": ("TypeError", _among(_of(App.emit))),
    "`rota.emit` (SQL)": ("42883", _among(sql_arguments("emit"), _SECONDS | _PERIOD)),
    "`POST /events`": ("422", _among(_names_of("events", "emit"), _SECONDS | _PERIOD)),
    "`rota events emit`": ("exit 2", _flag("events emit")),
}

# Settings of jobs.

JOB_OPTIONS = list(
    dict.fromkeys(
        name
        for name in (*JobArguments.__annotations__, "event_filters", "function", *SQL_ONLY[1:])
        if name != "payload"
    )
)
_JOB_COLUMNS = {**SHORT_NAMES, "enabled": "is_enabled"}
_SETTINGS = {*job_settings(), *SHORT_NAMES}
JOB_FACES: dict[str, Face] = {
    "`@app.job`": ("JobError", _among(JobArguments.__annotations__)),
    "`app.jobs.update`": ("JobError", _among(_SETTINGS)),
    "`rota.jobs` (SQL)": ("42703", _among(sql_columns("jobs"), _JOB_COLUMNS)),
    "`PATCH /jobs/{name}`": ("422", _among(job_settings(), _JOB_COLUMNS)),
    "`rota jobs update`": ("exit 2", _flag("jobs update")),
    "page “Edit settings”": ("", _among(_SETTINGS)),
}

# Options of schedules.

# What `rota.cron` and the others call the timing.
_TIMINGS = {"interval_seconds": "every", "run_at": "at", "has_seconds": "with_seconds"}

_SCHEDULES = {one.verb: one for one in operations_of(commands_of("schedules"))}
SCHEDULE_OPTIONS = ["job", "template", "tenant", *schedule_settings()]


def _arguments(verb: str) -> set[str]:
    return {one.name for one in _SCHEDULES[verb].arguments}


SCHEDULE_FACES: dict[str, Face] = {
    "`rota.cron` … in `@app.job`": (
        "JobError",
        _among({*PolicyKeywords.__annotations__, *_timings()} - {"name"}, _TIMINGS),
    ),
    "`app.schedule`": ("TimingError", _among({*_of(App.schedule), *schedule_settings()})),
    "`app.schedules.create`": ("TimingError", _among(_arguments("create"))),
    "`rota.schedules` (SQL)": ("42703", _among(sql_columns("schedules"))),
    "`POST /schedules`": ("422", _among(_arguments("create"))),
    "`PATCH /schedules/{name}`": ("422", _among(_arguments("update") - {"tenant"})),
    "`rota schedules create`": ("exit 2", _flag("schedules create")),
    "page “New schedule”": (
        "", _among({*SCHEDULE_FORM, "has_seconds", *_form("schedules/edit.html")})
    ),
}  # fmt: skip

_LIMIT_FIELDS = [one.name for one in settings_of(LimitChanges)]
# Options of limits.

LIMIT_OPTIONS = ["tenant", *LimitChanges.__annotations__]
_DECLARED = {"period_seconds": "per", "next_after": "after"}
LIMIT_FACES: dict[str, Face] = {
    f"`rota.{one.__name__}`": ("TypeError", _among(_of(one), _DECLARED))
    for one in (rota.concurrency, rota.rate, rota.sequence)
} | {
    "`app.limits.set`": ("LimitError", _among({"tenant", *LimitChanges.__annotations__})),
    "`rota.set_limit` (SQL)": (
        "RO017",
        _among({"tenant", *(set(sql_columns("limits")) & set(LimitChanges.__annotations__))}),
    ),
    "`PUT /limits/{name}`": ("422", _among({*_LIMIT_FIELDS, "tenant"})),
    "`rota limits set`": ("exit 2", _flag("limits set")),
    "page “New limit”": (
        "",
        _among({*_LIMIT_FIELDS, "tenant"}),
    ),
}

# Fields of what is shown.

# The class, the relations of SQL, and the templates, each with what it calls the thing.
FIELDS_OF: dict[str, tuple[Any, str, dict[str, str]]] = {
    "Job": (
        JobInfo,
        "jobs job_status",
        {"jobs/one.html": "job", "jobs/list.html": "job", "jobs/edit.html": "job"},
    ),
    "Run": (RunInfo, "runs", {"runs/one.html": "run|one", "runs/list.html": "run|one"}),
    "Schedule": (
        ScheduleInfo,
        "schedules schedule_status",
        {"schedules/one.html": "schedule", "schedules/list.html": "one"},
    ),
    "Occurrence": (OccurrenceInfo, "occurrences", {"schedules/one.html": "one"}),
    "Queue": (QueueInfo, "queues", {"queues/one.html": "queue", "queues/list.html": "one"}),
    "Limit": (LimitInfo, "limits", {"limits/one.html": "limit", "limits/list.html": "one"}),
    "Event": (EventInfo, "events", {"events/one.html": "one", "events/list.html": "one"}),
    "Worker": (
        WorkerInfo,
        "workers",
        {"workers/one.html": "worker|one", "workers/list.html": "worker|one"},
    ),
}
# What the forms show beside.
IN_FORMS = {
    "Job": set(job_settings()),
    "Schedule": set(SCHEDULE_FORM),
    "Limit": set(_LIMIT_FIELDS),
}
