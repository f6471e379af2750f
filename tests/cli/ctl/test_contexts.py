"""The choice of the server, credentials, and the commands that show the server's state."""

import stat
import time

import pytest

from chronos.api import ApiOptions
from chronos.cli.ctl.contexts import Contexts, ServerContext, choose_server, contexts_file, write_contexts
from tests.support.cli_server import SECRET, Served, serving

USERS = {
    "ana": {"password_hash": SECRET, "role": "admin"},
    "eve": {"password_hash": SECRET, "role": "viewer"},
}


def test_status_nodes_queues_audit(served: Served) -> None:
    served.create("slow", "sleep", "60")
    run = served.ctl("jobs", "run", "slow").stdout.strip()
    while served.rest(f"/executions/{run}")["status"] != "running":  # from then on nothing changes
        time.sleep(0.01)
    status = served.json("status")
    assert status["jobs_persisted"] == 1
    assert set(status) == set(served.rest("/status"))
    shown = served.ctl("status").stdout
    assert served.url in shown
    assert "1 in all: 1 active" in shown
    assert "1 running" in shown
    assert [node["name"] for node in served.json("nodes")["items"]] == ["node-a"]
    assert served.ctl("nodes", "-o", "name").stdout == "node-a\n"
    assert served.ctl("queues").stdout.splitlines()[1].split()[0] == "default"
    assert served.json("queues") == served.rest("/queues")
    assert served.json("audit", "--limit", "1") == served.rest("/audit?limit=1")
    assert "anonymous" in served.ctl("audit").stdout


def test_contexts(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronos.cli.ctl.contexts.DEFAULT_SERVER", "http://127.0.0.1:9")
    away = {"CHRONOS_SERVER": ""}
    served.ctl("jobs", "list", env=away, code=5)
    served.ctl("context", "set", "here", "--url", served.url)
    served.ctl("context", "set", "there", "--url", "http://ana:secret@127.0.0.1:9", "--token", "-", input="t0ken\n")
    assert stat.S_IMODE(contexts_file().stat().st_mode) == 0o600
    assert "t0ken" in contexts_file().read_text()
    listed = served.ctl("context", "list").stdout
    assert "t0ken" not in listed
    assert "secret" not in listed
    served.ctl("jobs", "list", env=away)
    served.ctl("--context", "there", "jobs", "list", env=away, code=5)
    served.ctl("jobs", "list", "--context", "there", env=away, code=5)
    served.ctl("jobs", "list", env={**away, "CHRONOS_CONTEXT": "there"}, code=5)
    served.ctl("jobs", "list", "--server", served.url, env={**away, "CHRONOS_CONTEXT": "there"})
    served.ctl("context", "use", "there")
    served.ctl("jobs", "list", env=away, code=5)
    served.ctl("jobs", "list", "--context", "nowhere", code=3)
    served.ctl("context", "delete", "there")
    assert served.ctl("context", "list", "-o", "name").stdout == "here\n"
    served.ctl("context", "use", "there", code=3)
    served.ctl("context", "set", "odd", "--url", "ftp://x", code=1)


def test_a_contexts_token_is_sent_only_to_its_server() -> None:
    write_contexts(Contexts(current="here", servers={"here": ServerContext(url="http://here", token="t0ken")}))
    unset: dict[str, str | None] = {"server": None, "context": None, "namespace": None}
    assert choose_server(**unset, environment={}).token == "t0ken"
    assert choose_server(**{**unset, "server": "http://elsewhere"}, environment={}).token is None
    assert choose_server(**unset, environment={"CHRONOS_SERVER": "http://elsewhere"}).token is None
    assert choose_server(**unset, environment={"CHRONOS_TOKEN": "mine"}).token == "mine"


def test_a_context_has_a_namespace(served: Served) -> None:
    served.ctl("context", "set", "billing", "--url", served.url, "--default-namespace", "billing")
    away = {"CHRONOS_SERVER": ""}
    served.ctl("jobs", "create", "invoice", "--schedule", "manual", "--", "true", env=away)
    assert served.rest("/jobs/invoice?namespace=billing")["namespace"] == "billing"


def test_an_invalid_file_of_contexts_is_named(served: Served) -> None:
    contexts_file().parent.mkdir(parents=True)
    for text in ("{", '{"contexts": []}', '{"contexts": {"a": {"address": 1}}}'):
        contexts_file().write_text(text)
        assert str(contexts_file()) in served.ctl("context", "list", code=1).stderr


def test_users_and_tokens() -> None:
    with serving(users=USERS) as served:
        refused = served.ctl("jobs", "list", code=1)
        assert "sign in: chronosctl login URL\n  or set CHRONOS_TOKEN" in refused.stderr
        ana = {"CHRONOS_SERVER": served.url.replace("//", "//ana:secret@")}
        assert served.ctl("users", "-o", "name", env=ana).stdout == "ana\neve\n"
        assert "would be created" in served.ctl("tokens", "create", "ci", "--dry-run", env=ana).stderr
        token = served.ctl("tokens", "create", "ci", "--role", "operator", env=ana).stdout.strip()
        assert served.ctl("tokens", "list", "-o", "name", env=ana).stdout == "ci\n"
        served.ctl("jobs", "list", env={"CHRONOS_TOKEN": token})
        served.ctl("jobs", "create", "x", "--now", "--", "true", env={"CHRONOS_TOKEN": token}, code=1)
        served.ctl("tokens", "delete", "ci", "--yes", env=ana)
        served.ctl("jobs", "list", env={"CHRONOS_TOKEN": token}, code=1)
        assert "would be unlocked on" in served.ctl("users", "unlock", "eve", "--dry-run", env=ana).stderr
        assert served.ctl("users", "unlock", "eve", env=ana).stdout == "eve\n"
        assert served.ctl("audit", "list", "--limit", "1", env=ana).stdout.count("unlock user") == 1
        missing = served.ctl("users", "unlock", "bob", env=ana, code=3).stderr
        assert missing == '✗ user "bob" not found\n  list the users: chronosctl users list\n'
        secret = served.ctl("jobs", "list", env={"CHRONOS_SERVER": "http://ana:secret@127.0.0.1:9"}, code=5)
        assert "ana:…@127.0.0.1:9 cannot be reached" in secret.stderr


def test_the_url_may_have_a_base_path() -> None:
    with serving(options=ApiOptions(base_path="/chronos")) as served:
        served.create()
        assert served.ctl("jobs", "list", "-o", "name").stdout == "hello\n"


def test_a_full_queue_is_retried_and_then_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("chronos.cli.ctl.client.time.sleep", pauses.append)
    with serving(works=False, max_pending=1) as served:
        served.create()
        served.ctl("jobs", "run", "hello")
        full = served.ctl("jobs", "run", "hello", code=1)
    assert "already waiting, allowed 1 (queue.max_pending)" in full.stderr
    assert pauses == [1.0, 1.0]
