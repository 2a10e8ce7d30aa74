"""docs/reference/faces.md: which option and which field which face has, read from the code.

.venv/bin/python -m tests.docs.faces_table        writes the page
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer.main

from rota.admin.job_changes import COLUMNS, JobChanges
from rota.api.schemas import jobs as job_schemas
from rota.api.schemas import runs as run_schemas
from rota.api.schemas.events import NewEvent
from rota.app import App
from rota.cli.program import program
from rota.jobs.job_arguments import JobArguments
from rota.jobs.options import OTHER_NAMES, OptionArguments
from rota.jobs.schedule_options import ScheduleArguments
from rota.model.job import JobInfo
from rota.model.occurrence import OccurrenceInfo
from rota.model.run import RunInfo
from rota.model.worker import WorkerInfo
from rota.web.job_form import FIELDS
from rota.web.pages.run_new import OPTIONS

DOCS = Path(__file__).parents[2] / "docs" / "reference"
PAGE = DOCS / "faces.md"
TEMPLATES = Path(__file__).parents[2] / "src" / "rota" / "web" / "templates"
SQL = (DOCS / "sql.md").read_text(encoding="utf-8")
NOT_THERE = "–"

# What the command line calls them.
_FLAGS = {"tags": "tag", "timeout": "attempt-timeout"}
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


def _command(path: str) -> Any:
    found: Any = typer.main.get_command(program())
    for name in path.split():
        found = found.commands[name]
    return found


def flags(path: str) -> set[str]:
    return {flag for one in _command(path).params for flag in one.opts}


def _flag(path: str) -> Callable[[str], str | None]:
    known = flags(path)

    def find(option: str) -> str | None:
        if option == "payload" and "--payload" not in known:
            return "JSON"
        flag = "--" + _FLAGS.get(option, option).replace("_", "-")
        short = "--" + option.replace("_", "-")
        return flag if flag in known else (short if short in known else None)

    return find


def sql_arguments(function: str) -> list[str]:
    found = re.search(rf"^rota\.{function}\((.*?)\) RETURNS", SQL, re.DOTALL | re.MULTILINE)
    assert found
    return [part.split()[0] for part in re.split(r",\s*", found[1].strip()) if part]


def sql_columns(relation: str) -> list[str]:
    found = re.search(rf"^## \w+ `rota\.{relation}`\n(.*?)(?=^## )", SQL, re.DOTALL | re.MULTILINE)
    assert found
    return re.findall(r"^\| `(\w+)` \|", found[1], re.MULTILINE)


def _emit_arguments() -> set[str]:
    code = App.emit.__code__
    return set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


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
        _among(ScheduleArguments.__annotations__, {"tags": "run_tags", "metadata": "run_metadata"}),
    ),
}  # fmt: skip
# `app.schedule(tenant=…)` is beside the arguments that are columns.
_SCHEDULED = {"tenant": "tenant"}

EVENT_OPTIONS = [
    "payload", "tenant", "key", "key_keep", "key_period", "metadata", "hook", "connection",
]  # fmt: skip
EVENT_FACES: dict[str, Face] = {
    "`app.emit`": ("TypeError", _among(_emit_arguments())),
    "`rota.emit` (SQL)": ("42883", _among(sql_arguments("emit"), _SECONDS | _PERIOD)),
    "`POST /events`": ("422", _among(NewEvent.model_fields, _SECONDS | _PERIOD)),
    "`rota events emit`": ("exit 2", _flag("events emit")),
}

# Settings of jobs.

JOB_OPTIONS = list(
    dict.fromkeys(name for name in (*JobArguments.__annotations__, *COLUMNS) if name != "payload")
)
_JOB_COLUMNS = {**COLUMNS, "enabled": "is_enabled"}
JOB_FACES: dict[str, Face] = {
    "`@app.job`": ("JobError", _among(JobArguments.__annotations__)),
    "`app.jobs.update`": ("JobError", _among(JobChanges.__annotations__)),
    "`rota.jobs` (SQL)": ("42703", _among(sql_columns("jobs"), _JOB_COLUMNS)),
    "`PATCH /jobs/{name}`": ("422", _among(job_schemas.JobChanges.model_fields, _JOB_COLUMNS)),
    "`rota jobs update`": ("exit 2", _flag("jobs update")),
    "page “Edit settings”": ("", _among(FIELDS)),
}

# Fields of what is shown.

FIELDS_OF: dict[str, tuple[Any, str, list[str], str]] = {
    "Job": (
        JobInfo,
        "jobs job_status",
        ["jobs/one.html", "jobs/list.html", "jobs/edit.html"],
        "job",
    ),
    "Run": (RunInfo, "runs", ["runs/one.html", "runs/list.html"], "run|one"),
    "Occurrence": (OccurrenceInfo, "occurrences", ["schedules/one.html"], "one"),
    "Worker": (WorkerInfo, "workers", ["workers/one.html", "workers/list.html"], "worker|one"),
}


def shown_fields(thing: str) -> list[tuple[str, bool, bool, bool]]:
    """Field, and whether Python, SQL and a page have it."""
    kind, relation, templates, name = FIELDS_OF[thing]
    text = "".join((TEMPLATES / one).read_text(encoding="utf-8") for one in templates)
    on_page = set(re.findall(rf"\b(?:{name})\.(\w+)", text))
    if thing == "Job":
        on_page |= set(COLUMNS.values())
    ours = [one.name for one in fields(kind)]
    relations = [sql_columns(one) for one in relation.split()]
    columns = [*relations[0], *(it for other in relations[1:] for it in other if it in ours)]
    return [
        (one, one in ours, one in columns, one in on_page)
        for one in [*ours, *(it for it in columns if it not in ours)]
    ]


def cell(face: str, option: str, find: Callable[[str], str | None]) -> str:
    if face == "`app.schedule`" and option in _SCHEDULED:
        return f"`{_SCHEDULED[option]}`"
    called = find(option)
    return NOT_THERE if called is None else f"`{called}`"


def _table(first: str, options: list[str], faces: dict[str, Face]) -> list[str]:
    rows = [f"| {first} | {' | '.join(faces)} |", "|---" * (len(faces) + 1) + "|"]
    for one in options:
        cells = [cell(face, one, find) for face, (_, find) in faces.items()]
        rows.append(f"| `{one}` | {' | '.join(cells)} |")
    refusals = [f"{face}: {error}" for face, (error, _) in faces.items() if error]
    return [*rows, "", f"Refusals: {'; '.join(refusals)}.", ""]


def _field_table(thing: str) -> list[str]:
    def mark(is_there: bool) -> str:
        return "yes" if is_there else NOT_THERE

    _, relation, _, _ = FIELDS_OF[thing]
    where = ", ".join(f"`rota.{one}`" for one in relation.split())
    rows = [
        f"### {thing}", "", f"| field | Python, REST, `--json` | {where} (SQL) | page |",
        "|---|---|---|---|",
    ]  # fmt: skip
    rows += [
        f"| `{one}` | {mark(ours)} | {mark(sql)} | {'yes' if page else ''} |"
        for one, ours, sql, page in shown_fields(thing)
    ]
    return [*rows, ""]


def page() -> str:
    lines = [
        "# Options and fields on every face",
        "",
        "This page is made from the code: `.venv/bin/python -m tests.docs.faces_table` writes it.",
        "",
        "A cell holds what the face calls the option. An option that a face does not have (–) is"
        " refused there with the error",
        "below the table; it is never ignored. A page of the dashboard offers what its column"
        " names.",
        "",
        "## Options of a run",
        "",
        "What `@app.job` declares holds for every run that is enqueued without that option, however"
        " it is enqueued. The tenant of a schedule or an event",
        "counts before the job's. A job with a `key` cannot have a schedule.",
        "",
        *_table("option", RUN_OPTIONS, RUN_FACES),
        "## Options of an event",
        "",
        *_table("option", EVENT_OPTIONS, EVENT_FACES),
        "## Settings of a job",
        "",
        *_table("setting", JOB_OPTIONS, JOB_FACES),
        "## Fields",
        "",
        "Python, the REST API and the command line (`--json`) show the same fields. In the last"
        " column, an empty cell means that the page",
        "shows the field in other words, such as a badge or a sentence, or not at all.",
        "",
    ]
    for thing in FIELDS_OF:
        lines += _field_table(thing)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
