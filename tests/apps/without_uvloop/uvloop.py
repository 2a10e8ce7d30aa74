"""First on the path of a process that is to have asyncio's own loop."""

from __future__ import annotations

raise ImportError("as where there is no uvloop")
