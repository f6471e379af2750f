"""Handles of jobs on a server."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from chronos.core.calendar import from_us, rfc3339
from chronos.core.job import JobState
from chronos.errors import Invalid
from chronos.sdk.backfill import run_backfill
from chronos.sdk.declarations import FunctionRef
from chronos.sdk.group import Group
from chronos.sdk.home_loop import on_home_loop
from chronos.sdk.info import JobInfo, RunInfo, SpanInfo
from chronos.sdk.info_reader import parse_instant, read_history_item, read_instant, read_job_info
from chronos.sdk.job import Job, JobHandle, check_count, check_key, check_limit, check_version, log
from chronos.sdk.job_options import (
    SCHEDULE_SETTINGS,
    Duration,
    Instant,
    Shape,
    StartOptions,
    build_start_options,
    to_instant_us,
)
from chronos.sdk.job_update import JobUpdate
from chronos.sdk.remote.run import RemoteRun, RemoteTypedRun
from chronos.sdk.run_handle import TypedRun, read_execution_id
from chronos.sdk.task_job import TaskJob
from chronos.sdk.version_info import (
    DiffInfo,
    EffectiveInfo,
    PreviewInfo,
    VersionInfo,
    describe_without_schedule,
    read_diff_info,
    read_preview_info,
    read_version_info,
    to_effective_info,
)
from chronos.service.run_requests import to_stored_payload
from chronos.service.serializers import id_text
from chronos.store.enqueued_items import Statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronos.sdk.remote.session import RemoteSession
    from chronos.sdk.run_handle import Run
    from chronos.sdk.runtime import Runtime

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class RemoteHandle(JobHandle):
    """A job of a server, by its name."""

    _remote: "RemoteSession"

    def __init__(self, remote: "RemoteSession", name: str) -> None:
        self._remote = remote
        self._runtime = cast("Runtime", remote)  # for what a store and a server have in common
        self._home = remote.home
        self.name = name

    # --- runs

    @on_home_loop
    async def atrigger(
        self,
        payload: Any = None,
        *,
        at: Instant | None = None,
        in_: Duration | None = None,
        expires: Duration | Instant | None = None,
        key: str | None = None,
    ) -> "Run":
        """Run the job once, now or later. See ``JobHandle.trigger``."""
        payload = self._remote.declared.to_checked_payload(self.name, payload)
        body = {
            "payload": to_stored_payload(payload),
            **_write_start_options(build_start_options(in_, at, expires, delay_name="in_")),
        }
        connection = await self._remote.session()
        query = {"namespace": self._remote.namespace}
        reply = await connection.post("jobs", self.name, "trigger", query=query, body=body, key=check_key(key) or "")
        return RemoteRun(self._remote, reply["execution_id"], self.name)

    @on_home_loop
    async def abackfill(self, start: Instant, end: Instant, *, reason: str | None = None) -> "list[Run]":
        """Run every instant of the schedule in a past range. See ``JobHandle.backfill``."""
        body = {"to": _to_rfc3339(end, "end"), "reason": reason}
        connection = await self._remote.session()
        query = {"namespace": self._remote.namespace}

        async def request(from_text: str) -> "tuple[list[Run], str | None]":
            reply = await connection.post("jobs", self.name, "backfill", query=query, body={"from": from_text, **body})
            return [RemoteRun(self._remote, id_, self.name) for id_ in reply["execution_ids"]], reply["next_from"]

        return await run_backfill(request, _to_rfc3339(start, "start"))

    @on_home_loop
    async def aexecutions(self, limit: int = 20) -> list[RunInfo | SpanInfo]:
        """List the latest runs, newest first. See ``JobHandle.executions``."""
        connection = await self._remote.session()
        page = await connection.get(
            "jobs", self.name, "executions", limit=check_limit(limit), namespace=self._remote.namespace
        )
        return [read_history_item(item) for item in page["items"]]

    # --- state

    @on_home_loop
    async def apause(self, reason: str = "") -> None:
        """Pause the job. See ``JobHandle.pause``."""
        await self._remote.change(self.name, "POST", "pause", body={"reason": reason})

    @on_home_loop
    async def aresume(self) -> None:
        """Resume a paused job. See ``JobHandle.resume``."""
        await self._remote.change(self.name, "POST", "resume")

    @on_home_loop
    async def adisable(self, reason: str = "") -> None:
        """Switch the schedule off. See ``JobHandle.disable``."""
        await self._remote.change(self.name, "POST", "disable", body={"reason": reason})

    @on_home_loop
    async def aenable(self) -> None:
        """Switch the schedule on again, from now on."""
        await self._remote.change(self.name, "POST", "enable")

    # --- definition

    async def _save_update(self, update: JobUpdate) -> None:
        saved = await self._remote.change(self.name, "PUT", edit=update.apply)
        self._remote.declared.keep_stored(self.name)
        for warning in saved.get("warnings", ()):
            log.warning('job "%s": %s', self.name, warning["message"])

    @on_home_loop
    async def aversions(self, limit: int = 20) -> list[VersionInfo]:
        """List the versions of the job, newest first. See ``JobHandle.versions``."""
        page = await self._get("versions", limit=check_limit(limit))
        return [read_version_info(version) for version in page["items"]]

    @on_home_loop
    async def adiff(self, from_: int | None = None, to: int | None = None) -> DiffInfo:
        """Compare two versions of the job. See ``JobHandle.diff``."""
        versions = {"from": check_version(from_, "from_"), "to": check_version(to, "to")}
        return read_diff_info(await self._get("diff", **versions))

    @on_home_loop
    async def arollback(self, version: int) -> JobInfo:
        """Save the definition of an old version as a new version. See ``JobHandle.rollback``."""
        check_version(version, "version")
        await self._remote.change(self.name, "POST", "rollback", body={"version": version})
        self._remote.declared.keep_stored(self.name)
        return await self.ainfo()

    @on_home_loop
    async def apreview(self, count: int = 10) -> PreviewInfo:
        """Describe the schedule, with its next instants. See ``JobHandle.preview``."""
        check_count(count)
        job = await self._fetch()
        if read_job_info(job).schedule is None:
            return describe_without_schedule(tuple(one["job"] for one in job.get("after", ())))
        connection = await self._remote.session()
        fields = {name: job[name] for name in ("schedule", *SCHEDULE_SETTINGS) if name in job}
        body = {**fields, "count": count, "key": self.name}
        reply = await connection.request("POST", "schedule", "preview", body=body, repeat=True)
        preview = read_preview_info(reply.value)
        if job["state"] != "active":
            return preview
        instants = (await self._get("next", count=count))["items"]
        return replace(preview, next=tuple(parse_instant(text) for text in instants))

    @on_home_loop
    async def aeffective(self) -> EffectiveInfo:
        """Read every setting that the next run of the job gets. See ``JobHandle.effective``."""
        return to_effective_info(await self._get("effective"))

    @on_home_loop
    async def adelete(self) -> None:
        """Delete the job. Its history stays."""
        await self._remote.change(self.name, "DELETE")

    # --- properties

    @on_home_loop
    async def ainfo(self) -> JobInfo:
        """Read the job from the server."""
        return read_job_info(await self._fetch())

    @on_home_loop
    async def ais_running(self) -> bool:
        """Whether a run of the job has started and is not over, on any node; also while it waits for a retry."""
        connection = await self._remote.session()
        query = {"namespace": self._remote.namespace, "status": "in_progress", "limit": 1}
        return bool((await connection.get("jobs", self.name, "executions", **query))["items"])

    @on_home_loop
    async def ais_active(self) -> bool:
        """Whether the job has a schedule, and now is between its start and its end."""
        job = await self._fetch()
        if read_job_info(job).schedule is None or job["state"] == "done":
            return False
        now = from_us(self._remote.clock.now_us())
        return (read_instant(job.get("start")) or now) <= now <= (read_instant(job.get("end")) or now)

    async def _load_state(self) -> JobState:
        return JobState[(await self.ainfo()).state.upper()]

    async def _fetch(self) -> "Mapping[str, Any]":
        return await self._get()

    async def _get(self, *verb: str, **query: object) -> "Mapping[str, Any]":
        connection = await self._remote.session()
        reply: Mapping[str, Any] = await connection.get(
            "jobs", self.name, *verb, namespace=self._remote.namespace, **query
        )
        return reply


class RemoteJob(RemoteHandle, Job[P, R_co]):
    """A function that is a job of the server. A worker program that has the function runs it."""

    def __init__(self, remote: "RemoteSession", name: str, function: Callable[P, R_co]) -> None:
        functools.update_wrapper(self, function)
        RemoteHandle.__init__(self, remote, name)


class RemoteTaskJob(RemoteJob[P, R_co], TaskJob[P, R_co, R]):
    """A task of the server. A worker program that has the function runs it."""

    def __init__(self, remote: "RemoteSession", name: str, function: Callable[P, R_co]) -> None:
        RemoteJob.__init__(self, remote, name, function)
        self._read_signature()

    @on_home_loop
    async def _create_runs(self, payloads: Sequence[Any], options: StartOptions) -> list[bytes]:
        body = {"payloads": [to_stored_payload(payload) for payload in payloads], **_write_start_options(options)}
        connection = await self._remote.session()
        query = {"namespace": self._remote.namespace}
        reply = await connection.post("jobs", self.name, "enqueue", query=query, body=body)
        return [read_execution_id(id_) for id_ in reply["execution_ids"]]

    async def _prepare(self, payloads: Sequence[Any], options: StartOptions) -> tuple[list[bytes], list[Statement]]:
        raise Invalid("connection needs the address of the store, such as Chronos('postgresql://…'), not of a server")

    def _make_run(self, execution: bytes, *, is_pending: bool = False) -> TypedRun[R]:
        run: RemoteTypedRun[R] = RemoteTypedRun(self._remote, id_text(execution), self.name)
        run._converter = self._converter
        return run


class RemoteGroup(RemoteHandle, Group):
    """A job of several tasks on the server."""

    def __init__(self, remote: "RemoteSession", name: str, shape: Shape, refs: "Mapping[str, FunctionRef]") -> None:
        RemoteHandle.__init__(self, remote, name)
        # A group uses its runtime only to declare tasks, and a remote session can do that.
        Group.__init__(self, cast("Runtime", remote), name, shape, refs)


def _write_start_options(options: StartOptions) -> dict[str, str | None]:
    at_us = options["at_us"]
    return {
        "at": None if at_us is None else rfc3339(at_us),
        "delay": options["delay"],
        "expires": options["expires"],
    }


def _to_rfc3339(value: Instant, argument: str) -> str:
    return rfc3339(to_instant_us(value, argument))
