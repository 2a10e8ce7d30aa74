"""JSON for programs, tables for people. Results go to stdout, remarks to stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Literal

import typer

from rota.model.printable import entry, in_json, lines, one_line

if TYPE_CHECKING:
    from rich.console import Console

STATE_STYLES = {
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "running": "cyan",
    "queued": "blue",
    "scheduled": "blue",
    "blocked": "magenta",
    "live": "green",
    "stopping": "yellow",
    "draining": "yellow",
    "lost": "red",
    "silent": "red",
    "stuck": "red",
    "failing": "red",
    "paused": "yellow",
    "orphaned": "yellow",
    "timed_out": "red",
    "snoozed": "blue",
    "error": "red",
    "critical": "red",
    "warning": "yellow",
}
_one_line: ContextVar[bool] = ContextVar("one_line", default=False)
# The least width of the last column on a narrow terminal.
_LAST_COLUMN = 12
_INDENT = "  "


def say(text: str) -> None:
    """Print the result of an action."""
    typer.echo(entry(text, _INDENT))


def remark(text: str) -> None:
    """Print additional information on stderr."""
    typer.echo(entry(text, _INDENT), err=True)


def print_json(value: object) -> None:
    """Print one document; times in ISO 8601, UTC."""
    typer.echo(_json(value, indent=None if _one_line.get() else 2))


def _json(value: object, indent: int | None = None) -> str:
    return in_json(json.dumps(_plain(value), indent=indent, ensure_ascii=False))


@contextmanager
def one_line_json(is_wanted: bool = True) -> Iterator[None]:
    """Print each document on one line, for readers of a sequence of documents."""
    before = _one_line.set(is_wanted)
    try:
        yield
    finally:
        _one_line.reset(before)


def tell(is_json: bool, text: str, **what: object) -> None:
    """Print the result of a command, in words or as JSON."""
    if is_json:
        print_json(what)
    else:
        say(text)


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case float() if not math.isfinite(value):
            return None  # JSON cannot express it
        case str() | int() | float() | None:
            return value
        case list() | tuple() | set():
            return [_plain(item) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _plain(asdict(value))
        case _:
            return str(value)


def console(least: int = 0) -> Console:
    """Return a console with at least `least` columns, even if the terminal has to wrap its
    lines."""
    from rich.console import Console

    # Nothing is cut in a pipe: grep and awk get whole lines.
    width = max(least, get_terminal_size().columns) if sys.stdout.isatty() else 100_000
    return Console(width=width, highlight=False)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table. Columns whose header ends in `>` are numbers. The last one is cut to the
    terminal's width, the others are shown whole."""
    from rich.table import Table
    from rich.text import Text

    cells = [[first_line(cell) for cell in row] for row in rows]
    titles = [header.removesuffix(">") for header in headers]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    widths[-1] = min(widths[-1], _LAST_COLUMN)
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header, title, width in zip(headers, titles, widths, strict=True):
        justify: Literal["left", "right"] = "right" if header.endswith(">") else "left"
        made.add_column(title, justify=justify, no_wrap=True, min_width=width, overflow="ellipsis")
    for row in cells:
        made.add_row(*[Text(cell, STATE_STYLES.get(cell, "")) for cell in row])
    out = console(least=sum(widths) + 2 * len(widths))
    with out.capture() as captured:
        out.print(made)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print name and value on a line each; leave out empty values."""
    from rich.text import Text

    out = console()
    known = [(name, lines(str(value))) for name, value in pairs if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        indented = value.replace("\n", "\n" + " " * (width + 2))
        style = STATE_STYLES.get(value.partition(",")[0], "")
        line = Text.assemble((f"{name:<{width}}  ", "bold"), (indented, style))
        out.print(line, soft_wrap=True)


def heading(text: str) -> None:
    from rich.text import Text

    out = console()
    out.print()
    out.print(Text(one_line(text), "bold underline"))


def block(text: str) -> None:
    """Print text of several lines, indented."""
    for line in lines(text).rstrip("\n").split("\n"):
        typer.echo(f"{_INDENT}{line}")


def json_block(value: object) -> None:
    """Print a document below its heading."""
    block(_json(value, indent=2))


def listed(values: object) -> str:
    """Return `a, b` for a column that contains a list, or should."""
    return ", ".join(map(str, values)) if isinstance(values, list | tuple) else str(values or "")


def as_pairs(value: object) -> Mapping[str, Any]:
    """Return the object in a column that contains one, or should."""
    return value if isinstance(value, Mapping) else {} if value is None else {"unreadable": value}


def first_line(value: object) -> str:
    text = "" if value is None else str(value)
    return one_line(text.strip().split("\n", 1)[0])


def compact(value: object) -> str:
    """Return JSON on one line, for people."""
    return _json(value)
