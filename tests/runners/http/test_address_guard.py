"""Which addresses jobs may reach, in every form in which an address can be written."""

from ipaddress import ip_address

import pytest

from chronos.errors import Invalid
from chronos.runners.http.address_guard import AddressGuard, AddressRefused, is_public, parse_address

PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "239.255.255.255",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:53aa:64c:0:0:80ff:fffe",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:c0a8:101::1",
    "2600::5efe:7f00:1",
    "2600::200:5efe:a00:1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%1",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "172.15.255.255",
    "172.32.0.1",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
]


@pytest.mark.parametrize("text", PRIVATE)
def test_private_addresses_are_refused(text: str) -> None:
    assert not is_public(ip_address(text))
    with pytest.raises(AddressRefused, match="is not a public address; allow it"):
        AddressGuard().check_address(text)
    with pytest.raises(AddressRefused):
        AddressGuard().check_host(f"[{text}]" if ":" in text else text)


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_allowed(text: str) -> None:
    AddressGuard().check_address(text)
    AddressGuard().check_host(text)


@pytest.mark.parametrize(
    "host",
    ["127.1", "127.0.1", "0x7f000001", "0X7F.1", "2130706433", "017700000001", "0177.0.0.1", "0", "127.0.0.1."],
)
def test_other_spellings_of_loopback_are_refused(host: str) -> None:
    with pytest.raises(AddressRefused):
        AddressGuard().check_host(host)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost.", "api.localhost", "ip6-localhost"])
def test_names_of_this_machine_are_refused(host: str) -> None:
    with pytest.raises(AddressRefused, match="is this machine"):
        AddressGuard().check_host(host)


@pytest.mark.parametrize("host", ["example.com", "localhost.example.com", "127.0.0.1.nip.io", "1.2.3.4.5", "0x", ""])
def test_names_are_checked_when_they_are_resolved(host: str) -> None:
    assert parse_address(host) is None
    AddressGuard().check_host(host)


def test_allow_hosts_opens_hosts_and_networks() -> None:
    guard = AddressGuard(allow_hosts=["hooks.internal", "*.corp.example", "10.20.0.0/16", "192.168.1.7", "fd00::/8"])
    assert guard.is_unrestricted("HOOKS.internal.")
    assert guard.is_unrestricted("a.b.corp.example")
    assert not guard.is_unrestricted("corp.example")
    assert not guard.is_unrestricted("evil-corp.example")
    for address in ("10.20.3.4", "192.168.1.7", "fd12::1"):
        guard.check_address(address)
        guard.check_host(address)
    for address in ("10.21.0.1", "192.168.1.8", "127.0.0.1"):
        with pytest.raises(AddressRefused):
            guard.check_address(address)


def test_allow_private_opens_everything() -> None:
    guard = AddressGuard(allow_private=True)
    guard.check_address("127.0.0.1")
    guard.check_host("localhost")
    assert guard.is_unrestricted("anything")


def test_an_invalid_network_is_rejected() -> None:
    with pytest.raises(Invalid, match="is not a network"):
        AddressGuard(allow_hosts=["10.0.0.1/8"])
