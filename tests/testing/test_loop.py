"""The virtual loop: idle time costs nothing, the real world is waited for, and a deadlock is an error."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from chronos.testing.clock import VirtualClock
from chronos.testing.loop import StandsStill, VirtualLoop, run

MONTH_S = 30 * 86_400


def test_a_month_of_idle_time_passes_at_once() -> None:
    async def main() -> float:
        await asyncio.sleep(MONTH_S)
        return asyncio.get_running_loop().time()

    start_s = time.monotonic()
    assert run(main()) == pytest.approx(MONTH_S)
    assert time.monotonic() - start_s < 60


def test_timers_fire_in_order_at_their_own_time() -> None:
    async def main() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        seen: list[tuple[str, float]] = []

        async def note(name: str, after_s: float) -> None:
            await asyncio.sleep(after_s)
            seen.append((name, loop.time()))

        await asyncio.gather(note("late", 86_400 * 3), note("soon", 0.001), note("same", 0.001), note("later", 7))
        return seen

    assert run(main()) == [("soon", 0.001), ("same", 0.001), ("later", 7.0), ("late", 86_400 * 3)]


def test_a_timeout_uses_virtual_time() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3_600):
                await asyncio.sleep(7_200)

    run(main())


def test_time_stands_still_while_a_thread_works() -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        woken: list[float] = []
        timer = loop.call_later(1, lambda: woken.append(loop.time()))
        await asyncio.to_thread(time.sleep, 0.02)
        with ThreadPoolExecutor(1) as pool:
            await loop.run_in_executor(pool, time.sleep, 0.02)
        assert not woken
        during = loop.time()
        await asyncio.sleep(1)
        timer.cancel()
        return during, woken[0]

    assert run(main()) == (0.0, 1.0)


def test_time_stands_still_while_outside_waits_for_a_process() -> None:
    async def main() -> tuple[bytes, float]:
        clock = VirtualClock()
        with clock.outside():
            process = await asyncio.create_subprocess_exec("echo", "hello", stdout=asyncio.subprocess.PIPE)
            asyncio.get_running_loop().call_later(60, process.kill)
            output, _ = await process.communicate()
        return output, asyncio.get_running_loop().time()

    assert run(main()) == (b"hello\n", 0.0)


def test_sockets_work_within_outside() -> None:
    async def main() -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        with VirtualClock().outside():
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"hello\n")
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return line

    assert run(main()) == b"hello\n"


def test_a_deadlock_raises_stands_still() -> None:
    loop = VirtualLoop()
    try:
        with pytest.raises(StandsStill, match="no timer is set"):
            loop.run_until_complete(loop.create_future())
    finally:
        loop.close()


def test_a_program_runs_in_the_same_order_every_time() -> None:
    async def main() -> list[tuple[int, float]]:
        loop = asyncio.get_running_loop()
        seen: list[tuple[int, float]] = []

        async def walk(number: int) -> None:
            for step in range(20):
                await asyncio.sleep((number * 7 + step * 3) % 5)
                seen.append((number, loop.time()))

        await asyncio.gather(*(walk(number) for number in range(10)))
        return seen

    assert run(main()) == run(main())


def test_waiting_for_a_rounding_error_ends() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(1 / 3)
        due_s, turns = loop.time() + 7_200.1, 0
        while loop.time() < due_s:
            turns += 1
            await asyncio.sleep(due_s - loop.time())
        due_s = loop.time() + 1e-12
        while loop.time() < due_s:
            turns += 1
            await asyncio.sleep(due_s - loop.time())
        return turns

    assert run(main()) <= 4


def test_quiet_returns_when_everything_due_now_has_run() -> None:
    async def main() -> tuple[list[str], float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        seen: list[str] = []

        async def chain() -> None:
            for _ in range(1_000):
                await asyncio.sleep(0)
            await asyncio.to_thread(time.sleep, 0.01)
            loop.call_later(0, seen.append, "now")
            seen.append("chain")

        chained = asyncio.create_task(chain())
        loop.call_later(0.000001, seen.append, "later")
        await loop.quiet()
        await chained
        return seen, loop.time()

    assert run(main()) == (["chain", "now"], 0.0)


def test_timers_of_the_same_time_keep_their_order() -> None:
    async def main() -> list[int]:
        seen: list[int] = []
        for number in range(200):
            asyncio.get_running_loop().call_later(5, seen.append, number)
        await asyncio.sleep(5)
        return seen

    assert run(main()) == list(range(200))


def test_cancelled_timers_neither_fire_nor_stay_in_memory() -> None:
    async def main() -> tuple[list[int], int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        seen: list[int] = []
        timers = [loop.call_later(1_000 + number, seen.append, number) for number in range(5_000)]
        for timer in timers[1:]:
            timer.cancel()
            timer.cancel()
        left = len(loop._timers)
        await asyncio.sleep(10_000)
        timers[0].cancel()  # too late, and harmless
        return seen, left

    seen, left = run(main())
    assert seen == [0]
    assert left < 500


def test_a_closed_loop_rejects_callbacks() -> None:
    loop = VirtualLoop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1, print)


def test_an_error_of_a_callback_goes_to_the_exception_handler() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        errors: list[str] = []
        loop.set_exception_handler(lambda _, context: errors.append(str(context["exception"])))
        loop.call_soon(int, "x")
        await asyncio.sleep(1)
        return errors

    assert run(main()) == ["invalid literal for int() with base 10: 'x'"]
