"""A job on a server, as something to trigger, pause and look at."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from chronos.core.calendar import from_us, rfc3339
from chronos.core.job import JobState
from chronos.sdk.backfill import fill
from chronos.sdk.declarations import FunctionRef
from chronos.sdk.group import Group
from chronos.sdk.home_loop import at_home
from chronos.sdk.info import JobInfo, RunInfo, SpanInfo
from chronos.sdk.job import Job, JobHandle, at_least_one, key_text
from chronos.sdk.job_options import Instant, Shape, instant_us
from chronos.sdk.remote.responses import instant, job_info, past_info
from chronos.sdk.remote.run import RemoteRun
from chronos.service.run_requests import to_stored_payload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronos.sdk.remote.session import RemoteSession
    from chronos.sdk.run import Run
    from chronos.sdk.runtime import Runtime

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class RemoteHandle(JobHandle):
    """A job by its name; everything about it is asked of the server."""

    _remote: "RemoteSession"

    def __init__(self, remote: "RemoteSession", name: str) -> None:
        self._remote = remote
        self._home = remote.home
        self.name = name

    # --- running it

    @at_home
    async def atrigger(self, payload: Any = None, *, at: Instant | None = None, key: str | None = None) -> "Run":
        """Run it once, now, whether or not it has a schedule or is paused."""
        body = {"payload": to_stored_payload(payload), "at": None if at is None else _moment(at, "at")}
        wire = await self._remote.session()
        query = {"namespace": self._remote.namespace}
        asked = await wire.post("jobs", self.name, "trigger", query=query, body=body, key=key_text(key) or "")
        return RemoteRun(self._remote, asked["execution_id"], self.name)

    @at_home
    async def abackfill(self, start: Instant, end: Instant, *, reason: str | None = None) -> "list[Run]":
        """Run the instants of its schedule in a past range, both ends included, oldest first.

        What its queue has no room for is asked for as it empties. Raises ``QueueFull`` when it does not for a minute.
        """
        body = {"to": _moment(end, "end"), "reason": reason}
        wire = await self._remote.session()
        query = {"namespace": self._remote.namespace}

        async def ask(since: str) -> "tuple[list[Run], str | None]":
            asked = await wire.post("jobs", self.name, "backfill", query=query, body={"from": since, **body})
            return [RemoteRun(self._remote, id_, self.name) for id_ in asked["execution_ids"]], asked["next_from"]

        return await fill(ask, _moment(start, "start"))

    @at_home
    async def aexecutions(self, limit: int = 20) -> list[RunInfo | SpanInfo]:
        """Its latest executions, newest first; many instants that did not run are one item."""
        wire = await self._remote.session()
        page = await wire.get(
            "jobs", self.name, "executions", limit=at_least_one(limit), namespace=self._remote.namespace
        )
        return [past_info(item) for item in page["items"]]

    # --- holding it up

    @at_home
    async def apause(self, reason: str = "") -> None:
        """Stop its schedule for a while: what runs finishes, what waits is held, a trigger still works."""
        await self._remote.change(self.name, "POST", "pause", body={"reason": reason})

    @at_home
    async def aresume(self) -> None:
        """Go on after a pause."""
        await self._remote.change(self.name, "POST", "resume")

    @at_home
    async def adisable(self, reason: str = "") -> None:
        """Switch its schedule off: there are no instants at all until it is enabled."""
        await self._remote.change(self.name, "POST", "disable", body={"reason": reason})

    @at_home
    async def aenable(self) -> None:
        """Switch its schedule on; it counts from now."""
        await self._remote.change(self.name, "POST", "enable")

    @at_home
    async def adelete(self) -> None:
        """Delete it. Its history stays."""
        await self._remote.change(self.name, "DELETE")

    # --- looking at it

    @at_home
    async def ainfo(self) -> JobInfo:
        """The job as the server holds it."""
        return job_info(await self._answer())

    @at_home
    async def ais_running(self) -> bool:
        """Whether an execution of it runs, on whichever node."""
        wire = await self._remote.session()
        query = {"namespace": self._remote.namespace, "status": "running", "limit": 1}
        return bool((await wire.get("jobs", self.name, "executions", **query))["items"])

    @at_home
    async def ais_active(self) -> bool:
        """Whether now is inside its schedule's window: started, and not over."""
        job = await self._answer()
        if job_info(job).schedule is None or job["state"] == "done":
            return False
        now = from_us(self._remote.clock.now_us())
        return (instant(job.get("start")) or now) <= now <= (instant(job.get("end")) or now)

    async def _state(self) -> JobState:
        return JobState[(await self.ainfo()).state.upper()]

    async def _answer(self) -> "Mapping[str, Any]":
        wire = await self._remote.session()
        found: Mapping[str, Any] = await wire.get("jobs", self.name, namespace=self._remote.namespace)
        return found


class RemoteJob(RemoteHandle, Job[P, R_co]):
    """A function that is a job of the server; who runs it is another program that has the function."""

    def __init__(self, remote: "RemoteSession", name: str, function: Callable[P, R_co]) -> None:
        functools.update_wrapper(self, function)
        RemoteHandle.__init__(self, remote, name)


class RemoteGroup(RemoteHandle, Group):
    """A job of several tasks on the server."""

    def __init__(self, remote: "RemoteSession", name: str, shape: Shape, calls: "Mapping[str, FunctionRef]") -> None:
        RemoteHandle.__init__(self, remote, name)
        # A group only declares with its runtime, and declaring is the same here.
        Group.__init__(self, cast("Runtime", remote), name, shape, calls)


def _moment(value: Instant, what: str) -> str:
    return rfc3339(instant_us(value, what))
