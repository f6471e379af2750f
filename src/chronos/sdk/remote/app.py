"""The app of a program that is a client of a server."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from chronos.assembly import hide_url_password
from chronos.errors import Invalid
from chronos.sdk.app import Chronos
from chronos.sdk.app_options import check_app_options
from chronos.sdk.home_loop import on_home_loop
from chronos.sdk.info import JobInfo
from chronos.sdk.info_reader import read_job_info
from chronos.sdk.job import JobHandle
from chronos.sdk.remote.event_stream import ServerEventStream
from chronos.sdk.remote.job import RemoteGroup, RemoteHandle, RemoteJob, RemoteTaskJob
from chronos.sdk.remote.run import RemoteRun
from chronos.sdk.remote.session import RemoteSession
from chronos.sdk.run_handle import Run
from chronos.sdk.runtime import Runtime
from chronos.sdk.stored_jobs import StateName, check_state_name, read_tags
from chronos.service.job_filter import parse_state


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
        self._remote.timezone = timezone
        self._handles: dict[str, JobHandle] = {}

    def run(self) -> int:
        """Raise ``Invalid``: a client runs no jobs."""
        raise Invalid(
            f"{hide_url_password(self._remote.url)} is a server, and it runs webhooks and commands itself; "
            "to run Python functions, use the URL of its store: Chronos('postgresql://…').run(), "
            "or Chronos('sqlite:///…').run() on the server's machine"
        )

    @on_home_loop
    async def aall_jobs(
        self, *, tag: str | Sequence[str] | None = None, state: StateName | None = None
    ) -> list[JobInfo]:
        """List the jobs of the namespace, by name. See ``Chronos.all_jobs``."""
        tags = [key if value is None else f"{key}={value}" for key, value in read_tags(tag)]
        state_name = None if state is None else parse_state(check_state_name(state)).name.lower()
        connection = await self._remote.session()
        jobs = await self._remote.list_all(
            connection, "jobs", namespace=self._remote.namespace, tag=tags, state=state_name
        )
        return [read_job_info(job) for job in jobs]

    def on(self, event: Any, callback: Any = None) -> Any:
        """Raise ``Invalid``: a client runs no jobs."""
        raise Invalid("a client of a server runs no jobs, so it has no events of its own; iterate over app.events()")

    def events(self, after: str | None = None) -> ServerEventStream:
        """Iterate over runs that ended and spans that were recorded. See ``Chronos.events``."""
        return ServerEventStream(self._remote, after)

    def get_run(self, id: str) -> Run:
        """The handle of a run, by its id."""
        return RemoteRun(self._remote, id, "")
