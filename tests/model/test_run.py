"""What a claim says about its run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota.model.run import Claim

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def claim(extras: bytes | None) -> Claim:
    return Claim(
        1, 1, 1, 0, 3, 5, "mail", "send", b"{}", None, None, None, False, NOW, NOW, extras, ""
    )


@pytest.mark.parametrize(
    "extras",
    [
        None,
        b'{"key": null, "tags": ["a"], "schedule": null}',
        b'{"metadata": {"key": "k", "schedule": "s"}, "key": null, "schedule": null}',
    ],
)
def test_a_run_without_key_and_schedule_is_plain(extras: bytes | None) -> None:
    assert claim(extras).is_plain


@pytest.mark.parametrize(
    "extras",
    [
        b'{"key": "k", "schedule": null}',
        b'{"key": null, "schedule": "s"}',
        # What the metadata say about other keys and schedules does not count.
        b'{"key": "k", "metadata": {"a": {"key": null}}, "schedule": null}',
        b'{"key": null, "metadata": {"a": {"schedule": null}}, "schedule": "s"}',
    ],
)
def test_a_run_with_a_key_or_a_schedule_is_not(extras: bytes) -> None:
    assert not claim(extras).is_plain
