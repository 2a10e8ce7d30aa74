"""The loops that work for the whole fleet or for one worker, each with one `run_once`."""

from __future__ import annotations
