"""`rota worker` as processes: the supervisor and its children, signals and shutdown."""

from __future__ import annotations
