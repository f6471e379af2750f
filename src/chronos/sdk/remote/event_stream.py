"""The events of a server: its stream of server-sent events, resumed where it broke off."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from chronos.errors import Unavailable
from chronos.sdk.event_stream import EventStream, RecordedEvent
from chronos.sdk.events import read_recorded_event
from chronos.sdk.home_loop import on_home_loop
from chronos.sdk.info_reader import parse_instant, read_history_item

if TYPE_CHECKING:
    from chronos.sdk.remote.session import RemoteSession

_FIRST_PAUSE_S = 0.1
_MAX_PAUSE_S = 5.0


class ServerEventStream(EventStream):
    """A stream of the events of a server. When the connection breaks, it connects again and continues."""

    def __init__(self, remote: "RemoteSession", after: str | None) -> None:
        super().__init__(remote.home, after)
        self._remote = remote
        self._response: aiohttp.ClientResponse | None = None
        self._received: AsyncIterator[tuple[str, RecordedEvent]] | None = None
        self._last_id = after

    @on_home_loop
    async def aclose(self) -> None:
        """End the stream."""
        await super().aclose()
        self._disconnect()

    async def _open(self) -> None:
        connection = await self._remote.session()
        query = {"namespace": self._remote.namespace, "after": self._last_id}
        self._response = await connection.stream("events", query=query)
        self._received = _read_events(self._response)

    def _disconnect(self) -> None:
        if self._response is not None:
            self._response.close()
        self._response = self._received = None

    async def _read(self) -> Sequence[tuple[str, RecordedEvent]] | None:
        pause_s = _FIRST_PAUSE_S
        while not self._is_closed and not self._remote.is_closed:
            try:
                if self._received is None:
                    await self._open()
                assert self._received is not None
                if (received := await anext(self._received, None)) is not None:
                    self._last_id = received[0]
                    return [received]
            except (aiohttp.ClientError, TimeoutError, OSError, Unavailable):
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _MAX_PAUSE_S)
            self._disconnect()
        return None


async def _read_events(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, RecordedEvent]]:
    """Yield the events of a response with their ids, until the server ends it."""
    fields: dict[str, str] = {}
    async for raw in response.content:
        line = raw.decode().rstrip("\r\n")
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
            continue
        if fields.get("event") in ("execution", "span"):
            data = msgspec.json.decode(fields["data"])
            ended_at = parse_instant(data.get("recorded_at") or data.get("finished_at") or data["admitted_at"])
            yield fields["id"], read_recorded_event(read_history_item(data), data.get("job_name") or "", ended_at)
        fields = {}
