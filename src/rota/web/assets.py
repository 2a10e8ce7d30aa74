"""The files that pages load: named by their content, compressed once, kept by browsers for ever."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import chain

from starlette.requests import Request
from starlette.responses import Response

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    name: str
    version: str
    kind: str
    plain: bytes
    packed: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return all files, by the names that templates use."""
    static = files("rota.web").joinpath("static")
    vendored = (folder for folder in static.joinpath("vendor").iterdir() if folder.is_dir())
    names = chain.from_iterable(place.iterdir() for place in (static, *vendored))
    return {file.name: _read(file) for file in names if _suffix(file.name) in _TYPES}


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]


def _read(file: Traversable) -> Asset:
    plain = file.read_bytes()
    version = hashlib.sha256(plain).hexdigest()[:12]
    packed = gzip.compress(plain, 9, mtime=0)
    return Asset(file.name, version, _TYPES[_suffix(file.name)], plain, packed)


def path_of(name: str) -> str:
    """Return the path below the dashboard's root. A changed file has another address, so that no
    browser uses an old copy."""
    return f"/static/{assets()[name].version}/{name}"


async def serve(request: Request) -> Response:
    asset = assets().get(request.path_params["name"])
    if asset is None:
        return Response("there is no such file\n", 404, media_type="text/plain")
    headers = {"Vary": "Accept-Encoding"}
    # An address of another release: answer it, but without caching it for ever.
    is_current = request.path_params["version"] == asset.version
    headers["Cache-Control"] = _FOREVER if is_current else "no-cache"
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(asset.packed, media_type=asset.kind, headers=headers)
    return Response(asset.plain, media_type=asset.kind, headers=headers)
