"""The tree of commands. Only the module of the called command is imported: reading the signatures
of all commands takes longer than most commands do, and longer than a worker takes to start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer

from rota import __version__
from rota.cli.session import Session, session
from rota.cli.terminal import times
from rota.cli.terminal.place import WITH_VALUE


class _Command(NamedTuple):
    module: str
    takes_anything: bool = False


_COMMANDS = {
    "dev": _Command("serving.dev"),
    "worker": _Command("workers.worker"),
    "server": _Command("serving.server"),
    "migrate": _Command("database.migrate"),
    "grant": _Command("database.grant"),
    "psql": _Command("database.psql", takes_anything=True),
    "why": _Command("reports.why"),
    "find": _Command("reports.find"),
    "stats": _Command("reports.stats"),
    "trend": _Command("reports.trend"),
    "attention": _Command("reports.attention"),
    "doctor": _Command("database.doctor"),
    "bench": _Command("database.bench"),
    "top": _Command("reports.top"),
}
# The module whose `commands` contains all commands of a noun.
_NOUNS = {
    "runs": "runs.actions",
    "bulk": "runs.bulk",
    "views": "runs.views",
    "logs": "reports.logs",
    "schedules": "schedules.edits",
    "calendars": "schedules.calendars",
    "templates": "schedules.templates",
    "queues": "queues.queues",
    "limits": "queues.limits",
    "tenants": "tenants.data",
    "workers": "workers.workers",
    "jobs": "jobs.sql",
    "events": "events.events",
    "watches": "events.watches",
    "errors": "runs.errors",
    "audit": "reports.audit",
    "retention": "database.retention",
    "cleanup": "database.cleanup",
    "config": "config",
}
# Nouns and commands that are derived from declarations, which import drivers: their help in the
# list of all commands.
DECLARED = {
    "jobs": "Jobs: functions that applications declare.",
    "why": "Explain why something is not running, or what happened to it.",
    "find": "Find runs, schedules, jobs, queues and workers.",
    "stats": "Show run counts, throughput, failures and durations.",
    "trend": "Show throughput, latency and backlog over time.",
    "attention": "List what needs attention.",
    "doctor": "Check the installation.",
    "audit": "Audit trail: who did what, when and why.",
    "queues": "Queues: named groups of runs that workers claim from.",
    "limits": "Limits: concurrency, rate and ordering of runs.",
    "tenants": "Tenants: fair shares, quotas, retention and data.",
    "workers": "Workers: processes that run jobs.",
    "calendars": "Calendars: days and windows when schedules do not run.",
    "schedules": "Schedules: run jobs automatically.",
    "templates": "Templates: named cron expressions for new schedules.",
    "runs": "Runs: enqueue, inspect, cancel, retry and delete.",
    "errors": "Errors: failures grouped by cause.",
    "bulk": "Bulk actions: retry, cancel or delete by filter.",
    "views": "Views: saved filters for the list of runs.",
    "retention": "Retention of finished runs, logs and other history.",
    "logs": "Logs written by job handlers.",
    "events": "Events: start jobs when something happens.",
    "watches": "Watches: tables whose rows become events.",
    "cleanup": "Cleanup: delete expired rows of your tables.",
}
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


@cache
def program(name: str | None = None, *, is_outline: bool = False) -> typer.Typer:
    """Return all commands, or only the one with this name. An outline has no commands of declared
    nouns."""
    made = typer.Typer(
        name="rota",
        help="The PostgreSQL-native job control plane for Python.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_options)
    for word, (module, takes_anything) in _COMMANDS.items():
        about = DECLARED.get(word)
        if is_outline and about:
            made.command(word, short_help=about)(_nothing)
        elif name in (None, word):
            settings = _PASSED_ON if takes_anything else None
            run = getattr(_room(module), word)
            made.command(word, short_help=about, context_settings=settings)(run)
    for word, module in _NOUNS.items():
        if is_outline and word in DECLARED:
            made.add_typer(typer.Typer(name=word, help=DECLARED[word]))
        elif name in (None, word):
            made.add_typer(_room(module).commands)
    return made


def command_of(words: Sequence[str]) -> Any:
    """What understands this command line."""
    name = _first_word(words)
    # A shell that completes a command line passes it by the environment.
    return _build(name, is_outline=name is None and "_ROTA_COMPLETE" not in os.environ)


@cache
def _build(name: str | None, *, is_outline: bool) -> Any:
    made = typer.main.get_command(program(name, is_outline=is_outline))
    _take_anywhere(made)
    return made


def _take_anywhere(command: Any) -> None:
    """Accept global options also after a command. Help lists them only before it, or if a command
    has the option itself."""
    for child in getattr(command, "commands", {}).values():
        known = {flag for param in child.params for flag in param.opts}
        child.params += [param for param in _anywhere() if not known & {*param.opts}]
        _take_anywhere(child)


@cache
def _anywhere() -> Sequence[Any]:
    made = typer.Typer(add_completion=False)
    made.command()(_common)
    found: Sequence[Any] = typer.main.get_command(made).params
    return found


def _use_app(ctx: typer.Context, value: str | None) -> None:
    if value:
        ctx.obj = replace(session(ctx), app=value)


def _use_config(value: str | None) -> None:
    if value:
        # In the environment, because the application loads its own configuration and must find the
        # same.
        os.environ["ROTA_CONFIG"] = os.path.abspath(value)


# Eager, because completed names come from that database.
def _common(
    app: Annotated[
        str | None,
        typer.Option(hidden=True, is_eager=True, expose_value=False, callback=_use_app),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(hidden=True, is_eager=True, expose_value=False, callback=_use_config),
    ] = None,
) -> None: ...


def _first_word(words: Sequence[str]) -> str | None:
    """Return the command name, if there is a command with it."""
    rest = iter(words)
    for word in rest:
        if word in WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return word if word in _COMMANDS or word in _NOUNS else None
    return None


def _nothing() -> None:
    """Stands for a command in an outline."""


def _room(module: str) -> Any:
    return import_module(f"rota.cli.{module}")


def _options(
    ctx: typer.Context,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:ATTRIBUTE|FILE.PY",
            help="Application. Default: ROTA_APP, or `app` in rota.toml.",
        ),
    ] = None,
    config_file: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Configuration file. Default: ROTA_CONFIG, or rota.toml.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=lambda it: _version(it),
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    _use_config(config_file)
    times.use_environment()
    ctx.obj = Session(app=app)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"rota {__version__}")
        raise typer.Exit
