"""Measures Rota against the floor under it and against its peers.

    ./script/bench                                   everything; hours on a small machine
    ./script/bench --only throughput --rows rota,floor    one phase, two rows
    ./script/bench --quick                           tiny sizes, to see that it works

Ratios above 1 say that Rota is better. How it is measured: docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.figures import Figures
from bench.phases import PHASES
from bench.phases.base import QUICK, Sizes
from bench.quiet import Quiet
from bench.report import table
from bench.runner import Runner
from bench.server import default_places, open_server
from bench.systems import DEFAULT, OURS, SYSTEMS, make

_PEERS_DIR = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rota-bench"


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="./script/bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = found.add_argument
    add("--only", type=_names(PHASES), default=list(PHASES), help=f"phases: {', '.join(PHASES)}")
    add("--rows", type=_names(SYSTEMS), help=f"of {', '.join(SYSTEMS)} (all but the last)")
    add("--rounds", type=int, default=3, help="medians are taken over these (%(default)s)")
    add("--runs", type=int, help=f"runs of a bulk and of all backlogs ({Sizes.runs:,}; see docs)")
    add("--memory-runs", type=int, help=f"runs of the memory phase ({Sizes.memory_runs:,})")
    add("--ended", type=int, help=f"ended runs of a long history ({Sizes.ended:,})")
    add("--calls", type=int, help=f"calls of each address and page ({Sizes.calls:,})")
    add("--scheduled", type=int, help=f"runs of the scheduled phase ({Sizes.scheduled:,})")
    add(
        "--idle-workers",
        type=_counts,
        metavar="N,N",
        help="idle worker processes of the idle phase, by case (1,4,16,50)",
    )
    add(
        "--quick",
        action="store_true",
        help="tiny sizes, one round, no waiting: figures mean nothing",
    )
    add(
        "--idle-seconds",
        type=float,
        default=60,
        help="longest wait for an idle machine (%(default)s)",
    )
    add(
        "--postgres",
        action="append",
        metavar="DIR|URL",
        help="measure on a throw-away server of these binaries, or on the server at this URL; may"
        " be repeated (default: on ours, and on the distribution's where there is one)",
    )
    add(
        "--keep",
        type=Path,
        metavar="DIR",
        help="have the throw-away server there, and do not throw it away: what lists and pages"
        " are measured on is made once (one server)",
    )
    add(
        "--peers-dir", type=Path, default=_PEERS_DIR, help="where peers are installed (%(default)s)"
    )
    add("--json", type=Path, metavar="FILE", help="write all figures")
    return found


def _names(known: Any) -> Any:
    def parse(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"there is no {name!r}; of {', '.join(known)}")
        return names

    return parse


def _counts(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(one) for one in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers such as 1,4,16")
    return found


def sizes_of(arguments: argparse.Namespace) -> Sizes:
    given: dict[str, Any] = {
        name: value
        for name in ("runs", "memory_runs", "ended", "calls", "scheduled", "idle_workers")
        if (value := getattr(arguments, name)) is not None
    }
    if arguments.runs is not None:
        given["backlogs"] = (arguments.runs,)
    return replace(QUICK if arguments.quick else Sizes(), **given)


def main(argv: list[str] | None = None) -> None:
    arguments = parser().parse_args(argv)
    is_one = arguments.quick or arguments.keep is not None
    places = arguments.postgres or ([None] if is_one else default_places())
    about = conditions(arguments) | {"servers": []}
    for place in places:
        about["servers"].append(measure(place, arguments))
        if arguments.json:  # now: the next server takes as long again
            arguments.json.write_text(json.dumps(about, indent=1))


def measure(place: str | None, arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything that was asked for, on one server."""
    figures, quiet = Figures(), Quiet(0 if arguments.quick else arguments.idle_seconds)
    rounds = 1 if arguments.quick else arguments.rounds
    rows = arguments.rows or (OURS if arguments.quick else DEFAULT)
    is_durable = not arguments.quick
    with open_server(place, arguments.keep, is_durable=is_durable) as server:
        systems = [make(name, server, arguments.peers_dir) for name in rows]
        runner = Runner(systems, sizes_of(arguments), rounds, quiet, figures)
        runner.prepare()
        about = {
            "server": server.describe(),
            "versions": {one.name: one.version() for one in systems},
        }
        for name in arguments.only:
            runner.run(PHASES[name])
    figures.notes += [note for note in [quiet.note()] if note]
    print(
        f"PostgreSQL {about['server']['server_version']}", table(figures), *figures.notes, sep="\n"
    )
    return about | {"notes": figures.notes, "figures": figures.as_json()}


def conditions(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "rounds": arguments.rounds,
        "is_quick": arguments.quick,
    }


if __name__ == "__main__":
    # A plain kill must still stop the server and remove its data.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    main()
