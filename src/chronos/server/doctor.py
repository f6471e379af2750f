"""The doctor: can a server live here? Each check is one line, and what is wrong says what to do."""

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
from chronos.server.process import describe_store
from chronos.server.sockets import bind_sockets, close_sockets, format_address
from chronos.server.unsupported_jobs import UnsupportedField, find_unsupported_jobs
from chronos.server.wiring import check_config
from chronos.store.contract import Store

MAX_SKEW_S = 1.0  # beyond which a node neither admits nor claims
_REPLY_TIMEOUT_S = 10.0  # a server gives its store 5 s before it answers
_MAX_REPLY_BYTES = 1 << 16
MAX_NAMED_JOBS = 20  # that are named when they ask for what does not exist
MIN_FREE_BYTES = 512 << 20  # of free space, below which a store will not last


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: what was looked at, whether it is well, and what was found or what to do."""

    subject: str
    ok: bool
    text: str


async def examine(
    file: Path | None, environment: Mapping[str, str], clock: Clock, *, store: str | None = None
) -> list[Finding]:
    """Look at everything that can be looked at; what cannot, because something before it failed, is left out."""
    try:
        config = read_config(file, environment, {"store": store})
        warnings = check_config(config)
    except ChronosError as error:
        return [Finding(subject="configuration", ok=False, text=str(error))]
    said = f"right, {len(warnings)} warnings: see chronos config validate" if warnings else "right"
    findings = [Finding(subject="configuration", ok=True, text=said)]
    path = parse_sqlite_file(config["store"])
    if path is not None:
        findings += _check_folder(path)
    if path is not None and not path.exists():
        findings.append(Finding(subject="store", ok=True, text=f"{path} is not there yet; the first start creates it"))
        findings.append(Finding(subject="clock", ok=True, text=f"it is {_format_second(clock.now_us())}"))
    elif all(finding.ok for finding in findings):
        findings += await _check_store(config, clock)
    return [*findings, _check_port(config)]


def _check_folder(path: Path) -> list[Finding]:
    """The folder of a store in a file: there or to be made, writable, with room."""
    home = next((folder for folder in (path.parent, *path.parent.parents) if folder.exists()), Path())
    if not home.is_dir() or not os.access(home, os.W_OK | os.X_OK):
        text = f"{home} may not be written by this user; change its owner or its permissions, or name another store"
        return [Finding(subject="permissions", ok=False, text=text)]
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        text = f"{path} may not be read and written by this user; change its owner or its permissions"
        return [Finding(subject="permissions", ok=False, text=text)]
    free = shutil.disk_usage(home).free
    room = f"{free / (1 << 30):.1f} GiB free"
    return [
        Finding(subject="permissions", ok=True, text=f"{path} can be written"),
        Finding(
            subject="disk space",
            ok=free >= MIN_FREE_BYTES,
            text=room if free >= MIN_FREE_BYTES else f"only {room} where {path} is; make room, or move the store",
        ),
    ]


async def _check_store(config: Config, clock: Clock) -> list[Finding]:
    """Reachable, sound, and with the same time."""
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
    text = f"{faults[0]}{more}; restore a backup, and report this" if faults else "what it counts is what it holds"
    findings.append(Finding(subject="store's books", ok=not faults, text=text))
    if refused := await store.check_statements():
        more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
        text = f"{refused[0]}{more}; was its schema changed by hand? If not, report this"
        findings.append(Finding(subject="statements", ok=False, text=text))
    return [*findings, *await _check_jobs(store), await _check_clock(store, clock)]


async def _check_jobs(store: Store) -> list[Finding]:
    """Jobs that were stored with what does not exist yet; none: nothing is said."""
    alerts, secrets = await find_unsupported_jobs(store, max_names=MAX_NAMED_JOBS)
    texts = {
        "alerts, which do not exist yet: they run, and nothing is sent; remove the field": alerts,
        "{{ secret.NAME }}, which does not exist yet: the tasks that use it fail; "
        "write the value itself in its place": secrets,
    }
    return [
        Finding(subject="jobs", ok=False, text=f"{_name_jobs(found)} with {text} (chronosctl jobs edit NAME)")
        for text, found in texts.items()
        if found.total
    ]


def _name_jobs(jobs: UnsupportedField) -> str:
    more = jobs.total - len(jobs.names)
    names = ", ".join(jobs.names) + (f" and {more:,} more" if more else "")
    return f"{jobs.total:,} stored {'job' if jobs.total == 1 else 'jobs'} ({names})"


async def _check_clock(store: Store, clock: Clock) -> Finding:
    """This machine's clock beside the store's own; a store without one remembers when its nodes were last heard of."""
    asked_us, asked_s = clock.now_us(), monotonic()
    told_us = await store.clock_us()
    if told_us is not None:
        took_us = round((monotonic() - asked_s) * 1e6)
        skew_s = nearest_offset_us(0, remote_us=told_us, received_us=clock.now_us(), round_trip_us=took_us) / 1e6
        ok = abs(skew_s) <= MAX_SKEW_S
        help_ = "" if ok else "; set this machine's clock (chrony, systemd-timesyncd): no work is started until then"
        return Finding(subject="clock", ok=ok, text=f"{skew_s:+.3f} s from the store's{help_}")
    heard_us = max((max(node.beat_us, node.stopped_us or 0) for node in await store.nodes()), default=0)
    if heard_us - clock.now_us() <= MAX_SKEW_S * SECOND_US:
        return Finding(subject="clock", ok=True, text=f"it is {_format_second(asked_us)}")
    node_text = f"a node was alive at {_format_second(heard_us)}"
    text = f"it is {_format_second(asked_us)}, and {node_text}; set this machine's clock"
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
    """What the server that listens there says of itself; None: it does not answer as a server of Chronos does."""
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
    return Finding(subject="port", ok=True, text=f"{format_address(host, port)} is used by a server that runs already")


def _detail(body: bytes) -> str:
    """The sentence in a refusal."""
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return "it does not say why"
