"""docs/reference/faces.md: which option and which field which face has, read from the code.

.venv/bin/python -m tests.docs.faces_table        writes the page
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields

from tests.docs.faces_data import (
    DOCS,
    EVENT_FACES,
    EVENT_OPTIONS,
    FIELDS_OF,
    IN_FORMS,
    JOB_FACES,
    JOB_OPTIONS,
    LIMIT_FACES,
    LIMIT_OPTIONS,
    RUN_FACES,
    RUN_OPTIONS,
    SCHEDULE_FACES,
    SCHEDULE_OPTIONS,
    TEMPLATES,
    Face,
    sql_columns,
)

PAGE = DOCS / "faces.md"
NOT_THERE = "–"
# `app.schedule(tenant=…)` is beside the arguments that are columns.
_SCHEDULED = {"tenant": "tenant"}


def shown_fields(thing: str) -> list[tuple[str, bool, bool, bool]]:
    """Field, and whether Python, SQL and a page have it."""
    kind, relation, templates = FIELDS_OF[thing]
    on_page = set(IN_FORMS.get(thing, ()))
    for template, name in templates.items():
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        on_page |= set(re.findall(rf"\b(?:{name})\.(\w+)", text))
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
    return [*rows, "", f"Errors: {'; '.join(refusals)}.", ""]


def _field_table(thing: str) -> list[str]:
    def mark(is_there: bool) -> str:
        return "yes" if is_there else NOT_THERE

    _, relation, _ = FIELDS_OF[thing]
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
        "# Options and fields by interface",
        "",
        "This page is generated from the code by `.venv/bin/python -m tests.docs.faces_table`.",
        "",
        "The interfaces of Rota are Python, SQL, the REST API, the command line and the dashboard."
        " A cell contains the name of the option",
        "in that interface. An option that an interface does not have (–) is rejected with the"
        " error below the table, never ignored.",
        "",
        "## Options of a run",
        "",
        "A value that `@app.job` declares applies to every run that is enqueued without that"
        " option, by any interface. The tenant of a schedule or an event",
        "takes precedence over the job's. A job with a `key` cannot have a schedule.",
        "",
        *_table("option", RUN_OPTIONS, RUN_FACES),
        "## Options of an event",
        "",
        *_table("option", EVENT_OPTIONS, EVENT_FACES),
        "## Settings of a job",
        "",
        *_table("setting", JOB_OPTIONS, JOB_FACES),
        "## Options of a schedule",
        "",
        "Exactly one of `cron`, `every`, `at` and `init` sets the timing; `template` is a cron"
        " expression by name. A schedule is changed by the same",
        "options: `app.schedules.update`, `rota schedules update` and the page “Edit schedule” have"
        " them too, except `tenant` and `template`.",
        "",
        *_table("option", SCHEDULE_OPTIONS, SCHEDULE_FACES),
        "## Settings of a limit",
        "",
        "A limit that code declares applies to the runs of its job. The others apply to a queue,"
        " jobs, a schedule, a tenant, or all runs.",
        "",
        *_table("setting", LIMIT_OPTIONS, LIMIT_FACES),
        "## Fields",
        "",
        "Python, the REST API and the command line (`--json`) have the same fields. In the last"
        " column, an empty cell means that the page",
        "shows the field in another form, such as a badge or a sentence, or not at all.",
        "",
    ]
    for thing in FIELDS_OF:
        lines += _field_table(thing)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
