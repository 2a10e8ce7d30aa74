"""Callbacks for the moment at which an optional package is imported."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def when_imported(name: str, act: Callable[[], None]) -> None:
    """Call `act` now if the package has been imported; otherwise right after its import, before the
    importer continues."""
    if sys.modules.get(name) is not None:
        act()
    elif not any(isinstance(it, _Finder) and it.does(name, act) for it in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name, act))


class _Finder(MetaPathFinder):
    """Lets the other finders find the module, and calls `act` when it has been loaded."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self._name = name
        self._act = act
        self._is_busy = False

    def does(self, name: str, act: Callable[[], None]) -> bool:
        return (self._name, self._act) == (name, act)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name or self._is_busy:
            return None
        self._is_busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_busy = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._loaded)
        return spec

    def _loaded(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._act()


class _Loader(Loader):
    """Wraps the module's own loader; passes on all other attributes."""

    def __init__(self, own: Loader, loaded: Callable[[], None]) -> None:
        self._own = own
        self._loaded = loaded

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Restore the module's own loader, which is used for resources and sources.
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        self._loaded()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)
