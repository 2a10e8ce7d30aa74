"""`rota worker` as processes: the supervisor and its children, signals and the end."""

from __future__ import annotations
