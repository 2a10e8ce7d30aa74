"""The experiments: which variants, on what standing data, in which order.

Variants take turns inside each round, so that other load on the machine falls on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from bench.shapes import schema, statements
from bench.shapes.measure import Figure, measure
from bench.shapes.schema import hot_table
from bench.shapes.server import Server
from bench.shapes.variant import ATTEMPTS, FILL, FORMS, HINTS, SHAPES, STATISTICS, B, D, Variant

LOAD_BATCH = 500_000
Figures = Iterator[Figure]


@dataclass(frozen=True)
class Sizes:
    rows: int = 20_000
    rows_singly: int = 1_000  # a batch of one commits for every run, so fewer say as much
    repeats: int = 3
    finished: int = 5_000_000
    future: int = 1_000_000
    held_rounds: int = 6


def shapes_empty(server: Server, sizes: Sizes) -> Figures:
    install(server, SHAPES)
    yield from _grid(server, SHAPES, "shapes, empty", sizes, clear=True)


def shapes_finished(server: Server, sizes: Sizes) -> Figures:
    install(server, SHAPES)
    for v in SHAPES:
        load(server, partial(schema.preload_finished, v), sizes.finished)
    _settle(server)
    yield from _grid(server, SHAPES, "shapes, finished", sizes)


def shapes_future(server: Server, sizes: Sizes) -> Figures:
    install(server, SHAPES)
    for v in SHAPES:
        load(server, partial(schema.enqueue, v, state="scheduled"), sizes.future)
    _settle(server)
    yield from _grid(server, SHAPES, "shapes, future", sizes)


def fill(server: Server, sizes: Sizes) -> Figures:
    install(server, FILL)
    # Fill factors differ by little, so more rounds.
    more = replace(sizes, repeats=2 * sizes.repeats - 1)
    yield from _grid(server, FILL, "fill", more, batches=(100, 1000), processes=(1,), clear=True)


def forms(server: Server, sizes: Sizes) -> Figures:
    install(server, FORMS)
    yield from _grid(server, FORMS, "forms", sizes, processes=(1,), clear=True)


def attempts(server: Server, sizes: Sizes) -> Figures:
    install(server, ATTEMPTS)
    yield from _grid(
        server, ATTEMPTS, "attempts", sizes, batches=(100, 1000), processes=(1,), clear=True
    )


def hints(server: Server, sizes: Sizes) -> Figures:
    """A snapshot older than all of it stays open, so no dead row or index entry can be removed."""
    install(server, HINTS)
    with server.connect() as holder:
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT count(*) FROM pg_class")
        held = replace(sizes, repeats=sizes.held_rounds)
        yield from _grid(server, HINTS, "held snapshot", held, batches=(100,), processes=(1,))


def promoted(server: Server, sizes: Sizes) -> Figures:
    """Runs that waited for their time first: promotion has used the room that a HOT claim needs."""
    variants = [B, *(replace(D, name=f"d ff{n}", fillfactor=n) for n in (50, 40, 30))]
    install(server, variants)
    for round_ in range(1, sizes.repeats + 1):
        for v in variants:
            _empty(server, v)
            yield measure(
                server,
                v,
                experiment="promoted",
                batch=100,
                workers=1,
                round_=round_,
                rows=sizes.rows,
                is_promoted=True,
            )


def statistics(server: Server, sizes: Sizes) -> Figures:
    """What the planner believes is out of date: the table empty, or full of future runs only."""
    install(server, STATISTICS)
    few = replace(sizes, rows=sizes.rows // 4)
    with server.connect() as holder:
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT count(*) FROM pg_class")
        # The vacuum after each drain sees dead rows only and writes down "0 rows in n pages".
        yield from _stale(server, "first drain", replace(few, repeats=1))
        yield from _stale(server, "believed empty", few)
    for v in STATISTICS:
        load(server, partial(schema.enqueue, v, state="scheduled"), sizes.future // 10)
    _settle(server)
    yield from _stale(server, "analysed when all was future", few)


def _stale(server: Server, what: str, sizes: Sizes) -> Figures:
    name = f"statistics: {what}"
    yield from _grid(server, STATISTICS, name, sizes, batches=(1000,), processes=(1,))


DRAINS: dict[str, Callable[[Server, Sizes], Figures]] = {
    "empty": shapes_empty,
    "fill": fill,
    "forms": forms,
    "attempts": attempts,
    "hints": hints,
    "promoted": promoted,
    "statistics": statistics,
    "future": shapes_future,
    "finished": shapes_finished,
}


def install(server: Server, variants: list[Variant]) -> None:
    with server.connect() as connection:
        for v in variants:
            connection.execute(schema.create(v).encode())
            connection.execute(statements.functions(v).encode())


def load(server: Server, statement: Callable[[int, int], str], rows: int) -> None:
    with server.connect() as connection:
        for first in range(1, rows, LOAD_BATCH):
            last = min(rows, first + LOAD_BATCH - 1)
            connection.execute(statement(first, last).encode())


def _settle(server: Server) -> None:
    """Leave no hint bits, statistics or dirty pages of the load for the first one measured."""
    with server.connect() as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _grid(
    server: Server,
    variants: list[Variant],
    experiment: str,
    sizes: Sizes,
    *,
    batches: tuple[int, ...] = (1, 100, 1000),
    processes: tuple[int, ...] = (1, 2),
    clear: bool = False,
) -> Figures:
    for round_ in range(1, sizes.repeats + 1):
        for batch in batches:
            for workers in processes:
                for v in variants:
                    if clear:
                        _empty(server, v)
                    yield measure(
                        server,
                        v,
                        experiment=experiment,
                        batch=batch,
                        workers=workers,
                        round_=round_,
                        rows=sizes.rows if batch > 1 else sizes.rows_singly,
                    )


def _empty(server: Server, v: Variant) -> None:
    tables = [hot_table(v)]
    tables += [f"{v.schema}.ended_runs"] if v.shape != "a" else []
    tables += [f"{v.schema}.attempts"] if v.shape == "c" or v.has_attempt_row else []
    with server.connect() as connection:
        connection.execute(f"TRUNCATE {', '.join(tables)}".encode())
