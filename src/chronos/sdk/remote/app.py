"""The app of a program that is a client of a server."""

from collections.abc import Mapping
from typing import Any, cast

from chronos.assembly import hide_url_password
from chronos.errors import Invalid
from chronos.sdk.app import Chronos, check_app_options
from chronos.sdk.home_loop import on_home_loop
from chronos.sdk.info import JobInfo
from chronos.sdk.job import JobHandle
from chronos.sdk.job_options import Duration, Instant
from chronos.sdk.remote.job import RemoteGroup, RemoteHandle, RemoteJob, RemoteTaskJob
from chronos.sdk.remote.responses import read_job_info
from chronos.sdk.remote.run import RemoteRun
from chronos.sdk.remote.session import RemoteSession
from chronos.sdk.run_handle import Run
from chronos.sdk.runtime import Runtime


class RemoteChronos(Chronos):
    """An app that is a client of a server: it declares, triggers and reads jobs, and the server keeps and runs them.

    The address may contain a user name and a password. Otherwise the environment variable ``CHRONOS_TOKEN`` provides
    an API token.
    """

    _job_kind = RemoteJob
    _task_kind = RemoteTaskJob
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
            raise Invalid(f"a client of a server does not take {', '.join(others)}; configure the server instead")
        check_app_options(namespace=namespace, owner=owner, timezone=timezone)
        self._remote = RemoteSession(url, namespace=namespace, owner=owner, defaults=defaults)
        self._runtime = cast("Runtime", self._remote)  # declaring, starting and stopping are the same
        self._home = self._remote.home
        self._timezone = timezone
        self._handles: dict[str, JobHandle] = {}

    def run(self) -> int:
        """Raise ``Invalid``: a client runs no jobs."""
        raise Invalid(
            f"{hide_url_password(self._remote.url)} is a server, and it runs webhooks and commands itself; "
            "to run Python functions, use the URL of its store: Chronos('postgresql://…').run(), "
            "or Chronos('sqlite:///…').run() on the server's machine"
        )

    @on_home_loop
    async def aall_jobs(self) -> list[JobInfo]:
        """List every job of the namespace, by name, including those of other programs."""
        connection = await self._remote.session()
        jobs = await self._remote.list_all(connection, "jobs", namespace=self._remote.namespace)
        return [read_job_info(job) for job in jobs]

    async def atrigger(
        self,
        name: str,
        payload: Any = None,
        *,
        at: Instant | None = None,
        in_: Duration | None = None,
        expires: Duration | Instant | None = None,
        key: str | None = None,
    ) -> Run:
        """Run a job of the server once, now or later. Another program may have declared it."""
        return await RemoteHandle(self._remote, name).atrigger(payload, at=at, in_=in_, expires=expires, key=key)

    def get(self, name: str) -> JobHandle:
        """The handle of a job of the server, by its name. Another program may have declared it."""
        return self._handles.get(name) or RemoteHandle(self._remote, name)

    def get_run(self, id: str) -> Run:
        """The handle of a run, by its id."""
        return RemoteRun(self._remote, id, "")
