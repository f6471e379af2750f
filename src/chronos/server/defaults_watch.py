"""DefaultsWatch: writes the server's defaults to the store at its start, and reports when others are in force.

All servers of a store have one set of defaults: those of the last server that started. They take effect for all jobs at
once. A server whose configuration says otherwise logs it, and ``/nodes`` shows it.
"""

import asyncio

from chronos.clock import Clock
from chronos.core.config import Settings
from chronos.core.node import Actor
from chronos.errors import ChronosError
from chronos.observe.log_setup import line_logger
from chronos.store.commands import SetDefaults
from chronos.store.contract import Hint, Store

log = line_logger("chronos.server")


class DefaultsWatch:
    """Compares the defaults of this server with those in force."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, node_name: str) -> None:
        self._store, self._clock, self._settings, self._node_name = store, clock, settings, node_name
        self._reported: int | None = None  # the number that was reported as different
        self._checks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Put the defaults of this server into force, and watch for others. Returns their number."""
        actor = Actor(name=self._node_name, origin="start")
        number = await self._store.apply(SetDefaults(settings=self._settings, now_us=self._clock.now_us(), actor=actor))
        self._store.on_hint(self._check_soon)
        return number

    async def check(self) -> None:
        """Log once if the defaults in force are not those of this server."""
        [current] = (await self._store.current_levels([""])).values()
        if current.defaults == self._settings:
            self._reported = None
        elif current.levels.defaults != self._reported:
            self._reported = current.levels.defaults
            log.warning(
                "other defaults are in force than this server has; the last server to start has set them",
                number=current.levels.defaults,
            )

    def _check_soon(self, hint: Hint) -> None:
        if hint & Hint.SETTINGS:
            task = asyncio.get_running_loop().create_task(self._check_quietly())
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    async def _check_quietly(self) -> None:
        try:
            await self.check()
        except ChronosError as error:
            log.warning("cannot compare the defaults with those in force", error=str(error))
