"""Filters that several lists and reports have in common."""

from __future__ import annotations

from typing import Annotated

from rota.model.fields import BIGGEST_ID as BIGGEST_ID
from rota.model.fields import Field, Moment
from rota.model.list_filters import TimeOrder

OfJob = Annotated[str | None, Field("Filter by job.", "send_welcome", metavar="NAME")]
OfQueue = Annotated[str | None, Field("Filter by queue.", "mail", longest=100, metavar="NAME")]
OfTenant = Annotated[str | None, Field("Filter by tenant.", "acme", metavar="NAME")]
Since = Annotated[
    Moment | None, Field("Start of the period, inclusive: a time, or how long ago.", "24h")
]
Until = Annotated[
    Moment | None, Field("End of the period, exclusive: a time, or how long ago.", "1h")
]
NewestFirst = Annotated[
    TimeOrder, Field("Sort order: newest or oldest first.", "newest", metavar="ORDER")
]
MostOfEach = Annotated[int, Field("Maximum number of items of each kind.", 8, least=1, most=100)]
