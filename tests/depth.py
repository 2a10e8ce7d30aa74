"""How far tests search that try examples: a little in every run, and each run others."""

from __future__ import annotations

import os

IS_DEEP = os.environ.get("ROTA_TESTS_DEEP") == "1"


def examples(usual: int, deep: int) -> int:
    """`deep` many with ROTA_TESTS_DEEP=1, as before a release or at night."""
    return deep if IS_DEEP else usual
