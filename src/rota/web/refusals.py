"""The text beside a field when Rota refuses its value."""

from __future__ import annotations

import re

from rota.errors import RotaError
from rota.model import wording

# Beginnings that the title and the labels of the form already say.
_SUBJECT = re.compile(
    r"""^(?:(?:job|schedule|limit|queue|tenant) "[^"]*": )?(?:cron '[^']*':? )?"""
)


def refusal(error: Exception) -> str:
    """Return a sentence in the words of the pages, about the subject of the form, with what to
    do."""
    text = _SUBJECT.sub("", wording.said(str(error), "page"))
    match = re.fullmatch(r"'(.*)' is not an? ([\w-]+); it takes (.*)", text, re.S)
    if match:
        text = f"{match[2].replace('-', ' ')} takes {match[3]}, not {match[1]}"
    hint = error.hint if isinstance(error, RotaError) and not match else None
    return " ".join(map(_sentence, filter(None, (text, wording.said(hint or "", "page")))))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."
