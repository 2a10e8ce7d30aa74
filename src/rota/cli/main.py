"""`rota`: runs a command, and prints errors."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from rota.cli.program import command_of
from rota.cli.terminal.failure import Failure
from rota.cli.terminal.output import remark
from rota.cli.terminal.place import note_place, shown
from rota.cli.terminal.watch import spell_out
from rota.cli.terminal.words import CliWords

if TYPE_CHECKING:
    from rota.hints import Words


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command. Exit codes: 0 done, 1 failed, 2 wrong use."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    words = spell_out(sys.argv[1:] if arguments is None else arguments)
    note_place(words)
    try:
        # Not standalone, because typer would print errors in its own format.
        code: Any = command_of(words)(args=words, prog_name="rota", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return _nobody_reads()
    except SystemExit as error:
        # How typer exits after a broken pipe.
        if isinstance(error.__context__, BrokenPipeError):
            return _nobody_reads()
        raise
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except typer.Exit as error:
        return error.exit_code
    except Exception as error:
        return fail(error, _parameters(words))
    return code if isinstance(code, int) else 0


def _nobody_reads() -> int:
    """Handle `rota runs list | head`: no error, and no complaint of Python at its exit."""
    sys.stdout = sys.__stdout__
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _parameters(words: Sequence[str]) -> Sequence[Any]:
    """Return the parameters of the command in this command line."""
    command: Any = command_of(words)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    found: Sequence[Any] = command.params
    return found


def fail(error: Exception, parameters: Iterable[Any] = ()) -> int:
    if os.environ.get("ROTA_DEBUG", "").lower() in ("1", "true", "yes", "on"):
        import traceback

        remark("".join(traceback.format_exception(error)).rstrip())
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(str(error), err=True)
        return 2
    message, hint, code = _explain(error, CliWords(parameters))
    remark(f"error: {message.rstrip()}")
    if hint:
        remark(f"hint: {hint}")
    return code


# What something was called, and what it may be called now: a flag, an argument or a command.
_RENAMED = {
    "--payload": ("--default-payload",),
    "--sql": ("--function-name",),
    "--noun": ("--object-type",),
    "--subject": ("--object-id",),
    "--for": ("--until",),
    "--per": ("--period",),
    "--job": ("--jobs", "JOB"),
    "--every": ("--interval",),
    "--at": ("--run-at",),
    "--with-seconds": ("--has-seconds",),
    "--shadow": ("--is-shadow",),
    "--enabled": ("--is-enabled",),
    "--tag": ("--tags",),
    "--run-tag": ("--run-tags",),
    "--from": ("--from-at", "--after"),
    "--until": ("--until-at",),
    "--unhandled": ("--no-handled",),
    "--grep": ("TEXT",),
    "rota schedules templates": ("rota templates list",),
    "rota events list NAME": ("--name",),
}


def _renamed(error: Any, context: Any) -> str | None:
    """The new name of what was typed, where the command has it."""
    if context is None:
        return None
    typed = getattr(error, "option_name", None) or f"{context.command_path} NAME"
    if word := re.fullmatch("No such command '(.+)'.", error.format_message()):
        typed = f"{context.command_path} {word[1]}"
    known = {
        name
        for one in context.command.params
        for name in (*one.opts, *one.secondary_opts, one.metavar)
    }
    for name in _RENAMED.get(typed, ()):
        if name in known or name.startswith("rota "):
            return f"it is {'called' if name.islower() else 'the argument'} {name} now"
    return None


def _explain(error: Exception, words: Words) -> tuple[str, str | None, int]:
    from rota.errors import (
        ConfigError,
        DatabaseError,
        FilterError,
        InputError,
        JobError,
        LimitError,
        RotaError,
        SearchError,
        TemplateNotFound,
        TimingError,
    )

    if isinstance(error, Failure):
        return str(error), error.hint, error.code
    if isinstance(error, DatabaseError):
        hint = words.hint(error.advice) or (None if error.sqlstate else _database_hint())
        return error.sentence(words), hint, 1
    if isinstance(error, RotaError):
        misuse = ConfigError | FilterError | InputError | LimitError | SearchError | TimingError
        # A subclass of TimingError for the creation of a schedule; here the subject is just not
        # found.
        is_misuse = isinstance(error, misuse) and not isinstance(error, TemplateNotFound | JobError)
        return error.sentence(words), words.hint(error.advice), 2 if is_misuse else 1
    if hasattr(error, "format_message"):  # an error of typer about wrong use
        context = getattr(error, "ctx", None)
        hint = f"see `{context.command_path} --help`" if context else None
        hint = _renamed(error, context) or hint
        return error.format_message(), hint, getattr(error, "exit_code", 2)
    if type(error).__module__.startswith("psycopg"):
        return str(error).strip(), _database_hint(), 1
    return f"{type(error).__name__}: {error}", "set ROTA_DEBUG=1 to see the traceback", 1


def _database_hint() -> str:
    return f"is the database running? {shown('config', 'list')} shows where database_url comes from"
