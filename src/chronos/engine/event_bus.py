"""Events on their way to whoever watches in this process."""

import logging
from collections.abc import Callable

from chronos.core.events import Event

Watcher = Callable[[Event], None]
HearsRoutine = Callable[[], bool]
log = logging.getLogger("chronos.engine")


def _hears_all_routine() -> bool:
    return True


class EventBus:
    """Calls each watcher with each event of its kinds. ``wants`` lets the hot path make none that nobody asked for."""

    def __init__(self) -> None:
        self._watchers: list[tuple[Watcher, tuple[type[Event], ...], HearsRoutine]] = []
        self._watchers_by_kind: dict[type[Event], tuple[tuple[Watcher, HearsRoutine], ...]] = {}

    def wants(self, kind: type[Event], *, routine: bool = False) -> bool:
        """Whether a watcher asks for events of a kind. ``routine``: for one that tells of what went well."""
        watching = self._find_watchers(kind)
        if not routine:
            return bool(watching)
        for _, hears_routine in watching:  # noqa: SIM110 - a generator would cost more than the answer
            if hears_routine():
                return True
        return False

    def watch(
        self, watcher: Watcher, *kinds: type[Event], hears_routine: HearsRoutine = _hears_all_routine
    ) -> Callable[[], None]:
        """Call back with every event from now on, or with those of some kinds; what is given back ends it.

        ``hears_routine`` says whether the watcher has any use for events of what went well. It may be given some that
        others asked for.
        """
        watches = (watcher, kinds or (Event,), hears_routine)
        self._watchers.append(watches)
        self._watchers_by_kind.clear()

        def end() -> None:
            self._watchers.remove(watches)
            self._watchers_by_kind.clear()

        return end

    def emit(self, event: Event) -> None:
        """Tell all who watch; one that fails is told of in the log, and takes nothing with it."""
        for watcher, _ in self._find_watchers(type(event)):
            try:
                watcher(event)
            except Exception:
                log.exception("whoever watches for %s failed", type(event).__name__)

    def _find_watchers(self, kind: type[Event]) -> tuple[tuple[Watcher, HearsRoutine], ...]:
        found = self._watchers_by_kind.get(kind)
        if found is None:
            found = tuple((watcher, hears) for watcher, kinds, hears in self._watchers if issubclass(kind, kinds))
            self._watchers_by_kind[kind] = found
        return found
