from __future__ import annotations

import json
import unicodedata

import pytest

from rota.model.printable import entry, in_json, lines, one_line
from tests.terminal import EVIL, is_safe

LETTERS = (
    "zwölf", "日本語\u3000です", "سلام", "नमस्ते", "می\u200cخواهم", "👩\u200d🔧", "a\xa0b", "\ue000",
)  # fmt: skip
# The planes that hold something else than ideographs.
EVERYTHING = "".join(map(chr, [*range(0x20000), *range(0xE0000, 0xE1000)]))


def test_nothing_that_steers_a_terminal_is_left() -> None:
    assert is_safe(one_line(EVERYTHING), "")
    assert is_safe(lines(EVERYTHING), "\n\t")
    assert is_safe(in_json(json.dumps(EVERYTHING, ensure_ascii=False)), "")


def test_letters_stay_as_they_are() -> None:
    """Of every script, with their joiners; and what only looks odd."""
    for text in LETTERS:
        assert one_line(text) == lines(text) == in_json(text) == text
    kept = [one for one in EVERYTHING if one_line(one) == one]
    letters = [one for one in EVERYTHING if unicodedata.category(one)[0] in "LMNPS"]
    # All but fillers, which are letters that nobody sees.
    assert len(set(letters) - set(kept)) < 300


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\x9bb", r"a\x9bb"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2028b", r"a\u2028b"),
        ("a\x85b", r"a\x85b"),
        ("a\ud800b", r"a\ud800b"),
        ("a\U000e0041b", r"a\U000e0041b"),
        ("a\r\n\tb", r"a\r\n\tb"),
    ],
)
def test_codes_in_their_place(text: str, expected: str) -> None:
    assert one_line(text) == expected


def test_lines_of_a_text() -> None:
    assert lines("a\n\tb\r\x0bc") == "a\n\tb\\r\\x0bc"
    assert entry("a\nb\n\nc", "  ") == "a\n  b\n  \n  c"


def test_json_says_the_same() -> None:
    for text in (EVIL, "\ud800", "\U000e0041", "\x7f\x80", EVERYTHING[:0xD800]):
        document = json.dumps({text: [text]}, ensure_ascii=False, indent=2)
        assert json.loads(in_json(document)) == {text: [text]}
