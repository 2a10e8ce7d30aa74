from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from rota.cli.workers import worker
from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]
DAILY = ("--cron", "0 8 * * *", "--timezone", "Europe/Paris")


@pytest.fixture
def jobs(make_app: Any, conn: Connection) -> rota.App:
    app: rota.App = make_app()

    @app.job
    async def send(user_id: int = 1) -> None: ...

    assert app.database.url
    conn.execute("SELECT rota.set_clock('2026-03-02T12:00:00Z')")
    return app


@pytest.fixture
def made(cli: Cli, jobs: rota.App) -> Cli:
    cli.done("schedules", "create", "digest", "send", *DAILY)
    return cli


def failed(cli: Cli, *arguments: object) -> str:
    """Not found, or the wrong state."""
    code, out, err = cli("schedules", *arguments)
    assert (code, out) == (1, "")
    return err


def misused(cli: Cli, *arguments: object) -> str:
    code, out, err = cli("schedules", *arguments)
    assert (code, out) == (2, "")
    return err


def test_nothing_to_list(cli: Cli) -> None:
    assert (
        cli.done("schedules", "list").err
        == "no schedules; create one with `rota schedules create`\n"
    )
    for narrowed in (("--job", "x"), ("--tag", "x"), ("--state", "paused"), ("--metadata", "a:1")):
        assert cli.done("schedules", "list", *narrowed).err == "no schedules match\n"
    assert cli.done("schedules", "list", "--json").json == []
    assert cli.done("calendars", "list").err == "no calendars\n"
    assert "is not a choice" in misused(cli, "list", "--state", "eaten")


def test_create_list_and_show(cli: Cli, jobs: rota.App, conn: Connection) -> None:
    result = cli.done(
        "schedules", "create", "digest", "send", *DAILY, "--payload",
        '{"user_id": 7}', "--no-is-enabled", "--tags", "a,b", "--timeout", "5m",
        "--overlap", "queue_one",
    )  # fmt: skip
    assert result.out == 'schedule "digest" created: every day at 08:00 (Europe/Paris)\n'
    (found,) = cli.done("schedules", "list", "--tag", "b", "--json").json
    assert (found["state"], found["payload"], found["timeout_seconds"]) == (
        "disabled", {"user_id": 7}, 300,
    )  # fmt: skip
    assert "every day at 08:00" in cli.done("schedules", "list").out
    text = cli.done("schedules", "show", "digest").out
    assert "queue_one" in text
    assert "cli:alice" not in text
    assert re.search(r"^state +disabled$", text, re.MULTILINE)
    assert cli.done("schedules", "show", "digest", "--json").json["name"] == "digest"
    assert "did you mean digest?" in failed(cli, "show", "digset")
    row = conn.execute("SELECT actor, action FROM rota.audit ORDER BY id DESC LIMIT 1").fetchone()
    assert row == ("cli:alice", "schedule.created")


def test_list_by_metadata(made: Cli) -> None:
    for name, metadata in (("a", '{"team": "growth", "sla": 2}'), ("b", '{"team": "core"}')):
        made.done(
            "schedules", "create", name, "send", "--interval", "1h",
            "--metadata", metadata,
        )  # fmt: skip

    def names(*flags: str) -> list[str]:
        return [it["name"] for it in made.done("schedules", "list", *flags, "--json").json]

    assert names("--metadata", "team:growth") == ["a"]
    assert names("--metadata", "team:growth", "--metadata", "sla:2") == ["a"]
    assert names("--metadata", "team:growth", "--metadata", "sla:3") == []
    assert "is not KEY:VALUE" in misused(made, "list", "--metadata", "team")


def test_the_audit_keeps_why(made: Cli, conn: Connection) -> None:
    made.done("schedules", "update", "digest", "--priority", "1", "--reason", "migration")
    last = "SELECT action, reason FROM rota.audit ORDER BY id DESC LIMIT 1"
    assert conn.execute(last).fetchone() == ("schedule.updated", "migration")


def test_a_time_without_offset_is_the_schedules(made: Cli) -> None:
    made.done(
        "schedules", "create", "once", "send", "--run-at", "2027-07-01T09:00",
        "--timezone", "Europe/Paris",
    )  # fmt: skip
    found = made.done("schedules", "show", "once", "--json").json
    assert found["run_at"] == "2027-07-01T07:00:00Z"


def test_list_pages(made: Cli) -> None:
    made.done("schedules", "create", "later", "send", "--interval", "1d")
    page = made.done("schedules", "list", "--limit", 1)
    assert "1 shown; next page: --after " in page.err
    rest = made.done("schedules", "list", "--after", page.err.split()[-1], "--json").json
    assert [one["name"] for one in rest] == ["later"]
    assert made("schedules", "list", "--limit", 0).code == 2


