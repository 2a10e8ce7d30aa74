"""The dashboard: pages over the same use cases that the API and the command line have.

main.mount("/rota", rota.web.create_site(app))
"""

from __future__ import annotations

from rota.extras import needing

with needing("server", "the dashboard"):
    from rota.web.app import Site, create_site

__all__ = ["Site", "create_site"]
