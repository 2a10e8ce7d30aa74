"""Counters of a worker, and how they become roll-ups."""

from __future__ import annotations
