"""The release after `tests.apps.fleet_old`."""

from __future__ import annotations

from tests.apps.fleet import make_release

app = make_release("pay_by_card", "new")
