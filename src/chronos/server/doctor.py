"""``chronos doctor``: checks whether a server can run here. Each check is one line; a problem says what to do."""

import http.client
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from time import monotonic

from chronos.assembly import make_store, parse_sqlite_file
from chronos.clock import Clock, nearest_offset_us
from chronos.core.calendar import SECOND_US, rfc3339
from chronos.errors import ChronosError
from chronos.server.config import Config, read_config
from chronos.server.faulty_jobs import JobNames, find_faulty_jobs
from chronos.server.process import describe_store
from chronos.server.sockets import bind_sockets, close_sockets, format_address
from chronos.server.wiring import check_config
from chronos.store.contract import Store

MAX_SKEW_S = 1.0  # with a larger skew, a node neither admits nor claims
_REPLY_TIMEOUT_S = 10.0  # the server itself waits 5 s for its store
_MAX_REPLY_BYTES = 1 << 16
MAX_NAMED_JOBS = 20  # in a finding about stored jobs
MIN_FREE_BYTES = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check: its subject, whether it passed, and the details or what to do."""

    subject: str
    ok: bool
    text: str


async def run_checks(
    file: Path | None, environment: Mapping[str, str], clock: Clock, *, store: str | None = None
) -> list[Finding]:
    """Run all checks. A check that needs an earlier one is left out if that one failed."""
    try:
        config = read_config(file, environment, {"store": store})
        warnings = check_config(config)
    except ChronosError as error:
        return [Finding(subject="configuration", ok=False, text=str(error))]
    text = "valid"
    if warnings:
        text += f", {len(warnings)} {'warning' if len(warnings) == 1 else 'warnings'}: see chronos config validate"
    findings = [Finding(subject="configuration", ok=True, text=text)]
    path = parse_sqlite_file(config["store"])
    if path is not None:
        findings += _check_folder(path)
    if path is not None and not path.exists():
        findings.append(
            Finding(subject="store", ok=True, text=f"{path} does not exist yet; the first start creates it")
        )
        findings.append(Finding(subject="clock", ok=True, text=f"it is {_format_second(clock.now_us())}"))
    elif all(finding.ok for finding in findings):
        findings += await _check_store(config, clock)
    return [*findings, _check_port(config)]


def _check_folder(path: Path) -> list[Finding]:
    """Check that the store's folder is writable, or can be created, and that there is free disk space."""
    folder = next((parent for parent in path.parents if parent.exists()), Path())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        text = f"this user cannot write to {folder}; change its owner or permissions, or choose another store"
        return [Finding(subject="permissions", ok=False, text=text)]
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        text = f"this user cannot read and write {path}; change its owner or permissions"
        return [Finding(subject="permissions", ok=False, text=text)]
    free = shutil.disk_usage(folder).free
    free_text = f"{free / (1 << 30):.1f} GiB free"
    return [
        Finding(subject="permissions", ok=True, text=f"{path} is writable"),
        Finding(
            subject="disk space",
            ok=free >= MIN_FREE_BYTES,
            text=free_text
            if free >= MIN_FREE_BYTES
            else f"only {free_text} for {path}; free some space, or move the store",
        ),
    ]


async def _check_store(config: Config, clock: Clock) -> list[Finding]:
    """Check that the store can be reached, is consistent, and agrees about the time."""
    store = make_store(config["store"])
    try:
        await store.open()
    except ChronosError as error:
        return [Finding(subject="store", ok=False, text=str(error))]
    try:
        return await _check_open_store(store, config, clock)
    except ChronosError as error:
        return [Finding(subject="store", ok=False, text=str(error))]
    finally:
        await store.close()


async def _check_open_store(store: Store, config: Config, clock: Clock) -> list[Finding]:
    jobs = sum((await store.counts()).jobs.values())
    findings = [Finding(subject="store", ok=True, text=f"{describe_store(config['store'])}, {jobs:,} jobs")]
    faults = await store.verify()
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    text = f"{faults[0]}{more}; restore a backup, and report this" if faults else "no violations"
    findings.append(Finding(subject="store consistency", ok=not faults, text=text))
    if failures := await store.check_statements():
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        text = f"{failures[0]}{more}; was the schema changed by hand? If not, report this"
        findings.append(Finding(subject="statements", ok=False, text=text))
    return [*findings, *await _check_jobs(store), await _check_clock(store, clock)]


