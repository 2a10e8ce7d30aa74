"""Computes when to run, with pure functions of instants. It uses no database and no clock; only
zone data is read."""

from __future__ import annotations

from rota.timing.calendar import Calendar
from rota.timing.describe import describe
from rota.timing.nominal import Nominal
from rota.timing.preview import PreviewRow, preview
from rota.timing.templates import TEMPLATES, Template
from rota.timing.timing import Timing

__all__ = [
    "TEMPLATES",
    "Calendar",
    "Nominal",
    "PreviewRow",
    "Template",
    "Timing",
    "describe",
    "preview",
]
