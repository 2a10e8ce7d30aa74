"""What a form says beside its fields when Rota refuses what was typed."""

from __future__ import annotations

import re

from rota.errors import RotaError
from rota.model import wording


def refusal(error: Exception) -> str:
    """A sentence in the words of the pages, without what the label beside it says already, and
    with what to do about it."""
    text = re.sub(r"^cron '[^']*':? ", "", wording.said(str(error), "page"))
    match = re.fullmatch(r"'(.*)' is not an? ([\w-]+); it takes (.*)", text, re.S)
    if match:
        text = f"{match[2].replace('-', ' ')} takes {match[3]}, not {match[1]}"
    hint = error.hint if isinstance(error, RotaError) and not match else None
    return " ".join(map(_sentence, filter(None, (text, wording.said(hint or "", "page")))))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."
