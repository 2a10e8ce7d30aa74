"""The release after `tests.apps.release_old`."""

from __future__ import annotations

from tests.apps.making import make_app
from tests.apps.releases import NEW, declare

app = make_app(name="shop")
declare(app, NEW)
