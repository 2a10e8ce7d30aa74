from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from rota.config import describe
from rota.config.hooks import Webhook

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def documented() -> dict[str, list[str]]:
    """The rows of all tables by key: variable, type, range, default, meaning."""
    rows: dict[str, list[str]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| `([\w.]+)` \|(.*)\|$", line):
            assert match[1] not in rows, f"{match[1]} is documented twice"
            rows[match[1]] = [cell.strip() for cell in match[2].split("|")]
    return rows


def test_every_setting_has_an_entry_and_every_entry_a_setting() -> None:
    assert list(documented()) == [setting.key for setting in describe()]


def test_every_entry_tells_the_truth() -> None:
    rows = documented()
    for setting in describe():
        variable, type_text, range_text, default, meaning = rows[setting.key]
        told = (variable.strip("`"), type_text, range_text, default)
        actual = (setting.env, setting.type_text, setting.range_text, setting.default_text)
        assert told == actual, setting.key
        assert meaning


def test_every_key_of_a_webhook_has_an_entry_and_every_entry_is_one() -> None:
    told = re.findall(r"^\| \*\*`(\w+)`\*\* \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert told == [one.name for one in fields(Webhook) if one.name != "name"]
