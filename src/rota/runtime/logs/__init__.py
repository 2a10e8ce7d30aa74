"""Lines of handlers on their way into the database."""

from __future__ import annotations
