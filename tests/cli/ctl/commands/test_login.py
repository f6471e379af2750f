"""Login and logout: what is checked, and what is stored."""

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
    """A server with users."""
    with serving(users=USERS, works=False) as served:
        yield served


def address(served: Served) -> str:
    return served.url.removeprefix("http://")


def stored() -> Any:
    return json.loads(contexts_file().read_text())


def tokens(served: Served) -> list[str]:
    ana = {"CHRONOS_SERVER": served.url.replace("//", "//ana:secret@")}
    return served.ctl("tokens", "list", "-o", "name", env=ana).stdout.split()


def test_login_stores_a_token_instead_of_the_password(known: Served) -> None:
    result = known.ctl("login", known.url, "--user", "ana", "--name", "work", input="secret\n", env=HERE)
    assert result.stdout == "work\n"
    assert "stored the token login-ana-" in result.stderr
    assert stat.S_IMODE(contexts_file().stat().st_mode) == 0o600
    assert "secret" not in contexts_file().read_text()
    entry = stored()["contexts"]["work"]
    assert (stored()["current"], entry["url"]) == ("work", known.url)
    assert tokens(known) == [entry["login"]]
    assert known.ctl("jobs", "list", env=HERE).stderr.startswith("no jobs")
    known.ctl("login", known.url, "--user", "ana", "--name", "work", input="secret\n", env=HERE)
    assert tokens(known) == [stored()["contexts"]["work"]["login"]] != [entry["login"]]
    out = known.ctl("logout", env=HERE)
    assert (out.stdout, out.stderr) == ("work\n", "deleted, together with its token\n")
    assert (tokens(known), stored()) == ([], {"current": None, "contexts": {}})


def test_login_without_permission_for_tokens_stores_the_password(known: Served) -> None:
    result = known.ctl("login", known.url, "--user", "eve@x", "-n", "billing", input="secret\n", env=HERE)
    assert result.stdout == f"{address(known)}\n"
    assert "! eve@x may not create tokens, so the password is stored" in result.stderr
    assert "secret" not in result.output
    assert stat.S_IMODE(contexts_file().stat().st_mode) == 0o600
    assert stored()["contexts"][address(known)]["url"] == known.url.replace("//", "//eve%40x:secret@")
    known.ctl("jobs", "list", env=HERE)
    assert known.ctl("logout", address(known), env=HERE).stderr == "deleted\n"


def test_login_with_a_token(known: Served) -> None:
    ana = {"CHRONOS_SERVER": known.url.replace("//", "//ana:secret@")}
    token = known.ctl("tokens", "create", "ci", env=ana).stdout.strip()
    known.ctl("-n", "billing", "login", known.url, "--token", "-", "--name", "ci", input=f"{token}\n", env=HERE)
    assert stored()["contexts"] == {"ci": {"url": known.url, "token": token, "namespace": "billing"}}
    known.ctl("jobs", "list", env=HERE)
    known.ctl("logout", env=HERE)
    assert tokens(known) == ["ci"]


def test_login_with_credentials_in_the_url(known: Served) -> None:
    known.ctl("login", known.url.replace("//", "//ana:secret@") + "/", "--name", "a", env=HERE)
    assert stored()["contexts"]["a"]["url"] == known.url


@pytest.mark.parametrize("credentials", [("--user", "ana"), ("--token", "wrong")])
def test_login_to_a_server_without_auth(served: Served, credentials: tuple[str, str]) -> None:
    result = served.ctl("login", served.url, *credentials, env={"CHRONOS_SERVER": "http://127.0.0.1:9"})
    assert "the server needs no login and ignores credentials; only its address is stored" in result.stderr
    assert "! CHRONOS_SERVER is set and takes precedence" in result.stderr
    assert stored()["contexts"] == {address(served): {"url": served.url}}
    served.ctl("status", env=HERE)


def test_failed_logins_store_nothing(known: Served) -> None:
    for arguments, typed, code, message in (
        (["--user", "ana"], "wrong\n", 1, "✗ incorrect username or password\n"),
        (["--token", "wrong"], None, 1, "✗ unknown or expired token; "),
        (["--user", "ana"], "", 1, "no password was given"),
        ([], None, 1, "give --user NAME or --token TOKEN"),
        (["--user", "ana", "--token", "x"], None, 2, "cannot be combined"),
    ):
        refused = known.ctl("login", known.url, *arguments, input=typed, env=HERE, code=code)
        assert message in refused.stderr
    assert "does not answer like a Chronos server" in known.ctl("login", known.url + "/x", env=HERE, code=1).stderr
    assert "cannot be reached" in known.ctl("login", "http://127.0.0.1:9", "--user", "a", env=HERE, code=5).stderr
    known.ctl("login", "ftp://x", env=HERE, code=1)
    assert "no context is in use" in known.ctl("logout", env=HERE, code=1).stderr
    known.ctl("logout", "nowhere", env=HERE, code=3)
    assert not contexts_file().exists()


def test_logout_with_a_deleted_token(known: Served) -> None:
    known.ctl("login", known.url, "--user", "ana", "--name", "a", input="secret\n", env=HERE)
    ana = {"CHRONOS_SERVER": known.url.replace("//", "//ana:secret@")}
    known.ctl("tokens", "delete", stored()["contexts"]["a"]["login"], "--yes", env=ana)
    known.ctl("logout", env=HERE)
    assert stored()["contexts"] == {}
