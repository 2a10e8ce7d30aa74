"""`--watch [SECONDS]`: the same answer again and again, until Ctrl-C.

    @commands.command("list")
    @watched
    def list_things(ctx: typer.Context, absolute: Absolute = False, json: Json = False) -> None: …

The command gets `--display-timezone` and `--watch`, before its `--json`. On a terminal each round
is drawn over the one before; with `--json` it is one line; into a pipe one answer follows the
other.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from functools import wraps
from io import StringIO
from shutil import get_terminal_size
from time import sleep
from typing import Any, TypeVar, get_type_hints

from rota.cli.session import OpenApp, session
from rota.cli.terminal import times, values
from rota.cli.terminal.failure import is_away
from rota.cli.terminal.flags import Watch, Zone
from rota.cli.terminal.output import one_line_json, remark
from rota.model.formatting import plain, plural

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_SECONDS = 2.0
_LEAST_SECONDS = 0.1
_VALUE = re.compile(r"[0-9.]+(ms|[smh])?")
_CLEAR, _HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[J"
_CUT_LINES, _WRAP_LINES = "\x1b[?7l", "\x1b[?7h"


def spell_out(arguments: Sequence[str]) -> list[str]:
    """Add the default to a bare `--watch`: the parser has no options with an optional value."""
    found: list[str] = []
    for place, word in enumerate(arguments):
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        is_bare = word == "--watch" and not _VALUE.fullmatch(following)
        found.append(f"--watch={plain(DEFAULT_SECONDS)}" if is_bare else word)
    return found


def watched(command: F) -> F:
    """Return the command with the flags of a repeated report."""

    @wraps(command)
    def wrapper(*args: Any, watch: str | None = None, **given: Any) -> Any:
        given.pop("display_timezone", None)  # applied when it was read
        if watch is None:
            return command(*args, **given)
        seconds = values.seconds(watch, "--watch") or 0
        if seconds < _LEAST_SECONDS:
            values.refuse("--watch", f"{watch!r} is too short; the minimum is 100ms")
        ctx = given["ctx"]
        with session(ctx).kept.open():
            rounds = _Rounds(session(ctx).kept, seconds, bool(given.get("json")))
            return rounds.run(lambda: command(*args, **given))

    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters
    signature = _with_flags(own.values(), hints)
    made: Any = wrapper
    made.__signature__ = signature
    made.__annotations__ = {it.name: it.annotation for it in signature.parameters.values()}
    return made  # type: ignore[no-any-return]


def _with_flags(own: Any, hints: dict[str, Any]) -> inspect.Signature:
    found = {one.name: one.replace(annotation=hints.get(one.name, one.annotation)) for one in own}
    last = {name: found.pop(name) for name in ("json",) if name in found}
    kind = inspect.Parameter.KEYWORD_ONLY
    for name, flag in (("display_timezone", Zone), ("watch", Watch)):
        found.setdefault(name, inspect.Parameter(name, kind, default=None, annotation=flag))
    return inspect.Signature([it.replace(kind=kind) for it in (found | last).values()])


class _Rounds:
    def __init__(self, kept: OpenApp, seconds: float, is_json: bool) -> None:
        self._kept = kept
        self._seconds = seconds
        self._is_json = is_json
        self._is_drawn = sys.stdout.isatty() and not is_json

    def run(self, show: Callable[[], Any]) -> int:
        try:
            if self._is_drawn:
                sys.stdout.write(_CLEAR)
            while True:
                self._round(show)
                sleep(self._seconds)
        except KeyboardInterrupt:
            return 0

    def _round(self, show: Callable[[], Any]) -> None:
        """Show once. While the database is unreachable, say so and wait. Any other error ends the
        command."""
        frame = _Frame(self._is_drawn)
        beside = frame if self._is_drawn else sys.stderr
        try:
            with redirect_stdout(frame), redirect_stderr(beside), one_line_json(self._is_json):
                show()
        except Exception as error:
            if not is_away(error):
                raise
            self._kept.drop()
            with redirect_stderr(beside):
                remark(f"error: {error}")
                remark("retrying")
        self._write(frame.getvalue())

    def _write(self, text: str) -> None:
        if self._is_drawn:
            sys.stdout.write(_screen(text, self._seconds))
        elif text:
            sys.stdout.write(text if self._is_json else f"{text}\n")
        sys.stdout.flush()


def _screen(text: str, seconds: float) -> str:
    """Overwrite the previous output line by line, so that nothing flickers; at most a screenful."""
    height = get_terminal_size().lines
    head = f"{times.absolute(datetime.now(UTC))}, every {plain(seconds)} s; Ctrl-C quits"
    lines = [head, "", *text.splitlines()]
    hidden = len(lines) - (height - 1)
    if hidden > 0:
        lines = [
            *lines[: height - 2],
            f"… {plural(hidden + 1, 'more line')}; enlarge the window to see them",
        ]
    body = "".join(f"{line}{_REST_OF_LINE}\n" for line in lines)
    return f"{_CUT_LINES}{_HOME}{body}{_REST_OF_SCREEN}{_WRAP_LINES}"


class _Frame(StringIO):
    """The output of one round, with the width and colours of the terminal."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal
