"""The right to be a worker: the heartbeat, and whether each loop gets its work done."""

from __future__ import annotations
