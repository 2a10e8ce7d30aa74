"""The application for `rota worker --app worker:app`: Django first."""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")
django.setup()

from orders.jobs import app  # noqa: E402

__all__ = ["app"]
