"""Requests whose callers do not know what became of them, because an error was all they heard."""

from typing import Any

from chronos.store.commands import Admit, Claim, Command

_MAX_DOUBTS = 1024


class Doubts:
    """Sent again, they are asked what they did the first time. The latest are remembered."""

    def __init__(self) -> None:
        self._requests: dict[bytes, None] = {}

    def add(self, command: Command[Any]) -> None:
        if isinstance(command, Admit | Claim):
            self._requests[command.request] = None
            while len(self._requests) > _MAX_DOUBTS:
                del self._requests[next(iter(self._requests))]

    def about(self, command: Command[Any]) -> bool:
        return bool(self._requests) and isinstance(command, Admit | Claim) and command.request in self._requests
