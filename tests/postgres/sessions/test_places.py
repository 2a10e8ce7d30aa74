from __future__ import annotations

import pytest

from rota.postgres.sessions.places import place_of


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://shop:secret@db.example:5432/shop", "shop@db.example:5432/shop"),
        ("postgresql://shop:secret@a:1,b:2/shop?target_session_attrs=any", "shop@a,b:1,2/shop"),
        ("host=/run/pg dbname=shop password=secret", "/run/pg/shop"),
        ("dbname=shop", "local/shop"),
        ("no url at all", "?"),
    ],
)
def test_a_place_names_no_secret(url: str, place: str) -> None:
    assert place_of(url) == place
