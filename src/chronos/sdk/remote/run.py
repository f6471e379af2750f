"""One execution on a server, as something to wait for."""

import asyncio
from typing import TYPE_CHECKING, Any

from chronos.errors import Conflict, NotFound
from chronos.sdk.home_loop import at_home
from chronos.sdk.info import RunInfo
from chronos.sdk.job_options import Duration
from chronos.sdk.remote.responses import run_info
from chronos.sdk.run import Run, execution_bytes, wait_s
from chronos.service.run_requests import to_stored_payload
from chronos.service.serializers import id_text

if TYPE_CHECKING:
    from chronos.sdk.remote.session import RemoteSession

_SOONEST_S = 0.02
_RAREST_S = 1.0


class RemoteRun(Run):
    """An execution; everything about it is asked of the server."""

    def __init__(self, remote: "RemoteSession", execution: str, job: str) -> None:
        self._remote = remote
        self._home = remote.home
        self._execution = execution_bytes(execution)
        self.id = id_text(self._execution)
        self.job = job

    @at_home
    async def ainfo(self) -> RunInfo:
        """The execution as it stands."""
        wire = await self._remote.session()
        found = await wire.get("executions", self.id)
        self.job = self.job or found.get("job_name") or ""
        return run_info(found)

    @at_home
    async def await_(self, timeout: Duration | None = None) -> RunInfo:  # noqa: ASYNC109
        """Wait until it is over, however it ends. Raises ``TimeoutError``; the execution then goes on."""
        limit_s = None if timeout is None else wait_s(timeout)
        pause_s = _SOONEST_S
        async with asyncio.timeout(limit_s):
            while not (info := await self.ainfo()).is_over:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, _RAREST_S)
        return info

    @at_home
    async def acancel(self, reason: str | None = None) -> None:
        """Cancel it: what has not started never will; what runs is asked to stop."""
        wire = await self._remote.session()
        await wire.ask("POST", "executions", self.id, "cancel", body={"reason": reason}, again=True)

    @at_home
    async def asignal(self, name: str, payload: Any = None) -> bool:
        """Send it a signal. Gives False when it does not wait for this one."""
        wire = await self._remote.session()
        body = {"name": name, "payload": to_stored_payload(payload)}
        try:  # sent again it could end the next wait for the same signal, so it is not
            await wire.ask("POST", "executions", self.id, "signal", body=body, again=False)
        except Conflict:
            if (await self.ainfo()).finished_at is not None:  # as a store would say it
                raise NotFound(f"no such open execution: {self.id}") from None
            return False
        return True

    @at_home
    async def areplay(self, *, from_failed: bool = False, reason: str | None = None) -> "RemoteRun":
        """Run it again as a new execution, all of it or without what succeeded."""
        wire = await self._remote.session()
        body = {"from_failed": from_failed, "reason": reason}
        asked = await wire.post("executions", self.id, "replay", body=body)
        return RemoteRun(self._remote, asked["execution_id"], self.job)

    @at_home
    async def alog(self) -> str:
        """What its tasks wrote, oldest first; of much output the head and the tail."""
        wire = await self._remote.session()
        return await wire.text("executions", self.id, "log")
