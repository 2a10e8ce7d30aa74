"""Rota's functions in sessions of users, whose settings are their own."""

from __future__ import annotations

import psycopg
import pytest

from tests.conformance.test_shadows import OPERATED

SETTINGS = {
    "backslashes": {"standard_conforming_strings": "off"},
    "formats": {
        "DateStyle": "German, DMY",
        "IntervalStyle": "sql_standard",
        "TimeZone": "Asia/Kathmandu",
        "bytea_output": "escape",
        "extra_float_digits": "-15",
        "quote_all_identifiers": "on",
        "default_text_search_config": "pg_catalog.german",
    },
    "meanings": {
        "array_nulls": "off",
        "transform_null_equals": "on",
        "plpgsql.extra_errors": "all",
        "default_transaction_isolation": "serializable",
        "enable_seqscan": "off",
        "plan_cache_mode": "force_custom_plan",
    },
}


@pytest.mark.parametrize("settings", SETTINGS)
def test_what_an_operator_does_in_psql(database_url: str, settings: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as conn:
        for name, value in SETTINGS[settings].items():
            conn.execute(f"SET {name} = '{value}'".encode())
        for statement in filter(str.strip, OPERATED.split(";\n")):
            conn.execute(statement.encode())
        # Half of the rows fit the first watch, all the second.
        events = conn.execute("SELECT name, count(*) FROM rota.events GROUP BY 1 ORDER BY 1")
        assert events.fetchall() == [("order.paid", 1), ("parcels.insert", 30)]
