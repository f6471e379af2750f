"""Requests that take too long: who is cancelled, who is not, and that it means what ``asyncio.timeout`` means."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from chronos.api.patience import Patience
from chronos.testing.loop import run

Way = Callable[[Patience, Awaitable[object]], Awaitable[str]]


async def _ours(patience: Patience, work: Awaitable[object]) -> str:
    wait = patience.begin()
    try:
        await work
    except asyncio.CancelledError:
        if not wait.is_over():
            raise
        return "late"
    finally:
        patience.end(wait)
    return "done"


async def _theirs(patience: Patience, work: Awaitable[object]) -> str:
    try:
        async with asyncio.timeout(patience.limit_s):
            await work
    except TimeoutError:
        return "late"
    return "done"


async def _stubborn() -> None:
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        return


async def _failing() -> None:
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        raise LookupError from None


@pytest.mark.parametrize("way", [_ours, _theirs])
def test_who_takes_too_long_is_late_and_goes_on(way: Way) -> None:
    async def case() -> None:
        task = asyncio.current_task()
        assert task is not None
        patience = Patience(0.02)
        assert await way(patience, asyncio.sleep(10)) == "late"
        assert await way(patience, asyncio.sleep(0)) == "done"
        assert await way(patience, _stubborn()) == "done"
        with pytest.raises(LookupError):
            await way(patience, _failing())
        assert task.cancelling() == 0
        await asyncio.sleep(0.03)

    run(case())


@pytest.mark.parametrize("way", [_ours, _theirs])
@pytest.mark.parametrize("is_late", [False, True])
def test_who_is_cancelled_by_somebody_else_stays_cancelled(way: Way, is_late: bool) -> None:
    async def case() -> None:
        async def slow() -> None:
            try:
                await asyncio.sleep(10)
            finally:
                if is_late:
                    task.cancel()  # while it is being cancelled for being late

        patience = Patience(0.01 if is_late else 10)
        task = asyncio.ensure_future(way(patience, slow()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not is_late:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(case())


def test_each_has_its_own_time() -> None:
    async def case() -> None:
        loop, patience = asyncio.get_running_loop(), Patience(0.05)
        began_s = loop.time()
        ended_s: list[float] = []

        async def one(work_s: float) -> str:
            said = await _ours(patience, asyncio.sleep(work_s))
            ended_s.append(loop.time() - began_s)
            return said

        tasks = []
        for work_s in (10.0, 0.0, 10.0, 0.01, 10.0):
            tasks.append(asyncio.create_task(one(work_s)))
            await asyncio.sleep(0.01)
        assert await asyncio.gather(*tasks) == ["late", "done", "late", "done", "late"]
        assert ended_s == pytest.approx([0.01, 0.04, 0.05, 0.07, 0.09])
        assert await one(0.0) == "done"  # it begins anew after all are gone

    run(case())
