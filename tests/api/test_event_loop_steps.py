"""No body within the limits blocks the event loop: the CPU time of each step is measured."""

import asyncio
import gc
import http.client
import itertools
import json
import threading
import time
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_server import V1, World, in_world, shape

pytestmark = pytest.mark.slow
LIMIT_S = 0.020
TRIES = 3  # the best of these counts, because a busy machine slows everything down


class Loop:
    """The event loop of a server in its own thread, whose steps are measured."""

    def __init__(self) -> None:
        self.port = 0
        self.worst_s = 0.0
        self._thread = 0
        self._run: Any = vars(events.Handle)["_run"]

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        """Serve while entered."""
        ready, over = threading.Event(), threading.Event()

        async def case(world: World) -> None:
            self.port = int(world.base.rpartition(":")[2])
            ready.set()
            await asyncio.to_thread(over.wait)

        def serve() -> None:
            self._thread = threading.get_ident()
            in_world(case, store_url=f"sqlite:///{folder}/steps.db")

        def run(handle: events.Handle) -> None:
            began_s = time.thread_time()
            self._run(handle)
            if threading.get_ident() == self._thread:
                self.worst_s = max(self.worst_s, time.thread_time() - began_s)

        setattr(events.Handle, "_run", run)  # noqa: B010  # it is not public
        server = threading.Thread(target=serve)
        server.start()
        gc.collect()
        gc.disable()  # its duration depends on everything that the tests hold
        try:
            assert ready.wait(60)
            yield
        finally:
            over.set()
            server.join(60)
            gc.enable()
            setattr(events.Handle, "_run", self._run)  # noqa: B010

    def call(self, method: str, path: str, body: Any) -> int:
        """Return the status of the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        data = json.dumps(body, separators=(",", ":")).encode()
        assert len(data) <= 2 << 20
        connection.request(method, V1 + path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.status


def many(count: int, **fields: Any) -> Callable[[int], Any]:
    return lambda number: {"jobs": [shape(f"many-{number}-{place}", **fields) for place in range(count)]}


def owned(count: int) -> Callable[[int], Any]:
    return lambda number: {**many(count)(number), "owner": f"team-{number}"}


NUMBERS = itertools.count()


def job(**fields: Any) -> Callable[[int], Any]:
    return lambda _: shape(f"one-{next(NUMBERS)}", **fields)


def always(body: Any) -> Callable[[int], Any]:
    return lambda _: body


TASKS = [
    {"name": f"t{n}", "command": {"argv": ["echo", str(n)]}, "needs": [f"t{n - 1}"] * (n > 0)} for n in range(1_000)
]
UNKNOWN = {f"shedule{number}": 1 for number in range(400)}
CASES: dict[str, tuple[str, str, Callable[[int], Any], int]] = {
    "a job with a payload of many values": ("POST", "/jobs", job(payload=[0] * 120_000), 201),
    "a job with a payload of many lists": ("POST", "/jobs", job(payload=[[[0]]] * 30_000), 201),
    "a job with a long payload": ("POST", "/jobs", job(payload="é" * 120_000), 201),
    "a job of 1,000 tasks": ("POST", "/jobs", job(tasks=TASKS), 201),
    "a job of too many values": ("POST", "/jobs", always([0] * 1_000_000), 400),
    "a job of unknown fields": ("POST", "/jobs", always(UNKNOWN), 422),
    "a job of too many fields": ("POST", "/jobs", always({f"k{n}": 1 for n in range(150_000)}), 400),
    "a job put": ("PUT", "/jobs/put", lambda number: shape("put", tasks=TASKS, description=str(number)), 200),
    "a large patch": ("PATCH", "/jobs/job", lambda number: {"payload": [number] * 100_000}, 200),
    "a small patch of a large job": ("PATCH", "/jobs/put", lambda number: {"description": f"now {number}"}, 200),
    "a patch of unknown fields": ("PATCH", "/jobs/job", always(UNKNOWN), 422),
    "a bulk of new jobs": ("POST", "/jobs/bulk", many(20_000), 200),
    "a bulk of the same jobs": ("POST", "/jobs/bulk", always(many(20_000)(0)), 200),
    "a bulk of changed jobs": ("POST", "/jobs/bulk", lambda n: many(500, description=f"changed {n}")(0), 200),
    "a bulk of wrong jobs": ("POST", "/jobs/bulk", always({"jobs": [UNKNOWN] * 200}), 200),
    "a bulk of large jobs": ("POST", "/jobs/bulk", always({"jobs": [shape("big", payload=[0] * 30_000)] * 8}), 200),
    "an apply of new jobs": ("POST", "/apply", owned(10_000), 200),
    "an apply of wrong jobs": ("POST", "/apply", always({"jobs": [UNKNOWN] * 200, "owner": "me"}), 422),
    "a preview": ("POST", "/schedule/preview", always({"schedule": "*/5 * * * *", "count": 1_000}), 200),
    "a preview of unknown fields": ("POST", "/schedule/preview", always(UNKNOWN), 422),
    "a preview of many exclusions": (
        "POST",
        "/schedule/preview",
        always({"schedule": "@daily", "exclude": ["x"] * 200_000}),
        422,
    ),
    "a trigger with many values": ("POST", "/jobs/job/trigger", always({"payload": [0] * 100_000}), 202),
    "a trigger with unknown fields": ("POST", "/jobs/job/trigger", always(UNKNOWN), 422),
}


def test_no_request_blocks_the_event_loop(tmp_path: Path) -> None:
    loop, found = Loop(), dict[str, float]()
    with loop.serving(tmp_path):
        assert loop.call("POST", "/jobs", shape("job")) == 201
        assert loop.call("PUT", "/jobs/put", shape("put", tasks=TASKS)) == 201
        for name, (method, path, body, status) in CASES.items():
            for number in range(TRIES):
                sent = body(number)
                loop.worst_s = 0.0
                assert loop.call(method, path, sent) == status, name
                found[name] = min(found.get(name, 1e9), loop.worst_s)
                if found[name] < LIMIT_S:
                    break
    assert not {name: worst_s for name, worst_s in found.items() if worst_s >= LIMIT_S}
