"""EventBus: passes events to their watchers in this process."""

import logging
from collections.abc import Callable

from chronos.core.events import Event

Watcher = Callable[[Event], None]
WantsRoutine = Callable[[], bool]
log = logging.getLogger("chronos.engine")


def _wants_all_routine() -> bool:
    return True


class EventBus:
    """Calls each watcher with the events of its kinds. ``wants`` lets the hot path skip events without a watcher."""

    def __init__(self) -> None:
        self._subscriptions: list[tuple[Watcher, tuple[type[Event], ...], WantsRoutine]] = []
        self._watchers_by_kind: dict[type[Event], tuple[tuple[Watcher, WantsRoutine], ...]] = {}

    def wants(self, kind: type[Event], *, routine: bool = False) -> bool:
        """Whether a watcher exists for a kind of event. ``routine``: the event is about successful work."""
        watchers = self._find_watchers(kind)
        if not routine:
            return bool(watchers)
        for _, wants_routine in watchers:  # noqa: SIM110 - a generator is slower
            if wants_routine():
                return True
        return False

    def watch(
        self, watcher: Watcher, *kinds: type[Event], wants_routine: WantsRoutine = _wants_all_routine
    ) -> Callable[[], None]:
        """Call ``watcher`` with every event from now on, or only with events of ``kinds``.

        Returns a function that ends this. ``wants_routine`` tells whether the watcher uses events of successful work.
        The watcher may still receive some of them, if another watcher wants them.
        """
        subscription = (watcher, kinds or (Event,), wants_routine)
        self._subscriptions.append(subscription)
        self._watchers_by_kind.clear()

        def unwatch() -> None:
            self._subscriptions.remove(subscription)
            self._watchers_by_kind.clear()

        return unwatch

    def emit(self, event: Event) -> None:
        """Call every watcher of this kind. A watcher that raises is logged and does not affect the others."""
        for watcher, _ in self._find_watchers(type(event)):
            try:
                watcher(event)
            except Exception:
                log.exception("event watcher for %s failed", type(event).__name__)

    def _find_watchers(self, kind: type[Event]) -> tuple[tuple[Watcher, WantsRoutine], ...]:
        watchers = self._watchers_by_kind.get(kind)
        if watchers is None:
            watchers = tuple(
                (watcher, wants_routine)
                for watcher, kinds, wants_routine in self._subscriptions
                if issubclass(kind, kinds)
            )
            self._watchers_by_kind[kind] = watchers
        return watchers
