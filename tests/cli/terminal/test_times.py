from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota.cli.terminal import times
from rota.cli.terminal.progress import progress
from tests.cli.conftest import Cli

AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _own_zone() -> object:
    yield
    times.use_environment()


def test_times_are_in_the_zone_of_the_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_CLI_TIMEZONE", "America/New_York")
    times.use_environment()
    assert times.absolute(AT) == "2026-01-31 07:00:00 EST"
    assert times.shown(AT, AT, False) == "0s ago"
    times.use_zone("Asia/Tokyo", "--timezone")
    assert times.shown(AT, AT, False) == "2026-01-31 21:00:00 JST"
    assert times.local(datetime(2026, 1, 31, 21)) == AT  # noqa: DTZ001 - as it is typed


@pytest.mark.parametrize("variable", ["ROTA_CLI_TIMEZONE", "TZ"])
def test_an_unknown_zone_never_becomes_utc(
    bare_cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "Europe/Atlantis")
    code, out, err = bare_cli("config", "list")
    assert (code, out) == (2, "")
    assert variable in err
    assert "Europe/Atlantis" in err


def test_an_unknown_zone_of_a_flag(bare_cli: Cli) -> None:
    code, _, err = bare_cli("workers", "list", "--display-timezone", "Mars/Olympus")
    assert code == 2
    assert "unknown time zone 'Mars/Olympus'" in err
    assert bare_cli("workers", "list", "--display-timezone", "../etc").code == 2


def test_progress_is_silent_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("counting", total=2) as bar:
        bar.advance()
        bar.advance()
    assert bar.done == 2
    assert capsys.readouterr() == ("", "")
