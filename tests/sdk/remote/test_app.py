"""``Chronos("http://…")``: the same app, as a client of a real server."""

import asyncio
import base64
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from chronos import (
    Chronos,
    ChronosError,
    Conflict,
    Context,
    Invalid,
    JobInfo,
    NotFound,
    RunFailed,
    RunInfo,
    Unavailable,
)
from chronos.errors import QueueFull, StoreUnavailable
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.sdk.home_loop import WrongLoop
from chronos.sdk.remote import http_client
from chronos.service.serializers import InvalidJob
from tests.support.cli_server import SECRET, Served, serving

SOON_S = 60  # on a machine that is busy with others


def add(a: int, b: int = 2) -> int:
    return a + b


def approve(ctx: Context) -> None:
    ctx.log.info("asked")


@pytest.fixture
def served() -> Iterator[Served]:
    functions = FunctionRegistry()
    functions.register("add", add, "thread")
    functions.register("approve", approve, "thread")
    with serving(functions=functions) as served:
        yield served


@pytest.fixture
def app(served: Served) -> Iterator[Chronos]:
    app = Chronos(served.url)
    yield app
    app.stop()


def test_commands_and_requests_are_saved_and_run(app: Chronos, served: Served) -> None:
    hello = app.command("hello", ["echo", "hi"], retries=0)
    app.webhook("hook", "http://127.0.0.1:9/", cron="0 9 * * 1-5", timezone="Europe/Paris", json={"a": 1})
    run = hello.trigger()
    info = run.wait(timeout=SOON_S)
    assert (info.status, info.trigger, info.tasks[0].name) == ("succeeded", "manual", "main")
    assert run.log == "hi\n"
    assert served.rest("/jobs/hook")["tasks"][0]["http"] == {"url": "http://127.0.0.1:9/", "json": {"a": 1}}
    assert [job.name for job in app.all_jobs()] == ["hello", "hook"]
    assert app.get_run(run.id).info().status == "succeeded"
    assert repr(app) == f"<Chronos {served.url}>"


def test_the_server_runs_a_declared_function_that_it_has(app: Chronos) -> None:
    job = app.job(name="add")(add)
    assert job(1) == 3
    assert job.trigger({"a": 40}).result(timeout=SOON_S) == 42
    with pytest.raises(Invalid, match='lacks "a"'):
        job.trigger({"wrong": 1})
    bad = app.get("add").trigger({"a": "x"})
    with pytest.raises(RunFailed, match="add failed"):
        bad.result(timeout=SOON_S)


def test_a_job_names_a_function_of_another_program(app: Chronos, served: Served) -> None:
    job = app.python("sum", "add", cron="0 9 * * *", payload={"a": 1, "b": 2})
    assert job.trigger().result(timeout=SOON_S) == 3
    assert served.rest("/jobs/sum")["tasks"][0]["python"] == {"name": "add"}
    unserved = app.python("later", "of.a.program.to.come").trigger()
    assert unserved.status == "ready"  # until a program that has the function starts


