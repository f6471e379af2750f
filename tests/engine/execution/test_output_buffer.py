"""Output of attempts: head and tail are kept, parts are written as they change, and store errors fail no attempt."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from chronos.assembly import make_store
from chronos.engine.execution.output_buffer import (
    HEAD_BYTES,
    TAIL_BYTES,
    TAIL_PART,
    AttemptOutput,
    LazySink,
    OutputBuffers,
)
from chronos.errors import StoreUnavailable
from chronos.store.commands import PROGRESS, Command, OutputRow, WriteOutput
from chronos.store.contract import Store
from chronos.testing.conformance.fixture import StoreFixture
from chronos.testing.loop import run as run_in_virtual_time
from tests.runners.python.function_calls import until


class Gate:
    """A store in front of a store: records writes, and is unavailable on demand."""

    def __init__(self) -> None:
        self.writes: list[tuple[OutputRow, ...]] = []
        self.away: Exception | None = None
        self.hold = asyncio.Event()
        self.hold.set()

    async def apply(self, command: Command[Any]) -> None:
        await self.hold.wait()
        if self.away is not None:
            raise self.away
        assert isinstance(command, WriteOutput)
        self.writes.append(command.rows)

    @property
    def shown(self) -> dict[tuple[bytes, int], str]:
        return {(row.execution, row.part): row.text for rows in self.writes for row in rows}


def make_buffers(gate: Gate, **options: Any) -> OutputBuffers:
    store: Any = gate
    return OutputBuffers(store, **options)


def make_output() -> AttemptOutput:
    return AttemptOutput((bytes(16), "task", 1), make_buffers(Gate()))


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def test_the_head_grows_in_parts() -> None:
    output = make_output()
    assert output.parts_to_write() == []
    output.write("one\n")
    output.write("two\n")
    assert output.parts_to_write() == [(0, "one\ntwo\n")]
    assert output.parts_to_write() == []
    output.write("")
    assert output.parts_to_write() == []
    output.write("three\n")
    assert output.parts_to_write() == [(1, "three\n")]


def test_progress_is_a_separate_part_and_only_the_latest_counts() -> None:
    output = make_output()
    output.progress(1, None)
    output.progress(2, 5)
    assert [(part, msgspec.json.decode(text)) for part, text in output.parts_to_write()] == [
        (PROGRESS, {"done": 2, "total": 5})
    ]
    assert output.parts_to_write() == []


@pytest.mark.parametrize("piece", [1, 7, 1000, 50_000, 400_000])
def test_the_middle_is_left_out_and_counted(piece: int) -> None:
    output = make_output()
    text = "".join(f"{number:07d}\n" for number in range(50_000))
    for start in range(0, len(text), piece):
        output.write(text[start : start + piece])
    head, tail = output.parts_to_write()
    assert head == (0, text[:HEAD_BYTES])
    left_out = len(text) - HEAD_BYTES - TAIL_BYTES
    assert tail == (TAIL_PART, f"\n… {left_out} bytes left out …\n{text[-TAIL_BYTES:]}")
    output.write("end\n")
    ((part, last),) = output.parts_to_write()
    assert part == TAIL_PART
    assert last == f"\n… {left_out + 4} bytes left out …\n{text[4 - TAIL_BYTES :]}end\n"


def test_output_that_just_fits_is_complete() -> None:
    output = make_output()
    output.write("x" * (HEAD_BYTES + TAIL_BYTES))
    assert [len(text) for _, text in output.parts_to_write()] == [HEAD_BYTES, TAIL_BYTES]


@pytest.mark.parametrize("character", ["é", "€", "𝄞"])
@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_characters_are_never_split(character: str, offset: int) -> None:
    output = make_output()
    text = "x" * offset + character * 60_000
    output.write(text)
    (_, head), (_, tail) = output.parts_to_write()
    note, _, kept = tail.removeprefix("\n… ").partition(" bytes left out …\n")
    assert text.startswith(head)
    assert text.endswith(kept)
    assert HEAD_BYTES - 4 < len(head.encode()) <= HEAD_BYTES
    assert TAIL_BYTES - 4 < len(kept.encode()) <= TAIL_BYTES
    assert int(note) + len(head.encode()) + len(kept.encode()) == len(text.encode())


def test_characters_that_no_store_accepts_are_replaced() -> None:
    output = make_output()
    output.write("a\0b\ud800c")
    assert output.parts_to_write() == [(0, "a\ufffdb?c")]


def test_many_small_writes_continue_in_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronos.engine.execution.output_buffer.MAX_HEAD_PARTS", 3)
    output = make_output()
    parts = []
    for number in range(5):
        output.write(f"{number}")
        parts += output.parts_to_write()
    assert parts == [(0, "0"), (1, "1"), (2, "2"), (TAIL_PART, "3"), (TAIL_PART, "34")]


def test_threads_may_write_at_once() -> None:
    output = make_output()

    def write() -> None:
        for _ in range(5_000):
            output.write("0123456789")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (_, head), (_, tail) = output.parts_to_write()
    note, _, kept = tail.removeprefix("\n… ").partition(" bytes left out …\n")
    assert len(head) + len(kept) + int(note) == 200_000
    assert kept.endswith("0123456789")


def test_silent_attempts_have_no_output_at_all() -> None:
    async def main() -> None:
        gate = Gate()
        buffers = make_buffers(gate)
        sink = buffers.sink(bytes(16), "task", 1)
        await buffers.close(sink)
        assert isinstance(sink, LazySink)
        assert sink.output is None
        assert gate.writes == []

    run(main)


def test_changes_of_all_attempts_are_written_together() -> None:
    async def main() -> None:
        gate = Gate()
        buffers = make_buffers(gate, interval_s=0.02)
        loop = asyncio.create_task(buffers.run())
        await asyncio.sleep(0)
        sinks = [buffers.sink(bytes([number]) * 16, "task", 1) for number in range(3)]
        for sink in sinks:
            await asyncio.to_thread(sink.write, "begun\n")
        await until(lambda: bool(gate.writes))
        assert len(gate.writes) == 1
        assert len(gate.writes[0]) == 3
        await asyncio.sleep(0.05)
        assert len(gate.writes) == 1  # nothing changed
        sinks[0].write("more\n")
        sinks[0].progress(1, 2)
        await buffers.close(sinks[0])
        assert {row.part: row.text for row in gate.writes[1]} == {1: "more\n", PROGRESS: '{"done":1,"total":2}'}
        sinks[0].write("too late")
        await asyncio.sleep(0.05)
        assert len(gate.writes) == 2
        loop.cancel()

    run_in_virtual_time(main())


def test_attempts_that_end_together_are_written_together() -> None:
    async def main() -> None:
        gate = Gate()
        buffers = make_buffers(gate)
        gate.hold.clear()
        sinks = [buffers.sink(bytes([number]) * 16, "task", 1) for number in range(50)]
        for sink in sinks:
            sink.write("all\n")
        closing = [asyncio.create_task(buffers.close(sink)) for sink in sinks]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gate.hold.set()
        await asyncio.gather(*closing)
        assert len(gate.writes) <= 2
        assert len(gate.shown) == 50

    run(main)


def test_an_unavailable_store_fails_no_attempt_and_receives_the_output_later() -> None:
    async def main() -> None:
        gate = Gate()
        buffers = make_buffers(gate, interval_s=0.01)
        loop = asyncio.create_task(buffers.run())
        await asyncio.sleep(0)
        gate.away = StoreUnavailable("away")
        ended, going_on = buffers.sink(b"a" * 16, "task", 1), buffers.sink(b"b" * 16, "task", 1)
        ended.write("done\n")
        await buffers.close(ended)
        going_on.progress(1, None)
        await buffers.flush()
        going_on.progress(2, None)
        going_on.write("on\n")
        await buffers.flush()
        gate.away = None
        await until(lambda: len(gate.shown) == 3)
        assert gate.shown == {
            (b"a" * 16, 0): "done\n",
            (b"b" * 16, 0): "on\n",
            (b"b" * 16, PROGRESS): '{"done":2,"total":null}',
        }
        loop.cancel()

    run(main)


def test_unwritten_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronos.engine.execution.output_buffer.MAX_KEPT_BYTES", 100)

    async def main() -> None:
        gate = Gate()
        buffers = make_buffers(gate)
        gate.away = StoreUnavailable("away")
        for number in range(10):
            sink = buffers.sink(bytes([number]) * 16, "task", 1)
            sink.write("x" * 30)
            await buffers.close(sink)
        assert buffers.dropped == 7
        gate.away = None
        await buffers.flush()
        assert [key[0][0] for key in gate.shown] == [7, 8, 9]

    run(main)


def test_rows_that_can_never_be_stored_are_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        gate = Gate()
        buffers = make_buffers(gate)
        gate.away = ZeroDivisionError()
        sink = buffers.sink(bytes(16), "task", 1)
        sink.write("x")
        await buffers.close(sink)
        assert buffers.dropped == 1

    run(main)
    assert "could not write" in caplog.text


def test_output_reaches_a_real_store() -> None:
    async def main() -> None:
        store: Store = make_store("sqlite://")
        await store.open()
        world = StoreFixture(store)
        await world.start_node()
        await world.save()
        execution = (await world.admit_one()).id
        buffers = OutputBuffers(store)
        sink = buffers.sink(execution, "task", 1)
        sink.write("x" * 40_000)
        sink.progress(1, 2)
        await buffers.close(sink)
        rows = await store.output(execution)
        assert [(row.task, row.number, row.part, len(row.text)) for row in rows] == [
            ("task", 1, PROGRESS, 20),
            ("task", 1, 0, HEAD_BYTES),
            ("task", 1, TAIL_PART, 40_000 - HEAD_BYTES),
        ]
        await store.close()

    run(main)
