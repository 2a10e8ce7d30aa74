"""docs/reference/python.md names everything public, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import rota
import rota.testing
from rota.jobs.job_arguments import JobArguments
from rota.jobs.options import OptionArguments
from tests.faces import faces_of

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")

NOT_COMMANDS = {
    "by", "within", "seconds", "of", "sync", "close", "registry", "checked", "config", "of_tenant",
    "tenant", "scope", "noun",
}  # fmt: skip


def section(title: str) -> str:
    found = re.search(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"python.md has no section {title!r}"
    return found[1]


def first_cells(title: str) -> list[str]:
    """The names in the first column of a section's table."""
    cells = re.findall(r"^\| (`.*?) \|", section(title), re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`(.*?)`", cell)]
    return [re.sub(r"^await |\(.*$", "", name) for name in names]


def public(kind: type[Any]) -> set[str]:
    slots = {name for part in kind.__mro__ for name in getattr(part, "__slots__", ())}
    return {name for name in {*dir(kind), *slots} if not name.startswith("_")}


def test_every_exported_name_is_explained() -> None:
    words = set(re.findall(r"\b[A-Z]\w+", PAGE))
    assert {name for name in rota.__all__ if name[0].isupper()} <= words
    assert first_cells("Timings") == ["cron", "every", "once", "on_start", "after"]
    assert first_cells("Limits") == ["concurrency", "rate", "sequence"]
    assert first_cells("Bursts of events") == ["debounce", "throttle"]
    others = {"on", *first_cells("Bursts of events")}  # on is told with the option `events`
    small = {name for name in rota.__all__ if name[0].islower()}
    assert small == {*first_cells("Timings"), *first_cells("Limits"), *others}


def test_every_error_has_an_entry() -> None:
    errors = {
        name
        for name in rota.__all__
        if isinstance(it := getattr(rota, name), type) and issubclass(it, rota.RotaError)
    }
    assert set(first_cells("Errors")) == errors - {"RotaError"}


def test_every_attribute_of_the_context_has_an_entry() -> None:
    assert set(first_cells("`Context`")) == public(rota.Context)


@pytest.mark.parametrize(
    ("title", "arguments"),
    [("Declaring: `@app.job`", JobArguments), ("Options of an enqueue", OptionArguments)],
)
def test_every_option_has_an_entry(title: str, arguments: Any) -> None:
    assert set(first_cells(title)) == set(arguments.__annotations__)


@pytest.mark.parametrize(
    ("title", "kind", "prefix"), [("`Run`", rota.Run, "run."), ("`Job`", rota.Job, "job.")]
)
def test_every_method_of_a_handle_has_an_entry(title: str, kind: type[Any], prefix: str) -> None:
    told = {name.removeprefix(prefix) for name in first_cells(title)}
    twins = {name for name in public(kind) if name.endswith("_sync")} - told
    assert {name.removesuffix("_sync") for name in twins} <= told
    assert told == public(kind) - twins - {"definition"}


def test_every_entry_of_the_app_exists() -> None:
    app = rota.App(embedded=False)
    for name in first_cells("`App`"):
        found = re.match(r"(?:@|async with )?app\.?(\w*)", name)
        assert found, name
        assert not found[1] or hasattr(app, found[1]), name


def test_every_command_of_the_managing_faces_has_an_entry() -> None:
    app = rota.App(embedded=False)
    actual = {
        f"app.{noun}.{name}"
        for noun, face in faces_of(app).items()
        for name in public(type(face))
        if not name.endswith(("_run", "_run_sync")) and name not in NOT_COMMANDS
    }
    assert set(first_cells("Managing")) == actual


def test_every_helper_for_tests_is_explained() -> None:
    text = section("`rota.testing`")
    for name in rota.testing.__all__:
        assert f"`{name}" in text or f"await {name}" in text, name
