"""Progress of long work: on a terminal, beside the result, and removed when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.model.printable import one_line

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """`bar.advance(500)` after each batch; `bar.expect(n)` once the total is known."""

    def __init__(self, shown: Progress | None = None, title: str = "") -> None:
        self._shown = shown
        self._task = None if shown is None else shown.add_task(title, total=None)
        self.done = 0

    def expect(self, total: int | None) -> None:
        if self._shown is not None and self._task is not None:
            self._shown.update(self._task, total=total)

    def advance(self, count: int = 1) -> None:
        self.done += count
        if self._shown is not None and self._task is not None:
            self._shown.update(self._task, advance=count)


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Bar]:
    """`with progress("retrying runs", total=n) as bar:`. It draws nothing into a pipe, a file or a
    log, and goes to standard error, so that the result stays clean."""
    if not sys.stderr.isatty():
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Rich

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    out = Console(stderr=True, highlight=False)
    with Rich(*columns, TimeElapsedColumn(), console=out, transient=True) as shown:
        bar = Bar(shown, one_line(title))
        bar.expect(total)
        yield bar
