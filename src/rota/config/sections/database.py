"""`[database]` of rota.toml."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from rota.config import secrets
from rota.config.sections.shown import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """How to reach the database when `database_url` points to a connection pooler."""

    direct_url: Annotated[
        str | None,
        Field(
            min_length=1,
            description="Direct URL of the same database, bypassing the pooler, for features that "
            "need a session: LISTEN, leases, SQL jobs, migrations. Default: `database_url`.",
            examples=["postgresql://user@host/database"],
        ),
        AfterValidator(secrets.database_url),
        Shown(
            is_secret=True,
            range="postgresql://user:password@host:port/database, or key=value pairs",
            hint="in a URL, @ : / % and spaces of a password are percent-encoded: @ is %40",
        ),
    ] = field(default=None, repr=False)
