"""`rota logs`: search, follow, and read the log lines of handlers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from rota.cli.operations import read_flags
from rota.cli.program import DECLARED
from rota.cli.reads import option, printing, summary_of
from rota.cli.session import administer
from rota.cli.terminal import paging, times
from rota.cli.terminal.flags import Json, Zone
from rota.cli.terminal.output import as_pairs, compact, one_line_json, print_json, remark
from rota.model.fields import arguments_of
from rota.model.printable import entry, one_line
from rota.operations.logs.logs import LogCommands, SyncLogs
from rota.operations.reading import plan_behind

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.log import LogLine, LogPage

commands = typer.Typer(name="logs", help=DECLARED["logs"], no_args_is_help=True)

STYLES = {
    "critical": typer.colors.RED,
    "error": typer.colors.RED,
    "warning": typer.colors.YELLOW,
    "debug": typer.colors.BRIGHT_BLACK,
}


_ZONE = option("display_timezone", Zone)
_JSON = option("json", Json, False)


def _search(ctx: typer.Context, limit: int, after: str | None, json: bool, **texts: Any) -> None:
    del texts["display_timezone"]
    given = _PATIENCE | dict(read_flags(_SEARCH, texts, is_filter=True))
    with administer(ctx) as app:
        page = app.logs.sync.search(**given, limit=limit, cursor=after)
    if json:
        print_json(page)
        return
    for line in page.lines:
        _print(line)
    _print_end(page)


def _tail(ctx: typer.Context, json: bool, **texts: Any) -> None:
    del texts["display_timezone"]
    given = dict(read_flags(_TAIL, texts, is_filter=True))
    with administer(ctx) as app, one_line_json(json):
        for line in app.logs.sync.tail(**given):
            if json:
                print_json(line)
            else:
                _print(line)


def _show(ctx: typer.Context, json: bool, **texts: Any) -> None:
    del texts["display_timezone"]
    given = dict(read_flags(_SHOW, texts, is_filter=True))
    with administer(ctx) as app:
        found = _all_of_run(app, **given)
        if json:
            print_json(list(found))
            return
        is_empty = True
        for line in found:
            is_empty = False
            _print(line)
    if is_empty:
        remark("no log lines")


def _all_of_run(app: App, run_id: int, attempt: int | None = None) -> Iterator[LogLine]:
    """Read page by page: all lines together may exceed the memory."""
    cursor = None
    while True:
        page = app.logs.sync.show(run_id, attempt=attempt, limit=1000, cursor=cursor)
        yield from page.lines
        cursor = page.cursor
        if cursor is None:
            return


def _print(line: LogLine) -> None:
    level = typer.style(f"{one_line(line.level):<8}", fg=STYLES.get(line.level))
    job = one_line(f"{line.job} {line.run_id}.{line.attempt}")
    typer.echo(f"{times.absolute(line.at)}  {level}  {job}  {entry(line_text(line), '    ')}")


def line_text(line: LogLine) -> str:
    """Return the message and its fields."""
    fields = [f"{one_line(name)}={compact(value)}" for name, value in as_pairs(line.fields).items()]
    return "  ".join([line.message, *([" ".join(fields)] if fields else [])])


def _print_end(page: LogPage) -> None:
    if not page.lines:
        remark("no log lines")
    if page.cursor is not None and page.searched_back_to is not None:
        back = times.absolute(page.searched_back_to)
        remark(f"searched back to {back}; to continue the search: --after {page.cursor}")


# By hand: lines are printed as they come, and a search says how far back it got.
_SEARCH = arguments_of(plan_behind(LogCommands.search))
_SHOW = arguments_of(plan_behind(LogCommands.show))
_TAIL = arguments_of(SyncLogs.tail)
_ABOUT_TAIL = "Follow new log lines until Ctrl-C. With --json, one document per line."
_ABOUT_SEARCH = f"{summary_of(LogCommands.search)} Time limit without --patience: 10s."
# A person waits longer than a page does.
_PATIENCE = {"patience_seconds": 10.0}
_PLACE = (option("limit", paging.Limit, 100), option("after", paging.After))

commands.command("search")(
    printing("search", _search, _ABOUT_SEARCH, _SEARCH, *_PLACE, _ZONE, _JSON)
)
commands.command("tail")(printing("tail", _tail, _ABOUT_TAIL, _TAIL, _ZONE, _JSON))
commands.command("show")(printing("show", _show, summary_of(LogCommands.show), _SHOW, _ZONE, _JSON))
