"""docs/reference/stream.md names every event and topic, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from rota.api import stream
from rota.telemetry.events import EVENTS, TOPICS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "stream.md").read_text(encoding="utf-8")


def test_every_event_has_a_row_and_every_row_an_event() -> None:
    rows = re.findall(r"^\| `([a-z.]+_?[a-z]*)` \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [(name, topic, text) for name, (topic, text) in EVENTS.items()]


def test_topics_and_limits_are_those_of_the_code() -> None:
    assert f"comma-separated: {', '.join(f'`{one}`' for one in TOPICS)};" in PAGE
    assert f"At most {stream.MOST_LISTENERS} clients" in PAGE
    assert f"({stream.MOST_WAITING} waiting events)" in PAGE
