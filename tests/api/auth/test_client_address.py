"""The address of a client, with and without proxies."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from chronos.api import ApiOptions
from chronos.api.auth.client_address import Proxies, to_address_group
from tests.support.api_server import SECRET, V1, World, basic, in_world, shape

USERS = {"ada": {"password_hash": SECRET, "role": "admin"}, "otto": {"password_hash": SECRET, "role": "operator"}}
PROXIED = ApiOptions(poll_s=0.05, trusted_proxies=("127.0.0.1",))


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [("X-Forwarded-For", "203.0.113.9")], "203.0.113.9"),
        ("10.0.0.1", [("X-Forwarded-For", "1.1.1.1, 203.0.113.9")], "203.0.113.9"),
        ("10.0.0.1", [("X-Forwarded-For", "1.1.1.1, 203.0.113.9, 10.0.0.2")], "203.0.113.9"),
        ("10.0.0.1", [("X-Forwarded-For", "1.1.1.1"), ("X-Forwarded-For", "203.0.113.9")], "203.0.113.9"),
        ("10.0.0.1", [("X-Forwarded-For", "10.0.0.3, 10.0.0.2")], "10.0.0.3"),
        ("10.0.0.1", [("X-Forwarded-For", "203.0.113.9:4711")], "203.0.113.9"),
        ("10.0.0.1", [("X-Forwarded-For", "[2001:db8::1]:80")], "2001:db8::1"),
        ("10.0.0.1", [("X-Forwarded-For", "2001:db8::1")], "2001:db8::1"),
        ("10.0.0.1", [("X-Forwarded-For", "203.0.113.9, unknown")], "10.0.0.1"),
        ("10.0.0.1", [("X-Forwarded-For", "203.0.113.9, junk, 10.0.0.2")], "10.0.0.2"),
        ("10.0.0.1", [("X-Forwarded-For", "")], "10.0.0.1"),
        ("10.0.0.1", [("Forwarded", "for=203.0.113.9;proto=https")], "203.0.113.9"),
        ("10.0.0.1", [("Forwarded", 'for=1.1.1.1, For="[2001:db8::1]:4711";by=10.0.0.1')], "2001:db8::1"),
        ("10.0.0.1", [("Forwarded", 'for="a, for=1.1.1.1", for=203.0.113.9, for=10.0.0.2')], "203.0.113.9"),
        ("10.0.0.1", [("Forwarded", 'for="1.1.1.1, for=203.0.113.9')], "203.0.113.9"),
        ("10.0.0.1", [("Forwarded", "for=_hidden")], "10.0.0.1"),
        ("10.0.0.1", [("Forwarded", "proto=https")], "10.0.0.1"),
        ("10.0.0.1", [("X-Forwarded-For", "203.0.113.9"), ("Forwarded", "for=203.0.113.9")], "203.0.113.9"),
        ("10.0.0.1", [("X-Forwarded-For", "203.0.113.9"), ("Forwarded", "for=198.51.100.7")], "10.0.0.1"),
        ("::ffff:10.0.0.1", [("X-Forwarded-For", "203.0.113.9")], "203.0.113.9"),
        ("fd00::1", [("X-Forwarded-For", "203.0.113.9")], "203.0.113.9"),
        ("192.0.2.1", [("X-Forwarded-For", "203.0.113.9"), ("Forwarded", "for=203.0.113.9")], "192.0.2.1"),
        ("", [("X-Forwarded-For", "203.0.113.9")], ""),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_trusted_proxy(
    peer: str, headers: list[tuple[str, str]], client: str
) -> None:
    proxies = Proxies(("10.0.0.0/8", "fd00::1"))
    sent = CIMultiDictProxy(CIMultiDict(headers))
    assert proxies.client(peer, sent) == client
    assert Proxies().client(peer, sent) == peer


@pytest.mark.parametrize(
    ("address", "counts_as"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("not an address", "not an address"),
    ],
)
def test_ipv6_addresses_are_counted_per_64_bit_network(address: str, counts_as: str) -> None:
    assert to_address_group(address) == counts_as


@pytest.mark.parametrize(("trusted", "origin"), [(("127.0.0.1",), "203.0.113.9"), ((), "127.0.0.1")])
def test_forwarded_addresses_of_trusted_proxies_are_in_the_audit_log(trusted: tuple[str, ...], origin: str) -> None:
    async def case(world: World) -> None:
        sent = {"X-Forwarded-For": "198.51.100.7, 203.0.113.9"}
        await world.post("/jobs", shape("job"), status=201, user="ada", headers=sent)
        [entry] = (await world.get("/audit", user="ada"))["items"]
        assert entry["origin"] == origin

    in_world(case, users=USERS, options=ApiOptions(trusted_proxies=trusted))


def test_guessing_behind_a_trusted_proxy_locks_out_only_the_guesser() -> None:
    async def case(world: World) -> None:
        for number in range(30):
            headers = {
                "Authorization": basic("otto", f"guess {number}"),
                "X-Forwarded-For": f"2001:db8:1:2::{number:x}",  # the network of one customer
            }
            reply = await world.call("GET", f"{V1}/jobs", headers=headers)
            assert reply.status == (401 if number < 5 else 429)
        for address, status in (("2001:db8:1:2:ffff::", 429), ("2001:db8:1:3::", 200), ("192.0.2.1", 200)):
            reply = await world.call("GET", f"{V1}/jobs", headers={"X-Forwarded-For": address}, user="otto")
            assert reply.status == status, address

    in_world(case, users=USERS, options=PROXIED)


def test_forged_addresses_do_not_help_a_guesser() -> None:
    async def case(world: World) -> None:
        for number in range(8):
            headers = {
                "Authorization": basic("otto", f"guess {number}"),
                "X-Forwarded-For": f"203.0.113.{number}",
                "Forwarded": f"for=203.0.113.{number}",
            }
            reply = await world.call("GET", f"{V1}/jobs", headers=headers)
            assert reply.status == (401 if number < 5 else 429)

    in_world(case, users=USERS)
