"""Forecasts an application from `module:attribute` or a file.

A file is imported under the name that it would have in its package, with the directory above on the
path: its own imports work, and children of the process executor, which get the same path, find its
jobs by that name.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from rota.cli.terminal.failure import Failure

if TYPE_CHECKING:
    from rota.app import App

HOW = "write module:attribute, or file.py:attribute"


class Loaded(NamedTuple):
    app: App
    # module:attribute, as a child of the process executor can import it; None if it was not named
    reference: str | None


class AppReference(NamedTuple):
    """The reference as written, and the directory that it is relative to."""

    text: str
    base: Path

    @property
    def target(self) -> str:
        """The module or the file."""
        return self.text.strip().partition(":")[0]

    @property
    def attribute(self) -> str:
        """The attribute; empty for the only application in the module."""
        return self.text.strip().partition(":")[2]

    @property
    def file(self) -> Path | None:
        is_file = self.target.endswith(".py") or os.sep in self.target
        return (self.base / self.target).resolve() if is_file else None


def load_app(place: AppReference) -> Loaded:
    """Return the application; raise a Failure that says why it cannot be loaded."""
    name = _put_on_path(place)
    module = _import(name, place)
    if place.attribute:
        return Loaded(_get(module, place), f"{name}:{place.attribute}")
    attribute, app = _only_app(module, place.target)
    return Loaded(app, f"{name}:{attribute}")


def source_roots(place: AppReference) -> list[Path]:
    """Return the directories whose .py files belong to the application."""
    if place.file is not None:
        return [_package_root(_existing(place))]
    _prepend(place.base)
    spec = None
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(place.target.partition(".")[0])
    installed = [Path(it).resolve() for it in (spec and spec.submodule_search_locations) or []]
    return [place.base, *(folder for folder in installed if not folder.is_relative_to(place.base))]


def _put_on_path(place: AppReference) -> str:
    """Make the module importable; return its name."""
    if not place.target:
        raise Failure(f"{place.text!r} is not an application", hint=HOW, code=2)
    if place.file is None:
        _prepend(place.base)
        return place.target
    file = _existing(place)
    root = _package_root(file)
    _prepend(root)
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _existing(place: AppReference) -> Path:
    if place.file is None or not place.file.is_file():
        raise Failure(f"there is no file {place.target}", hint=HOW, code=2)
    return place.file


def _package_root(file: Path) -> Path:
    directory = file.parent
    while (directory / "__init__.py").is_file() and directory.parent != directory:
        directory = directory.parent
    return directory


def _prepend(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _import(name: str, place: AppReference) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            hint = "run it in the directory that contains the package, or pass the path of the file"
            raise Failure(f"no module named {error.name}", hint=hint, code=2) from error
        raise _broken(place.target, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(place.target, error) from error
    _refuse_other_file(module, name, place)
    return module


def _refuse_other_file(module: ModuleType, name: str, place: AppReference) -> None:
    if place.file is None:
        return
    found = getattr(module, "__file__", None)
    if found is None or not os.path.samefile(found, place.file):
        what = f"another module has the name {name}: {found or 'a part of Python itself'}"
        raise Failure(f"{place.target} cannot be imported: {what}", hint="rename the file", code=2)


def _broken(target: str, error: BaseException) -> Failure:
    """The application's own code failed: report the place in that code, which its author needs."""
    if isinstance(error, SyntaxError):
        what, where = error.msg, f"{error.filename}:{error.lineno}"
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        what, where = str(error), f"{frame.filename}:{frame.lineno}"
    text = f"{target} could not be imported: {type(error).__name__}: {what} ({where})"
    return Failure(text, hint="set ROTA_DEBUG=1 to see the traceback")


def _get(module: ModuleType, place: AppReference) -> App:
    from rota.app import App

    found: object = module
    attribute = place.attribute
    try:
        for name in attribute.split("."):
            found = getattr(found, name)
    except AttributeError:
        raise Failure(
            f"{place.target} has no {attribute}", hint=_candidates(module), code=2
        ) from None
    if not isinstance(found, App):
        what = f"{place.target}:{attribute} is a {type(found).__name__}, not a rota.App"
        raise Failure(what, hint=_candidates(module), code=2)
    return found


def _only_app(module: ModuleType, target: str) -> tuple[str, App]:
    found = _apps(module)
    if len({id(app) for app in found.values()}) == 1:
        return next(iter(found.items()))
    if not found:
        raise Failure(f"{target} has no rota.App", hint="add `app = rota.App()` to it", code=2)
    hint = f"choose one: {', '.join(f'{target}:{name}' for name in found)}"
    raise Failure(f"{target} has more than one rota.App", hint=hint, code=2)


def _apps(module: ModuleType) -> dict[str, App]:
    from rota.app import App

    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _candidates(module: ModuleType) -> str:
    names = ", ".join(_apps(module))
    return f"applications in it: {names}" if names else "add `app = rota.App()` to it"
