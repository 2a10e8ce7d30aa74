"""The application, the database and the actor of a command."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rota.cli.loading import AppReference, Loaded, load_app
from rota.cli.terminal.failure import Failure
from rota.cli.terminal.place import shown

if TYPE_CHECKING:
    from rota.app import App
    from rota.config import Config

APP_HINT = "pass --app module:attribute or --app file.py, or set ROTA_APP, or `app` in rota.toml"


class OpenApp:
    """The App of a command that reads repeatedly: opened once, and again after a lost
    connection."""

    def __init__(self) -> None:
        self._is_on = False
        self._app: App | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False
            self.drop()

    def drop(self) -> None:
        app, self._app = self._app, None
        if app is not None:
            app.close_sync()

    def find(self, make: Callable[[], App]) -> tuple[App, bool]:
        """Return an App, and whether it stays open."""
        if not self._is_on:
            return make(), False
        if self._app is None:
            self._app = make()
        return self._app, True


@dataclass(frozen=True)
class Session:
    """The options before the command."""

    app: str | None = None
    kept: OpenApp = field(default_factory=OpenApp)

    def load(self, given: str | None = None) -> Loaded:
        """Return the application, for commands that need one. `given` is the command's own
        option."""
        return load_app(self.place(given))

    def load_or_bare(self, given: str | None = None) -> Loaded:
        """Return the named application; without one, an App that declares nothing, whose worker
        runs the SQL jobs of the database."""
        found = self.find(given)
        if found is not None:
            return found
        from rota.app import App

        return Loaded(App(config=_config(), name="sql"), None)

    def find(self, given: str | None = None) -> Loaded | None:
        """Return the application, if one is named."""
        place = self.named(given)
        return None if place is None else load_app(place)

    def place(self, given: str | None = None) -> AppReference:
        """Return where the application is, without loading it."""
        found = self.named(given)
        if found is None:
            raise Failure("no application specified", hint=APP_HINT, code=2)
        return found

    def named(self, given: str | None) -> AppReference | None:
        """Return where the application is, or None if none is named."""
        if given or self.app:
            return AppReference(given or self.app or "", Path.cwd())
        config = _config()
        if not config.app:
            return None
        # A path in a file is relative to that file.
        is_from_file = config.file is not None and config.source("app") == "file"
        base = config.file.parent if config.file is not None and is_from_file else Path.cwd()
        return AppReference(config.app, base)

    def config(self) -> Config:
        """Return the configuration, for commands that need no application. A named application is
        still loaded, because its code may say where the database is. It is not opened, because that
        would register the jobs of the code that happens to be checked out here."""
        config = _config()
        if self.app is None and (config.database_url or not config.app):
            return config
        return self.load().app.config


def session(ctx: typer.Context) -> Session:
    found = ctx.find_object(Session)
    return found if found is not None else Session()


def place_of(config: Config, home: Path | None = None) -> str:
    """Return the database in words, without secrets. `home` is the directory of the embedded
    server."""
    if home is not None or not config.database_url:
        return f"embedded Postgres in {home or _embedded_home(config)}"
    from psycopg.conninfo import conninfo_to_dict

    found = conninfo_to_dict(config.database_url)
    # Several hosts are listed with commas, and so are their ports.
    hosts = str(found.get("host") or found.get("hostaddr") or "the local socket")
    port = f", port {found['port']}" if found.get("port") else ""
    name = found.get("dbname") or found.get("user") or "the default one"
    return f'database "{name}" at {hosts}{port}'


@contextmanager
def administer(ctx: typer.Context) -> Iterator[App]:
    """Yield the use cases, on the database of this session."""
    app, is_kept = session(ctx).kept.find(lambda: _open(ctx))
    try:
        yield app
    finally:
        if not is_kept:
            app.close_sync()


def _open(ctx: typer.Context) -> App:
    from rota.app import App

    config = session(ctx).config()
    refuse_empty(config)
    return App(config=chosen(config))


def chosen(config: Config) -> Config:
    """Enable the embedded database for a program that names its database itself, or finds an
    existing one: the application need not configure it."""
    return config.override({"embedded": True}) if config.embedded else config


@contextmanager
def closing(app: App) -> Iterator[App]:
    try:
        yield app
    finally:
        app.close_sync()


def actor() -> str:
    """Return the actor for the audit."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME")
    return f"cli:{name or f'uid {os.getuid()}'}"


def _config() -> Config:
    from rota.config import Config

    return Config.load()


def has_embedded(config: Config) -> bool:
    """Return whether an embedded database exists."""
    return _embedded_home(config).exists()


def _embedded_home(config: Config) -> Path:
    from rota.embedded import default_data_dir

    return config.data_dir or default_data_dir()


def refuse_empty(config: Config) -> None:
    """Refuse to create a database only to show that it is empty: the user probably has a database
    elsewhere and forgot to name it."""
    if config.database_url or not config.embedded or has_embedded(config):
        return
    raise Failure(
        f"no database is configured, and there is no embedded one in {_embedded_home(config)}",
        hint=f"set ROTA_DATABASE_URL or database_url in rota.toml; {shown('dev')} creates one here",
        code=2,
    )
