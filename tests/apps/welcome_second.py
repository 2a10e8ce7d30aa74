"""The second release of `tests.apps.welcome`."""

from __future__ import annotations

from tests.apps import welcome
from tests.apps.making import make_app

app = make_app()
welcome.second(app)
