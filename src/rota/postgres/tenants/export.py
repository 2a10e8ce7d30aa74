"""Exports all data of a tenant as one archive: a tar.gz with a file of JSON lines for each
table."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from psycopg import Connection, Error, ServerCursor

from rota.model.tenant import TenantArchive
from rota.postgres.errors import translate
from rota.postgres.sessions.pool import Database
from rota.postgres.steps import OnProgress

PARTS = (
    "settings",
    "schedules",
    "deleted_schedules",
    "occurrences",
    "backfills",
    "open_runs",
    "ended_runs",
    "past_attempts",
    "logs",
    "keys",
    "events",
    "limits",
    "days",
    "audit",
)
OnOpen = Callable[[Connection[Any]], None]
_PAGE = 1000
# Reading a large table may take long before the first row of the tenant arrives.
_ANSWER_SECONDS = 3600.0


def export_tenant(
    database: Database, name: str, path: Path, on_progress: OnProgress | None = None
) -> TenantArchive:
    """Export the data as of one moment, despite concurrent changes. Neither side holds more than a
    page of rows. An incomplete file is removed."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        with open(unfinished, "wb", opener=_private) as file:
            rows = write_archive(database, name, file, place=path.parent, on_progress=on_progress)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return TenantArchive(name, str(path), rows)


def _private(path: str, flags: int) -> int:
    """Create the file for its owner only, because it contains all data of a tenant. A leftover file
    may be readable by others, and is replaced."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, flags | os.O_EXCL, 0o600)


def write_archive(
    database: Database,
    name: str,
    to: IO[bytes],
    *,
    place: Path | None = None,
    on_progress: OnProgress | None = None,
    on_open: OnOpen | None = None,
) -> dict[str, int]:
    """Write the archive to any binary stream; return the number of rows of each table. Lines are
    buffered in files at `place`. `on_open` gets the connection, to be able to interrupt the
    export."""
    report = on_progress or (lambda count: None)
    rows: dict[str, int] = {}
    with (
        translate(),
        gzip.GzipFile(fileobj=to, mode="wb", compresslevel=6, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
        closing(_parts(database, name, on_open)) as parts,
    ):
        for part, lines in parts:
            rows[part] = _add(archive, part, lines, place, report)
        _add_manifest(archive, name, rows)
    return rows


def _parts(
    database: Database, name: str, on_open: OnOpen | None
) -> Generator[tuple[str, Iterator[str]]]:
    with database.connect_sync("export", _ANSWER_SECONDS) as conn:
        if on_open is not None:
            on_open(conn)
        conn.autocommit = True
        conn.execute(database.statements.get("session/snapshot"))
        for part in PARTS:
            with _cursor(conn) as cursor:
                cursor.execute(database.statements.get(f"export/{part}"), {"tenant": name})
                yield part, (row[0] for row in cursor)


@contextmanager
def _cursor(conn: Connection[Any]) -> Iterator[ServerCursor[Any]]:
    cursor = conn.cursor(name="export")
    cursor.itersize = _PAGE
    try:
        yield cursor
    finally:
        try:
            cursor.close()
        except Error:
            cursor.close()  # the connection is marked as broken now, so this sends nothing
            raise


def _add(
    archive: tarfile.TarFile,
    part: str,
    lines: Iterator[str],
    place: Path | None,
    on_progress: OnProgress,
) -> int:
    """Add a member. Its size comes before its content, so the lines are buffered in a file."""
    count = 0
    with TemporaryFile(dir=place) as waiting:
        for count, line in enumerate(lines, 1):
            waiting.write(line.encode() + b"\n")
            if count % _PAGE == 0:
                on_progress(_PAGE)
        on_progress(count % _PAGE)
        _store(archive, f"{part}.jsonl", waiting, waiting.tell())
    return count


def _store(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    content.seek(0)
    archive.addfile(member, content)


def _add_manifest(archive: tarfile.TarFile, name: str, rows: dict[str, int]) -> None:
    manifest: dict[str, Any] = {"tenant": name, "rows": rows, "format": 1}
    text = json.dumps(manifest, ensure_ascii=False, indent=2).encode()
    _store(archive, "manifest.json", io.BytesIO(text), len(text))
