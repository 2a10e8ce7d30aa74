"""All faces of an application, which makes each when it is first used."""

from __future__ import annotations

from functools import cached_property

import rota
from rota.operations.app_commands import CommandSets
from rota.operations.commands import AsyncCommands


def faces_of(app: rota.App) -> dict[str, AsyncCommands]:
    names = [name for name, it in vars(CommandSets).items() if isinstance(it, cached_property)]
    found = {name: getattr(app, name) for name in ["runs", *names]}
    assert all(isinstance(it, AsyncCommands) for it in found.values())
    return found
