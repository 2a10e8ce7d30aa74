"""Between the database and the slots: what is claimed and when, and ends on their way back."""

from __future__ import annotations
