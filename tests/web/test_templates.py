"""A template shows what its dataclass declares, and nothing else."""

from __future__ import annotations

import dataclasses
import re
from importlib.resources import files

import pytest
from jinja2 import meta

from rota.web.context import Page
from rota.web.pages import PAGES  # noqa: F401
from rota.web.pages.sign_in import SignInPage
from rota.web.render import environment

# What `render` gives to every page, beside its own fields.
SHARED = {"page", "shell", "time", "since"}
ROOT = files("rota.web").joinpath("templates")


def _pages() -> list[type]:
    """By name: a dataclass with slots is made twice."""
    return list({one.__qualname__: one for one in _below(Page)}.values())


def _below(base: type) -> list[type]:
    return [one for sub in base.__subclasses__() for one in (sub, *_below(sub))]


def _templates() -> list[str]:
    return [name for name in environment().list_templates() if not name.startswith("_")]


def _used(name: str) -> set[str]:
    source = ROOT.joinpath(name).read_text()
    return meta.find_undeclared_variables(environment().parse(source)) - set(environment().globals)


@pytest.mark.parametrize("page", [*_pages(), SignInPage], ids=lambda one: one.__name__)
def test_a_template_uses_what_its_page_declares(page: type) -> None:
    fields = {one.name for one in dataclasses.fields(page)}  # type: ignore[arg-type]
    shared = SHARED if issubclass(page, Page) else set()

    assert _used(page.template) <= fields | shared  # type: ignore[attr-defined]
    unused = fields - _used(page.template)  # type: ignore[attr-defined]
    assert not unused, f"declared and not shown: {unused}"


def test_every_template_has_one_page() -> None:
    bound = [one.template for one in [*_pages(), SignInPage]]  # type: ignore[attr-defined]

    assert sorted(bound) == sorted(set(bound))
    assert set(_templates()) == {*bound, "base.html"}


@pytest.mark.parametrize("name", environment().list_templates())
def test_no_template_has_what_the_policy_forbids(name: str) -> None:
    """Neither inline styles nor scripts nor handlers, and nothing from outside."""
    source = re.sub(r"{%.*?%}", "", ROOT.joinpath(name).read_text())

    assert not re.search(r"\sstyle\s*=", source)
    assert not re.search(r"\son[a-z]+\s*=", source)
    assert not re.search(r"<script(?![^>]*\ssrc=)", source)
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", source)
    assert "|safe" not in source.replace(" ", "")


@pytest.mark.parametrize("name", sorted({*environment().list_templates()} - {"_sprite.html"}))
def test_lines_of_templates_are_short_enough_to_read(name: str) -> None:
    """Break a line between block elements, after a comma, or beside a tag of Jinja, which takes
    white space away where it would be seen (`{%-`, `-%}`)."""
    lines = ROOT.joinpath(name).read_text().splitlines()

    assert not [line for line in lines if len(line) > 180]


@pytest.mark.parametrize("name", environment().list_templates())
def test_no_template_shows_a_space_before_punctuation(name: str) -> None:
    """Where a line is broken before a colon or a comma, the tag beside it takes the space away."""
    has_gap = False
    for line, kind, text in environment().lex(ROOT.joinpath(name).read_text()):
        if kind == "variable_end":
            has_gap = False
        elif kind == "data" and text:
            assert not re.search(r"\s[,;:.!?)](?=\s|$)", text), f"line {line}: {text.strip()}"
            assert not (has_gap and re.match(r"[,;:.!?)](\s|$)", text)), f"line {line}: {text}"
            has_gap = text[-1].isspace()
