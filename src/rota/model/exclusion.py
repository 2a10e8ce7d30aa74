"""What a list leaves out: `job:send_welcome`, a filter by its name and a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from rota.errors import FilterError, InputError
from rota.model.fields import Argument, Field, settings_of

Exclude = Annotated[
    str | Sequence[str] | None,
    Field(
        "Leave out what matches this filter.", "job:send_welcome", longest=400, metavar="NAME:VALUE"
    ),
]
# A period, or what a switch selects, is left out by another period or switch.
_NOT_LEFT_OUT = ("moment", "flag")


@cache
def filters_by_word(filters: Any) -> Mapping[str, Argument]:
    """The declared filters of a list, by the name that people type."""
    return {one.word: one for one in settings_of(filters) if one.name != "exclude"}


def can_exclude(argument: Argument) -> bool:
    return argument.kind not in _NOT_LEFT_OUT and not argument.field.is_bound


def read_exclusions(given: str | Sequence[str] | None, filters: Any) -> tuple[tuple[str, str], ...]:
    """The word of each filter, and the value that is left out; several values are one each. Raise
    FilterError for a filter that the list does not have, and for a value that it does not take."""
    found: list[tuple[str, str]] = []
    for text in [given] if isinstance(given, str) else given or ():
        name, _, value = text.partition(":")
        argument = _named(filters, name)
        values = _read(argument, value) if argument is not None and value else []
        if argument is None or not values:
            names = (word for word, it in filters_by_word(filters).items() if can_exclude(it))
            raise FilterError(
                f"cannot leave out {text!r}",
                hint=f"write name:value with one of {', '.join(names)}",
                field="exclude",
            )
        found += [(argument.word, one) for one in values]
    return tuple(found)


def _named(filters: Any, name: str) -> Argument | None:
    """The filter of this word or name: the word of one may be the name of another."""
    every = [one for one in filters_by_word(filters).values() if can_exclude(one)]
    kinds = ("word", "singular", "name")
    return next((one for kind in kinds for one in every if getattr(one, kind) == name), None)


def _read(argument: Argument, value: str) -> list[str]:
    """The values as statements compare them; none if only blanks were given."""
    try:
        read = argument.parse(value, is_filter=True)
    except InputError as error:
        wrong = error.retold(FilterError)
        wrong.field = "exclude"
        raise wrong from None
    if isinstance(read, Mapping):
        return [f"{key}:{wanted}" for key, wanted in read.items()]
    return read if isinstance(read, list) else [str(read)] if read != "" else []
