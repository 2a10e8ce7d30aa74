from __future__ import annotations

import os

from psycopg.conninfo import conninfo_to_dict

_found = conninfo_to_dict(os.environ["SITE_DATABASE_URL"])

SECRET_KEY = "of a test"
USE_TZ = True
INSTALLED_APPS = ["orders"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _found["dbname"],
        "USER": _found["user"],
        "PASSWORD": _found.get("password", ""),
        "HOST": _found["host"],
        "PORT": _found["port"],
        "CONN_MAX_AGE": None,  # connections stay: the harder case
    }
}
ROTA_APP = os.environ.get("SITE_ROTA_APP", "orders.jobs:app")
TEST_RUNNER = os.environ.get("SITE_TEST_RUNNER", "rota.testing.django.TestRunner")
