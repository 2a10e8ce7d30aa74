"""The release before `tests.apps.fleet_new`."""

from __future__ import annotations

from tests.apps.fleet import make_release

app = make_release("pay_in_cash", "old")
