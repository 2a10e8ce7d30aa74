"""The data of pages: one dataclass per template, checked by a test, and the frame round all
pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import ClassVar

from rota.web.access import Viewer


@dataclass(frozen=True, slots=True)
class NavItem:
    """An entry of the navigation. `alarm` says what needs attention there: the count, the state,
    and the word for it."""

    key: str
    title: str
    path: str
    icon: str
    alarm: tuple[int, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Flash:
    """The result of the previous action; shown once. `path` is the page that shows the result."""

    text: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame round every page: the viewer, the root of the dashboard, and the viewer's time."""

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
    place: str = ""  # position in the stream of changes when the page was made
    attention: int = 0  # number of things that need attention
    is_offline: bool = False  # nothing could be read; the time is this server's
    said: Flash | None = None

    def url(self, path: str) -> str:
        """Return an address below the dashboard's root."""
        return f"{self.root}{path}"

    @property
    def zone_name(self) -> str:
        return str(self.zone)


@dataclass(frozen=True, slots=True)
class Page:
    """Base of all pages. `template` is below templates/; `section` is the page's entry in the
    navigation."""

    template: ClassVar[str]
    section: ClassVar[str] = ""

    @property
    def title(self) -> str:
        raise NotImplementedError
