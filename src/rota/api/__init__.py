"""The control plane over HTTP: `create_api(app)` is an ASGI application of its own, or part of one.

Not imported by `import rota`: FastAPI takes a third of a second.
"""

from __future__ import annotations

from rota.extras import needing

with needing("server", "the API"):
    from rota.api.app import create_api

__all__ = ["create_api"]
