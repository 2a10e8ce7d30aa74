"""The coming load as a map: a row per day, a column per hour, darker for more starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.cli.terminal import times
from rota.cli.terminal.output import block, heading, say
from rota.model.formatting import plural

if TYPE_CHECKING:
    from rota.timing.load import Load, PileUp, PredictedOverlap, Suggestion

_SHADES = "░▒▓█"
_MOST_NAMES = 5


def draw(load: Load) -> None:
    most = max((max(day.hours) for day in load.days), default=0)
    days = (load.until_at - load.from_at).days
    say(
        f"{plural(load.total, 'run')} in the next {plural(days, 'day')}, by hour in {load.timezone}"
    )
    say("")
    say(" " * 11 + "".join(f"{hour:02} " for hour in range(24)).rstrip())
    for day in load.days:
        cells = "".join(f"{_shade(count, most) * 2} " for count in day.hours)
        say(f"{day.day:%a %d %b} {cells}".rstrip())
    say(f"{'':11}{_legend(most)}")
    _section("pile-ups", [_pile_up(pile_up) for pile_up in load.pile_ups])
    _section(
        "likely overlaps, based on the duration of past runs",
        [_overlap(overlap) for overlap in load.overlaps],
    )
    _section("suggestions", [_advice(suggestion) for suggestion in load.suggestions])
    _section("not included", [f"{one.schedule}: {one.reason}" for one in load.left_out])


def _shade(count: int, most: int) -> str:
    return _SHADES[min(3, (count - 1) * 4 // most)] if count else "·"


def _legend(most: int) -> str:
    """Return the smallest count of each shade."""
    counts = (
        sorted(
            {_shade(count, most): count for count in range(most, 0, -1)}.items(),
            key=lambda pair: pair[1],
        )
        if most <= 10_000
        else []
    )
    starts = " ".join(f"{shade} from {least}" for shade, least in counts)
    return f"· none {starts}" if counts else f"· none {_SHADES} up to {most}"


def _section(title: str, lines: list[str]) -> None:
    if lines:
        heading(title)
        for line in lines:
            block(line)


def _pile_up(one: PileUp) -> str:
    days = f" on {one.days} days" if one.days > 1 else ""
    return f"{one.count} at {one.at}{days}: {_names(one.schedules)}"


def _overlap(one: PredictedOverlap) -> str:
    how = "usually takes" if one.is_usual else "has taken up to"
    took = one.avg_duration_ms if one.is_usual else one.max_duration_ms
    return f"{one.schedule}: every {times.span(one.gap_seconds)}, {how} {times.took(took)}"


def _advice(one: Suggestion) -> str:
    jitter = times.span(one.jitter_seconds).replace(" ", "")
    each = max(1, round(len(one.schedules) * 60 / one.jitter_seconds))
    return (
        f"{one.at}: a jitter of {jitter} would spread {len(one.schedules)} of them, about {each} "
        f"per minute: rota schedules update NAME --jitter {jitter}"
    )


def _names(names: list[str]) -> str:
    left = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {left} more" if left > 0 else "")
