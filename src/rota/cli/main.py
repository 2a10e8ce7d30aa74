"""`rota`: the program, its commands, and errors on their way out."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, NoReturn

import typer

from rota import __version__
from rota.cli import config
from rota.cli.database import bench, doctor, grant, migrate, psql, retention
from rota.cli.events import actions as event_actions
from rota.cli.events import events
from rota.cli.jobs import settings as job_settings
from rota.cli.queues import limits, queues
from rota.cli.reports import attention, audit, find, logs, stats, top, trend, why
from rota.cli.runs import actions as run_actions
from rota.cli.runs import bulk, views
from rota.cli.runs import errors as error_groups
from rota.cli.schedules import calendars
from rota.cli.schedules import edits as schedule_edits
from rota.cli.serving import dev, server
from rota.cli.session import Session
from rota.cli.tenants import data as tenant_data
from rota.cli.terminal import times
from rota.cli.terminal.failure import Failure
from rota.cli.terminal.output import remark
from rota.cli.terminal.watch import spell_out
from rota.cli.workers import worker, workers

DATABASE_HINT = "is the database there? `rota config list` says where database_url comes from"

program = typer.Typer(
    name="rota",
    help="The PostgreSQL-native job control plane for Python.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
program.command("dev")(dev.dev)
program.command("worker")(worker.worker)
program.command("server")(server.server)
program.command("migrate")(migrate.migrate)
program.command("grant")(grant.grant)
program.command("psql", context_settings=psql.PASSED_ON)(psql.psql)
program.command("why")(why.why)
program.command("find")(find.find)
program.command("stats")(stats.stats)
program.command("trend")(trend.trend)
program.command("attention")(attention.attention)
program.command("doctor")(doctor.doctor)
program.command("bench")(bench.bench)
program.command("top")(top.top)
for noun in (
    run_actions,
    bulk,
    views,
    logs,
    schedule_edits,
    calendars,
    queues,
    limits,
    tenant_data,
    workers,
    job_settings,
    event_actions,
    events,
    error_groups,
    audit,
    retention,
    config,
):
    program.add_typer(noun.commands)


@program.callback()
def options(
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
    if config_file:
        # By the environment, because the application, which loads its own, must find the same.
        os.environ["ROTA_CONFIG"] = os.path.abspath(config_file)
    times.use_environment()
    ctx.obj = Session(app=app)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"rota {__version__}")
        raise typer.Exit


@cache
def commands() -> Any:
    """Built once a process: reading the signature of every command is most of a short command."""
    return typer.main.get_command(program)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """0 done, 1 failed, 2 wrong use."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    try:
        # Not standalone: typer would print its own kind of errors.
        words = spell_out(sys.argv[1:] if arguments is None else arguments)
        code: Any = commands()(args=words, prog_name="rota", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return _nobody_reads()
    except SystemExit as error:
        # typer's own way out of a broken pipe.
        if isinstance(error.__context__, BrokenPipeError):
            return _nobody_reads()
        raise
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except typer.Exit as error:
        return error.exit_code
    except Exception as error:
        return fail(error)
    return code if isinstance(code, int) else 0


def _nobody_reads() -> int:
    """`rota runs list | head`: no error, and nothing that Python should complain of at its exit."""
    sys.stdout = sys.__stdout__
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def fail(error: Exception) -> int:
    if os.environ.get("ROTA_DEBUG", "").lower() in ("1", "true", "yes", "on"):
        import traceback

        remark("".join(traceback.format_exception(error)).rstrip())
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(str(error), err=True)
        return 2
    message, hint, code = _explain(error)
    remark(f"error: {message.rstrip()}")
    if hint:
        remark(f"hint: {hint}")
    return code


def _explain(error: Exception) -> tuple[str, str | None, int]:
    from rota.errors import (
        ConfigError,
        DatabaseError,
        FilterError,
        InputError,
        RotaError,
        SearchError,
        TimingError,
    )

    if isinstance(error, Failure):
        return str(error), error.hint, error.code
    if isinstance(error, DatabaseError):
        return str(error), error.hint or (None if error.sqlstate else DATABASE_HINT), 1
    if isinstance(error, RotaError):
        misuse = ConfigError | FilterError | InputError | SearchError | TimingError
        is_misuse = isinstance(error, misuse)
        return str(error), error.hint, 2 if is_misuse else 1
    if hasattr(error, "format_message"):  # typer's own, of wrong use
        context = getattr(error, "ctx", None)
        hint = f"{context.command_path} --help" if context else None
        return error.format_message(), hint, getattr(error, "exit_code", 2)
    if type(error).__module__.startswith("psycopg"):
        return str(error).strip(), DATABASE_HINT, 1
    return f"{type(error).__name__}: {error}", "ROTA_DEBUG=1 shows the traceback", 1
