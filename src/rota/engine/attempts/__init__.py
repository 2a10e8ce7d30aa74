"""An attempt: its context, the executor that calls the handler, and the outcome."""

from __future__ import annotations
