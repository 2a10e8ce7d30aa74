"""The command line, the API and the dashboard of one application."""

from __future__ import annotations

from tests.api.conftest import api as api
from tests.api.conftest import shop as shop
from tests.cli.conftest import bare_cli as bare_cli
from tests.cli.conftest import cli as cli
from tests.cli.conftest import here as here
from tests.web.conftest import stranger as stranger
from tests.web.conftest import web as web
