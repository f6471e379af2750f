"""Routing: the connection of each command, and the split of rows of many jobs."""

from dataclasses import replace
from typing import Any

import pytest

from chronos.core.execution import Cause, Status
from chronos.core.reasons import ReasonCode
from chronos.store.commands import (
    Admit,
    AdmitRow,
    Admitted,
    Backfill,
    Beat,
    Claim,
    Command,
    DeleteJob,
    Recover,
    RunRow,
    SaveJobs,
    Settle,
    Settled,
    SettleRow,
    Trigger,
    Wake,
)
from chronos.store.sql.postgres.routing import CONTROL_CONNECTION, join_part_results, list_awaited_gates, route

JOBS = [bytes([0] * 15 + [i]) for i in range(6)]
RUN = RunRow(bytes(16), Cause.MANUAL, 0, 0)


def settle(*jobs: bytes, take: int = 0) -> Settle:
    rows = tuple(SettleRow(job, job, 1, Status.SUCCEEDED, ReasonCode.SUCCEEDED, None, 0) for job in jobs)
    return Settle(rows=rows, node=1, now_us=0, take=take)


def admit(*jobs: bytes, needs_gate_lock: bool = False) -> Admit:
    rows = tuple(AdmitRow(job, 1, 0, 1, job, 0, claim=True, needs_gate_lock=needs_gate_lock) for job in jobs)
    return Admit(rows=rows, node=1, now_us=0, request=bytes(16))


def test_commands_about_one_job_use_the_same_connection() -> None:
    for job in JOBS:
        commands: list[Command[Any]] = [
            settle(job),
            admit(job),
            Trigger(job=job, run=RUN, now_us=0),
            Backfill(job=job, runs=(RUN,), now_us=0),
            DeleteJob(job=job, now_us=0),
            Recover(job=job, version=1, expect_us=0, next_us=None, runs=(), spans=(), now_us=0),
        ]
        lanes = {lane for command in commands for lane, _ in route(command, 3)}
        assert len(lanes) == 1
        assert CONTROL_CONNECTION not in lanes


def test_commands_about_no_single_job_use_the_control_connection() -> None:
    for command in (
        Beat(node=1, beat=1, now_us=0),
        Claim(lanes=(1,), limit=1, node=1, now_us=0, request=bytes(16)),
        Wake(now_us=0, limit=1),
        SaveJobs(rows=(), now_us=0),
        settle(),
    ):
        assert route(command, 3) == [(CONTROL_CONNECTION, command)]


def test_rows_of_many_jobs_are_split_by_connection_and_joined_again() -> None:
    parts = route(admit(*JOBS), 2)
    assert len(parts) == 2
    rows = [row.job for _, part in parts if isinstance(part, Admit) for row in part.rows]
    assert sorted(rows) == JOBS
    for lane, part in parts:
        assert isinstance(part, Admit)
        assert {route(admit(row.job), 2)[0][0] for row in part.rows} == {lane}
    a, b = (Admitted(job, job, Status.READY, 1) for job in JOBS[:2])
    assert join_part_results(admit(*JOBS), [[a], [b]]) == [a, b]
    assert join_part_results(settle(*JOBS), [Settled([b"a"], [], 1), Settled([b"b"], [], 2)]) == Settled(
        [b"a", b"b"], [], 3
    )


@pytest.mark.parametrize("take", [0, 1, 4, 100])
def test_a_split_settlement_takes_no_more_successors_than_allowed(take: int) -> None:
    parts = [part for _, part in route(settle(*JOBS, take=take), 3)]
    shares = [part.take for part in parts if isinstance(part, Settle)]
    assert sum(shares) == min(take, len(JOBS))


def test_commands_list_the_gates_they_wait_for() -> None:
    assert list_awaited_gates(settle(*JOBS)) == JOBS
    assert list_awaited_gates(admit(*JOBS)) == []
    assert list_awaited_gates(admit(*JOBS, needs_gate_lock=True)) == JOBS
    gaps = [Recover(job=job, version=1, expect_us=0, next_us=None, runs=(), spans=(), now_us=0) for job in JOBS]
    assert list_awaited_gates(replace(gaps[0], merged=tuple(gaps[1:]))) == JOBS
    assert list_awaited_gates(Beat(node=1, beat=1, now_us=0)) == []
