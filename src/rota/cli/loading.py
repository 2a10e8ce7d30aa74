"""From `module:attribute` or a file to an application.

A file is imported under the name that it would have in its package, with the directory above on
the path: its own imports work, and children of the process executor, which get the same path, find
its jobs by that name.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from rota.cli.failure import Failure

if TYPE_CHECKING:
    from rota.app import App

HOW = "name it as module:attribute, or as file.py:attribute"


class Loaded(NamedTuple):
    app: App
    reference: str  # module:attribute, as a child process can import it


def load_app(reference: str) -> Loaded:
    """The application that the words mean; a Failure says why there is none."""
    place, attribute = split_reference(reference)
    name = _put_on_path(place)
    module = _import(name, place)
    if attribute:
        return Loaded(_get(module, attribute, place), f"{name}:{attribute}")
    attribute, app = _only_app(module, place)
    return Loaded(app, f"{name}:{attribute}")


def split_reference(reference: str) -> tuple[str, str]:
    """Module or file, and attribute (empty: the only one)."""
    place, _, attribute = reference.strip().partition(":")
    if not place:
        raise Failure(f"{reference!r} names no application", hint=HOW, code=2)
    return place, attribute


def is_file(place: str) -> bool:
    return place.endswith(".py") or os.sep in place


def source_root(place: str) -> Path:
    """The directory whose .py files belong to the application."""
    if is_file(place):
        return _package_root(Path(place).resolve())
    return Path.cwd()


def _put_on_path(place: str) -> str:
    """Make it importable; answers its name."""
    if not is_file(place):
        _prepend(Path.cwd())
        return place
    file = Path(place).resolve()
    if not file.is_file():
        raise Failure(f"there is no file {place}", hint=HOW, code=2)
    root = _package_root(file)
    _prepend(root)
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _package_root(file: Path) -> Path:
    directory = file.parent
    while (directory / "__init__.py").is_file() and directory.parent != directory:
        directory = directory.parent
    return directory


def _prepend(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _import(name: str, place: str) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            hint = "run it in the directory that holds the package, or give the path of the file"
            raise Failure(f"there is no module {error.name}", hint=hint, code=2) from error
        raise _broken(place, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(place, error) from error
    _refuse_other_file(module, name, place)
    return module


def _refuse_other_file(module: ModuleType, name: str, place: str) -> None:
    if not is_file(place):
        return
    found = getattr(module, "__file__", None)
    if found is None or not os.path.samefile(found, place):
        what = f"another module has the name {name}: {found or 'a part of Python itself'}"
        raise Failure(f"{place} cannot be imported: {what}", hint="rename the file", code=2)


def _broken(place: str, error: BaseException) -> Failure:
    """The application's own code failed: say where, as that is what its author looks for."""
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename}:{frame.lineno}"
    text = f"{place} could not be imported: {type(error).__name__}: {error} ({where})"
    return Failure(text, hint="ROTA_DEBUG=1 shows the traceback")


def _get(module: ModuleType, attribute: str, place: str) -> App:
    from rota.app import App

    found: object = module
    try:
        for name in attribute.split("."):
            found = getattr(found, name)
    except AttributeError:
        raise Failure(f"{place} has no {attribute}", hint=_candidates(module), code=2) from None
    if not isinstance(found, App):
        what = f"{place}:{attribute} is a {type(found).__name__}, not a rota.App"
        raise Failure(what, hint=_candidates(module), code=2)
    return found


def _only_app(module: ModuleType, place: str) -> tuple[str, App]:
    found = _apps(module)
    if len({id(app) for app in found.values()}) == 1:
        return next(iter(found.items()))
    if not found:
        raise Failure(f"{place} holds no rota.App", hint="write `app = rota.App()` in it", code=2)
    hint = f"name one: {', '.join(f'{place}:{name}' for name in found)}"
    raise Failure(f"{place} holds more than one rota.App", hint=hint, code=2)


def _apps(module: ModuleType) -> dict[str, App]:
    from rota.app import App

    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _candidates(module: ModuleType) -> str:
    names = ", ".join(_apps(module))
    return f"applications in it: {names}" if names else "write `app = rota.App()` in it"
