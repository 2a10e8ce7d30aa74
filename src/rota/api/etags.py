"""Versions as ETags, so that two operators do not overwrite each other.

An ETag is the version of the editable fields, not of the whole response: the next time of a
schedule changes without an edit.
"""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Header, Response

from rota.api.errors import ProblemError

_TAG = re.compile(r'"(\d{1,18})"')


def set_etag(response: Response, version: int) -> None:
    response.headers["ETag"] = f'"{version}"'


def _wanted(
    if_match: Annotated[
        str | None,
        Header(
            max_length=1000,
            description="ETag of the version you read. The edit is refused if it has changed "
            "since.",
        ),
    ] = None,
) -> int | None:
    """Return the version that the caller has seen; None accepts any version."""
    if if_match is None or if_match.strip() == "*":
        return None
    found = _TAG.fullmatch(if_match.strip())
    if found is None:
        raise ProblemError(
            412,
            "version_conflict",
            "If-Match names a version that does not exist",
            field="If-Match",
        )
    return int(found[1])


Version = Annotated[int | None, Depends(_wanted)]
ETAG = {"ETag": {"description": "Its version, for `If-Match`.", "schema": {"type": "string"}}}


def tagged(status: int = 200) -> dict[int | str, dict[str, object]]:
    """Return `responses=` of a route that answers with an ETag."""
    return {status: {"headers": ETAG}}
