"""Claiming: keeps the slots of a worker supplied with runs, and writes the ends of attempts."""

from __future__ import annotations
