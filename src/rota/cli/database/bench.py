"""`rota bench`: measure Rota on this server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.session import session
from rota.cli.terminal.flags import Json
from rota.cli.terminal.output import print_json, remark, table
from rota.model.formatting import number

if TYPE_CHECKING:
    from rota.benchmark import Measurement


def bench(
    ctx: typer.Context,
    runs: Annotated[
        int, typer.Option(min=100, max=1_000_000, help="Number of runs to process.")
    ] = 20_000,
    rounds: Annotated[
        int, typer.Option(min=1, max=20, help="Number of rounds; the median is reported.")
    ] = 3,
    json: Json = False,
) -> None:
    """Benchmark Rota on the configured server. Uses a temporary schema that is dropped afterwards.
    The baseline runs the same statements as bare SQL, without Rota."""
    import asyncio
    from dataclasses import asdict

    from rota.benchmark import run_benchmark

    config = session(ctx).config()
    measured = asyncio.run(run_benchmark(config, runs=runs, rounds=rounds, say=remark))
    if json:
        print_json([{**asdict(result), "ratio": result.ratio} for result in measured])
        return
    table(
        ["MEASURE", "ROTA>", "FLOOR>", "RATIO>", "UNIT"],
        [
            (result.name, number(result.rota), number(result.floor), _share(result), result.unit)
            for result in measured
        ],
    )


def _share(one: Measurement) -> str:
    return "" if one.ratio is None else f"{one.ratio:.2f}"
