"""What a page shows: one dataclass a template, held by a test, and the shell round all of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import ClassVar

from rota.web.access import Viewer


@dataclass(frozen=True, slots=True)
class NavItem:
    """An entry of the navigation. `alarm` is what needs somebody there: how many, in which state,
    and the word for it."""

    key: str
    title: str
    path: str
    icon: str
    alarm: tuple[int, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What the action before has done; shown once. `path`: where one can see it."""

    text: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Shell:
    """Round every page: who looks, where the dashboard is mounted, and what time it is there."""

    root: str
    nav: tuple[NavItem | None, ...]
    section: str
    viewer: Viewer
    application: str
    release: str
    now: datetime
    zone: tzinfo
    theme: str  # "", "light" or "dark"
    csrf: str
    place: str = ""  # in the stream of changes, when it was made
    attention: int = 0  # how many things need somebody
    said: Said | None = None

    def url(self, path: str) -> str:
        """An address below the dashboard's root."""
        return f"{self.root}{path}"

    @property
    def zone_name(self) -> str:
        return str(self.zone)


@dataclass(frozen=True, slots=True)
class Page:
    """Base of all. `template` is below templates/; `section` is its entry of the navigation."""

    template: ClassVar[str]
    section: ClassVar[str] = ""

    @property
    def title(self) -> str:
        raise NotImplementedError
