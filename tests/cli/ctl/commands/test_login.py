"""Signing in to a server and out again: what is checked, what is kept, and what is not."""

import json
import stat
from collections.abc import Iterator
from typing import Any

import pytest

from chronos.cli.ctl.contexts import contexts_file
from tests.support.cli_server import SECRET, Served, serving

USERS: dict[str, dict[str, Any]] = {
    "ana": {"password_hash": SECRET, "role": "admin"},
    "eve@x": {"password_hash": SECRET, "role": "viewer", "namespaces": ["billing"]},
}
HERE = {"CHRONOS_SERVER": ""}


@pytest.fixture
def known() -> Iterator[Served]:
    """A server that knows its users."""
    with serving(users=USERS, works=False) as served:
        yield served


def place(served: Served) -> str:
    return served.url.removeprefix("http://")


def kept() -> Any:
    return json.loads(contexts_file().read_text())


def tokens(served: Served) -> list[str]:
    ana = {"CHRONOS_SERVER": served.url.replace("//", "//ana:secret@")}
    return served.ctl("tokens", "list", "-o", "name", env=ana).stdout.split()


def test_who_may_make_tokens_keeps_one_instead_of_the_password(known: Served) -> None:
    said = known.ctl("login", known.url, "--user", "ana", "--name", "work", input="secret\n", env=HERE)
    assert said.stdout == "work\n"
    assert "the password is not kept: the token login-ana-" in said.stderr
    assert stat.S_IMODE(contexts_file().stat().st_mode) == 0o600
    assert "secret" not in contexts_file().read_text()
    entry = kept()["contexts"]["work"]
    assert (kept()["current"], entry["url"]) == ("work", known.url)
    assert tokens(known) == [entry["login"]]
    assert known.ctl("jobs", "list", env=HERE).stderr.startswith("there are no jobs")
    known.ctl("login", known.url, "--user", "ana", "--name", "work", input="secret\n", env=HERE)
    assert tokens(known) == [kept()["contexts"]["work"]["login"]] != [entry["login"]]
    out = known.ctl("logout", env=HERE)
    assert (out.stdout, out.stderr) == ("work\n", "forgotten, and its token is out of force\n")
    assert (tokens(known), kept()) == ([], {"current": None, "contexts": {}})


def test_who_may_not_keeps_the_password_and_is_told_so(known: Served) -> None:
    said = known.ctl("login", known.url, "--user", "eve@x", "-n", "billing", input="secret\n", env=HERE)
    assert said.stdout == f"{place(known)}\n"
    assert "! eve@x may not make tokens, so the password is kept" in said.stderr
    assert "secret" not in said.output
    assert stat.S_IMODE(contexts_file().stat().st_mode) == 0o600
    assert kept()["contexts"][place(known)]["url"] == known.url.replace("//", "//eve%40x:secret@")
    known.ctl("jobs", "list", env=HERE)
    assert known.ctl("logout", place(known), env=HERE).stderr == "forgotten\n"


def test_tokens(known: Served) -> None:
    ana = {"CHRONOS_SERVER": known.url.replace("//", "//ana:secret@")}
    token = known.ctl("tokens", "create", "ci", env=ana).stdout.strip()
    known.ctl("-n", "billing", "login", known.url, "--token", "-", "--name", "ci", input=f"{token}\n", env=HERE)
    assert kept()["contexts"] == {"ci": {"url": known.url, "token": token, "namespace": "billing"}}
    known.ctl("jobs", "list", env=HERE)
    known.ctl("logout", env=HERE)
    assert tokens(known) == ["ci"]


def test_credentials_of_the_address(known: Served) -> None:
    known.ctl("login", known.url.replace("//", "//ana:secret@") + "/", "--name", "a", env=HERE)
    assert kept()["contexts"]["a"]["url"] == known.url


def test_an_open_server(served: Served) -> None:
    said = served.ctl("login", served.url, "--user", "ana", env={"CHRONOS_SERVER": "http://127.0.0.1:9"})
    assert "nobody is asked who they are there" in said.stderr
    assert "! CHRONOS_SERVER is set, and comes before it" in said.stderr
    assert kept()["contexts"] == {place(served): {"url": served.url}}
    served.ctl("status", env=HERE)


def test_refusals(known: Served) -> None:
    for arguments, given, code, message in (
        (["--user", "ana"], "wrong\n", 1, "✗ incorrect username or password\n"),
        (["--token", "wrong"], None, 1, "✗ unknown or expired token; "),
        (["--user", "ana"], "", 1, "there is no password"),
        ([], None, 1, "say --user NAME or --token TOKEN"),
        (["--user", "ana", "--token", "x"], None, 2, "both given"),
    ):
        refused = known.ctl("login", known.url, *arguments, input=given, env=HERE, code=code)
        assert message in refused.stderr
    assert "answers, and not as Chronos does" in known.ctl("login", known.url + "/x", env=HERE, code=1).stderr
    assert "cannot be reached" in known.ctl("login", "http://127.0.0.1:9", "--user", "a", env=HERE, code=5).stderr
    known.ctl("login", "ftp://x", env=HERE, code=1)
    assert "no context is in use" in known.ctl("logout", env=HERE, code=1).stderr
    known.ctl("logout", "nowhere", env=HERE, code=3)
    assert not contexts_file().exists()


def test_signing_out_of_a_server_that_forgot_the_token(known: Served) -> None:
    known.ctl("login", known.url, "--user", "ana", "--name", "a", input="secret\n", env=HERE)
    ana = {"CHRONOS_SERVER": known.url.replace("//", "//ana:secret@")}
    known.ctl("tokens", "delete", kept()["contexts"]["a"]["login"], "--yes", env=ana)
    known.ctl("logout", env=HERE)
    assert kept()["contexts"] == {}
