"""Two releases of one application, as docs/guides/releases.md makes the second of the first."""

from __future__ import annotations

from typing import Any

import rota


def first(app: rota.App) -> dict[str, Any]:
    @app.job
    async def optional(n: int) -> str:
        return f"1 {n}"

    @app.job
    async def required(n: int) -> str:
        return f"1 {n}"

    @app.job
    def renamed(user: str, is_test: bool = False) -> str:
        return f"1 {user}"

    @app.job(schedules=[rota.every(3600, payload={"n": 1})])
    async def send_welcome(n: int) -> str:
        return f"1 {n}"

    @app.job
    async def unchanged(n: int) -> dict[str, int]:
        return {"n": n}

    return locals()


def _with_language(old: dict[str, Any]) -> dict[str, Any]:
    return {"language": "en", **old}


def _by_number(old: dict[str, Any]) -> dict[str, Any]:
    if "user" in old:
        old["user_id"] = int(old.pop("user"))
    old.pop("is_test", None)
    return old


def second(app: rota.App) -> dict[str, Any]:
    @app.job
    async def optional(n: int, language: str = "en") -> str:
        return f"2 {n} {language}"

    @app.job(upgrade=_with_language)
    async def required(n: int, language: str) -> str:
        return f"2 {n} {language}"

    @app.job(upgrade=_by_number)
    def renamed(user_id: int) -> str:
        return f"2 {user_id}"

    @app.job(aliases=["send_welcome"], schedules=[rota.every(3600, payload={"n": 1})])
    async def greet_user(n: int) -> str:
        return f"2 {n}"

    @app.job
    async def unchanged(n: int) -> dict[str, int]:
        return {"n": n, "more": 1}

    return locals()
