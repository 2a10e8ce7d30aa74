"""The lease of a worker: its heartbeat, and the health of the worker's loops."""

from __future__ import annotations
