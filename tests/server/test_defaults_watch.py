"""Two servers with different defaults on one store: the last start wins, and the other one says so."""

import asyncio
import logging

import pytest

from chronos.clock import SystemClock
from chronos.core.config import NOTHING_SET, Overlap, Settings
from chronos.server.defaults_watch import DefaultsWatch
from chronos.service.settings.node_defaults import DEFAULTS_LABEL, compare_defaults
from chronos.store.commands import RegisterNode
from chronos.store.sql.sqlite.memory import MemoryStore

ALLOW, QUEUE = Settings(overlap=Overlap.ALLOW), Settings(overlap=Overlap.QUEUE)


def test_the_last_server_to_start_wins_and_the_other_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        store = MemoryStore()
        await store.open()
        first, second = (
            DefaultsWatch(store, SystemClock(), level, name) for level, name in ((ALLOW, "a"), (QUEUE, "b"))
        )
        for number, (watch, name) in enumerate(((first, "a"), (second, "b")), 1):
            assert await watch.start() == number
            labels = {DEFAULTS_LABEL: str(number)}
            await store.apply(RegisterNode(name=name, incarnation=bytes([number] * 16), now_us=0, labels=labels))
        for watch in (first, second):
            await watch.check()
        [current] = (await store.current_levels(["default"])).values()
        assert (current.defaults, current.namespace) == (QUEUE, NOTHING_SET)
        shown = await compare_defaults(store, await store.nodes())
        assert [one["in_force"] for one in shown.values()] == [False, True]
        assert await DefaultsWatch(store, SystemClock(), ALLOW, "c").start() == 3
        assert [one["in_force"] for one in (await compare_defaults(store, await store.nodes())).values()] == [
            True,
            False,
        ]
        await store.close()

    with caplog.at_level(logging.WARNING, "chronos.server"):
        asyncio.run(check())
    warnings = [record for record in caplog.records if "other defaults are in force" in record.getMessage()]
    assert warnings
