"""The writer thread runs calls in order, whatever happens to their callers."""

import asyncio
import threading

import pytest

from chronos.store.sql.sqlite.writer_thread import WriterThread


def test_calls_run_in_order_on_one_thread() -> None:
    seen: list[tuple[int, int]] = []

    async def check() -> list[int]:
        writer = WriterThread()

        def call(n: int) -> int:
            seen.append((n, threading.get_ident()))
            return n * n

        answers = await asyncio.gather(*(writer.run(lambda n=n: call(n)) for n in range(20)))  # type: ignore[misc]
        writer.close()
        return list(answers)

    assert asyncio.run(check()) == [n * n for n in range(20)]
    assert [n for n, _ in seen] == list(range(20))
    assert len({thread for _, thread in seen} - {threading.get_ident()}) == 1


def test_an_error_is_raised_to_its_caller_and_the_thread_continues() -> None:
    async def check() -> int:
        writer = WriterThread()
        with pytest.raises(ZeroDivisionError):
            await writer.run(lambda: 1 // 0)
        answer = await writer.run(lambda: 7)
        writer.close()
        return answer

    assert asyncio.run(check()) == 7


def test_cancelling_a_caller_does_not_stop_its_call_and_close_runs_queued_calls() -> None:
    done: list[str] = []
    go = threading.Event()

    async def check() -> None:
        writer = WriterThread()
        waiter = asyncio.create_task(writer.run(lambda: done.append("first") if go.wait(10) else None))
        second = asyncio.create_task(writer.run(lambda: done.append("second")))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        go.set()
        writer.close()
        assert done == ["first", "second"]
        await second

    asyncio.run(check())


def test_a_closed_loop_does_not_affect_the_thread() -> None:
    writer = WriterThread()
    go, done = threading.Event(), threading.Event()

    async def leave() -> None:
        asyncio.ensure_future(writer.run(lambda: go.wait(10)))  # noqa: RUF006 - not awaited
        await asyncio.sleep(0)

    asyncio.run(leave())
    go.set()

    async def come_back() -> None:
        await writer.run(done.set)

    asyncio.run(come_back())
    writer.close()
    assert done.is_set()
