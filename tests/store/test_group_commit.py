"""Group commit: batches, their order, errors within a batch, and merged commands."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.errors import Conflict, StoreBusy, StoreUnavailable
from chronos.store.command_merge import count_rows, merge_commands, split_result
from chronos.store.commands import (
    NEW,
    AckOutbox,
    Admit,
    AdmitRow,
    Admitted,
    Advance,
    AdvanceRow,
    AdvanceWith,
    Backfill,
    Beat,
    Command,
    DeleteRow,
    EndedAttempt,
    OutputRow,
    Recover,
    Release,
    ReleaseRow,
    RunRow,
    Saved,
    SaveJobs,
    SetJobState,
    Settle,
    Settled,
    SettleRow,
    SettleWith,
    Signal,
    Suspend,
    SuspendRow,
    Trigger,
    Trim,
    Wake,
    WriteOutput,
)
from chronos.store.commands.batch_size import MAX_BATCH_CHARACTERS, count_characters, take_one_batch
from chronos.store.group_commit import GroupCommit, begin_in_task
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing.conformance import StoreFixture

SETTLED = SettleRow(bytes(16), bytes(16), 1, Status.SUCCEEDED, ReasonCode.SUCCEEDED, None, 1)
TRIED = EndedAttempt(bytes(16), "a", 1, AttemptStatus.FAILED, 0, 1, None, "123", "1234")
RUN = RunRow(bytes(16), Cause.MANUAL, 0, 0)


class Recorder:
    """Answers each command with its repr, one batch at a time, while its gate is open."""

    def __init__(self) -> None:
        self.batches: list[list[Command[Any]]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fault: Exception | None = None

    async def __call__(self, commands: Sequence[Command[Any]]) -> list[Any]:
        self.batches.append(list(commands))
        await self.gate.wait()
        if self.fault is not None and any(isinstance(command, Trim) for command in commands):
            raise self.fault
        return [Conflict("no") if isinstance(c, Wake) and c.limit == 0 else repr(c) for c in commands]


def trim(n: int) -> Trim:
    return Trim(now_us=n, limit=1)


def switch(job: int) -> SetJobState:
    return SetJobState(job=bytes([job]), state=JobState.PAUSED, now_us=1, keep_cursor=True)


@pytest.mark.parametrize(("max_large", "sizes"), [(20, [1, 4, 1, 3]), (14, [1, 2, 1, 2, 2, 1]), (1, [1] * 9)])
def test_large_commands_share_a_transaction_up_to_a_bound(max_large: int, sizes: list[int]) -> None:
    """And urgent commands wait for one large transaction at most."""
    bulk = [large(n) for n in range(8)]
    beat = Beat(node=1, beat=1, now_us=0)

    async def main() -> None:
        run = Recorder()
        commits = GroupCommit(begin_in_task(run), max_rows=3, max_large=max_large)
        await commits.apply(bulk[0])
        run.gate.clear()
        answers = [commits.submit(command) for command in bulk[1:5]]
        await asyncio.sleep(0.01)
        answers += [commits.submit(command) for command in bulk[5:]]
        urgent = commits.submit(beat)
        run.gate.set()
        await asyncio.gather(*answers, urgent)
        assert [len(batch) for batch in run.batches] == sizes
        assert [beat] in run.batches[:3]
        assert [command for batch in run.batches for command in batch if command is not beat] == bulk

    asyncio.run(main())


def large(n: int) -> SaveJobs:
    return SaveJobs(rows=(), delete=(DeleteRow(bytes(16)),) * 5, now_us=n)


def test_large_commands_alternate_with_others() -> None:
    """Neither waits for more than one transaction of the other."""

    async def main() -> None:
        run = Recorder()
        commits = GroupCommit(begin_in_task(run), max_rows=3, max_large=3)
        run.gate.clear()
        answers: list[asyncio.Future[Any]] = [commits.submit(large(0))]
        await asyncio.sleep(0.01)
        answers += [commits.submit(large(1)), commits.submit(large(2)), *(commits.submit(trim(n)) for n in range(5))]
        run.gate.set()
        await asyncio.gather(*answers)
        others = [trim(n) for n in range(5)]
        assert run.batches == [[large(0)], others[:3], [large(1)], others[3:], [large(2)]]

    asyncio.run(main())


def test_admissions_do_not_wait_behind_many_large_commands() -> None:
    due = Admit(rows=(AdmitRow(bytes(16), 1, 0, None, bytes(16), 0, True),) * 9, node=1, now_us=0, request=bytes(16))

    async def main() -> None:
        run = Recorder()
        commits = GroupCommit(begin_in_task(run), max_rows=3, max_large=3)
        run.gate.clear()
        answers: list[asyncio.Future[Any]] = [commits.submit(large(0))]
        await asyncio.sleep(0.01)
        answers += [commits.submit(large(1)), commits.submit(due)]
        run.gate.set()
        await asyncio.gather(*answers)
        assert run.batches == [[large(0)], [due], [large(1)]]

    asyncio.run(main())


def test_an_idle_store_sends_at_once_and_a_busy_one_batches() -> None:
    async def main() -> None:
        run = Recorder()
        commits = GroupCommit(begin_in_task(run), max_rows=3)
        alone: Any = await commits.apply(trim(0))
        assert alone == repr(trim(0))
        run.gate.clear()
        waiting = [asyncio.create_task(commits.apply(trim(n))) for n in range(1, 9)]
        await asyncio.sleep(0.01)
        run.gate.set()
        assert [str(answer) for answer in await asyncio.gather(*waiting)] == [repr(trim(n)) for n in range(1, 9)]
        sizes = [len(batch) for batch in run.batches]
        assert sizes[0] == 1
        assert max(sizes) == 3
        assert [command for batch in run.batches for command in batch] == [trim(n) for n in range(9)]

    asyncio.run(main())


def test_urgent_commands_go_first() -> None:
    async def main() -> None:
        run = Recorder()
        commits = GroupCommit(begin_in_task(run), max_rows=2)
        run.gate.clear()
        first = asyncio.create_task(commits.apply(trim(0)))
        await asyncio.sleep(0.01)
        beat = Beat(node=1, beat=1, now_us=1)
        rest = [asyncio.create_task(commits.apply(trim(n))) for n in (1, 2)]
        urgent = asyncio.create_task(commits.apply(beat))
        await asyncio.sleep(0.01)
        run.gate.set()
        await asyncio.gather(first, urgent, *rest)
        assert run.batches[1] == [beat, trim(1)]

    asyncio.run(main())


def test_an_error_is_raised_only_to_its_command() -> None:
    async def main() -> None:
        run = Recorder()
        commits = GroupCommit(begin_in_task(run))
        good, bad = Wake(now_us=1, limit=1), Wake(now_us=1, limit=0)
        answers = await asyncio.gather(
            commits.apply(good), commits.apply(bad), commits.apply(good), return_exceptions=True
        )
        assert [type(answer) for answer in answers] == [str, Conflict, str]

    asyncio.run(main())


def test_an_unexpected_error_does_not_affect_others_of_the_batch() -> None:
    async def main() -> None:
        run = Recorder()
        run.fault = ZeroDivisionError()
        commits = GroupCommit(begin_in_task(run))
        good = Wake(now_us=1, limit=1)
        answers = await asyncio.gather(
            commits.apply(good), commits.apply(trim(1)), commits.apply(good), return_exceptions=True
        )
        assert [type(answer) for answer in answers] == [str, ZeroDivisionError, str]
        run.fault = StoreUnavailable("down")
        both = await asyncio.gather(commits.apply(good), commits.apply(trim(1)), return_exceptions=True)
        assert [type(answer) for answer in both] == [StoreUnavailable, StoreUnavailable]

    asyncio.run(main())


def test_cancelling_the_caller_does_not_cancel_the_command() -> None:
    async def main() -> None:
        run = Recorder()
        commits = GroupCommit(begin_in_task(run))
        run.gate.clear()
        waiter = asyncio.create_task(commits.apply(trim(1)))
        await asyncio.sleep(0.01)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        run.gate.set()
        await commits.drain()
        assert run.batches == [[trim(1)]]

    asyncio.run(main())


def test_callers_get_an_error_when_the_loop_is_canceled() -> None:
    """The running batch is canceled with its loop. The next loop works again."""

    async def cut_off() -> list[Any]:
        run.gate = asyncio.Event()
        first = asyncio.create_task(commits.apply(trim(1)))
        await asyncio.sleep(0.01)
        waiting = [
            first,
            asyncio.create_task(commits.apply(trim(2))),
            asyncio.create_task(commits.apply(Wake(now_us=1, limit=1))),
        ]
        await asyncio.sleep(0)
        [under_way] = asyncio.all_tasks() - {*waiting, asyncio.current_task()}
        under_way.cancel()
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*waiting, return_exceptions=True)
            await commits.drain()
        return answers

    async def left() -> None:
        run.gate = asyncio.Event()
        commits.submit(trim(3))
        await asyncio.sleep(0.01)

    async def again() -> Any:
        run.gate.set()
        async with asyncio.timeout(60):
            return await commits.apply(trim(4))

    async def create() -> tuple[Recorder, GroupCommit]:
        run = Recorder()
        return run, GroupCommit(begin_in_task(run))

    run, commits = asyncio.run(create())
    assert [type(answer) for answer in asyncio.run(cut_off())] == [StoreUnavailable] * 3
    asyncio.run(left())
    assert asyncio.run(again()) == repr(trim(4))


def test_too_many_waiting_commands_are_rejected_except_urgent_ones() -> None:
    async def main() -> None:
        run = Recorder()
        commits = GroupCommit(begin_in_task(run), max_waiting=2)
        run.gate.clear()
        waiting = [asyncio.create_task(commits.apply(trim(0)))]
        await asyncio.sleep(0.01)
        waiting += [asyncio.create_task(commits.apply(trim(n))) for n in (1, 2)]
        await asyncio.sleep(0.01)
        with pytest.raises(StoreBusy, match="2 changes are waiting"):
            await commits.apply(trim(3))
        urgent = [asyncio.create_task(commits.apply(Beat(node=1, beat=n, now_us=1))) for n in range(50)]
        run.gate.set()
        assert len(await asyncio.gather(*urgent)) == 50
        assert len(await asyncio.gather(*waiting)) == 3

    asyncio.run(main())


def test_long_texts_are_split_into_several_transactions() -> None:
    async def main() -> None:
        run = Recorder()
        commits = GroupCommit(begin_in_task(run))
        run.gate.clear()
        first = asyncio.create_task(commits.apply(trim(0)))
        await asyncio.sleep(0)
        text = "x" * (MAX_BATCH_CHARACTERS // 3)
        rows = [replace(settle(n), rows=(settle(n).rows[0]._replace(detail=text),)) for n in range(1, 8)]
        small = settle(9)
        waiting = [asyncio.create_task(commits.apply(command)) for command in (*rows, small)]
        await asyncio.sleep(0)
        run.gate.set()
        await asyncio.gather(first, *waiting)
        assert [len(batch) for batch in run.batches] == [1, 3, 3, 2]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (Settle(rows=(SETTLED._replace(detail="12"), SETTLED._replace(attempts=(TRIED,))), node=1, now_us=1), 2 + 7),
        (SettleWith(row=SETTLED._replace(detail="123"), statements=(), node=1, now_us=1), 3),
        (Advance(rows=(AdvanceRow(bytes(16), 1, "1234", (TRIED,)),)), 4 + 7),
        (AdvanceWith(row=AdvanceRow(bytes(16), 1, "1234"), statements=()), 4),
        (Suspend(rows=(SuspendRow(bytes(16), 1, None, (), 1, 0, "12"),), now_us=1), 2),
        (Release(rows=(ReleaseRow(bytes(16), 1, 0, "12"),), now_us=1), 2),
        (WriteOutput(rows=(OutputRow(bytes(16), "a", 1, 0, "12345"),) * 2), 10),
        (Trigger(job=bytes(16), run=RUN._replace(detail="12"), now_us=1), 2),
        (Backfill(job=bytes(16), runs=(RUN, RUN._replace(detail="12")), now_us=1), 2),
        (Signal(execution=bytes(16), name="go", payload="123", now_us=1), 3),
        (Trim(now_us=1, limit=1), 0),
    ],
)
def test_text_of_a_command_is_counted(command: Command[Any], text: int) -> None:
    assert count_characters(command) == text


def test_a_command_takes_rows_up_to_the_limits() -> None:
    sizes = [MAX_BATCH_CHARACTERS, 1, MAX_BATCH_CHARACTERS - 1, 1, 2 * MAX_BATCH_CHARACTERS, *(600 * [0])]
    groups = []
    while sizes:
        groups.append(list(take_one_batch(sizes, int)))
        sizes = sizes[len(groups[-1]) :]
    assert [len(group) for group in groups] == [1, 2, 1, 1, 500, 100]
    assert groups[3] == [2 * MAX_BATCH_CHARACTERS]


def settle(*ids: int, node: int = 1) -> Settle:
    rows = tuple(SettleRow(bytes([i]) * 16, bytes(16), i, Status.SUCCEEDED, ReasonCode.SUCCEEDED, None, 1) for i in ids)
    return Settle(rows=rows, node=node, now_us=1)


def test_settlements_merge_and_each_gets_its_own_answer() -> None:
    commands: list[Command[Any]] = [
        settle(1),
        settle(2, 3),
        trim(1),
        settle(4),
        settle(5, node=2),
        settle(6, node=2),
        settle(6, node=2),
    ]
    merged = merge_commands(commands)
    assert [positions for _, positions in merged] == [[0, 1], [2], [3], [4, 5], [6]]
    joined, positions = merged[0]
    assert isinstance(joined, Settle)
    assert [row.token for row in joined.rows] == [1, 2, 3]
    answer = Settled([bytes([1]) * 16, bytes([3]) * 16], [], 4)
    parts = split_result(joined, [commands[i] for i in positions], answer)
    assert parts == [Settled([bytes([1]) * 16], [], 4), Settled([bytes([3]) * 16], [], 0)]


def test_new_jobs_merge_and_changes_of_jobs_do_not() -> None:
    row = StoreFixture(SqliteStore()).build_job_row
    commands: list[Command[Any]] = [
        SaveJobs(rows=(row("a", expect=NEW),), now_us=1),
        SaveJobs(rows=(row("b", expect=NEW), row("c", expect=NEW)), now_us=2),
        SaveJobs(rows=(row("a", expect=NEW),), now_us=3),  # the same name: applied after the first
        SaveJobs(rows=(row("d", expect=1),), now_us=4),
        SaveJobs(rows=(row("e"),), now_us=5),
        SaveJobs(rows=(row("f", expect=NEW),), now_us=6, delete=(DeleteRow(bytes(16)),)),
        SaveJobs(rows=tuple(row(f"g{n}", expect=NEW) for n in range(21)), now_us=7),
        SaveJobs(rows=(row("h", expect=NEW),), now_us=8),
    ]
    merged = merge_commands(commands)
    assert [positions for _, positions in merged] == [[0, 1], [2], [3], [4], [5], [6, 7]]
    joined, positions = merged[0]
    assert isinstance(joined, SaveJobs)
    assert [part.now_us for part in joined.parts] == [1, 2]
    saved = [Saved(bytes([n]) * 16, 1, created=True, changed=True) for n in range(3)]
    assert split_result(joined, [commands[i] for i in positions], saved) == [saved[:1], saved[1:]]


def gap(job: int, *, now_us: int = 1, runs: int = 1) -> Recover:
    rows = tuple(RunRow(bytes([job, n]) * 8, Cause.RECOVERY, n, n) for n in range(runs))
    return Recover(job=bytes([job]) * 16, version=1, expect_us=0, next_us=9, runs=rows, spans=(), now_us=now_us)


def test_recoveries_with_the_same_time_merge() -> None:
    commands: list[Command[Any]] = [gap(1), gap(2, runs=3), gap(1), gap(3, now_us=2), trim(1), gap(4, runs=0)]
    merged = merge_commands(commands)
    assert [positions for _, positions in merged] == [[0, 1], [2], [3], [4], [5]]
    joined, positions = merged[0]
    assert isinstance(joined, Recover)
    assert [part.job[0] for part in joined.parts] == [1, 2]
    assert [count_rows(command) for command in (joined, *commands)] == [4, 1, 3, 1, 1, 1, 1]
    answer = [Admitted(run.id, bytes([2]) * 16, Status.READY, 1) for run in gap(2, runs=2).runs]
    assert split_result(joined, [commands[i] for i in positions], answer) == [[], answer]
    assert [where for _, where in merge_commands([joined, gap(5), joined])] == [[0, 1], [2]], (
        "merged commands are not nested"
    )


def test_state_changes_merge_and_each_gets_its_own_answer() -> None:
    commands = [switch(1), switch(2), switch(1), switch(3)]
    merged = merge_commands(commands)
    assert [where for _, where in merged] == [[0, 1], [2, 3]], "a job occurs once per command"
    joined, where = merged[0]
    assert isinstance(joined, SetJobState)
    assert [part.job[0] for part in joined.parts] == [1, 2]
    assert split_result(joined, [commands[i] for i in where], [True, False]) == [True, False]
    assert [where for _, where in merge_commands([joined, switch(5), joined])] == [[0, 1], [2]]
    assert [where for _, where in merge_commands([switch(5), joined])] == [[0], [1]], "merged commands are not nested"


def test_outbox_acknowledgements_merge() -> None:
    commands: list[Command[Any]] = [
        AckOutbox(ids=(b"a", b"b")),
        AckOutbox(ids=(b"c",)),
        switch(1),
        AckOutbox(ids=(b"d",)),
    ]
    merged = merge_commands(commands)
    assert [where for _, where in merged] == [[0, 1], [2], [3]], "only neighbours merge"
    assert merged[0][0] == AckOutbox(ids=(b"a", b"b", b"c"))
    assert split_result(merged[0][0], commands[:2], None) == [None, None]
