"""Templates: everything is escaped, all variables are declared, and nothing is read while a
template renders."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from rota.api.errors import ProblemError
from rota.model.log_volume import LogVolume
from rota.model.strip import WORDS
from rota.operations.command_line import line_of
from rota.web import assets, charts, time_text
from rota.web.axes import axis_of
from rota.web.context import Frame, Page
from rota.web.run_text import told_of


@cache
def environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("rota.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "number": time_text.number,
        "plain": time_text.plain,
        "percent": time_text.percent,
        "duration": time_text.duration,
        "milliseconds": lambda ms: time_text.duration(None if ms is None else ms / 1000),
        "size": time_text.size,
        "pretty": pretty,
        "coded": coded,
        "told": told_of,
    }
    found.filters |= filters
    found.globals |= {
        "plural": time_text.plural,
        "line_of": line_of,
        "asset": assets.path_of,
        "glyph_of": glyph_of,
        "chart_axis": axis_of,
        "chart_steps": charts.steps,
        "chart_area": charts.area,
        "chart_line": charts.line,
        "chart_bars": charts.bars,
        "volume_of": volume_of,
        "strip_words": WORDS,
    }
    # For all templates, and for blocks that are rendered alone, which have no imports.
    found.globals["ui"] = found.get_template("_ui.html").module
    found.globals["forms"] = found.get_template("_inputs.html").module
    found.globals["filter"] = found.get_template("_filter.html").module
    found.globals["log"] = found.get_template("_log.html").module
    why: Any = found.get_template("_why.html").module
    found.globals["why_panel"] = why.panel
    found.globals["api"] = found.get_template("_api.html").module
    found.globals["charts"] = found.get_template("_charts.html").module
    return found


# States that share the icon of another state; all others have their own.
_GLYPHS = {
    "timed_out": "failed",
    "caught_up": "late",
    "full": "late",
    "unserved": "warn",
    "stuck": "warn",
    "silent": "late",
    "failing": "warn",
    "stopping": "draining",
    "asleep": "paused",
    "gone": "disabled",
    "orphaned": "warn",
}


def glyph_of(state: str) -> str:
    return _GLYPHS.get(state, state)


def volume_of(volume: LogVolume, *levels: str) -> list[int]:
    """Return the number of lines of these levels, for each step."""
    return [sum(step.levels.get(level, 0) for level in levels) for step in volume.steps]


def render(page: Page, shell: Frame, block: str | None = None) -> str:
    """Render the whole page, or one block of it, which a script asks for to reload a part."""
    template = environment().get_template(page.template)
    values = {field.name: getattr(page, field.name) for field in dataclasses.fields(page)}
    values |= {"page": page, "shell": shell, "time": _timer(shell), "since": _since(shell)}
    if block is None:
        return template.render(values)
    if block not in template.blocks:
        raise ProblemError(400, "malformed", f"unknown part of this page: {block!r}")
    return "".join(template.blocks[block](template.new_context(values)))


def render_lines(rows: Sequence[Any], root: str) -> str:
    """Render log lines for an open page."""
    log: Any = environment().globals["log"]
    return "".join(log.line(root, row) for row in rows)


def render_gap(root: str, path: str, since: datetime, until: datetime) -> str:
    """Render the marker in the place of left-out lines, as one line."""
    log: Any = environment().globals["log"]
    return str(log.gap(root, path, since, until)).strip()


def render_alone(page: Any) -> str:
    """Render a page without the frame, for viewers who have not signed in."""
    values = {field.name: getattr(page, field.name) for field in dataclasses.fields(page)}
    return environment().get_template(page.template).render(values)


def _timer(shell: Frame) -> Any:
    """`{{ time(at) }}`: relative up to a day, with the absolute time and its zone on hover."""

    def time(at: datetime | None, how: str = "relative") -> Markup:
        if at is None:
            return Markup("")
        is_near = abs(at - shell.now) < timedelta(days=1)
        if how == "relative" and is_near:
            text = time_text.relative(at, shell.now)
        elif how == "clock":
            text = time_text.clock(at, shell.zone)
        else:
            text = time_text.short(at, shell.zone, shell.now)
        kind = "relative" if how == "relative" and is_near else "fixed"
        return Markup('<time datetime="{}" title="{}" data-time="{}">{}</time>').format(
            at.isoformat(), time_text.absolute(at, shell.zone), kind, text
        )

    return time


def _since(shell: Frame) -> Any:
    """`{{ since(at) }}`: how long ago, in one unit."""

    def since(at: datetime | None) -> str:
        return "" if at is None else time_text.roughly((shell.now - at).total_seconds())

    return since


def coded(text: str) -> Markup:
    """Return text in which `code` is marked up as in our docs."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if n % 2 else escape(part)
        for n, part in enumerate(text.split("`"))
    )


def pretty(value: Any) -> str:
    """Return JSON in which numbers keep their stored digits."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
