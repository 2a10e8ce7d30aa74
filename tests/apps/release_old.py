"""The release before `tests.apps.release_new`."""

from __future__ import annotations

from tests.apps.making import make_app
from tests.apps.releases import OLD, declare

app = make_app(name="shop")
declare(app, OLD)
