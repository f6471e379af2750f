"""The connections behind an app that is a client. They replace the store and the engine.

Declared jobs are saved before every other request, in bulk. When an app with an owner starts, jobs that it no longer
declares are deleted. Everything here happens on the app's home loop.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chronos.assembly import WebhookOptions, collect_target_checks, make_runners
from chronos.clock import SystemClock
from chronos.errors import ChronosError, Conflict, Invalid, NotFound
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.sdk.declarations import DeclaredJobs, FunctionRef, prefix_errors
from chronos.sdk.home_loop import HomeLoop
from chronos.sdk.job_options import Shape, build_default_shape
from chronos.sdk.remote.http_client import Address, ServerConnection
from chronos.service.serializers.identifiers import find_name_fault

log = logging.getLogger("chronos.sdk")

Edit = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_PAGE_SIZE = 1_000
_SAVE_BATCH = 500
_MAX_CONFLICTS = 5  # changes by others between reading a job and changing it


@dataclass(slots=True)
class JobShapes(DeclaredJobs):
    """The declared jobs, with their shapes as written: the server reads them again."""

    shapes: dict[str, Shape] = field(default_factory=dict)
    default_shape: Shape = field(default_factory=dict)

    def put(self, name: str, shape: Shape, refs: Mapping[str, FunctionRef]) -> None:
        """Add a job, or replace it by one with more tasks. Changes nothing when it raises."""
        shape = {**self.default_shape, **shape}
        DeclaredJobs.put(self, name, shape, refs)
        full_shape = {"name": name, "namespace": self.namespace, "schedule": "manual", **shape}
        self.shapes[name] = full_shape if self.owner is None else {**full_shape, "owner": self.owner}
        self.unsaved.add(name)  # again: another thread may have saved the previous shape meanwhile


class RemoteSession:
    """The connections of one app to its server. It offers the part of ``Runtime`` that declaring jobs needs."""

    def __init__(
        self, url: str, *, namespace: str, owner: str | None, defaults: Mapping[str, Any] | None = None
    ) -> None:
        if fault := find_name_fault(namespace):
            raise Invalid(f'the namespace "{namespace}" {fault}')
        self.url = url
        self.namespace = namespace
        self.timezone: str | None = None  # of schedules that set none
        self.clock = SystemClock()
        self._address = Address.parse(url)
        # The server decides which addresses webhooks may reach.
        functions = FunctionRegistry()
        checks = collect_target_checks(
            make_runners(functions, clock=self.clock, http=WebhookOptions(allow_private=True))
        )
        self.declared = JobShapes(namespace=namespace, owner=owner, functions=functions, checks=checks)
        with prefix_errors("defaults"):
            self.declared.default_shape = build_default_shape({} if defaults is None else defaults)
            self.declared.read("defaults", {**self.declared.default_shape, "wait": {"for": "1s"}})
        self.home = HomeLoop(self.stop)
        self._connection: ServerConnection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._saving = asyncio.Lock()

    @property
    def is_closed(self) -> bool:
        """Whether the app has stopped, or has not used the server yet."""
        return self._connection is None

    async def session(self) -> ServerConnection:
        """The connections. All declared jobs are saved."""
        loop = asyncio.get_running_loop()
        if self._connection is None or self._loop is not loop:
            self._connection, self._loop, self._saving = ServerConnection(self._address), loop, asyncio.Lock()
        if self.declared.unsaved:
            await self._save(self._connection)
        return self._connection

    async def start(self) -> None:
        """Save the declared jobs, and delete those no longer declared."""
        self.declared.check_has_no_empty_group()
        self.declared.unsaved.update(self.declared.jobs.keys() - self.declared.kept)
        connection = await self.session()
        await self._delete_undeclared(connection)

    async def stop(self, grace_s: float | None = None) -> None:
        """Close the connections. ``grace_s`` is ignored, since no jobs run here."""
        if self._connection is not None and self._loop is asyncio.get_running_loop():
            connection, self._connection = self._connection, None
            await connection.close()

    async def list_all(self, connection: ServerConnection, *path: str, **query: object) -> list[Mapping[str, Any]]:
        """Every item of a list, from all its pages."""
        items: list[Mapping[str, Any]] = []
        cursor: str | None = None
        while True:
            page = await connection.get(*path, **query, limit=_PAGE_SIZE, cursor=cursor)
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return items

    async def change(self, name: str, method: str, *verb: str, body: Any = None, edit: Edit | None = None) -> Any:
        """Change the current version of a job. After a conflict the job is read and changed again.

        ``edit`` makes the body from the job.
        """
        connection = await self.session()
        query = {"namespace": self.namespace}
        for conflict in range(1, _MAX_CONFLICTS + 1):
            current = await connection.request("GET", "jobs", name, query=query, repeat=True)
            headers = {"If-Match": current.etag or "*"}
            if edit is not None:
                body = edit(current.value)
            try:
                reply = await connection.request(
                    method, "jobs", name, *verb, query=query, body=body, headers=headers, repeat=True
                )
            except Conflict:
                if conflict == _MAX_CONFLICTS:
                    raise
            else:
                return reply.value
        raise AssertionError("the last conflict is raised")

    async def _save(self, connection: ServerConnection) -> None:
        async with self._saving:
            unsaved = tuple(self.declared.unsaved)
            names = sorted(name for name in unsaved if name in self.declared.shapes)
            sent = {name: self.declared.shapes[name] for name in names}
            for start in range(0, len(names), _SAVE_BATCH):
                await self._send(connection, [sent[name] for name in names[start : start + _SAVE_BATCH]])
            for name in names:  # a job declared again meanwhile stays unsaved
                if self.declared.shapes[name] is sent[name]:
                    self.declared.unsaved.discard(name)

    async def _send(self, connection: ServerConnection, jobs: Sequence[Shape]) -> None:
        query = {"namespace": self.namespace}
        reply = await connection.request("POST", "jobs", "bulk", query=query, body={"jobs": jobs}, repeat=True)
        for item in reply.value["results"]:
            for warning in item.get("warnings", ()) if item["result"] != "unchanged" else ():
                log.warning('job "%s": %s', item["name"], warning["message"])
        failed = [item for item in reply.value["results"] if item["result"] == "failed"]
        if failed:
            messages = "\n".join(str(item["message"]) for item in failed)
            raise (Invalid if failed[0].get("status") == 422 else ChronosError)(messages)

    async def _delete_undeclared(self, connection: ServerConnection) -> None:
        """Delete the jobs of this owner that the program no longer declares."""
        if self.declared.owner is None:
            return
        owned = await self.list_all(connection, "jobs", namespace=self.namespace, owner=self.declared.owner)
        for job in owned:
            if job["name"] not in self.declared.jobs:
                try:
                    await self.change(job["name"], "DELETE")
                except NotFound:  # deleted by another client meanwhile
                    continue
