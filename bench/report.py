"""The one table: Rota's figures, and how many times better or worse it is than each other row."""

from __future__ import annotations

from bench.figures import Figures, Key

_HEAD = ("phase", "case", "metric", "rota", "spread")


def table(figures: Figures) -> str:
    """A Markdown table. A ratio above 1 says that Rota is better than that row by so much."""
    others = [row for row in figures.rows if row != "rota"]
    head = [*_HEAD, *(f"÷ {row}" for row in others), "÷ base case"]
    lines = [head, ["---"] * len(head)]
    lines += [_line(figures, key, others) for key in figures.all_keys() if _is_shown(key)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(_aligned(line, widths) for line in lines)


def _line(figures: Figures, key: Key, others: list[str]) -> list[str]:
    own, better = figures.get(key, "rota"), figures.better(key)
    base = figures.against_base(key)
    return [
        key.phase,
        key.case,
        key.metric,
        _number(own.median) if own else "",
        f"{own.spread:.0%}" if own else "",
        *(f"{better[row]:.2f}" if row in better else "" for row in others),
        f"{base:.2f}" if base is not None else "",
    ]


def _is_shown(key: Key) -> bool:
    """Single rounds are in the JSON only."""
    return not key.metric.startswith("round ")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _aligned(line: list[str], widths: list[int]) -> str:
    cells = [
        cell.ljust(width) if at < 3 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "| " + " | ".join(cells) + " |"
