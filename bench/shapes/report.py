"""Medians and spread of the recorded figures, as Markdown tables."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

Key = tuple[str, int, int]


def tables(path: Path) -> str:
    by_experiment: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in path.read_text().splitlines():
        figure = json.loads(line)
        by_experiment[figure.get("experiment", "probes")].append(figure)
    probes = by_experiment.pop("probes", [])
    parts = [_table(name, figures) for name, figures in by_experiment.items()]
    shapes = [f for name, fs in by_experiment.items() if name.startswith("shapes") for f in fs]
    parts += [_pooled(shapes)] if shapes else []
    return "\n\n".join(parts + ([_probes(probes)] if probes else []))


def _pooled(figures: list[dict[str, Any]]) -> str:
    """All shapes against b of the same round, over every experiment; batches of one are too few."""
    place = ("experiment", "batch", "workers", "round")
    rows = {(*(f[p] for p in place), f["variant"]): f for f in figures if f["batch"] > 1}
    lines = [
        "### shapes against b, pooled",
        "",
        "| shape | figure | median | quartiles | below 1 |",
    ]
    lines += ["|---|---|---|---|---|"]
    for shape in "acd":
        for column in ("runs_per_second", "server_cpu_us", "drain_wal_bytes"):
            pairs = [(f, rows[(*k[:4], "b")]) for k, f in rows.items() if k[4] == shape]
            ratios = sorted(f[column] / b[column] for f, b in pairs if b[column])
            n = len(ratios)
            lines.append(
                f"| {shape} | {column} | {median(ratios):.2f} "
                f"| {ratios[n // 4]:.2f}-{ratios[3 * n // 4]:.2f} "
                f"| {sum(r < 1 for r in ratios)} of {n} |"
            )
    return "\n".join(lines)


def _probes(probes: list[dict[str, Any]]) -> str:
    lines = ["### probes", "", "| question | variant | ms (min-max) |", "|---|---|---|"]
    lines += [
        f"| {p['probe']} | {p['variant']} | {p['ms']:.2f} ({p['least']:.2f}-{p['most']:.2f}) |"
        for p in probes
    ]
    return "\n".join(lines)


def _table(name: str, figures: list[dict[str, Any]]) -> str:
    groups: dict[Key, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for f in figures:
        # Under a held snapshot the rounds are the point: each is a line of its own.
        turn = f["round"] if name.startswith("held") else 0
        groups[(f"{turn or ''}", f["batch"], f["workers"])][f["variant"]].append(f)
    lines = [
        f"### {name}",
        "",
        "| batch × workers | variant | runs/s (min-max) | ratio | server CPU µs (least) | ratio "
        "| WAL B/run enqueue + drain | HOT % | hot table MB | dead | vacuum s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (turn, batch, workers), variants in groups.items():
        lines += _rows(f"{batch} × {workers}" + (f" round {turn}" if turn else ""), variants)
    return "\n".join(lines)


def _rows(label: str, variants: dict[str, list[dict[str, Any]]]) -> Iterable[str]:
    base = next(iter(variants.values()))
    for variant, figures in variants.items():
        rates = [f["runs_per_second"] for f in figures]
        cpu = [f["server_cpu_us"] for f in figures]
        yield (
            f"| {label} | {variant} | {median(rates):,.0f} ({min(rates):,.0f}-{max(rates):,.0f}) "
            f"| {_ratio(figures, base, 'runs_per_second')} "
            f"| {median(cpu):.1f} ({min(cpu):.1f}) | {_ratio(figures, base, 'server_cpu_us')} "
            f"| {_mid(figures, 'enqueue_wal_bytes'):.0f} + {_mid(figures, 'drain_wal_bytes'):.0f} "
            f"| {_mid(figures, 'hot_percent'):.0f} | {_mid(figures, 'hot_table_bytes') / 1e6:.1f} "
            f"| {_mid(figures, 'dead_tuples'):.0f} | {_mid(figures, 'vacuum_seconds'):.2f} |"
        )


def _mid(figures: list[dict[str, Any]], column: str) -> float:
    return float(median(f[column] for f in figures))


def _ratio(figures: list[dict[str, Any]], base: list[dict[str, Any]], column: str) -> str:
    """Median over the rounds, each against the first variant of the same round.

    Neighbours in time shared the machine's other load, so this is steadier than the medians' ratio.
    """
    of_round = {f["round"]: f[column] for f in base}
    ratios = [f[column] / of_round[f["round"]] for f in figures if of_round.get(f["round"])]
    return f"{median(ratios):.2f}" if ratios else "-"
