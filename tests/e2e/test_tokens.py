"""Tokens are kept in the store: every server on it accepts them, also after a restart."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.conftest import CONFIG
from tests.support.e2e_server import ADMIN, V1, Client
from tests.support.server_process import Process

SOON_S = 20.0  # a second, plus the delays of a busy machine


def get_status(api: Client, path: str = "/jobs") -> int:
    return api.call("GET", V1 + path).status


def wait_until_refused(api: Client) -> None:
    end_s = time.monotonic() + SOON_S
    while get_status(api) != 401:
        assert time.monotonic() < end_s, "a revoked token is still good"
        time.sleep(0.05)


def test_two_servers_share_their_tokens(start: Callable[..., Process], tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "chronos.yaml").write_text(json.dumps(CONFIG))
    one, two = (start("--store", postgres_url, "--node-id", name).ready() for name in ("one", "two"))
    made = Client(one, ADMIN).post("/tokens", {"name": "ci", "role": "viewer"}, 201)
    bearer = f"Bearer {made['token']}"
    assert [get_status(Client(server, bearer)) for server in (two, one)] == [200, 200]
    assert get_status(Client(two, bearer), "/tokens") == 403
    assert Client(two, ADMIN).call("POST", f"{V1}/tokens", {"name": "ci"}).status == 409
    assert [token["name"] for token in Client(two, ADMIN).get("/tokens")["items"]] == ["ci"]
    one.send(signal.SIGTERM)
    assert one.wait() == 0
    again = start("--store", postgres_url, "--node-id", "one").ready()
    assert get_status(Client(again, bearer)) == 200
    assert Client(two, ADMIN).call("DELETE", f"{V1}/tokens/ci").status == 204
    assert get_status(Client(two, bearer)) == 401
    wait_until_refused(Client(again, bearer))


def test_tokens_survive_a_restart(start_again: Callable[[], Process]) -> None:
    first = start_again()
    made = Client(first).post("/tokens", {"name": "kept", "role": "operator"}, 201)
    gone = Client(first).post("/tokens", {"name": "gone"}, 201)
    assert Client(first).call("DELETE", f"{V1}/tokens/gone").status == 204
    first.send(signal.SIGKILL)
    first.wait()
    second = start_again()
    assert get_status(Client(second, f"Bearer {made['token']}")) == 200
    assert get_status(Client(second, f"Bearer {gone['token']}")) == 401
    [token] = Client(second).get("/tokens")["items"]
    assert (token["name"], token["created_by"], "token" in token) == ("kept", "ana", False)
