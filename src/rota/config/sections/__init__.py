"""The sections of rota.toml, one a file."""

from __future__ import annotations
