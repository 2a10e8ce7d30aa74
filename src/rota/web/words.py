"""How the pages name operations, fields and values."""

from __future__ import annotations

from rota.errors import RotaError
from rota.hints import OperationCall, Words
from rota.operations.command_line import find_operation
from rota.operations.registry import NOUNS, commands_of
from rota.web.nav import SECTIONS

_TITLES = {path: title for section in SECTIONS if section for _, title, path, _ in [section]}
_TITLES |= {"/schedules/new": "New schedule", "/watches": "Watched tables"}


class PageWords(Words):
    """A field is the label of its input, an operation the title of its form."""

    none = "an empty field"

    def field(self, name: str, short: str | None = None) -> str:
        return name.removeprefix("is_").removesuffix("_seconds").replace("_", " ")

    def call(self, call: OperationCall) -> str:
        noun = commands_of(call.noun).noun if call.noun in NOUNS else None
        if call.verb == "list" or noun is None:
            home = noun.home if noun and noun.home else f"/{call.noun}"
            return f"the page {_TITLES.get(home, call.noun.capitalize())}"
        operation = find_operation(call.noun, call.verb)
        if operation is None:
            return f"the page of the {noun.one}" if call.verb == "get" else f"the page {noun.many}"
        labels = [one.label for one in operation.arguments if one.name in call.arguments]
        title = operation.title or f"{call.verb.replace('_', ' ').capitalize()} {noun.one}"
        return " with ".join(f"“{text}”" for text in (title, *labels))


PAGES = PageWords()


def refusal(error: Exception) -> str:
    """Return a sentence for a form, with what to do."""
    if not isinstance(error, RotaError):
        return _sentence(str(error))
    parts = (error.sentence(PAGES), PAGES.hint(error.advice))
    return " ".join(_sentence(part) for part in parts if part)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."