def test_groups_and_signals(app: Chronos) -> None:
    release = app.group("release", retries=0)
    release.command("build", ["true"])
    release.wait("approval", signal="ok", timeout="1d")
    run = release.trigger()
    deadline = time.monotonic() + SOON_S
    while not run.signal("ok", "ana"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert run.wait(timeout=SOON_S).tasks[1].result == "ana"
    with pytest.raises(NotFound, match="no such open execution"):
        run.signal("ok")


def test_async_calls_work_inside_and_outside_async_with(app: Chronos) -> None:
    hello = app.command("hello", ["true"], every="1h")

    async def main() -> None:
        async with app:
            run = await hello.atrigger()
            assert (await run.await_(SOON_S)).status == await run.astatus() == "succeeded"
            with pytest.raises(WrongLoop, match=r"await hello.atrigger"):
                hello.trigger()
            assert await hello.anext_run() is not None

    async def without_async_with() -> str:
        return (await (await hello.atrigger()).await_(SOON_S)).status

    asyncio.run(main())
    assert asyncio.run(without_async_with()) == "succeeded"
    assert hello.trigger().wait(SOON_S).status == "succeeded"


def test_a_job_is_read_paused_disabled_and_deleted(app: Chronos) -> None:
    job = app.command("digest", ["true"], cron="0 9 * * *", timezone="Europe/Paris", tags={"team": "money"})
    due = job.next_run
    assert due is not None
    assert due > datetime.now(UTC)
    assert (job.is_active, job.is_enabled, job.is_paused, job.is_running) == (True, True, False, False)
    job.pause("audit")
    assert (job.is_paused, job.next_run, job.info().note) == (True, None, "audit")
    assert (job.is_active, job.is_enabled) == (True, False)
    job.resume()
    job.disable()
    assert (job.is_enabled, job.next_run) == (False, None)
    job.enable()
    assert (job.is_enabled, job.next_run) == (True, due)
    job.stop()
    assert (job.is_enabled, job.next_run) == (False, None)
    job.start()
    assert (job.is_enabled, job.next_run) == (True, due)
    info = app.get("digest").info()
    assert isinstance(info, JobInfo)
    assert (info.schedule, info.timezone, info.tags) == ("0 9 * * *", "Europe/Paris", {"team": "money"})
    manual = app.command("manual", ["true"])
    assert (manual.info().schedule, manual.is_active) == (None, False)
    job.delete()
    with pytest.raises(NotFound):
        job.info()


@pytest.mark.parametrize("at_once", [10_000, 2, 1])
def test_history_backfill_and_replay(app: Chronos, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr("chronos.service.backfill.MAX_BACKFILL", at_once)
    job = app.command("hourly", ["true"], cron="0 * 2 1 *", overlap="queue", start="2026-01-01T00:00:00Z")
    runs = job.backfill("2026-01-02T00:00:00Z", datetime(2026, 1, 2, 2, tzinfo=UTC), reason="lost")
    assert [run.wait(timeout=SOON_S).status for run in runs] == ["succeeded"] * 3
    past = [item for item in job.executions(limit=10) if isinstance(item, RunInfo)]
    assert [item.scheduled_at.hour for item in past] == [2, 1, 0]
    again = runs[0].replay(reason="once more").wait(timeout=SOON_S)
    assert (again.status, again.trigger) == ("succeeded", "replay")


def test_canceling_and_waiting(app: Chronos) -> None:
    job = app.command("slow", ["sleep", "60"])
    run = job.trigger()
    with pytest.raises(TimeoutError):
        run.wait(timeout=0.05)
    run.cancel("not needed")
    assert run.wait(timeout=SOON_S).status == "canceled"
    run.cancel()


def test_the_same_key_is_the_same_run(app: Chronos) -> None:
    job = app.command("hello", ["true"])
    assert job.trigger(key="order-1").id == job.trigger(key="order-1").id != job.trigger(key="order-2").id


def test_unknown_jobs_and_runs_raise_not_found(app: Chronos) -> None:
    app.command("digest", ["true"])
    with pytest.raises(NotFound, match="did you mean 'digest'"):
        app.trigger("digset")
    with pytest.raises(NotFound):
        app.get_run("ghost")
    with pytest.raises(NotFound):
        app.get_run("00000000-0000-8000-8000-000000000000").info()


def test_invalid_jobs_and_requests_are_refused(app: Chronos) -> None:
    with pytest.raises(Invalid, match=r"job bad: cron: cron field \"hour\" is 25"):
        app.command("bad", ["true"], cron="0 25 * * *")
    with pytest.raises(Invalid, match="expires is 2026"):
        app.command("hello", ["true"]).trigger(expires="2026-01-01T00:00:00Z")
    app.command("follower", ["true"], after="ghost")
    with pytest.raises(Invalid, match='job "ghost" not found'):
        app.all_jobs()


def test_a_client_runs_no_jobs(served: Served) -> None:
    with pytest.raises(Invalid, match="to run Python functions, use the URL of its store"):
        Chronos(served.url).run()
    with pytest.raises(Invalid, match="a client of a server does not take slots; configure the server instead"):
        Chronos(served.url, slots=3)
    with pytest.raises(Invalid, match="defaults: overlap"):
        Chronos(served.url, defaults={"overlap": "never"})
    with pytest.raises(Invalid, match="http:// is not a server URL; write it like"):
        Chronos("http://")


def test_an_owner_deletes_undeclared_jobs_in_its_namespace_only(served: Served) -> None:
    for names in (("a", "b"), ("a",)):
        app = Chronos(served.url, owner="billing", namespace="money", defaults={"priority": 7}, timezone="Asia/Tokyo")
        for name in names:
            app.command(name, ["true"], cron="0 0 * * *")
        with app:
            assert [job.name for job in app.all_jobs()] == list(names)
    [job] = served.rest("/jobs?namespace=money")["items"]
    assert (job["owner"], job["priority"], job["timezone"]) == ("billing", 7, "Asia/Tokyo")


def test_declaring_the_same_job_again_changes_nothing(served: Served) -> None:
    for _ in range(2):
        app = Chronos(served.url)
        app.command("hello", ["true"], cron="0 0 * * *").info()
        app.stop()
    assert served.rest("/jobs/hello")["version"] == 1


def test_a_client_authenticates_with_a_password_or_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    users = {"ana": {"password_hash": SECRET, "role": "admin"}}
    with serving(users=users) as served:
        with pytest.raises(ChronosError, match="put a token into CHRONOS_TOKEN"):
            Chronos(served.url).all_jobs()
        ana = served.url.replace("//", "//ana:secret@")
        app = Chronos(ana)
        assert app.all_jobs() == []
        assert "secret" not in repr(app)
        token = served.ctl("tokens", "create", "ci", env={"CHRONOS_SERVER": ana}).stdout.strip()
        monkeypatch.setenv("CHRONOS_TOKEN", token)
        assert Chronos(served.url).all_jobs() == []
        with pytest.raises(ChronosError, match="needs the admin role"):
            Chronos(served.url).command("x", ["true"]).trigger()


def test_a_full_queue_raises_queue_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_ATTEMPTS", 1)
    with serving(works=False, max_pending=1) as served:
        app = Chronos(served.url)
        job = app.command("hello", ["true"])
        job.trigger()
        with pytest.raises(QueueFull):
            job.trigger()
        app.stop()


# --- a server that fails


Reply = tuple[int, dict[str, str], Any]


class ScriptedServer:
    """An HTTP server that sends the replies of a test, and keeps the requests."""

    def __init__(self, replies: list[Reply]) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def reply(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.requests.append((self.command, self.path, dict(self.headers)))
                status, headers, value = replies.pop(0)
                body = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                for name, text in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = reply  # noqa: N815 - names of the standard library

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedServer]]:
    servers: list[ScriptedServer] = []

    def make(*replies: Reply) -> ScriptedServer:
        servers.append(ScriptedServer(list(replies)))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


RETRY_NOW = {"Retry-After": "0"}
EXECUTION = "01a1e188-790e-8388-8f37-d388b0787bc1"


def test_a_repeated_trigger_has_the_same_idempotency_key(scripted: Callable[..., ScriptedServer]) -> None:
    server = scripted((503, RETRY_NOW, {}), (429, RETRY_NOW, {}), (202, {}, {"execution_id": EXECUTION}))
    app = Chronos(server.url)
    assert app.trigger("hello").id == EXECUTION
    app.stop()
    keys = {headers["Idempotency-Key"] for _, _, headers in server.requests}
    assert (len(server.requests), len(keys)) == (3, 1)


def test_a_signal_is_not_repeated(scripted: Callable[..., ScriptedServer]) -> None:
    server = scripted((503, RETRY_NOW, {"detail": "not now", "code": "store_unavailable"}))
    app = Chronos(server.url)
    with pytest.raises(StoreUnavailable, match="not now"):
        app.get_run(EXECUTION).signal("ok")
    app.stop()
    assert len(server.requests) == 1


def test_a_change_is_repeated_with_the_new_etag_after_a_conflict(scripted: Callable[..., ScriptedServer]) -> None:
    read: Reply = (200, {"ETag": '"7"'}, {})
    server = scripted(read, (412, {}, {"code": "stale"}), (200, {"ETag": '"8"'}, {}), (200, {}, {}))
    app = Chronos(server.url)
    app.get("hello").pause()
    app.stop()
    etags = [headers["If-Match"] for method, _, headers in server.requests if method == "POST"]
    assert etags == ['"7"', '"8"']


def test_a_change_gives_up_after_five_conflicts(scripted: Callable[..., ScriptedServer]) -> None:
    conflicts = [(200, {"ETag": '"7"'}, {}), (412, {}, {"detail": "hello changed"})] * 5
    app = Chronos(scripted(*conflicts).url)
    with pytest.raises(Conflict, match="hello changed"):
        app.get("hello").delete()
    app.stop()


@pytest.mark.parametrize(
    ("status", "problem", "kind"),
    [
        (400, {"detail": "no"}, Invalid),
        (403, {"detail": "no"}, ChronosError),
        (404, {"detail": "no"}, NotFound),
        (409, {"detail": "no"}, Conflict),
        (422, {"code": "invalid_job", "errors": [{"pointer": "/name", "message": "no"}]}, InvalidJob),
        (500, {"detail": "no", "request_id": "r1"}, ChronosError),
        (503, {"detail": "no"}, Unavailable),
        (502, b"<html>no", Unavailable),
    ],
)
def test_problem_responses_raise_the_matching_error(
    status: int,
    problem: Any,
    kind: type[Exception],
    scripted: Callable[..., ScriptedServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "MAX_ATTEMPTS", 1)
    app = Chronos(scripted((status, {}, problem)).url)
    with pytest.raises(kind, match="no") as caught:
        app.all_jobs()
    app.stop()
    assert type(caught.value) is kind


def test_an_unreachable_server_raises_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_FIRST_PAUSE_S", 0.001)
    app = Chronos("http://127.0.0.1:9")
    with pytest.raises(Unavailable, match=r"cannot reach http://127\.0\.0\.1:9: .*chronos server"):
        app.all_jobs()
    app.stop()


def test_a_response_that_is_not_json_is_refused(scripted: Callable[..., ScriptedServer]) -> None:
    app = Chronos(scripted((200, {}, b"hello")).url)
    with pytest.raises(ChronosError, match="check that the address is that of a Chronos server"):
        app.all_jobs()
    app.stop()


def test_credentials_come_from_the_address_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "CHRONOS_TOKEN", "t0ken")
    address = http_client.Address.parse("https://ana:s%40cret@node:8443/base/")
    assert address.base == "https://node:8443/base"
    assert address.authorization == "Basic " + base64.b64encode(b"ana:s@cret").decode()
    assert http_client.Address.parse("http://node:8080").authorization == "Bearer t0ken"


def test_tasks_are_enqueued_on_the_server(app: Chronos) -> None:
    @app.task
    def greet(name: str) -> str:
        return f"hello {name}"

    assert greet("ana") == "hello ana"
    later = greet.enqueue("ana", delay="1h")
    first, second = greet.enqueue_many([{"name": "ben"}, {"name": "eva"}], expires="1h")
    assert (later.status, first.status, second.info().payload) == ("waiting", "ready", {"name": "eva"})
    with pytest.raises(Invalid, match='lacks "name"'):
        greet.enqueue()
    with pytest.raises(Invalid, match="not of a server"):
        greet.enqueue("ana", connection=object())
    with pytest.raises(Invalid, match="at and in_ both"):
        greet.trigger({"name": "ana"}, at="2099-01-01T00:00:00Z", in_=1)


def test_several_expressions_are_one_schedule(app: Chronos, caplog: pytest.LogCaptureFixture) -> None:
    app.job(cron=["0 9 * * *", "*/90 * * * *"], name="crons", payload={"a": 1})(add)
    [info] = app.all_jobs()
    assert info.schedule == "0 9 * * *; also */90 * * * *"
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        'job "crons": minute "*/90" has a step beyond its range, so it is only 0; for an interval, write "@every 90m"'
    ]
