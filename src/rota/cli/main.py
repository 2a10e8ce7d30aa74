"""`rota`: runs a command, and prints errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer

from rota.cli.program import command_of
from rota.cli.terminal.failure import Failure
from rota.cli.terminal.output import remark
from rota.cli.terminal.watch import spell_out

DATABASE_HINT = "is the database there? `rota config list` says where database_url comes from"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """0 done, 1 failed, 2 wrong use."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    try:
        # Not standalone: typer would print its own kind of errors.
        words = spell_out(sys.argv[1:] if arguments is None else arguments)
        code: Any = command_of(words)(args=words, prog_name="rota", standalone_mode=False)
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
        PayloadError,
        RotaError,
        SearchError,
        TimingError,
    )

    if isinstance(error, Failure):
        return str(error), error.hint, error.code
    if isinstance(error, DatabaseError):
        return str(error), error.hint or (None if error.sqlstate else DATABASE_HINT), 1
    if isinstance(error, RotaError):
        misuse = ConfigError | FilterError | PayloadError | SearchError | TimingError
        is_misuse = isinstance(error, misuse)
        return str(error), error.hint, 2 if is_misuse else 1
    if hasattr(error, "format_message"):  # typer's own, of wrong use
        context = getattr(error, "ctx", None)
        hint = f"{context.command_path} --help" if context else None
        return error.format_message(), hint, getattr(error, "exit_code", 2)
    if type(error).__module__.startswith("psycopg"):
        return str(error).strip(), DATABASE_HINT, 1
    return f"{type(error).__name__}: {error}", "ROTA_DEBUG=1 shows the traceback", 1
