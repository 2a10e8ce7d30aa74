"""The layout of `rota top`: five tables that share the height of the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from rota.cli.tenants.whose import whole_name
from rota.cli.terminal import times
from rota.cli.terminal.output import STATE_STYLES, first_line
from rota.cli.terminal.place import shown
from rota.cli.workers.workers import Code, news
from rota.model.formatting import rate

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

    from rota.model.overview import Overview, QueueRate
    from rota.model.queue import QueueInfo

# Title, column heads, and an empty line before the next table.
_AROUND = 3
_HEAD = 2
_WIDEST_NAME = 32
KEYS = "q: quit, p: pause"


class Section(NamedTuple):
    title: str
    headers: Sequence[str]
    rows: list[tuple[object, ...]]
    empty: str
    total: int


class Inflow:
    """The rate at which runs enter each queue: runs that ended, plus the growth of the backlog."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, int]] = {}
        self.rates: dict[str, float] = {}

    def learn(self, seen: Overview) -> None:
        for rated in seen.queues:
            queue = rated.queue
            depth = queue.queued + queue.scheduled + queue.blocked + queue.running
            counted = (seen.at - timedelta(seconds=queue.counted_seconds)).timestamp()
            before = self._seen.get(queue.name)
            if before is not None and counted - before[0] < 0.5:
                continue
            self._seen[queue.name] = (counted, depth)
            if before is not None:
                grown = (depth - before[1]) / (counted - before[0])
                self.rates[queue.name] = max(0.0, rated.per_second + grown)


