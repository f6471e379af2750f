"""The app of a program that is a client of a server."""

from collections.abc import Mapping
from typing import Any, cast

from chronos.assembly import hide_url_password
from chronos.errors import Invalid
from chronos.sdk.app import Chronos, check_program
from chronos.sdk.home_loop import at_home
from chronos.sdk.info import JobInfo
from chronos.sdk.job import JobHandle
from chronos.sdk.job_options import Instant
from chronos.sdk.remote.job import RemoteGroup, RemoteHandle, RemoteJob
from chronos.sdk.remote.responses import job_info
from chronos.sdk.remote.run import RemoteRun
from chronos.sdk.remote.session import RemoteSession
from chronos.sdk.run import Run
from chronos.sdk.runtime import Runtime


class RemoteChronos(Chronos):
    """A program's jobs, on a server. They are declared, triggered and looked at here, and run there.

    A name and a password may stand in the address; a token is taken from ``CHRONOS_TOKEN``.
    """

    _job_kind = RemoteJob
    _group_kind = RemoteGroup
    _handle_kind = RemoteHandle

    def __init__(
        self,
        url: str,
        *,
        owner: str | None = None,
        namespace: str = "default",
        timezone: str | None = None,
        defaults: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        if others:
            raise Invalid(f"{', '.join(others)}: the server runs the jobs, so it is told there")
        check_program(namespace=namespace, owner=owner, timezone=timezone)
        self._remote = RemoteSession(url, namespace=namespace, owner=owner, defaults=defaults)
        self._runtime = cast("Runtime", self._remote)  # for declaring, starting and stopping, which are the same
        self._home = self._remote.home
        self._timezone = timezone
        self._handles: dict[str, JobHandle] = {}

    def run(self) -> int:
        """A client runs nothing. Raises ``Invalid``."""
        raise Invalid(
            f"{hide_url_password(self._remote.url)} is a server, which runs commands and requests by itself; "
            "workers for Python functions connect to the store instead: Chronos('postgresql://…').run()"
        )

    @at_home
    async def aall_jobs(self) -> list[JobInfo]:
        """Every job that the server holds in the app's namespace, by name."""
        wire = await self._remote.session()
        return [job_info(job) for job in await self._remote.every(wire, "jobs", namespace=self._remote.namespace)]

    async def atrigger(
        self, name: str, payload: Any = None, *, at: Instant | None = None, key: str | None = None
    ) -> Run:
        """Run a job of the server once, whoever declared it."""
        return await RemoteHandle(self._remote, name).atrigger(payload, at=at, key=key)

    def get(self, name: str) -> JobHandle:
        """A job of the server by its name, whoever declared it."""
        return self._handles.get(name) or RemoteHandle(self._remote, name)

    def get_run(self, id: str) -> Run:
        """An execution by its id."""
        return RemoteRun(self._remote, id, "")
