"""Text that a stranger may bring, and what a terminal must not be shown of it."""

from __future__ import annotations

import unicodedata

FORGED = "12:00:07 ERROR   rota.worker    forged"
EVIL = f"evil\x1b[2J\x1b]0;title\x07\x9b31m\x7f\r\u202etxt\u2066\u2028\x85\n{FORGED}"
_JOINERS = "\u200c\u200d"


def is_safe(text: str, allowed: str = "\n\t") -> bool:
    """Neither a control character nor one of format, and no separator of lines."""
    return not {
        one
        for one in set(text) - set(allowed) - set(_JOINERS)
        if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")
        or (unicodedata.category(one) == "Cf" and not is_visible(one))
    }


def is_visible(one: str) -> bool:
    """Signs that stand before or over numbers, of Arabic, Syriac and Kaithi, and of hieroglyphs and
    shorthand, are of the category of what is invisible."""
    shown = ("NUMBER", "SIGN", "END OF AYAH", "MARK", "HIEROGLYPH", "SHORTHAND", "DISPUTED")
    name = unicodedata.name(one, "")
    is_direction = name in ("LEFT-TO-RIGHT MARK", "RIGHT-TO-LEFT MARK", "ARABIC LETTER MARK")
    return any(word in name for word in shown) and not is_direction


def check(text: str, *, allowed: str = "\n\t") -> None:
    assert is_safe(text, allowed), ascii(text)
    assert not any(line.startswith(FORGED[:8]) for line in text.splitlines()), text
