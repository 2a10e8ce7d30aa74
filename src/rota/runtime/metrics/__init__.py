"""What a worker counts, and how that becomes roll-ups."""

from __future__ import annotations
