"""Every setting has an effect, which a row of this table shows. ``setting_effects.py`` explains the rows.

To add a setting, add a row for it below: choose ``served`` (a server in this process), ``lived`` (nodes in virtual
time) or ``processed`` (``chronos server`` as a process), a value, and an observation with what it finds ``usually`` and
with the value (``then``). Settings that both observations need are ``given``; where the default takes long to tell
apart, ``instead_of`` is another value for the first one. Naming a setting is not enough: both observations are made,
and must be what the row says.
"""

import asyncio
import getpass
import hashlib
import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from chronos.server.config import load_config
from chronos.server.settings import ALIASES, BY_NAME, IGNORED
from tests.server import default_effects, web_ui_effects  # noqa: F401 - rows about the web UI
from tests.server.setting_effects import EFFECTS, Effect, Lived, Served, lived, nested, processed, served
from tests.support.api_server import SECRET, V1, basic
from tests.support.http_servers import Seen, Server, answer
from tests.support.server_process import Process

TOKEN = "chr_" + "t" * 43
ME = getpass.getuser()
INWARD = {"dispatcher.http.allow_private": True}


def test_every_setting_has_a_row() -> None:
    assert default_effects.__doc__, "its rows are added by the import"
    assert {effect.setting for effect in EFFECTS} == set(BY_NAME)


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.setting)
def test_a_setting_has_its_effect(effect: Effect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert effect.usually != effect.then
    for changed, expected in ((False, effect.usually), (True, effect.then)):
        folder = tmp_path / str(changed)
        folder.mkdir()
        monkeypatch.chdir(folder)
        assert effect.measure(folder, changed=changed) == expected


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_sets_the_same_setting(alias: str, tmp_path: Path) -> None:
    value = next(effect.value for effect in EFFECTS if effect.setting == ALIASES[alias])
    meant = BY_NAME[ALIASES[alias]].read(value)
    assert load_config(None, {"CHRONOS_" + alias.upper().replace(".", "__"): str(value)}, {})[ALIASES[alias]] == meant
    (tmp_path / "chronos.yaml").write_text(json.dumps(nested({alias: value})))
    assert load_config(tmp_path / "chronos.yaml", {}, {})[ALIASES[alias]] == meant


@pytest.mark.parametrize("name", IGNORED)
def test_an_ignored_setting_gives_a_warning(name: str, tmp_path: Path) -> None:
    (tmp_path / "chronos.yaml").write_text(json.dumps(nested({f"{name}.x": "y"})))
    [warning] = load_config(tmp_path / "chronos.yaml", {}, {}).warnings
    assert f"{name}.x is ignored: {IGNORED[name]}" in warning


# --- the store


@served("store", "sqlite:///other/jobs.db", usually=["chronos-data/chronos.db"], then=["other/jobs.db"])
async def which_file_holds_the_jobs(server: Served) -> list[str]:
    return sorted(str(path.relative_to(server.folder)) for path in server.folder.glob("*/*.db"))


@served("cluster.data_dir", "jobs", usually=["chronos-data/chronos.db"], then=["jobs/chronos.db"])
async def which_folder_holds_the_store(server: Served) -> list[str]:
    return sorted(str(path.relative_to(server.folder)) for path in server.folder.glob("*/*.db"))


# --- the server


@served("server.listen", "127.0.0.2:0", usually=False, then=True)
async def whether_it_listens_on_another_address(server: Served) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.2", server.port)
    except OSError:
        return False
    writer.close()
    return True


@served("server.base_path", "/chronos", usually=404, then=200)
async def whether_it_answers_behind_a_prefix(server: Served) -> int:
    return (await server.call("GET", "/chronos/healthz")).status


@served("server.request_limit", "1KiB", usually=201, then=413)
async def whether_it_takes_a_body_of_2_kib(server: Served) -> int:
    return (await server.create("job", description="x" * 2_000)).status


@served("server.request_timeout", "50ms", usually=b"", then=b"HTTP/1.1 408")
async def what_it_answers_to_half_a_body(server: Served) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = (
        f"POST {V1}/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{{"
    )
    writer.write(head.encode())
    await server.pass_time(0.5)
    reader.feed_eof()
    found = await reader.read(12)
    writer.close()
    return found


@served("server.write_timeout", "50ms", usually="whole", then="cut", given={"dispatcher.max_concurrent": 1})
async def what_a_client_gets_that_takes_its_answer_late(server: Served) -> str:
    for number in range(40):
        assert (await server.create(f"job-{number}", payload="x" * 250_000)).status == 201
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, ("127.0.0.1", server.port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=1_024)
    writer.write(f"GET {V1}/jobs?limit=1000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    await server.pass_time(0.5)
    found = bytearray()
    try:
        while part := await reader.read(1 << 16):
            found += part
    except ConnectionError:
        return "cut"
    finally:
        writer.close()
    return "whole" if len(found) > 40 * 250_000 else "cut"


@served("server.insecure", True, usually="refused", then="started", given={"server.listen": "0.0.0.0:0"})
async def whether_it_starts_where_others_can_reach_it(_: Served) -> str:
    return "started"


@served("server.hosts", ["jobs.example"], usually=403, then=200)
async def whether_it_goes_by_another_name(server: Served) -> int:
    return (await server.call("GET", "/healthz", Host="jobs.example")).status


@served("server.public_docs", False, usually=[200, 200], then=[401, 401], given={"auth.type": "basic"})
async def whether_anyone_may_read_about_the_api(server: Served) -> list[int]:
    return [(await server.call("GET", path)).status for path in ("/docs", "/openapi.json")]


@served("server.trusted_proxies", ["127.0.0.1"], usually="127.0.0.1", then="203.0.113.9")
async def which_address_the_audit_log_names(server: Served) -> str:
    body = {"name": "job", "schedule": "manual", "command": {"argv": ["true"]}}
    await server.call("POST", f"{V1}/jobs", body, X_Forwarded_For="203.0.113.9")
    return str((await server.call("GET", f"{V1}/audit")).json["items"][0]["origin"])


# --- the node


@served("node.id", "n7", usually=socket.gethostname(), then="n7")
async def what_it_is_called(server: Served) -> str:
    return str((await server.call("GET", f"{V1}/status")).json["node"])


@lived("node.labels", {"region": "eu"}, usually=0, then=1)
async def how_often_placed_work_ran(here: Lived) -> int:
    work = here.world.work("work")
    await here.node()
    await here.world.job("work", schedule="now", placement={"labels": {"region": "eu"}})
    await here.world.advance(5)
    return len(work.starts)


@lived("node.queues", ["mail"], usually=1, then=0)
async def how_often_work_of_the_default_queue_ran(here: Lived) -> int:
    work = here.world.work("work")
    await here.node()
    await here.world.job("work", schedule="now")
    await here.world.advance(5)
    return len(work.starts)


# --- the scheduler


@lived("scheduler.lookahead", "1s", usually=[10], then=[])
async def when_work_starts_whose_store_cannot_be_read_3_s_before(here: Lived) -> list[float]:
    work = here.world.work("work")
    node = await here.node()
    await here.world.job("work", schedule="@every 10s")
    await here.world.reach(7)

    async def due(*_: Any) -> list[Any]:
        return []

    node.link.due = due
    await here.world.reach(15)
    return work.starts


@lived("scheduler.tick_interval", "60s", usually=True, then=False)
async def whether_work_is_in_time_that_no_hint_told_of(here: Lived) -> bool:
    work = here.world.work("work")
    node = await here.node()
    await here.world.advance(0.5)
    node.link.cut = True  # the hint is lost
    await here.world.job("work", schedule="@every 30s")
    node.link.cut = False
    await here.world.reach(31)
    return bool(work.starts)


async def taken_over_within_a_minute(here: Lived) -> bool:
    """Whether another node takes over the work within a minute after a node died."""
    work = here.world.work("work", takes=200)
    first = await here.node()
    await here.world.job("work", schedule="now", delivery="at_least_once")
    await here.world.advance(1)
    assert len(work.starts) == 1
    await here.node()
    await first.crash()
    await here.world.advance(60)
    return len(work.starts) == 2


lived("scheduler.reaper_interval", "100s", usually=True, then=False)(taken_over_within_a_minute)
lived("scheduler.heartbeat_timeout", "200s", usually=True, then=False)(taken_over_within_a_minute)


@lived("scheduler.heartbeat_interval", "1s", usually=False, then=True)
async def whether_it_beats_every_second(here: Lived) -> bool:
    await here.node()
    beats = set()
    for _ in range(60):
        await here.world.advance(1)
        [node] = await here.world.store.nodes()
        beats.add(node.beat_us)
    return len(beats) > 40


@lived("scheduler.grace_period", "5s", usually=[31], then=[6])
async def when_a_stop_cuts_work_short(here: Lived) -> list[float]:
    work = here.world.work("work", takes=200)
    node = await here.node()
    await here.world.job("work", schedule="now")
    await here.world.advance(1)
    await node.stop()
    return work.cut


@lived("scheduler.timeout_grace", "20s", usually=["failed"], then=["running"])
async def what_work_is_10_s_after_its_timeout_that_ignores_it(here: Lived) -> list[str]:
    here.world.work("work", takes=200, stubborn=True)
    await here.node()
    await here.world.job("work", schedule="now", task_timeout="3s", retry={"max_attempts": 1})
    await here.world.advance(13)
    return [(await here.world.last("work")).status.name.lower()]


# --- the dispatcher


@served("dispatcher.targets", ["http", "wait"], usually=201, then=422)
async def whether_a_job_may_run_a_command(server: Served) -> int:
    return (await server.create("job")).status


BEN = {"ben": {"password_hash": SECRET, "role": "admin", "namespaces": ["b"]}}


@served(
    "dispatcher.command.roles",
    ["admin", "namespace_admin"],
    usually=403,
    then=201,
    given={"auth.type": "basic", "auth.users": BEN},
)
async def whether_the_admin_of_a_namespace_may_save_a_command(server: Served) -> int:
    body = {"schedule": "manual", "command": {"argv": ["true"]}}
    return (await server.call("PUT", f"{V1}/jobs/job?namespace=b", body, Authorization=basic("ben", "secret"))).status


@served("dispatcher.command.user", "nobody", usually=ME, then="nobody" if os.geteuid() == 0 else "refused")
async def whom_a_command_runs_as(server: Served) -> str:
    return await server.printed("id", "-un")


@served("dispatcher.command.limits", {"files": 33}, usually=False, then=True)
async def whether_a_command_may_open_33_files_only(server: Served) -> bool:
    return await server.printed("sh", "-c", "ulimit -n") == "33"


async def the_most_at_once(here: Lived) -> int:
    """Of two jobs that are due at the same time."""
    work = here.world.work("work", takes=10)
    await here.node()
    for name in ("a", "b"):
        await here.world.job(name, schedule="now", does="work")
    await here.world.advance(60)
    assert len(work.ends) == 2
    return work.most


lived("dispatcher.max_concurrent", 1, usually=2, then=1)(the_most_at_once)
lived("dispatcher.queue_slots", {"default": 1}, usually=2, then=1)(the_most_at_once)


@lived("dispatcher.per_job_limit", 2, usually=5, then=2)
async def the_most_of_one_job_at_once(here: Lived) -> int:
    work = here.world.work("work", takes=5)
    await here.node()
    await here.world.job("work", schedule="@every 1s", overlap="allow")
    await here.world.reach(30.5)
    return work.most


@served("dispatcher.http.timeout", "50ms", usually="running", then="failed", given=INWARD)
async def what_becomes_of_a_webhook_without_an_answer(server: Served) -> str:
    async def never(_: Seen, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with Server(never) as receiver:
        await server.create("hook", http={"url": receiver.url}, retry={"max_attempts": 1})
        execution = (await server.trigger("hook")).json["execution_id"]
        while not receiver.seen:  # noqa: ASYNC110 - polled on purpose
            await asyncio.sleep(0.01)
        await server.pass_time(0.5)
        return str((await server.call("GET", f"{V1}/executions/{execution}")).json["status"])


@served("dispatcher.http.allow_private", True, usually=422, then=201)
async def whether_a_webhook_may_go_to_this_machine(server: Served) -> int:
    return (await server.create("hook", http={"url": "http://127.0.0.1:9/"})).status


@served("dispatcher.http.allow_hosts", ["127.0.0.1"], usually=422, then=201)
async def whether_a_webhook_may_go_to_a_private_host(server: Served) -> int:
    return (await server.create("hook", http={"url": "http://127.0.0.1:9/"})).status


async def connections_of_two_webhooks(server: Served) -> int:
    """One after the other, to the same receiver."""
    async with Server(answer()) as receiver:
        await server.create("hook", http={"url": receiver.url})
        assert [await server.ended("hook") for _ in range(2)] == ["succeeded", "succeeded"]
        return receiver.connections


LONG = {"dispatcher.http.idle_conn_timeout": "1h"}
served("dispatcher.http.max_idle_conns", 0, usually=1, then=2, given=INWARD | LONG)(connections_of_two_webhooks)
served("dispatcher.http.idle_conn_timeout", "0s", usually=1, then=2, given=INWARD, instead_of="1h")(
    connections_of_two_webhooks
)


# --- the queue


@served("queue.max_pending", 1, usually=[202, 202], then=[202, 429], given={"node.queues": ["other"]})
async def what_two_triggers_are_answered(server: Served) -> list[int]:
    await server.create("job", overlap="allow")
    return [(await server.trigger("job")).status for _ in range(2)]


@served("queue.submit_rate", 0.0001, usually=[201, 201], then=[201, 429])
async def what_two_submissions_are_answered(server: Served) -> list[int]:
    return [(await server.create(name)).status for name in ("a", "b")]


# --- who may come in


@served("auth.type", "basic", usually=200, then=401)
async def what_a_stranger_is_answered(server: Served) -> int:
    return (await server.call("GET", f"{V1}/jobs")).status


@served(
    "auth.users",
    {"ana": {"password_hash": SECRET, "role": "viewer"}},
    usually=401,
    then=200,
    given={"auth.type": "basic"},
)
async def what_ana_is_answered(server: Served) -> int:
    return (await server.call("GET", f"{V1}/jobs", Authorization=basic("ana", "secret"))).status


@served(
    "auth.tokens",
    {"ci": {"token_hash": hashlib.sha256(TOKEN.encode()).hexdigest(), "role": "viewer"}},
    usually=401,
    then=200,
    given={"auth.type": "basic"},
)
async def what_a_token_is_answered(server: Served) -> int:
    return (await server.call("GET", f"{V1}/jobs", Authorization=f"Bearer {TOKEN}")).status


# --- log lines and metrics

WARNS = {"server.grpc.address": "127.0.0.1:9000"}  # a line that is logged at every start


def _all_lines(process: Process) -> str:
    process.ready()
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    return process.errors


@processed("logging.level", "error", usually=True, then=False, given=WARNS)
def whether_a_warning_is_logged(process: Process) -> bool:
    return "Chronos has no gRPC API" in _all_lines(process)


@processed("logging.format", "console", usually="{", then="2", given=WARNS)
def how_a_line_begins(process: Process) -> str:
    return _all_lines(process)[0]


@processed("logging.output", "stdout", usually=False, then=True, given=WARNS)
def whether_lines_are_on_stdout(process: Process) -> bool:
    return "Chronos has no gRPC API" in process.first_line()


@served("metrics.prometheus.enabled", False, usually=200, then=404)
async def whether_there_are_metrics(server: Served) -> int:
    return (await server.call("GET", "/metrics")).status


@served("metrics.prometheus.path", "/internal/prometheus", usually=[200, 404], then=[404, 200])
async def where_the_metrics_are(server: Served) -> list[int]:
    return [(await server.call("GET", path)).status for path in ("/metrics", "/internal/prometheus")]


@served("metrics.per_job", False, usually=True, then=False)
async def whether_metrics_name_jobs(server: Served) -> bool:
    await server.create("nightly")
    assert await server.ended("nightly") == "succeeded"
    return b'job="nightly"' in (await server.call("GET", "/metrics")).body
