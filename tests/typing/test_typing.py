"""The public types say what is so, to mypy and to pyright."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

import rota
import rota.types
from rota.operations.commands import AsyncCommands, Command
from tests.faces import faces_of

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
RIGHT, WRONG = HERE / "right.py", HERE / "wrong.py"
# How a command goes on, and what it is given: no part of its answer.
NOT_ANSWERS = {"Plan", "Execute", "Hold", "Pause", "Write", "ScheduleArguments"}


def by_mypy(path: Path) -> set[int]:
    """The lines that it refuses."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(path)]
    said = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parents[1])
    assert said.returncode in (0, 1), said.stderr
    return {int(found) for found in re.findall(rf"{path.name}:(\d+): error", said.stdout)}


def by_pyright(path: Path) -> set[int]:
    command = [sys.executable, "-m", "basedpyright", "--level", "error", "--outputjson", str(path)]
    said = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    report = json.loads(said.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, said.stdout
    return {1 + one["range"]["start"]["line"] for one in report["generalDiagnostics"]}


@pytest.mark.parametrize("checker", [by_mypy, by_pyright])
def test_what_is_right_passes(checker: Any) -> None:
    assert checker(RIGHT) == set()


@pytest.mark.parametrize("checker", [by_mypy, by_pyright])
def test_what_is_wrong_is_refused(checker: Any) -> None:
    lines = WRONG.read_text().splitlines()
    wanted = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert checker(WRONG) == wanted


def test_what_faces_answer_is_public(app: rota.App) -> None:
    public = {getattr(rota, name) for name in rota.__all__}
    public |= {getattr(rota.types, name) for name in rota.types.__all__}
    faces = [*faces_of(app).values()]
    assert len(faces) > 15
    answers = {one for face in faces for one in answered(type(face))}
    assert {one.__name__ for one in answers - public} == set()


def answered(face: type[AsyncCommands]) -> Iterator[type]:
    """Our types in what its commands answer, however deep."""
    for _, command in inspect.getmembers(face, lambda it: isinstance(it, Command)):
        yield from ours(typing.get_type_hints(inspect.unwrap(command.plan))["return"], set())


def ours(kind: Any, seen: set[Any]) -> Iterator[type]:
    for part in typing.get_args(kind):
        yield from ours(part, seen)
    found = typing.get_origin(kind) or kind
    is_ours = isinstance(found, type) and found.__module__.startswith("rota.")
    if not is_ours or found in seen or found.__name__ in NOT_ANSWERS:
        return
    seen.add(found)
    yield found
    if is_dataclass(found) or issubclass(found, tuple):
        for field in typing.get_type_hints(found).values():
            yield from ours(field, seen)
