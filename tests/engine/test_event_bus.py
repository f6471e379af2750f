"""Which watchers receive which events, and how a Wakeup works."""

import asyncio

import pytest

from chronos.core.events import ClockJumped, Event, ProblemReported
from chronos.engine.event_bus import EventBus
from chronos.engine.wakeup import Wakeup
from chronos.testing.loop import run

JUMP = ClockJumped(at_us=1, by_us=2)
TROUBLE = ProblemReported(at_us=1, where="store", error="gone")


def test_a_watcher_of_a_kind_receives_only_that_kind() -> None:
    bus, all_of_them, jumps = EventBus(), list[Event](), list[Event]()
    assert not bus.wants(ProblemReported)
    bus.watch(jumps.append, ClockJumped)
    assert bus.wants(ClockJumped)
    assert not bus.wants(ProblemReported)
    end = bus.watch(all_of_them.append)
    bus.emit(JUMP)
    bus.emit(TROUBLE)
    end()
    bus.emit(JUMP)
    assert not bus.wants(ProblemReported)
    assert all_of_them == [JUMP, TROUBLE]
    assert jumps == [JUMP, JUMP]


def test_routine_events_are_created_only_for_watchers_that_want_them() -> None:
    bus, listens = EventBus(), [False]
    bus.watch(lambda event: None, ProblemReported, wants_routine=lambda: listens[0])
    assert (bus.wants(ProblemReported), bus.wants(ProblemReported, routine=True)) == (True, False)
    listens[0] = True
    assert bus.wants(ProblemReported, routine=True)
    assert not bus.wants(ClockJumped, routine=True)
    listens[0] = False
    bus.watch(lambda event: None)
    assert bus.wants(ProblemReported, routine=True)


def test_a_watcher_may_unsubscribe_while_it_is_called() -> None:
    bus, calls = EventBus(), list[str]()

    def once(event: Event) -> None:
        calls.append("once")
        end()

    end = bus.watch(once)
    bus.watch(lambda event: calls.append("always"))
    bus.emit(JUMP)
    bus.emit(JUMP)
    assert calls == ["once", "always", "always"]


def test_a_wait_ends_with_wake_or_with_its_timeout() -> None:
    async def scenario() -> list[float]:
        loop, bell, woken_s = asyncio.get_running_loop(), Wakeup(), list[float]()
        loop.call_later(3, bell.wake)
        for _ in range(2):  # woken after 3 s; then not at all
            await bell.wait(10)
            woken_s.append(loop.time())
        bell.wake()
        bell.wake()
        await bell.wait(10)  # woken before the wait
        woken_s.append(loop.time())
        await bell.wait(10)  # a wake counts once
        return [*woken_s, loop.time()]

    assert run(scenario()) == [3, 13, 13, 23]


def test_a_failing_watcher_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    bus, jumps = EventBus(), list[Event]()

    def fails(event: Event) -> None:
        raise ValueError("no")

    bus.watch(fails)
    bus.watch(jumps.append)
    bus.emit(JUMP)
    assert jumps == [JUMP]
    assert "ClockJumped failed" in caplog.text
