"""Conditions of watches: what is read, and what is written into the trigger."""

from __future__ import annotations

import pytest

from rota.errors import InputError
from rota.model.watch_condition import watch_condition


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("new.total > 100", "new.total > 100"),
        ("NEW.Total>=-1.5 AND old.status != 'it''s'",
         "new.total >= -1.5 and old.status <> 'it''s'"),
        ('new."Is used" = TRUE or not old.gone', None),
        ('new."Is used" = TRUE or not old.gone = false',
         'new."Is used" = true or not old.gone = false'),
        ("(new.a = 1 or new.b = 2) and new.c is not null",
         "(new.a = 1 or new.b = 2) and new.c is not null"),
        ("new.kind in ('a', 'b') and new.kind not in (1)",
         "new.kind in ('a', 'b') and new.kind not in (1)"),
        ("new.name like 'a%' and new.name not like '_b'",
         "new.name like 'a%' and new.name not like '_b'"),
        ("old.status is distinct from new.status", "old.status is distinct from new.status"),
        ("new.data -> 'a' ->> 0 = 'x'", "new.data -> 'a' ->> 0 = 'x'"),
        ("100 < new.total", "100 < new.total"),
        ("new.user = 'a'", "new.user = 'a'"),
    ],
)  # fmt: skip
def test_what_can_be_read(text: str, written: str | None) -> None:
    if written is None:
        with pytest.raises(InputError):
            watch_condition(text)
        return
    assert watch_condition(text) == written
    assert watch_condition(written) == written


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "new.total", "new.total >", "total > 1", "new > 1", "new.a = b", "new.a = 1;",
        "new.a = 1 --", "new.a /* */ = 1", "pg_sleep(2) is null", "new.a = pg_sleep(2)",
        "new.a = (select 1)", "exists (select 1)", "new.a::text = 'x'", "new.a + 1 = 2",
        "new.a / 0 = 1", "lo_export(1, '/tmp/x') = 1", "new.a = any (array[1])",
        "new.a = $$x$$", "new.a = E'x'", "new.a not 1", "new.a = 1)", "(new.a = 1",
        "strpos(query_to_xml('select 1', true, true, '')::text, 's') > 0",
        "cast(new.a as text) = 'x'", "new.a = current_user", "public.f(new.a)", "new.a.b = 1",
        "new.a operator(public.=) 1", "not " * 40 + "new.a = 1",
    ],
)  # fmt: skip
def test_what_cannot_is_refused_with_what_can(text: str) -> None:
    with pytest.raises(InputError, match="cannot be read") as caught:
        watch_condition(text)
    assert "new.COLUMN" in str(caught.value.hint)


def test_a_long_condition_is_read_once_and_quoted_in_part() -> None:
    long = " and ".join(["new.a = 1"] * 100_000)
    assert watch_condition(long) == long
    for text in (f"{long} oh", "new.a = " + "9" * 5000, "new.a = '" + "x" * 1_000_000):
        with pytest.raises(InputError, match="cannot be read") as caught:
            watch_condition(text)
        assert len(str(caught.value)) < 1000