@dataclass
class Picture:
    """One picture. It is rendered again at every size; `rows` bounds each table if there is no
    height."""

    seen: Overview
    inflow: Inflow
    failing_seconds: float
    rows: int | None = None
    remark: str = ""
    hint: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        yield Text(self._head(), "bold", no_wrap=True, overflow="ellipsis")
        if self.remark:
            yield Text(self.remark, "bold red", no_wrap=True, overflow="ellipsis")
        sections = self.sections()
        for section, rows in zip(sections, self._shares(sections, options.height), strict=True):
            yield Text("")
            if not section.rows:
                yield Text(section.empty, "dim", no_wrap=True, overflow="ellipsis")
                continue
            hidden = section.total - rows
            more = f"  ({hidden} more)" if hidden > 0 else ""
            yield Text(f"{section.title}{more}", "bold underline", no_wrap=True)
            if rows:
                yield _table(section.headers, section.rows[:rows])

    def _shares(self, sections: list[Section], height: int | None) -> list[int]:
        needs = [len(section.rows) for section in sections]
        if self.rows is not None or height is None:
            return [min(need, self.rows or need) for need in needs]
        around = sum(_AROUND if need else _HEAD for need in needs)
        return share(needs, height - around - _HEAD - bool(self.remark))

    def _head(self) -> str:
        seen = self.seen
        queued = sum(queue.queue.queued for queue in seen.queues)
        live = [worker for worker in seen.workers if worker.status == "live"]
        running, slots = sum(it.running for it in seen.workers), sum(it.concurrency for it in live)
        out = sum(queue.per_second for queue in seen.queues)
        return (
            f"{times.local(seen.at):%H:%M:%S %Z}  {queued:,} queued  {running:,}/{slots:,} slots  "
            f"{rate(sum(self.inflow.rates.values()))} in  {rate(out)} out  {self.hint}"
        )

    def sections(self) -> list[Section]:
        return [self._queues(), self._workers(), self._running(), self._failing(), self._coming()]

    def _queues(self) -> Section:
        rows = [self._queue(queue) for queue in self.seen.queues]
        headers = (
            "QUEUE",
            "STATE",
            "QUEUED>",
            "OLDEST>",
            "LATER>",
            "RUN>",
            "IN>",
            "OUT>",
            "WORKERS>",
        )
        return Section("QUEUES", headers, rows, "no queues", len(rows))

    def _queue(self, it: QueueRate) -> tuple[object, ...]:
        queue = it.queue
        oldest = "" if queue.oldest_seconds is None else times.span(queue.oldest_seconds)
        into, later = self.inflow.rates.get(queue.name), queue.scheduled + queue.blocked
        return (
            queue.name,
            self._standing(queue),
            f"{queue.queued:,}",
            oldest,
            f"{later:,}" if later else "",
            queue.running,
            "" if into is None else rate(into),
            rate(it.per_second),
            queue.workers,
        )

    def _standing(self, queue: QueueInfo) -> str:
        if not queue.is_paused or queue.paused_until is None:
            return "paused" if queue.is_paused else "open"
        left = (queue.paused_until - self.seen.at).total_seconds()
        return f"paused, {times.span(left)} left"

    def _workers(self) -> Section:
        code = Code.of(self.seen.workers)
        rows: list[tuple[object, ...]] = [
            (
                one.id,
                one.status,
                f"{one.running}/{one.concurrency}",
                f"{times.span(one.heartbeat_seconds)} ago",
                one.host,
                *code.cells(one),
                news(one),
            )
            for one in self.seen.workers
        ]
        headers = ("WORKER>", "STATE", "SLOTS>", "HEARTBEAT", "HOST", *code.headers, "NOTE")
        return Section(
            "WORKERS", headers, rows, f"no workers; start one with {shown('worker')}", len(rows)
        )

    def _running(self) -> Section:
        now = self.seen.at
        rows: list[tuple[object, ...]] = [
            (
                run.id,
                run.job,
                times.span((now - run.started_at).total_seconds()),
                "" if run.progress is None else f"{run.progress:.0%}",
                run.worker,
                run.message or "",
            )
            for run in self.seen.running
        ]
        total = max(len(rows), sum(queue.queue.running for queue in self.seen.queues))
        headers = ("RUN>", "JOB", "FOR>", "DONE>", "WORKER>", "MESSAGE")
        return Section("RUNNING LONGEST", headers, rows, "nothing is running", total)

    def _failing(self) -> Section:
        rows: list[tuple[object, ...]] = [
            (job.job, job.failures, job.attempts, first_line(job.last_error))
            for job in self.seen.failing
        ]
        span = times.span(self.failing_seconds)
        headers = ("JOB", "FAILED>", "OF>", "LAST ERROR")
        empty = f"nothing failed in the last {span}"
        return Section(f"FAILING IN THE LAST {span}", headers, rows, empty, len(rows))

    def _coming(self) -> Section:
        rows: list[tuple[object, ...]] = [
            (
                times.shown(one.next_run_at, self.seen.at, False),
                whole_name(one.tenant, one.name),
                one.job,
                "paused" if one.is_paused else "active",
            )
            for one in self.seen.schedules
        ]
        return Section(
            "NEXT", ("DUE", "SCHEDULE", "JOB", "STATE"), rows, "no schedule is due", len(rows)
        )


def share(needs: Sequence[int], room: int) -> list[int]:
    """Divide the rows: small needs are met, and the rest goes to the larger ones."""
    given = [0] * len(needs)
    left = max(0, room)
    while left > 0 and any(have < need for have, need in zip(given, needs, strict=True)):
        open_ones = [i for i, need in enumerate(needs) if given[i] < need]
        part = max(1, left // len(open_ones))
        for i in open_ones:
            more = min(part, needs[i] - given[i], left)
            given[i] += more
            left -= more
    return given


def _table(headers: Sequence[str], rows: list[tuple[object, ...]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=False)
    last = len(headers) - 1
    for place, header in enumerate(headers):
        justify: Literal["left", "right"] = "right" if header.endswith(">") else "left"
        widest = None if place == last else _WIDEST_NAME
        made.add_column(
            header.removesuffix(">"),
            justify=justify,
            no_wrap=True,
            max_width=widest,
            overflow="ellipsis",
        )
    for row in rows:
        cells = [first_line(cell) for cell in row]
        made.add_row(*[Text(cell, STATE_STYLES.get(cell.partition(",")[0], "")) for cell in cells])
    return made
