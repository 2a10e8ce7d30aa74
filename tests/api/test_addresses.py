"""Which requests count as one client's."""

from __future__ import annotations

import pytest

from rota.api.addresses import Addresses
from rota.config import Config
from rota.errors import ConfigError

PROXY = "10.0.0.1"


def seen(peer: str | None, *forwarded: str, trusted: tuple[str, ...] = (PROXY,)) -> str:
    headers = [(b"x-forwarded-for", one.encode("latin-1")) for one in forwarded]
    client = None if peer is None else (peer, 1234)
    return Addresses(trusted).of({"type": "http", "client": client, "headers": headers})


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("192.0.2.7", [], "192.0.2.7"),
        ("192.0.2.7", ["198.51.100.1"], "192.0.2.7"),
        (PROXY, [], PROXY),
        (PROXY, ["198.51.100.1"], "198.51.100.1"),
        (PROXY, ["198.51.100.1:80"], "198.51.100.1"),
        (PROXY, ["forged, 198.51.100.1"], "198.51.100.1"),
        (PROXY, ["198.51.100.9", "198.51.100.1"], "198.51.100.1"),
        (PROXY, [f"198.51.100.1, {PROXY}"], "198.51.100.1"),
        (PROXY, ["198.51.100.1, nonsense"], PROXY),
        (PROXY, [""], PROXY),
        (PROXY, ["\xff\x00"], PROXY),
        (PROXY, ["[2001:db8::1]:443"], "2001:db8::/64"),
        ("2001:db8::1", [], "2001:db8::/64"),
        ("2001:db8::ffff", [], "2001:db8::/64"),
        ("2001:db8:0:1::1", [], "2001:db8:0:1::/64"),
        ("fe80::1%eth0", [], "fe80::/64"),
        ("::ffff:192.0.2.7", [], "192.0.2.7"),
        (f"::ffff:{PROXY}", ["198.51.100.1"], "198.51.100.1"),
        (None, ["198.51.100.1"], ""),
        ("testclient", ["198.51.100.1"], ""),
    ],
)
def test_the_nearest_that_is_no_trusted_proxy(
    peer: str | None, forwarded: list[str], expected: str
) -> None:
    assert seen(peer, *forwarded) == expected


def test_nobody_is_trusted_unless_said() -> None:
    assert seen("127.0.0.1", "198.51.100.1", trusted=()) == "127.0.0.1"
    assert seen("::1", "198.51.100.1", trusted=()) == "::/64"
    assert seen("2001:db8::1", "198.51.100.1", trusted=("2001:db8::/32",)) == "198.51.100.1"


@pytest.mark.parametrize(
    ("peer", "said", "expected"),
    [
        (PROXY, ["https"], True),
        (PROXY, ["http, HTTPS "], True),
        (PROXY, ["https, http"], False),
        (PROXY, ["https", "http"], False),
        (PROXY, [], False),
        ("192.0.2.7", ["https"], False),
        (None, ["https"], False),
    ],
)
def test_only_a_trusted_proxy_says_that_it_was_tls(
    peer: str | None, said: list[str], expected: bool
) -> None:
    headers = [(b"x-forwarded-proto", one.encode()) for one in said]
    client = None if peer is None else (peer, 1234)
    scope = {"type": "http", "client": client, "headers": headers}
    assert Addresses([PROXY]).is_secure(scope) is expected


def test_what_is_no_network_is_refused() -> None:
    env = {"ROTA_SERVER_TRUSTED_PROXIES": "10.0.0.0/8, ::1"}
    assert Config.load(env=env).server.trusted_proxies == ("10.0.0.0/8", "::1")
    for wrong in (["*"], ["proxy.example"], ["10.0.0.0/99"]):
        with pytest.raises(ConfigError, match="must be a list of addresses"):
            Config.load(env={}, **{"server.trusted_proxies": wrong})
