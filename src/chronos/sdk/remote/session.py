"""What stands behind an app that is a client: connections instead of a store, and no engine.

The jobs that the program declares are saved before anything else is asked, in one request; those it no longer has go
when it starts, if they carry its owner. All of it happens on the app's home loop.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chronos.assembly import WebhookOptions, collect_target_checks, make_runners
from chronos.clock import SystemClock
from chronos.errors import ChronosError, Conflict, Invalid, NotFound
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.sdk.declarations import DeclaredJobs, FunctionRef, naming
from chronos.sdk.home_loop import HomeLoop
from chronos.sdk.job_options import Shape, default_shape
from chronos.sdk.remote.http_client import Address, ServerConnection
from chronos.service.serializers.identifiers import find_name_fault

_PAGE = 1_000
_SAVED_AT_ONCE = 500
_RACES = 5  # times that somebody else may change a job between reading it and changing it


@dataclass(slots=True)
class JobShapes(DeclaredJobs):
    """What a program declares, kept as it was said: the server reads it again."""

    shapes: dict[str, Shape] = field(default_factory=dict)
    defaults: Shape = field(default_factory=dict)

    def put(self, name: str, shape: Shape, calls: Mapping[str, FunctionRef]) -> None:
        """A job, new or with more to it than before."""
        whole = {**self.defaults, **shape}
        DeclaredJobs.put(self, name, whole, calls)
        said = {"name": name, "namespace": self.namespace, "schedule": "manual", **whole}
        self.shapes[name] = said if self.owner is None else {**said, "owner": self.owner}
        self.unsaved.add(name)  # once more: another thread may have saved what it was before


class RemoteSession:
    """One app's way to its server. It has what a ``Runtime`` has for those who declare jobs."""

    def __init__(
        self, url: str, *, namespace: str, owner: str | None, defaults: Mapping[str, Any] | None = None
    ) -> None:
        if fault := find_name_fault(namespace):
            raise Invalid(f'the namespace "{namespace}" {fault}')
        self.url = url
        self.namespace = namespace
        self.clock = SystemClock()
        self._address = Address.of(url)
        # Where requests may go is the server's to say.
        functions = FunctionRegistry()
        checks = collect_target_checks(
            make_runners(functions, clock=self.clock, http=WebhookOptions(allow_private=True))
        )
        self.declared = JobShapes(namespace=namespace, owner=owner, functions=functions, checks=checks)
        with naming("defaults"):
            self.declared.defaults = default_shape({} if defaults is None else defaults)
            self.declared.read("defaults", {**self.declared.defaults, "wait": {"for": "1s"}})
        self.home = HomeLoop(self.stop)
        self._wire: ServerConnection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._saving = asyncio.Lock()

    async def session(self) -> ServerConnection:
        """The connections, with all saved that the program has declared."""
        loop = asyncio.get_running_loop()
        if self._wire is None or self._loop is not loop:
            self._wire, self._loop, self._saving = ServerConnection(self._address), loop, asyncio.Lock()
        if self.declared.unsaved:
            await self._save(self._wire)
        return self._wire

    async def start(self) -> None:
        """Save the program's jobs, and delete those it no longer has."""
        if self.declared.promised:
            raise Invalid(f"the group {min(self.declared.promised)} has no tasks; add one with @group.task")
        self.declared.unsaved.update(self.declared.jobs)
        wire = await self.session()
        await self._prune(wire)

    async def stop(self, grace_s: float | None = None) -> None:
        """Let go of the connections; nothing runs here, so there is nothing to wait for."""
        if self._wire is not None and self._loop is asyncio.get_running_loop():
            wire, self._wire = self._wire, None
            await wire.close()

    async def every(self, wire: ServerConnection, *path: str, **query: object) -> list[Mapping[str, Any]]:
        """All items of a list."""
        items: list[Mapping[str, Any]] = []
        cursor: str | None = None
        while True:
            page = await wire.get(*path, **query, limit=_PAGE, cursor=cursor)
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return items

    async def change(self, name: str, method: str, *verb: str, body: Any = None) -> Any:
        """Change a job as it is, whatever it is: when somebody else is faster, it is read again."""
        wire = await self.session()
        query = {"namespace": self.namespace}
        for race in range(1, _RACES + 1):
            there = await wire.ask("GET", "jobs", name, query=query, again=True)
            headers = {"If-Match": there.etag or "*"}
            try:
                reply = await wire.ask(method, "jobs", name, *verb, query=query, body=body, headers=headers, again=True)
            except Conflict:
                if race == _RACES:
                    raise
            else:
                return reply.value
        raise AssertionError("the last race is won or raised")

    async def _save(self, wire: ServerConnection) -> None:
        async with self._saving:
            unsaved = tuple(self.declared.unsaved)
            names = sorted(name for name in unsaved if name in self.declared.shapes)
            sent = {name: self.declared.shapes[name] for name in names}
            for begin in range(0, len(names), _SAVED_AT_ONCE):
                await self._send(wire, [sent[name] for name in names[begin : begin + _SAVED_AT_ONCE]])
            for name in names:  # unless it was declared anew meanwhile
                if self.declared.shapes[name] is sent[name]:
                    self.declared.unsaved.discard(name)

    async def _send(self, wire: ServerConnection, jobs: Sequence[Shape]) -> None:
        query = {"namespace": self.namespace}
        answer = await wire.ask("POST", "jobs", "bulk", query=query, body={"jobs": jobs}, again=True)
        failed = [one for one in answer.value["results"] if one["result"] == "failed"]
        if failed:
            said = "\n".join(str(one["message"]) for one in failed)
            raise (Invalid if failed[0].get("status") == 422 else ChronosError)(said)

    async def _prune(self, wire: ServerConnection) -> None:
        """Delete what this owner declared once and no longer does."""
        if self.declared.owner is None:
            return
        owned = await self.every(wire, "jobs", namespace=self.namespace, owner=self.declared.owner)
        for job in owned:
            if job["name"] not in self.declared.jobs:
                try:
                    await self.change(job["name"], "DELETE")
                except NotFound:  # somebody else was faster
                    continue
