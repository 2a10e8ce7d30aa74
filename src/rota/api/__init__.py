"""The API over HTTP: `create_api(app)` returns an ASGI application, to be served alone or mounted
in your own.

Not imported by `import rota`: FastAPI takes a third of a second.
"""

from __future__ import annotations

from rota.extras import needing

with needing("server", "the API"):
    from rota.api.app import create_api

__all__ = ["create_api"]
