"""`[server]` of rota.toml."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from rota.config import secrets
from rota.config.sections.shown import KIB, MIB, Shown


def _network(text: str) -> str:
    ipaddress.ip_network(text, strict=False)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Address, access and limits of the API server."""

    host: Annotated[
        str, Field(min_length=1, description="Address that `rota server` listens on.")
    ] = "127.0.0.1"
    port: Annotated[
        int, Field(ge=0, le=65_535, description="Port to listen on. 0: any free port.")
    ] = 7682
    token: Annotated[
        str | None,
        Field(
            min_length=16,
            max_length=1000,
            description="Admin token, required for all API requests except `/health`, `/ready`, "
            "webhooks and public metrics.",
            examples=["at-least-16-characters-long"],
        ),
        AfterValidator(secrets.token),
        Shown(is_secret=True, range="at least 16 visible characters"),
    ] = field(default=None, repr=False)
    public_metrics: Annotated[
        bool, Field(description="Whether `/metrics` is available without a token.")
    ] = False
    metrics_tenants: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="Number of tenants with their own series in `/metrics`; all others share "
            "one. 0: no series by tenant.",
        ),
    ] = 20
    failures_per_second: Annotated[
        float,
        Field(
            ge=1,
            le=1_000_000,
            description="Maximum average rate of unauthenticated requests per second from one "
            "address. Requests with the token are not counted.",
        ),
    ] = 10.0
    trusted_proxies: Annotated[
        tuple[Annotated[str, AfterValidator(_network)], ...],
        Field(
            description="Addresses or networks of proxies whose `X-Forwarded-For` and "
            "`X-Forwarded-Proto` headers are trusted. Empty: none.",
            examples=[("10.0.0.0/8",)],
        ),
        Shown(items="addresses"),
    ] = ()
    max_connections: Annotated[
        int,
        Field(
            ge=1,
            le=100_000,
            description="Maximum number of connections. Above it, a new connection replaces the "
            "one that has been idle longest.",
        ),
    ] = 1000
    header_seconds: Annotated[
        float,
        Field(
            ge=0.1,
            le=600,
            description="Time limit for receiving a complete request, except its body. Slower "
            "connections are closed.",
        ),
    ] = 10.0
    body_bytes: Annotated[
        int, Field(ge=KIB, le=64 * MIB, description="Maximum size of a request body.")
    ] = 2 * MIB
    statement_seconds: Annotated[
        float,
        Field(ge=0.1, le=600, description="Time limit of each SQL statement of a request."),
    ] = 10.0
