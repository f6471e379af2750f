"""Events on their way to whoever watches in this process."""

import logging
from collections.abc import Callable

from chronos.core.events import Event

Watcher = Callable[[Event], None]
log = logging.getLogger("chronos.engine")


class Bus:
    """Calls each watcher with each event of its kinds. ``wants`` lets the hot path make none that nobody asked for."""

    def __init__(self) -> None:
        self._watchers: list[tuple[Watcher, tuple[type[Event], ...]]] = []
        self._of_kind: dict[type[Event], tuple[Watcher, ...]] = {}

    def wants(self, kind: type[Event]) -> bool:
        """Whether anybody watches for events of a kind."""
        return bool(self._watching(kind))

    def watch(self, watcher: Watcher, *kinds: type[Event]) -> Callable[[], None]:
        """Call back with every event from now on, or with those of some kinds; what is given back ends it."""
        watches = (watcher, kinds or (Event,))
        self._watchers.append(watches)
        self._of_kind.clear()

        def end() -> None:
            self._watchers.remove(watches)
            self._of_kind.clear()

        return end

    def emit(self, event: Event) -> None:
        """Tell all who watch; one that fails is told of in the log, and takes nothing with it."""
        for watcher in self._watching(type(event)):
            try:
                watcher(event)
            except Exception:
                log.exception("whoever watches for %s failed", type(event).__name__)

    def _watching(self, kind: type[Event]) -> tuple[Watcher, ...]:
        found = self._of_kind.get(kind)
        if found is None:
            found = tuple(watcher for watcher, kinds in self._watchers if issubclass(kind, kinds))
            self._of_kind[kind] = found
        return found
