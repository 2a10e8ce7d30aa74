"""Log lines of handlers on their way to the database."""

from __future__ import annotations
