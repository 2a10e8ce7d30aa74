"""What a form says when Rota refuses what was typed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rota
from rota.errors import InputError, TimingError
from rota.web.refusals import refusal
from tests.web.conftest import Browser

WEB = Path(rota.__file__).parent / "web"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (InputError("cap must be a number, not 'x'"), "Cap must be a number, not 'x'."),
        (InputError("no job is named \"x\"", hint="app.jobs.list() lists them"),
         'No job is named "x". The page Jobs lists them.'),
        (InputError("refused.", hint="None removes the cap."),
         "Refused. An empty field removes the cap."),
        (InputError('job "send": priority must be from 0 to 9'), "Priority must be from 0 to 9."),
        (TimingError("cron '61 * * * *': minute takes 0-59"), "Minute takes 0-59."),
        (ValueError("'x' is not a whole number."), "'x' is not a whole number."),
    ],
)  # fmt: skip
def test_a_sentence_in_the_words_of_the_pages(error: Exception, told: str) -> None:
    assert refusal(error) == told


def test_every_form_says_it_so() -> None:
    """Which field is meant may be read from the message; `refusal` alone makes what is shown."""
    read = re.compile(r"(?<!field_of\()(?<!blamed\()(?<!wording\.said\()\bstr\((error|refused)\)")
    bare = [
        f"{path.name}: {line.strip()}"
        for path in sorted(WEB.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if read.search(line)
    ]
    assert bare == []


async def test_advice_is_shown_too(web: Browser, shop: rota.App) -> None:
    await web.post("/runs/new", 422, job="nothing")
    assert "The page Jobs lists them." in web.text
