"""Hints between nodes over LISTEN and NOTIFY. A lost hint delays work, but never loses it.

One connection listens and sends. Hints are sent outside of transactions, and those of one moment are combined.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from chronos.store.contract import Hint
from chronos.store.sql.postgres.connection import Connect, Connection
from chronos.store.sql.postgres.errors import DRIVER_ERRORS

SEND_INTERVAL_S = 0.05
_MAX_PAUSE_S = 5.0
_ALL_HINTS = ~Hint(0)


class HintChannel:
    """Sends hints to other nodes, and calls back with theirs. The name of the schema is the name of the channel."""

    def __init__(self, connect: Connect, schema: str, receive: Callable[[Hint], None]) -> None:
        self._connect, self._schema, self._receive = connect, schema, receive
        self._process = 0
        self._connection: Connection | None = None
        self._due = asyncio.Event()
        self._hint = Hint(0)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start to listen. A lost connection is replaced in the background."""
        lost = await self._listen()
        self._tasks = [asyncio.create_task(self._keep_listening(lost)), asyncio.create_task(self._send())]

    async def stop(self) -> None:
        """Stop listening and close the connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await connection.close(timeout=_MAX_PAUSE_S)
            except DRIVER_ERRORS:
                connection.terminate()

    def send(self, hint: Hint) -> None:
        """Send a hint to the other nodes, within ``SEND_INTERVAL_S``."""
        self._hint |= hint
        self._due.set()

    async def _listen(self) -> asyncio.Event:
        """Connect. The returned event is set when the connection is lost."""
        lost = asyncio.Event()
        connection = await self._connect()
        try:
            connection.add_termination_listener(lambda _: lost.set())
            self._process = await connection.fetchval("select pg_backend_pid()")
            await connection.add_listener(self._schema, self._received)
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection
        return lost

    def _received(self, _connection: Connection, sender: int, _: str, payload: str) -> None:
        if sender != self._process:
            self._receive(Hint(int(payload)) & _ALL_HINTS if payload.isdecimal() else _ALL_HINTS)

    async def _keep_listening(self, lost: asyncio.Event) -> None:
        while True:
            await lost.wait()
            pause_s = 0.1
            while True:
                await asyncio.sleep(pause_s)
                with suppress(*DRIVER_ERRORS):
                    lost = await self._listen()
                    break
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)
            self._receive(_ALL_HINTS)  # hints may have been missed meanwhile

    async def _send(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            hint, self._hint = self._hint, Hint(0)
            if self._connection is not None:
                with suppress(*DRIVER_ERRORS):
                    await self._connection.execute(f"notify \"{self._schema}\", '{int(hint)}'")
            await asyncio.sleep(SEND_INTERVAL_S)