def test_update(made: Cli) -> None:
    made.done("schedules", "create", "first", "send", "--interval", "1d")
    made.done("schedules", "update", "digest", "--max-runs", 5, "--requires", "first:1h")
    out = made.done("schedules", "update", "digest", "--interval", "90s", "--max-runs", "none").out
    assert out.startswith('schedule "digest" updated: every ')
    found = made.done("schedules", "show", "digest", "--json").json
    assert found["requires"] == [{"name": "first", "within_seconds": 3600}]
    assert "first:1h" in made.done("schedules", "show", "digest").out
    assert (found["cron"], found["interval_seconds"], found["max_runs"]) == (None, 90, None)
    assert "has changed" in failed(made, "update", "digest", "--interval", "5m", "--version", "99")
    assert "nothing to update" in misused(made, "update", "digest")
    assert "no schedule" in failed(made, "update", "none", "--interval", "5m")


def test_repeated_flags_are_all_read(made: Cli) -> None:
    for name in ("a", "b", "c"):
        made.done("schedules", "create", name, "send", "--interval", "1d", "--tags", name)
    given = ("--requires", "a:1h", "--requires", "b,c", "--tags", "p", "--tags", "q,r")
    made.done("schedules", "update", "digest", *given)
    found = made.done("schedules", "show", "digest", "--json").json
    assert found["requires"] == [
        {"name": "a", "within_seconds": 3600}, {"name": "b"}, {"name": "c"},
    ]  # fmt: skip
    assert found["tags"] == ["p", "q", "r"]
    made.done("schedules", "update", "digest", "--tags", "none")


def test_zero_is_shown(made: Cli) -> None:
    zeros = ("--priority", "0", "--grace", "0", "--catch-up-window", "0")
    made.done("schedules", "update", "digest", *zeros)
    shown = made.done("schedules", "show", "digest").out
    assert re.findall(r"^(priority|grace period|catch-up, maximum age) +(.*)$", shown, re.M) == [
        ("catch-up, maximum age", "0 ms"),
        ("grace period", "0 ms"),
        ("priority", "0"),
    ]
    assert "jitter" not in shown


def test_catch_up(made: Cli) -> None:
    """There `none` is a choice; elsewhere it clears."""

    def changed(*flags: str) -> tuple[object, object]:
        made.done("schedules", "update", "digest", *flags)
        shown = made.done("schedules", "show", "digest", "--json").json
        return shown["catch_up"], shown["catch_up_window_seconds"]

    assert changed("--catch-up", "none") == ("none", None)
    assert changed("--catch-up", "all", "--catch-up-window", "2h") == ("all", 7200)
    shown = made.done("schedules", "show", "digest").out
    assert re.search(r"^catch-up, maximum age +2 h$", shown, re.MULTILINE)
    assert changed("--catch-up-window", "none") == ("all", None)


def test_trigger_and_reschedule(made: Cli) -> None:
    assert "enqueued run" in made.done("schedules", "trigger", "digest").out
    answer = made.done("schedules", "trigger", "digest", "--payload", '{"user_id": 9}', "--json")
    run_id = answer.json[0]["result"]["run_id"]
    run = made.done("runs", "show", run_id, "--json").json["run"]
    assert run["payload"] == {"user_id": 9}
    assert "not JSON" in misused(made, "trigger", "digest", "--payload", "{")
    told = made.done("schedules", "reschedule", "digest", "--at", "30m").out
    assert told.startswith('schedule "digest" runs next at 2026-03-02 12:30:0')
    (first, _) = made.done("schedules", "preview", "digest", "--count", 2, "--json").json
    assert first["note"] == "set by an operator"
    assert "future" in misused(made, "reschedule", "digest", "--at", "2020-01-01T00:00:00Z")
    assert "no schedule" in failed(made, "reschedule", "none", "--at", "5m")
    assert made("schedules", "reschedule", "digest").code == 2


def test_preview_of_an_unsaved_timing_needs_no_database(bare_cli: Cli) -> None:
    flags = ("--cron", "30 2 * * *", "--timezone", "America/New_York")
    window = ("--after", "2026-03-07T12:00:00Z")
    rows = bare_cli.done("schedules", "preview", *flags, *window, "--count", 2, "--json").json
    assert rows[0] | {"note": ""} == {
        "at": "2026-03-08T07:00:00Z", "local": "2026-03-08T03:00:00-04:00", "viewer_local": None,
        "note": "", "is_skipped": False,
    }  # fmt: skip
    assert "does not exist" in rows[0]["note"]
    skip = bare_cli.done(
        "schedules", "preview", *flags, *window, "--gap", "skip", "--until",
        "2026-03-09T12:00:00Z", "--json",
    )  # fmt: skip
    assert [row["at"] for row in skip.json] == ["2026-03-09T06:30:00Z"]
    assert "does not exist" in bare_cli.done("schedules", "preview", *flags, *window).out
    assert "is not a choice" in misused(bare_cli, "preview", *flags, *window, "--gap", "perhaps")
    assert "Mars" in misused(
        bare_cli, "preview", "--cron", "* * * * *", "--timezone", "Mars", *window
    )


