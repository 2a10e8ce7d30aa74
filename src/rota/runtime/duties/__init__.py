"""What workers do for the whole fleet or for themselves, each a loop with one `run_once`."""

from __future__ import annotations
