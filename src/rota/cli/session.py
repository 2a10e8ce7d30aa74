"""Which application and which database a command is about, and who asks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rota.cli.loading import Loaded, Place, load_app
from rota.cli.terminal.failure import Failure

if TYPE_CHECKING:
    from rota.app import App
    from rota.config import Config

APP_HINT = "pass --app module:attribute or --app file.py, or set ROTA_APP, or `app` in rota.toml"


class Kept:
    """The App of a command that asks again and again: opened once, and anew after a loss."""

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
        """An App, and whether it stays open."""
        if not self._is_on:
            return make(), False
        if self._app is None:
            self._app = make()
        return self._app, True


@dataclass(frozen=True)
class Session:
    """What the options before the command said."""

    app: str | None = None
    kept: Kept = field(default_factory=Kept)

    def load(self, given: str | None = None) -> Loaded:
        """The application, for commands that need one. `given` is what the command was told."""
        return load_app(self.place(given))

    def load_or_bare(self, given: str | None = None) -> Loaded:
        """The application that was named; without one, an App that declares nothing, whose worker
        runs the SQL jobs of the database."""
        found = self.find(given)
        if found is not None:
            return found
        from rota.app import App

        return Loaded(App(config=_config(), name="sql"), None)

    def find(self, given: str | None = None) -> Loaded | None:
        """The application, if anybody has named one."""
        place = self.named(given)
        return None if place is None else load_app(place)

    def place(self, given: str | None = None) -> Place:
        """Where the application is, unloaded."""
        found = self.named(given)
        if found is None:
            raise Failure("no application specified", hint=APP_HINT, code=2)
        return found

    def named(self, given: str | None) -> Place | None:
        """The same, or None if nobody has named one."""
        if given or self.app:
            return Place(given or self.app or "", Path.cwd())
        config = _config()
        if not config.app:
            return None
        # What a file says is relative to that file.
        is_from_file = config.file is not None and config.source("app") == "file"
        base = config.file.parent if config.file is not None and is_from_file else Path.cwd()
        return Place(config.app, base)

    def config(self) -> Config:
        """For commands that need no application. One that was named is asked all the same: its
        code may say where the database is. It is not used itself, as opening the database would
        register the jobs of whatever is checked out here."""
        config = _config()
        if self.app is None and (config.database_url or not config.app):
            return config
        return self.load().app.config


def session(ctx: typer.Context) -> Session:
    found = ctx.find_object(Session)
    return found if found is not None else Session()


def place_of(config: Config, home: Path | None = None) -> str:
    """Which database this is, in words without any secret. `home`: that of the embedded server."""
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
    """The use cases, on the database of this session."""
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
    """The same for a program that says by itself which database it uses, or finds one that is
    there: the application need not."""
    return config.override({"embedded": True}) if config.embedded else config


@contextmanager
def closing(app: App) -> Iterator[App]:
    try:
        yield app
    finally:
        app.close_sync()


def actor() -> str:
    """Who the audit says it was."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME")
    return f"cli:{name or f'uid {os.getuid()}'}"


def _config() -> Config:
    from rota.config import Config

    return Config.load()


def has_embedded(config: Config) -> bool:
    """Whether there is an embedded database already."""
    return _embedded_home(config).exists()


def _embedded_home(config: Config) -> Path:
    from rota.embedded import default_data_dir

    return config.data_dir or default_data_dir()


def refuse_empty(config: Config) -> None:
    """Do not make a database in order to say that there is nothing in it: somebody who asks has
    one elsewhere, and forgot to say where."""
    if config.database_url or not config.embedded or has_embedded(config):
        return
    raise Failure(
        f"no database is configured, and there is no embedded one in {_embedded_home(config)}",
        hint="set ROTA_DATABASE_URL or database_url in rota.toml; `rota dev` creates one here",
        code=2,
    )
