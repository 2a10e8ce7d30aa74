"""Limits of runs over HTTP."""

from __future__ import annotations

import httpx

LIMITS = "/api/v1/limits"


async def test_a_list_in_pages(api: httpx.AsyncClient) -> None:
    for name in ("a/b", "c"):
        await api.put(f"{LIMITS}/{name.replace('/', '%2F')}", json={"cap": 1})
    first = (await api.get(LIMITS, params={"limit": 1})).json()
    assert [one["name"] for one in first["items"]] == ["a/b"]
    rest = await api.get(LIMITS, params={"limit": 1, "cursor": first["next_cursor"]})
    assert [one["name"] for one in rest.json()["items"]] == ["c"]
    assert (await api.get(f"{LIMITS}/a%2Fb")).json()["limit"]["name"] == "a/b"
    assert (await api.get(LIMITS, params={"kind": "rate"})).json()["items"] == []
