"""EventFeed: reads the executions and spans that ended, each once, for streams of events."""

import re
from collections import OrderedDict

from chronos.core.calendar import SECOND_US
from chronos.core.execution import Execution, Span
from chronos.store.contract import Store

Position = tuple[int, bytes]  # the end time of an execution or span, and its id

LAST_ID = b"\xff" * 16
_FIRST_ID = bytes(16)
_PAGE = 500
_LOOK_BACK_US = 2 * SECOND_US  # a record with an earlier end time may be committed later
_MAX_REMEMBERED = 10_000  # ids of sent events within the look-back
_POSITION = re.compile(r"(-?\d{1,18})-([0-9a-f]{32})", re.ASCII)


class EventFeed:
    """Reads the executions and spans that ended since a position, each once."""

    def __init__(self, store: Store, after: Position) -> None:
        self._store = store
        self._floor = self._position = after  # earlier events are not sent
        self._sent: OrderedDict[bytes, None] = OrderedDict()

    async def read(self) -> list[Execution | Span]:
        """Return the next page; empty if there is nothing new."""
        while True:
            items = await self._store.ended_since(self._position, _PAGE)
            fresh = [item for item in items if position_of(item) > self._floor and item.id not in self._sent]
            for item in fresh:
                self._sent[item.id] = None
            while len(self._sent) > _MAX_REMEMBERED:
                self._sent.popitem(last=False)
            if len(items) == _PAGE:
                self._position = position_of(items[-1])
            else:
                newest = position_of(items[-1]) if items else self._position
                self._position = max(self._floor, (newest[0] - _LOOK_BACK_US, _FIRST_ID))
            if fresh or len(items) < _PAGE:
                return fresh


def position_of(item: Execution | Span) -> Position:
    """Return the position of an execution or span in the feed."""
    ended_us = item.recorded_us if isinstance(item, Span) else item.finished_us
    return (ended_us or 0, item.id)


def format_position(position: Position) -> str:
    """Write a position as text."""
    at_us, id_ = position
    return f"{at_us}-{id_.hex()}"


def parse_position(text: str) -> Position | None:
    """Read a position from text; None if the text is not a position."""
    match = _POSITION.fullmatch(text)
    return None if match is None else (int(match.group(1)), bytes.fromhex(match.group(2)))
