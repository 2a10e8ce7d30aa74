"""`rota top`: queues, workers, running attempts, failures and coming runs, live in the terminal."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.session import administer, session
from rota.cli.terminal import values
from rota.cli.terminal.failure import is_away
from rota.cli.terminal.flags import Json, Zone
from rota.cli.terminal.output import console, one_line_json, print_json, remark
from rota.model.printable import one_line

if TYPE_CHECKING:
    from rich.live import Live

    from rota.cli.reports.top_view import Picture
    from rota.model.overview import Overview

_LEAST_SECONDS = 0.1
_LOOK_SECONDS = 0.2
_ROWS = 50


def top(
    ctx: typer.Context,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Refresh interval.")] = "2s",
    failing: Annotated[
        str, typer.Option(metavar="DURATION", help="Period over which failures are counted.")
    ] = "5m",
    rows: Annotated[
        int,
        typer.Option(
            min=1, max=1000, metavar="N", help="Rows per table when printed instead of drawn live."
        ),
    ] = 10,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    display_timezone: Zone = None,
    json: Json = False,
) -> int:
    """Show a live overview. Lists queues, workers, the longest-running attempts, failures and
    upcoming schedules. Press `q` to quit."""
    seconds = values.seconds(interval, "--interval") or 0
    if seconds < _LEAST_SECONDS:
        values.refuse("--interval", f"{interval!r} is too short; the minimum is 100ms")
    back = values.seconds(failing, "--failing") or 0
    with session(ctx).kept.open():
        looks = Looks(ctx, seconds, back, rows)
        if once:
            looks.print_once(json)
        elif json or not sys.stdout.isatty():
            looks.print_on(json)
        else:
            looks.live()
    return 0


class Looks:
    """Reads the overview repeatedly, and continues after the database was unavailable."""

    def __init__(self, ctx: typer.Context, seconds: float, failing: float, rows: int) -> None:
        from rota.cli.reports.top_view import Inflow

        self._ctx = ctx
        self._seconds = seconds
        self._failing = failing
        self._rows = rows
        self._inflow = Inflow()
        self._last: Overview | None = None

    def _look(self) -> Overview:
        with administer(self._ctx) as app:
            seen = app.overview.sync.get(limit=_ROWS, failing_seconds=self._failing)
        self._inflow.learn(seen)
        self._last = seen
        return seen

    def _frame(self, seen: Overview, rows: int | None = None, said: str = "") -> Picture:
        from rota.cli.reports.top_view import KEYS, Picture

        hint = KEYS if rows is None else ""
        return Picture(seen, self._inflow, self._failing, rows, said, hint)

    # Printed output.

    def print_once(self, is_json: bool) -> None:
        seen = self._look()
        if is_json:
            print_json(seen)
            return
        out = console()
        with out.capture() as captured:
            out.print(self._frame(seen, rows=self._rows))
        typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def print_on(self, is_json: bool) -> None:
        try:
            while True:
                self._print_or_say(is_json)
                sys.stdout.flush()
                time.sleep(self._seconds)
        except KeyboardInterrupt:
            return

    def _print_or_say(self, is_json: bool) -> None:
        try:
            with one_line_json(is_json):
                self.print_once(is_json)
            if not is_json:
                typer.echo()
        except Exception as error:
            if not is_away(error):
                raise
            session(self._ctx).kept.drop()
            remark(f"error: {error}; retrying")

    # Live display.

    def live(self) -> None:
        from rich.console import Console
        from rich.live import Live as Drawn
        from rich.text import Text

        first = Text("loading …")
        with (
            _keys() as has_keys,
            Drawn(first, console=Console(highlight=False), screen=True, auto_refresh=False) as live,
        ):
            try:
                while self._turn(live, has_keys):
                    pass
            except KeyboardInterrupt:
                return

    def _turn(self, live: Live, has_keys: bool) -> bool:
        """Read, draw and wait once. Return False if the user quits."""
        from rich.text import Text

        try:
            live.update(self._frame(self._look()), refresh=True)
        except Exception as error:
            if not is_away(error):
                raise
            session(self._ctx).kept.drop()
            text = one_line(f"database unavailable, retrying: {error}".replace("\n", " "))
            old = self._last
            live.update(
                Text(text, "red") if old is None else self._frame(old, said=text), refresh=True
            )
        return self._wait(live, has_keys)

    def _wait(self, live: Live, has_keys: bool) -> bool:
        size, is_held = get_terminal_size(), False
        until = time.monotonic() + self._seconds
        while is_held or time.monotonic() < until:
            pause = _LOOK_SECONDS if is_held else max(0.0, until - time.monotonic())
            key = _pressed(min(pause, _LOOK_SECONDS), has_keys)
            if key in ("q", "Q"):
                return False
            is_held = is_held != (key in ("p", " "))
            if get_terminal_size() != size:
                size = get_terminal_size()
                live.refresh()
        return True


@contextmanager
def _keys() -> Iterator[bool]:
    """Read single keys without echo; yield whether there is a keyboard."""
    try:
        import termios
        import tty
    except ImportError:
        yield False
        return
    if not sys.stdin.isatty():
        yield False
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed(seconds: float, has_keys: bool) -> str:
    if not has_keys:
        time.sleep(seconds)
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    # Not sys.stdin.read: it buffers input that select does not see.
    return os.read(sys.stdin.fileno(), 1).decode("ascii", "replace") if ready else ""
