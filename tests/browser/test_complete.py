"""Nothing of the dashboard is left out of these tests. Needs no browser."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

import pytest
from starlette.routing import Match, Route

import tests.browser
from rota.web import nav
from rota.web.pages import PAGES as MODULES
from tests.browser.pages import NOT_PAGES, OUTSIDE, PAGES


def _routes(method: str) -> list[Route]:
    found = [route for page in MODULES for route in page.routes]
    return [one for one in found if method in (one.methods or ())]


class _Ones(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "1"


def _route_of(path: str) -> str:
    bare = path.partition("?")[0].format_map(_Ones())
    scope = {"type": "http", "method": "GET", "path": bare, "headers": []}
    return next(one.path for one in _routes("GET") if one.matches(scope)[0] is Match.FULL)


def test_every_page_is_looked_at() -> None:
    """A route that shows a page has its line in pages.py."""
    shown = {one.path for one in _routes("GET")} - NOT_PAGES - OUTSIDE

    assert shown == set(map(_route_of, PAGES))


def test_every_section_is_looked_at() -> None:
    assert {one.path for one in nav.items() if one is not None} <= set(PAGES)


def _marked() -> Iterator[str]:
    for module in pkgutil.iter_modules(tests.browser.__path__, "tests.browser."):
        for thing in vars(import_module(module.name)).values():
            for mark in getattr(thing, "pytestmark", ()) if callable(thing) else ():
                if isinstance(mark, pytest.Mark) and mark.name == "acts":
                    yield from mark.args


def test_every_action_is_tried() -> None:
    """A route that takes a form has a test that is marked `@acts("/its/{path}")`."""
    assert {one.path for one in _routes("POST")} == set(_marked())
