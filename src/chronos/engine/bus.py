"""Events on their way to whoever watches in this process."""

from collections.abc import Callable

from chronos.core.events import Event

Watcher = Callable[[Event], None]


class Bus:
    """Calls each watcher with each event. ``watched`` lets the hot path make no events that nobody wants."""

    def __init__(self) -> None:
        self._watchers: list[Watcher] = []

    @property
    def watched(self) -> bool:
        return bool(self._watchers)

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call back with every event from now on; what is given back ends it."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def emit(self, event: Event) -> None:
        for watcher in tuple(self._watchers):
            watcher(event)