def test_preview_of_a_schedule(made: Cli) -> None:
    rows = made.done(
        "schedules", "preview", "digest", "--display-timezone", "Asia/Tokyo", "--json"
    ).json
    assert len(rows) == 10
    assert rows[0]["viewer_local"] == "2026-03-03T16:00:00+09:00"
    assert "no schedule" in failed(made, "preview", "none")
    assert "not both" in misused(made, "preview", "digest", "--interval", "5m")


def test_backfill(made: Cli) -> None:
    arguments = ("schedules", "backfill", "digest", "--from-at", "3d")
    dry = made.done(*arguments, "--dry-run")
    assert dry.out.endswith("backfilled: 3 runs would be enqueued\n")
    (told,) = made.done(*arguments, "--rate", 60, "--priority", 9, "--json").json
    done = told["result"]
    assert len(done["run_ids"]) == 3
    assert "3 already ran" in made.done(*arguments).out
    made.done("schedules", "create", "often", "send", "--interval", "1h")
    long = made.done("schedules", "backfill", "often", "--from-at", "3d", "--dry-run")
    assert len(long.out.splitlines()) == 52
    assert "… and 22 more, up to 2026-03-02 1" in long.err
    assert long.out.endswith("72 runs would be enqueued\n")
    assert "before it starts" in misused(
        made, "backfill", "digest", "--from-at", "1d", "--until-at", "2d"
    )
    assert "must be a time" in misused(made, "backfill", "digest", "--from-at", "x")
    assert "no schedule" in failed(made, "backfill", "none", "--from-at", "1d")


def test_history(made: Cli, conn: Connection) -> None:
    assert made.done("schedules", "history", "digest").err == "no entries\n"
    conn.execute("SELECT rota.ensure_partitions('2026-02-23', '2026-03-09')")
    for day in (1, 2):
        conn.execute(
            """INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason,
                   tenant, schedule, claimed_at, decided_at)
               SELECT id, %(at)s, %(at)s, 'skipped', 'overlap', '', name, rota.now(), rota.now()
               FROM rota.schedules""",
            {"at": f"2026-03-0{day}T07:00:00Z"},
        )
    page = made.done("schedules", "history", "digest", "--limit", 1)
    assert "overlap" in page.out
    assert "1 shown; next page: --after " in page.err
    rest = made.done("schedules", "history", "digest", "--after", page.err.split()[-1], "--json")
    assert [one["nominal_at"] for one in rest.json] == ["2026-03-01T07:00:00Z"]
    until = ("--until", "2026-03-02T07:00:00Z", "--json")
    assert made.done("schedules", "history", "digest", *until).json == rest.json
    oldest = made.done("schedules", "history", "digest", "--order", "oldest", "--json").json
    assert [one["nominal_at"][:10] for one in oldest] == ["2026-03-01", "2026-03-02"]
    assert made.done("schedules", "history", "digest", "--since", "1h", "--json").json == []
    assert "choose from ran" in misused(made, "history", "digest", "--decision", "eaten")


def test_simulate(made: Cli) -> None:
    for number in range(5):
        made.done("schedules", "create", f"n{number}", "send", "--cron", "0 0 * * *")
    text = made.done("schedules", "simulate", "--days", 2).out
    assert "12 runs in the next 2 days" in text
    assert "5 at 00:00 on 2 days: n0, n1, n2, n3, n4" in text
    assert "--jitter" in text
    assert "█" in text
    load = made.done("schedules", "simulate", "--days", 1, "--json").json
    assert load["pile_ups"][0]["count"] == 5
    assert made("schedules", "simulate", "--days", 99).code == 2
    assert "Mars" in misused(made, "simulate", "--display-timezone", "Mars")


def test_templates(cli: Cli, jobs: rota.App) -> None:
    assert "Weekdays 9 AM" in cli.done("templates", "list").out
    (told,) = cli.done("templates", "set", "Tea", "0 17 * * *", "--json").json
    assert told["result"]["cron"] == "0 17 * * *"
    assert "Tea" in [it["name"] for it in cli.done("templates", "list", "--json").json]
    cli.done("schedules", "create", "t", "send", "--template", "Tea")
    assert cli.done("templates", "remove", "Tea").out == 'template "Tea" removed\n'
    assert cli("templates", "remove", "Tea").code == 1


