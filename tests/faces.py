"""All faces of an application, which makes each when it is first used."""

from __future__ import annotations

from functools import cached_property

import rota
from rota.admin.face import AsyncFace
from rota.admin.faces import Faces


def faces_of(app: rota.App) -> dict[str, AsyncFace]:
    names = [name for name, it in vars(Faces).items() if isinstance(it, cached_property)]
    found = {name: getattr(app, name) for name in ["runs", *names]}
    assert all(isinstance(it, AsyncFace) for it in found.values())
    return found
