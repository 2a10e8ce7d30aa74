"""One page a file: its routes read, call one use case, and render. A new page goes into PAGES."""

from __future__ import annotations

from rota.web.pages import home, live, preferences, queues, run, runs, schedule, schedules, sign_in

PAGES = (sign_in, preferences, live, home, runs, run, schedules, schedule, queues)