def test_a_name_is_taken_as_an_option_too(cli: Cli, jobs: rota.App) -> None:
    cli.done("calendars", "create", "--definition", "{}", "--name", "de")
    assert cli.done("calendars", "show", "de", "--json").json["name"] == "de"
    assert "--name" not in cli.done("calendars", "create", "--help").out


def test_a_worker_may_leave_schedules_to_others(
    cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "quiet.py").write_text("import rota\napp = rota.App()\n")
    seen: list[rota.Config] = []
    monkeypatch.setattr(worker, "run_worker", lambda app, config, reference: seen.append(config))
    monkeypatch.setattr(
        worker, "run_processes", lambda app, config, name, given: seen.append(config)
    )
    for flags in ((), ("--no-scheduler",), ("--no-scheduler", "--processes", "2")):
        cli.done("worker", "--app", "quiet.py", *flags)
    assert [config.scheduler.enabled for config in seen] == [True, False, False]
    given: dict[str, Any] = dict.fromkeys(
        [
            "worker.queues", "worker.concurrency", "worker.poll_seconds", "worker.lease_seconds",
            "worker.shutdown_seconds", "worker.sleep_after_seconds", "worker.sleep_at_most_seconds",
        ]
    )  # fmt: skip
    arguments = worker._arguments(None, given | {"scheduler.enabled": False})
    assert arguments[-1] == "--no-scheduler"


def test_edits_and_taking_one_back(made: Cli) -> None:
    made.done("schedules", "update", "digest", "--cron", "0 9 * * *", "--reason", "later")
    told = made.done("schedules", "edits", "digest").out
    assert 'cron: "0 8 * * *" → "0 9 * * *"' in told
    edit, created = json.loads(made.done("schedules", "edits", "digest", "--json").out)
    assert (edit["reason"], edit["can_revert"]) == ("later", True)
    assert "created" in failed(made, "revert", "digest", created["id"])
    assert "has changed" in failed(made, "revert", "digest", edit["id"], "--version", "1")
    made.done("schedules", "revert", "digest", edit["id"])
    shown = json.loads(made.done("schedules", "show", "digest", "--json").out)
    assert shown["cron"] == "0 8 * * *"
    failed(made, "edits", "nope")
    failed(made, "revert", "digest", 999)
    misused(made, "revert", "digest", "x")


def test_list_by_text_and_exceptions(made: Cli) -> None:
    assert "digest" in made.done("schedules", "list", "--text", "PARIS").out
    assert "digest" not in made.done("schedules", "list", "--text", "nope").out
    assert "digest" not in made.done("schedules", "list", "--calendar", "at").out
    made.done("schedules", "history", "digest", "--only", "exceptions")
    misused(made, "history", "digest", "--only", "x")


def test_what_was_run_by_hand(made: Cli) -> None:
    assert "no manual runs" in made.done("schedules", "manual", "digest").err
    made.done("schedules", "trigger", "digest", "--reason", "asked for")
    made.done(
        "schedules",
        "backfill",
        "digest",
        "--from-at",
        "2026-02-20T00:00Z",
        "--until-at",
        "2026-02-22T00:00Z",
    )
    told = made.done("schedules", "manual", "digest").out
    assert "asked for" in told
    assert "backfill of 2 times" in told
    backfill, run = json.loads(made.done("schedules", "manual", "digest", "--json").out)
    assert (backfill["kind"], run["kind"], run["state"]) == ("backfilled", "triggered", "queued")
    failed(made, "manual", "nope")
    first = made.done("schedules", "manual", "digest", "--limit", 1, "--json")
    assert first.err.startswith("1 shown; next page: --after ")
    cursor = first.err.split()[-1]
    rest = made.done("schedules", "manual", "digest", "--after", cursor, "--json")
    assert (first.json, rest.json, rest.err) == ([backfill], [run], "")
    assert made("schedules", "manual", "digest", "--after", "odd").code == 2


@pytest.mark.parametrize(("verb", "state"), [("pause", "paused"), ("disable", "disabled")])
def test_the_moved_time_of_one_that_stands_still(made: Cli, verb: str, state: str) -> None:
    made.done("schedules", verb, "digest", "--reason", "x")
    told = made.done("schedules", "reschedule", "digest", "--at", "2026-03-03T10:00:00Z").out
    assert "runs next at 2026-03-03" in told
    assert f"unless it is still {state} then" in told
