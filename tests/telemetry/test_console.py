"""Lines of handlers on the console: at once, whole, and in the form of all others."""

from __future__ import annotations

import io
import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from rota.telemetry import logging as console
from rota.telemetry.logger import render
from rota.telemetry.logging import configure, get_logger, print_line
from tests.terminal import EVIL, check


class Stream(io.StringIO):
    """Remembers each call; there is no file behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def write(self, text: str) -> int:
        self.calls.append(text)
        return len(text)

    def flush(self) -> None:
        self.calls.append("<flush>")

    @property
    def lines(self) -> list[str]:
        return [call for call in self.calls if call != "<flush>"]


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, before = list(root.handlers), root.level, console._console
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    console._console = before


def say(message: object = "done", level: str = "info", job: str = "work", **fields: Any) -> None:
    print_line(job, level, message, 7, fields, time.monotonic_ns())


def test_one_write_for_each_line_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []
    write = os.write

    def note(file: int, data: bytes) -> int:
        writes.append(data)
        return write(file, data)

    monkeypatch.setattr(os, "write", note)
    with open(tmp_path / "console", "w", buffering=1, encoding="utf-8") as stream:
        configure("info", stream)
        say(n=1)
        say("zwölf", "warning", user="Ada Lovelace", ratio=0.5)
        first, second = (tmp_path / "console").read_bytes().splitlines(keepends=True)
        stream.close()
        say("nobody hears it")
    assert writes == [first, second]
    assert first[8:] == b" INFO    rota.job.work  done  run=7 n=1\n"
    shown = " WARNING rota.job.work  zwölf  run=7 user='Ada Lovelace' ratio=0.5\n"
    assert second[8:].decode() == shown


def test_a_line_that_does_not_go_at_once_goes_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    with open(tmp_path / "console", "w", buffering=1, encoding="utf-8") as stream:
        configure("info", stream)
        say("a" * 100)
    assert (tmp_path / "console").read_text().endswith(f"{'a' * 100}  run=7\n")


@pytest.mark.parametrize("options", [{"buffering": 1, "encoding": "latin-1"}, {"buffering": 8192}])
def test_what_the_stream_does_itself(tmp_path: Path, options: dict[str, Any]) -> None:
    """Another encoding, and lines that it would keep."""
    with open(tmp_path / "console", "w", **options) as stream:
        configure("info", stream)
        say("zwölf")
        shown = (tmp_path / "console").read_text(stream.encoding)
    assert shown[8:] == " INFO    rota.job.work  zwölf  run=7\n"


def test_a_stream_that_keeps_lines_is_flushed() -> None:
    stream = Stream()
    configure("info", stream)
    say()
    assert [call[-5:] for call in stream.calls] == ["un=7\n", "lush>"]


def test_the_short_way_and_that_of_logging_give_the_same_line() -> None:
    stream = Stream()
    configure("info", stream)
    say("a\x1b[2Jb\ud800", n=1, text="x\ny")
    seen: list[logging.LogRecord] = []
    other = logging.Handler()
    other.emit = seen.append  # type: ignore[method-assign]
    logger = logging.getLogger("rota.job.work")
    logger.addHandler(other)
    try:
        say("a\x1b[2Jb\ud800", n=1, text="x\ny")
    finally:
        logger.removeHandler(other)
    lines = stream.lines
    assert lines[0][8:] == lines[1][8:]
    assert "\x1b" not in lines[0]
    assert [record.getMessage() for record in seen] == [lines[0][32:-1]]


def entries(text: str) -> list[str]:
    """What begins with a time; each of them is one that was logged."""
    return re.findall(r"^\d\d:\d\d:\d\d .*", text, re.MULTILINE)


def test_no_line_is_forged_and_no_terminal_steered() -> None:
    """By a message, a field, its name, the name of a job or of a logger, a level, a traceback or a
    stack, on either way; of our own lines, of anybody's, and of a structlog left as it is."""
    stream = Stream()
    structlog.reset_defaults()
    configure("info", stream)
    try:
        say(EVIL, job=EVIL, **{EVIL: EVIL, "n": 1})
        logging.getLogger(EVIL).warning(EVIL, stack_info=True)
        logging.addLevelName(35, EVIL)
        logging.getLogger("host").log(35, "%s", EVIL)
        get_logger("api").warning(EVIL, **{EVIL: EVIL})
        for log in (logging.getLogger("host"), get_logger("api"), structlog.get_logger()):
            try:
                raise ValueError(EVIL)
            except ValueError:
                log.exception(EVIL)
        structlog.get_logger().info(EVIL, stack_info=True, **{EVIL: EVIL})
    finally:
        structlog.reset_defaults()
        logging.addLevelName(35, "Level 35")
    shown = "".join(stream.lines)
    check(shown)
    assert len(entries(shown)) == 8
    assert shown.count("    ValueError: evil") == 3


def test_an_error_without_a_text_is_called_by_its_name() -> None:
    assert render("x", {"error": TimeoutError()}) == "x  error=TimeoutError"
    assert render("x", {"error": ValueError("no"), "word": ""}) == "x  error=no word="


def test_whoever_configures_structlog_is_left_alone() -> None:
    structlog.configure(processors=[])
    try:
        configure("info", Stream())
        assert structlog.get_config()["processors"] == []
    finally:
        structlog.reset_defaults()


def test_the_time_is_that_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    configure("info", stream)
    now = [1_000_000_000.25]
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(time, "time_ns", lambda: int(now[0] * 10**9))
    shown = []
    for nanoseconds in (0, 740_000_000, 760_000_000):
        now[0] = 1_000_000_000.25 + nanoseconds / 10**9
        print_line("work", "info", "done", 7, {}, nanoseconds)
        shown.append(stream.lines[-1][6:8])
    assert shown[0] == shown[1]
    assert int(shown[2]) == (int(shown[1]) + 1) % 60


def test_levels_and_a_console_that_is_gone() -> None:
    stream = Stream()
    configure("warning", stream)
    say()
    assert stream.calls == []
    stream.write = _gone  # type: ignore[method-assign]
    say(level="error")


def _gone(text: str) -> int:
    raise BrokenPipeError
