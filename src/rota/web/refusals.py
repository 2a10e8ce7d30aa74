"""What a form says beside its fields when Rota refuses what was typed."""

from __future__ import annotations

import re

from rota.errors import RotaError
from rota.model import wording

# What the title and the labels of the form say already.
_SUBJECT = re.compile(
    r"""^(?:(?:job|schedule|limit|queue|tenant) "[^"]*": )?(?:cron '[^']*':? )?"""
)


def refusal(error: Exception) -> str:
    """A sentence in the words of the pages, about what the form is about, and with what to do."""
    text = _SUBJECT.sub("", wording.said(str(error), "page"))
    match = re.fullmatch(r"'(.*)' is not an? ([\w-]+); it takes (.*)", text, re.S)
    if match:
        text = f"{match[2].replace('-', ' ')} takes {match[3]}, not {match[1]}"
    hint = error.hint if isinstance(error, RotaError) and not match else None
    return " ".join(map(_sentence, filter(None, (text, wording.said(hint or "", "page")))))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."
