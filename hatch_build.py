"""The description of the package: README.md as a page that is read far from the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+://|#)([^)\s]+)\)")


class DescriptionHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": describe(text, source),
        }


def describe(text: str, source: str | None) -> str:
    """With the address of the repository its files are linked there; without it a link is its
    words, and a picture is left out."""

    def far(found: re.Match[str]) -> str:
        is_picture, words, target = found.groups()
        if source is not None:
            kind = "raw" if is_picture else "blob"
            return f"{is_picture}[{words}]({source.rstrip('/')}/{kind}/main/{target})"
        return "" if is_picture else words

    return _LINK.sub(far, _COMMENT.sub("", text))
