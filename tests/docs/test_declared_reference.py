"""What the reference says of declared operations is what the declarations say."""

from __future__ import annotations

from tests.docs.declared_reference import API, CLI, api_page, cli_page

RUN = "run .venv/bin/python -m tests.docs.declared_reference"


def test_commands() -> None:
    text = CLI.read_text(encoding="utf-8")
    assert cli_page(text) == text, RUN


def test_endpoints() -> None:
    text = API.read_text(encoding="utf-8")
    assert api_page(text) == text, RUN
