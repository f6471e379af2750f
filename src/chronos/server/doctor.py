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
from chronos.server.process import data_place
from chronos.server.sockets import bind, close, show
from chronos.server.unsupported_jobs import UnsupportedField, stored_with
from chronos.server.wiring import check
from chronos.store.contract import Store

MAX_SKEW_S = 1.0  # beyond which a node neither admits nor claims
_ANSWER_S = 10.0  # a server gives its store 5 s before it answers
_ANSWER_BYTES = 1 << 16
SHOWN_JOBS = 20  # that are named when they ask for what does not exist
LITTLE_BYTES = 512 << 20  # of free space, below which a store will not last


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: what was looked at, whether it is well, and what was found or what to do."""

    what: str
    well: bool
    text: str


async def examine(
    file: Path | None, environment: Mapping[str, str], clock: Clock, *, store: str | None = None
) -> list[Finding]:
    """Look at everything that can be looked at; what cannot, because something before it failed, is left out."""
    try:
        config = read_config(file, environment, {"store": store})
        warnings = check(config)
    except ChronosError as error:
        return [Finding(what="configuration", well=False, text=str(error))]
    said = f"right, {len(warnings)} warnings: see chronos config validate" if warnings else "right"
    findings = [Finding(what="configuration", well=True, text=said)]
    path = parse_sqlite_file(config["store"])
    if path is not None:
        findings += _folder(path)
    if path is not None and not path.exists():
        findings.append(Finding(what="store", well=True, text=f"{path} is not there yet; the first start creates it"))
        findings.append(Finding(what="clock", well=True, text=f"it is {_second(clock.now_us())}"))
    elif all(finding.well for finding in findings):
        findings += await _store(config, clock)
    return [*findings, _port(config)]


def _folder(path: Path) -> list[Finding]:
    """The folder of a store in a file: there or to be made, writable, with room."""
    home = next((folder for folder in (path.parent, *path.parent.parents) if folder.exists()), Path())
    if not home.is_dir() or not os.access(home, os.W_OK | os.X_OK):
        text = f"{home} may not be written by this user; change its owner or its permissions, or name another store"
        return [Finding(what="permissions", well=False, text=text)]
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        text = f"{path} may not be read and written by this user; change its owner or its permissions"
        return [Finding(what="permissions", well=False, text=text)]
    free = shutil.disk_usage(home).free
    room = f"{free / (1 << 30):.1f} GiB free"
    return [
        Finding(what="permissions", well=True, text=f"{path} can be written"),
        Finding(
            what="disk space",
            well=free >= LITTLE_BYTES,
            text=room if free >= LITTLE_BYTES else f"only {room} where {path} is; make room, or move the store",
        ),
    ]


async def _store(config: Config, clock: Clock) -> list[Finding]:
    """Reachable, sound, and with the same time."""
    store = make_store(config["store"])
    try:
        await store.open()
    except ChronosError as error:
        return [Finding(what="store", well=False, text=str(error))]
    try:
        return await _opened(store, config, clock)
    except ChronosError as error:
        return [Finding(what="store", well=False, text=str(error))]
    finally:
        await store.close()


async def _opened(store: Store, config: Config, clock: Clock) -> list[Finding]:
    jobs = sum((await store.counts()).jobs.values())
    findings = [Finding(what="store", well=True, text=f"{data_place(config['store'])}, {jobs:,} jobs")]
    faults = await store.verify()
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    text = f"{faults[0]}{more}; restore a backup, and report this" if faults else "what it counts is what it holds"
    findings.append(Finding(what="store's books", well=not faults, text=text))
    if refused := await store.check_statements():
        more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
        text = f"{refused[0]}{more}; was its schema changed by hand? If not, report this"
        findings.append(Finding(what="statements", well=False, text=text))
    return [*findings, *await _jobs(store), await _clock(store, clock)]


async def _jobs(store: Store) -> list[Finding]:
    """Jobs that were stored with what does not exist yet; none: nothing is said."""
    alerts, secrets = await stored_with(store, shown=SHOWN_JOBS)
    texts = {
        "alerts, which do not exist yet: they run, and nothing is sent; remove the field": alerts,
        "{{ secret.NAME }}, which does not exist yet: the tasks that use it fail; "
        "write the value itself in its place": secrets,
    }
    return [
        Finding(what="jobs", well=False, text=f"{_named(found)} with {text} (chronosctl jobs edit NAME)")
        for text, found in texts.items()
        if found.total
    ]


def _named(asking: UnsupportedField) -> str:
    more = asking.total - len(asking.names)
    names = ", ".join(asking.names) + (f" and {more:,} more" if more else "")
    return f"{asking.total:,} stored {'job' if asking.total == 1 else 'jobs'} ({names})"


async def _clock(store: Store, clock: Clock) -> Finding:
    """This machine's clock beside the store's own; a store without one remembers when its nodes were last heard of."""
    asked_us, asked_s = clock.now_us(), monotonic()
    told_us = await store.clock_us()
    if told_us is not None:
        took_us = round((monotonic() - asked_s) * 1e6)
        skew_s = nearest_offset_us(0, remote_us=told_us, received_us=clock.now_us(), round_trip_us=took_us) / 1e6
        well = abs(skew_s) <= MAX_SKEW_S
        help_ = "" if well else "; set this machine's clock (chrony, systemd-timesyncd): no work is started until then"
        return Finding(what="clock", well=well, text=f"{skew_s:+.3f} s from the store's{help_}")
    heard_us = max((max(node.beat_us, node.stopped_us or 0) for node in await store.nodes()), default=0)
    if heard_us - clock.now_us() <= MAX_SKEW_S * SECOND_US:
        return Finding(what="clock", well=True, text=f"it is {_second(asked_us)}")
    text = f"it is {_second(asked_us)}, and a node was alive at {_second(heard_us)}; set this machine's clock"
    return Finding(what="clock", well=False, text=text)


def _second(us: int) -> str:
    return rfc3339(us - us % SECOND_US)


def _port(config: Config) -> Finding:
    host, port = config["server.listen"]
    guarded = config["auth.type"] != "none" or config["server.insecure"]
    try:
        close(bind(host, port, guarded=guarded))
    except ChronosError as error:
        return _running(config) or Finding(what="port", well=False, text=str(error))
    return Finding(what="port", well=True, text=f"{show(host, port)} is free")


def _running(config: Config) -> Finding | None:
    """What the server that listens there says of itself; None: it does not answer as a server of Chronos does."""
    host, port = config["server.listen"]
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    connection = http.client.HTTPConnection(name, port, timeout=_ANSWER_S)
    try:
        connection.request("GET", f"{config['server.base_path']}/readyz", headers={"Host": "localhost"})
        response = connection.getresponse()
        body = response.read(_ANSWER_BYTES)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if "X-Request-Id" not in response.headers:
        return None
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Finding(what="server", well=False, text=f"{show(host, port)} is not ready: {_detail(body)}")
    return Finding(what="port", well=True, text=f"{show(host, port)} is used by a server that runs already")


def _detail(body: bytes) -> str:
    """The sentence in a refusal."""
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return "it does not say why"
