"""What waits for a package that Rota does without happens right after its import, once."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from rota.telemetry.importing import _Finder, when_imported


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "awaited_package.py").write_text("VALUE = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "awaited_package", raising=False)
    return "awaited_package"


def test_it_happens_after_the_import_and_once(package: str) -> None:
    seen: list[int] = []

    def note() -> None:
        seen.append(sys.modules[package].VALUE)

    when_imported(package, note)
    when_imported(package, note)
    assert seen == []
    module = importlib.import_module(package)
    assert seen == [7]
    assert importlib.reload(module).VALUE == 7
    assert seen == [7]
    assert not any(isinstance(it, _Finder) for it in sys.meta_path)


def test_the_module_is_as_if_nobody_had_waited(package: str) -> None:
    when_imported(package, lambda: None)
    module = importlib.import_module(package)
    assert module.__spec__ is not None
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"
    assert module.__loader__ is module.__spec__.loader


def test_it_happens_at_once_where_the_import_was_before(package: str) -> None:
    importlib.import_module(package)
    seen: list[str] = []
    when_imported(package, lambda: seen.append("now"))
    assert seen == ["now"]


def test_a_package_that_is_not_there_is_still_missing() -> None:
    when_imported("no_such_package_at_all", lambda: None)
    try:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("no_such_package_at_all")
    finally:
        sys.meta_path[:] = [it for it in sys.meta_path if not isinstance(it, _Finder)]
