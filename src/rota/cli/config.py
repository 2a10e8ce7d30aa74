"""`rota config`: every setting, where its value comes from, and the file that holds it."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rota.cli.database.psql import conninfo
from rota.cli.session import administer, has_embedded
from rota.cli.terminal.failure import Failure
from rota.cli.terminal.flags import Json
from rota.cli.terminal.output import print_json, remark, say, table, tell
from rota.cli.terminal.place import shown

commands = typer.Typer(
    name="config", help="Settings and the configuration file.", no_args_is_help=True
)

Key = Annotated[str, typer.Argument(metavar="KEY", help="Setting, e.g. worker.concurrency.")]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="Configuration file. Default: the one in use, else ./rota.toml.",
    ),
]


@commands.command("list")
def list_settings(json: Json = False) -> None:
    """List all settings: value, source and allowed values."""
    from rota.config import Config, describe
    from rota.config.catalogue import read_setting

    config = Config.load()
    if json:
        print_json([read_setting(config, setting.key) for setting in describe()])
        return
    rows = [
        (setting.key, config.show(setting.key), config.source(setting.key), setting.expects)
        for setting in describe()
    ]
    table(("KEY", "VALUE", "FROM", "ACCEPTS"), rows)
    remark(
        f"file: {config.file}"
        if config.file
        else f"no rota.toml; create one with {shown('config', 'init')}"
    )


@commands.command("get")
def get(
    ctx: typer.Context,
    key: Key,
    reveal: Annotated[bool, typer.Option("--reveal", help="Print secrets in plain text.")] = False,
    json: Json = False,
) -> None:
    """Print the value of one setting."""
    from rota.config import Config
    from rota.config.catalogue import read_setting, value_text

    config = Config.load()
    entry = asdict(read_setting(config, key))
    value = value_text(config.get(key)) if reveal else config.show(key)
    if reveal:
        entry["value"] = config.get(key)
    is_unset = key == "database_url" and config.database_url is None and config.embedded
    is_embedded = is_unset and has_embedded(config)
    if is_embedded:
        entry["value"] = value = _embedded(ctx, reveal)
        entry["source"] = "embedded"
    if json:
        print_json(entry)
        return
    say(value)
    if is_embedded:
        remark(f"not set: the embedded Postgres is used; {shown('psql')} opens it")
    elif is_unset:
        remark(f"not set, and there is no embedded database here yet; {shown('dev')} creates one")


def _embedded(ctx: typer.Context, reveal: bool) -> str:
    """Return where the embedded server is. This starts it, because its address is decided at its
    start."""
    with administer(ctx) as app:
        return app.database.url if reveal else conninfo(app)


@commands.command("set")
def set_setting(
    key: Key,
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE", help="New value; lists as a,b. Use - to read from stdin (for secrets)."
        ),
    ],
    file: File = None,
    json: Json = False,
) -> None:
    """Validate a value and write it to the configuration file. Comments are preserved."""
    from rota.config.catalogue import MASK, find_setting
    from rota.config.edit import set_value

    path = _file(file)
    setting = find_setting(key)
    text = sys.stdin.readline() if value == "-" else value
    set_value(path, key, text)
    shown = MASK if setting.is_secret else text.strip()
    tell(json, f"{key} = {shown} in {path}", key=key, value=shown, file=str(path), action="set")
    if os.environ.get(setting.env, "").strip():
        remark(f"hint: {setting.env} is set, and takes precedence over the file")
    if setting.is_secret and path.stat().st_mode & 0o077:
        remark(f"hint: others can read {path}; run chmod 600 {path}")


@commands.command("unset")
def unset(key: Key, file: File = None, json: Json = False) -> None:
    """Remove a setting from the file, restoring its default."""
    from rota.config.edit import unset_value

    path = _file(file)
    if not path.exists() or not unset_value(path, key):
        raise Failure(f"{key} is not set in {path}")
    tell(json, f"{key} is no longer set in {path}", key=key, file=str(path), action="unset")


@commands.command("init")
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path(
        "rota.toml"
    ),
    json: Json = False,
) -> None:
    """Write a rota.toml that lists every setting. Defaults and ranges are in comments."""
    from rota.config.edit import write_template

    if path.exists():
        raise Failure(f"{path} already exists", hint="remove it, or choose another path")
    write_template(path)
    tell(json, f"wrote {path}", file=str(path), action="written")


def _file(given: Path | None) -> Path:
    from rota.config import find_file

    named = os.environ.get("ROTA_CONFIG")
    if given is not None:
        return given
    if named:
        return Path(named)
    return find_file(Path.cwd()) or Path("rota.toml")
