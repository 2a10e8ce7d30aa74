"""One attempt: its context, the executor that calls the body, and what its end means."""

from __future__ import annotations
