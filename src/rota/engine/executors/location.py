"""Describes where a handler is, so that another process can load it.

A function cannot be sent; its module and name can. Modules are of three kinds: importable by name,
loaded from a file that is on no path (`rota worker jobs.py`), and the program itself, which its own
process calls `__main__` and a child must load without running its main part.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec

from rota.errors import JobError

# The program's file in a child. Not `__main__`: `if __name__ == "__main__"` must not hold there.
MAIN = "__rota_main__"

_loading: list[str] = []


class Location(msgspec.Struct, array_like=True, frozen=True):
    module: str
    qualname: str
    file: str | None = None


def locate(function: Callable[..., Any]) -> Location:
    """Return how a child finds this function; raise a JobError that explains why it cannot."""
    name, qualname = function.__module__, function.__qualname__
    if "<" in qualname:
        raise JobError(
            f"{name}.{qualname} cannot run in a separate process: it is nested",
            hint="declare the job at the top level of a module, or use executor='thread'",
        )
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if name == "__main__":
        spec = getattr(module, "__spec__", None)
        name = spec.name if spec else MAIN
        if file is None:
            raise JobError(
                f"{qualname} cannot run in a separate process: its program has no file",
                hint="put the job into a module; code from `python -c` cannot be reloaded",
            )
    return Location(name, qualname, os.path.abspath(file) if file else None)


def is_reachable(function: Callable[..., Any]) -> bool:
    """Return whether the function, or a job made from it, is found under its own name: a child that
    imports the same modules finds it there."""
    try:
        location = locate(function)
        found: Any = sys.modules[function.__module__]
        for name in location.qualname.split("."):
            found = getattr(found, name)
    except (JobError, AttributeError, KeyError):
        return False
    definition = getattr(found, "definition", None)
    return found is function or getattr(definition, "function", None) is function


def resolve(location: Location) -> object:
    """Return the object at the location, after loading its module if necessary."""
    found: object = load(location.module, location.file)
    for name in location.qualname.split("."):
        found = getattr(found, name)
    return found


def resolve_reference(reference: str) -> object:
    """Return the object that `module:name`, `module` or `path/file.py:name` refers to."""
    module, _, qualname = reference.partition(":")
    if module.endswith(".py"):
        found: object = load(os.path.splitext(os.path.basename(module))[0], os.path.abspath(module))
    else:
        found = importlib.import_module(module)
    for name in filter(None, qualname.split(".")):
        found = getattr(found, name)
    return found


def load(name: str, file: str | None) -> ModuleType:
    """Import by name if that leads to the same file, otherwise load the file under the name."""
    known = sys.modules.get(name)
    if known is not None:
        return known
    _loading.append(name)
    try:
        if file is None or _leads_to(name, file):
            return importlib.import_module(name)
        return _load_file(name, file)
    finally:
        _loading.pop()


def loading() -> str | None:
    """The module that this process is loading for a worker, if any."""
    return _loading[-1] if _loading else None


def _leads_to(name: str, file: str) -> bool:
    if name == MAIN:
        return False
    spec = None
    with contextlib.suppress(ModuleNotFoundError, ValueError):
        spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return False
    return os.path.realpath(spec.origin) == os.path.realpath(file)


def _load_file(name: str, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise JobError(f"{file} is not a Python file, so its jobs cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if name == MAIN:
        sys.modules["__main__"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
