"""The handle of one run on a server."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from chronos.errors import Conflict, NotFound
from chronos.sdk.home_loop import on_home_loop
from chronos.sdk.info import RunInfo
from chronos.sdk.info_reader import read_run_info
from chronos.sdk.job_options import Duration
from chronos.sdk.run_handle import Run, TypedRun, read_execution_id, to_timeout_s
from chronos.service.run_requests import to_stored_payload
from chronos.service.serializers import id_text

if TYPE_CHECKING:
    from chronos.sdk.remote.session import RemoteSession

R_co = TypeVar("R_co", covariant=True)
_MIN_POLL_S = 0.02
_MAX_POLL_S = 1.0


class RemoteRun(Run):
    """One run of a job on a server."""

    def __init__(self, remote: "RemoteSession", execution: str, job: str) -> None:
        self._remote = remote
        self._home = remote.home
        self._execution = read_execution_id(execution)
        self.id = id_text(self._execution)
        self.job = job

    @on_home_loop
    async def ainfo(self) -> RunInfo:
        """Read the run from the server."""
        connection = await self._remote.session()
        execution = await connection.get("executions", self.id)
        self.job = self.job or execution.get("job_name") or ""
        return read_run_info(execution)

    @on_home_loop
    async def await_(self, timeout: Duration | None = None) -> RunInfo:  # noqa: ASYNC109
        """Wait until the run is over. See ``Run.wait``."""
        limit_s = None if timeout is None else to_timeout_s(timeout)
        poll_s = _MIN_POLL_S
        async with asyncio.timeout(limit_s):
            while not (info := await self.ainfo()).is_over:
                await asyncio.sleep(poll_s)
                poll_s = min(poll_s * 1.5, _MAX_POLL_S)
        return info

    @on_home_loop
    async def acancel(self, reason: str | None = None) -> None:
        """Cancel the run. See ``Run.cancel``."""
        connection = await self._remote.session()
        await connection.request("POST", "executions", self.id, "cancel", body={"reason": reason}, repeat=True)

    @on_home_loop
    async def asignal(self, name: str, payload: Any = None) -> bool:
        """Send a signal to a run that waits for it. See ``Run.signal``."""
        connection = await self._remote.session()
        body = {"name": name, "payload": to_stored_payload(payload)}
        try:  # not repeated: a second signal could end the next wait for the same name
            await connection.request("POST", "executions", self.id, "signal", body=body, repeat=False)
        except Conflict:
            if (await self.ainfo()).finished_at is not None:  # the same error as from a store
                raise NotFound(f"no such open execution: {self.id}") from None
            return False
        return True

    @on_home_loop
    async def areplay(
        self, *, from_failed: bool = False, tasks: Sequence[str] | None = None, reason: str | None = None
    ) -> "RemoteRun":
        """Run the same work again, as a new run. See ``Run.replay``."""
        connection = await self._remote.session()
        chosen = tasks if tasks is None or isinstance(tasks, str) else list(tasks)
        body = {"from_failed": from_failed, "tasks": chosen, "reason": reason}
        reply = await connection.post("executions", self.id, "replay", body=body)
        return RemoteRun(self._remote, reply["execution_id"], self.job)

    @on_home_loop
    async def alog(self) -> str:
        """The output of the tasks, oldest first. Of long output the beginning and the end are kept."""
        connection = await self._remote.session()
        return await connection.text("executions", self.id, "log")


class RemoteTypedRun(RemoteRun, TypedRun[R_co]):
    """One run of a task on a server."""