async def _check_jobs(store: Store) -> list[Finding]:
    """Report stored jobs that cannot be read, or that use features that do not exist yet."""
    faulty = await find_faulty_jobs(store, max_names=MAX_NAMED_JOBS)
    edit = "(chronosctl jobs edit NAME)"
    texts = (
        (
            faulty.unreadable,
            "cannot be read: changed by hand, damaged, or written by a newer release; replace it, roll it back or "
            "delete it (chronosctl jobs get NAME says why)",
        ),
        (
            faulty.with_alerts,
            f"with alerts, which are not supported yet: the jobs run, but no alerts are sent; remove the field {edit}",
        ),
        (
            faulty.with_secrets,
            "with {{ secret.NAME }}, which is not supported yet: the tasks that use it fail; write the value instead "
            + edit,
        ),
    )
    return [Finding(subject="jobs", ok=False, text=f"{_name_jobs(jobs)} {text}") for jobs, text in texts if jobs.total]


def _name_jobs(jobs: JobNames) -> str:
    more = jobs.total - len(jobs.names)
    names = ", ".join(jobs.names) + (f" and {more:,} more" if more else "")
    return f"{jobs.total:,} stored {'job' if jobs.total == 1 else 'jobs'} ({names})"


async def _check_clock(store: Store, clock: Clock) -> Finding:
    """Compare this machine's clock with the store's, or else with the last heartbeat in the store."""
    now_us, started_s = clock.now_us(), monotonic()
    store_us = await store.clock_us()
    if store_us is not None:
        took_us = round((monotonic() - started_s) * 1e6)
        skew_s = nearest_offset_us(0, remote_us=store_us, received_us=clock.now_us(), round_trip_us=took_us) / 1e6
        ok = abs(skew_s) <= MAX_SKEW_S
        advice = "" if ok else "; set this machine's clock (chrony, systemd-timesyncd): until then no work starts"
        return Finding(subject="clock", ok=ok, text=f"{skew_s:+.3f} s from the store's clock{advice}")
    last_beat_us = max((max(node.beat_us, node.stopped_us or 0) for node in await store.nodes()), default=0)
    if last_beat_us - clock.now_us() <= MAX_SKEW_S * SECOND_US:
        return Finding(subject="clock", ok=True, text=f"it is {_format_second(now_us)}")
    node_text = f"a node was alive at {_format_second(last_beat_us)}"
    text = f"it is {_format_second(now_us)}, but {node_text}; set this machine's clock"
    return Finding(subject="clock", ok=False, text=text)


def _format_second(us: int) -> str:
    return rfc3339(us - us % SECOND_US)


def _check_port(config: Config) -> Finding:
    host, port = config["server.listen"]
    authenticated = config["auth.type"] != "none" or config["server.insecure"]
    try:
        close_sockets(bind_sockets(host, port, authenticated=authenticated))
    except ChronosError as error:
        return _check_running_server(config) or Finding(subject="port", ok=False, text=str(error))
    return Finding(subject="port", ok=True, text=f"{format_address(host, port)} is free")


def _check_running_server(config: Config) -> Finding | None:
    """Check the Chronos server that already listens on the port; None if another program does."""
    host, port = config["server.listen"]
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    connection = http.client.HTTPConnection(name, port, timeout=_REPLY_TIMEOUT_S)
    try:
        connection.request("GET", f"{config['server.base_path']}/readyz", headers={"Host": "localhost"})
        response = connection.getresponse()
        body = response.read(_MAX_REPLY_BYTES)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if "X-Request-Id" not in response.headers:
        return None
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Finding(subject="server", ok=False, text=f"{format_address(host, port)} is not ready: {_detail(body)}")
    return Finding(
        subject="port", ok=True, text=f"{format_address(host, port)} is used by a Chronos server that is ready"
    )


def _detail(body: bytes) -> str:
    """Return the detail of a problem."""
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return "no reason given"
