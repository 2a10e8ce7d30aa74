"""A traceback in parts: the frames of the application, and those of libraries. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

_FILE = re.compile(r'\s+File "([^"]+)", line \d+')
_LIBRARY = re.compile(
    r"site-packages|dist-packages|/lib/python\d|/rota/(?:runtime|executors)/|<frozen "
)
_PACKAGE = re.compile(r"(?:site-packages|dist-packages|/lib/python[\d.]+)/(?!site-|dist-)([\w.-]+)")


@dataclass(frozen=True, slots=True)
class Part:
    """`kind` is `own`, `library` (folded; `words` describe it) or `error`."""

    kind: str
    text: str
    words: str = ""


def parts_of(traceback: str) -> list[Part]:
    """Return the parts in order. Lines that are no frame, such as the exception itself, are the
    error."""
    lines = [(_kind_of(block), block) for block in _blocks(traceback)]
    found = []
    for kind, group in groupby(lines, key=lambda one: one[0]):
        blocks = [block for _, block in group]
        words = _words(blocks) if kind == "library" else ""
        found.append(Part(kind, "\n".join(blocks), words))
    return found


def _blocks(traceback: str) -> list[str]:
    """Split into frames with their source lines, and groups of other lines."""
    found: list[list[str]] = []
    is_frame = False
    for line in traceback.rstrip().splitlines():
        if _FILE.match(line):
            found.append([line])
            is_frame = True
        elif is_frame and line.startswith("    "):
            found[-1].append(line)
        else:
            if is_frame or not found:
                found.append([])
            found[-1].append(line)
            is_frame = False
    return ["\n".join(lines) for lines in found if lines]


def _kind_of(block: str) -> str:
    if block.startswith("Traceback (most"):
        return "head"
    frame = _FILE.match(block)
    if frame is None:
        return "error"
    return "library" if _LIBRARY.search(frame[1]) else "own"


def _words(blocks: list[str]) -> str:
    names = dict.fromkeys(
        found[1].removesuffix(".py") if (found := _PACKAGE.search(block)) else "rota"
        for block in blocks
    )
    count = f"{len(blocks)} frame{'' if len(blocks) == 1 else 's'}"
    return f"{count} of {', '.join(list(names)[:3])}"
