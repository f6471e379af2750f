"""Long work of requests is done in short time slices."""

import asyncio

import pytest

from chronos.service.cooperative import _SLICE_S, TimeSlicer


class Slow(TimeSlicer):
    """A clock on which every step takes longer than a slice."""

    def __init__(self) -> None:
        self._at_s = 0.0
        super().__init__(self._later)

    def _later(self) -> float:
        self._at_s += _SLICE_S * 1.2
        return self._at_s


def nothing(_: int) -> None: ...


async def turns_of_others(over: asyncio.Event) -> int:
    """Count how often other tasks run meanwhile."""
    count = 0
    while not over.is_set():
        await asyncio.sleep(0)
        count += 1
    return count


def test_other_tasks_run_after_each_slice() -> None:
    async def main() -> None:
        turns, over = Slow(), asyncio.Event()
        others = asyncio.create_task(turns_of_others(over))
        await asyncio.gather(*(turns.each(range(5), nothing) for _ in range(4)))
        over.set()
        assert await others >= 20

    asyncio.run(main())


def test_requests_alternate_and_keep_their_order() -> None:
    async def main() -> None:
        turns, done = Slow(), list[tuple[str, int]]()
        await asyncio.gather(
            turns.each(range(3), lambda item: done.append(("a", item))),
            turns.each(range(3), lambda item: done.append(("b", item))),
        )
        assert done == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]

    asyncio.run(main())


def test_fast_work_is_done_in_one_slice() -> None:
    async def main() -> None:
        turns, over, seen = TimeSlicer(lambda: 0.0), asyncio.Event(), list[int]()
        others = asyncio.create_task(turns_of_others(over))
        await turns.each(range(100), seen.append)
        over.set()
        assert seen == list(range(100))
        assert await others < 20

    asyncio.run(main())


def test_an_error_or_cancellation_releases_the_slice() -> None:
    def fails(_: int) -> None:
        raise RuntimeError("this one")

    async def main() -> None:
        turns, seen = Slow(), list[int]()
        with pytest.raises(RuntimeError, match="this one"):
            await turns.each(range(3), fails)
        gone = asyncio.create_task(turns.each(range(1_000), nothing))
        await asyncio.sleep(0)
        gone.cancel()
        await turns.each(range(3), seen.append)
        assert seen == [0, 1, 2]
        assert gone.cancelled()

    asyncio.run(main())
