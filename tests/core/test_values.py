"""Ids, statuses and settings."""

from itertools import product
from uuid import UUID, uuid5

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from chronos.core import ids
from chronos.core.config import (
    DEFAULTS,
    Concurrency,
    Mode,
    OnFailure,
    Overlap,
    Recovery,
    RecoveryStrategy,
    Retry,
    Settings,
    merge,
    resolve_settings,
)
from chronos.core.execution import TASK_TRANSITIONS, TRANSITIONS, Cause, Status, TaskStatus, is_allowed_transition
from chronos.core.job import JobSpec, ScheduleSpec, Target, Task
from chronos.core.reasons import Reason, ReasonCode

JOB = ids.job_id("default", "report", 1)
T0 = 1_800_000_000_000_000
INSTANTS = st.integers(0, 4_000_000_000_000_000)


# --- ids


def test_job_and_task_ids_are_uuids_of_version_5() -> None:
    assert UUID(bytes=JOB).version == 5
    space = UUID("6d1f1f38-6a0e-5c8e-9c0b-0f6b6c5f2a11")
    assert UUID(bytes=JOB) == uuid5(space, "job\0default\0report\x001")
    assert UUID(bytes=ids.task_id(JOB, "extract")) == uuid5(UUID(bytes=JOB), "task\0extract")


def test_a_reused_name_is_another_job() -> None:
    others = {ids.job_id("default", "report", 2), ids.job_id("other", "report", 1), ids.job_id("default", "reports", 1)}
    assert len(others | {JOB}) == 4


@given(INSTANTS, INSTANTS)
def test_execution_ids_sort_by_time(a: int, b: int) -> None:
    one, two = ids.scheduled_execution_id(JOB, a), ids.scheduled_execution_id(JOB, b)
    assert UUID(bytes=one).version == 8
    assert UUID(bytes=one).variant == "specified in RFC 4122"
    assert int.from_bytes(one[:6]) == a // 1000
    assert (one == two) == (a == b)
    if a // 1000 < b // 1000:
        assert one < two
    assert ids.id_floor(a) <= one
    assert one < ids.id_floor(a + 1_000_000)


def test_every_cause_has_its_own_ids() -> None:
    request = bytes(16)
    execution_ids = {
        ids.scheduled_execution_id(JOB, T0),
        ids.requested_execution_id(JOB, Cause.MANUAL, T0, request),
        ids.requested_execution_id(JOB, Cause.REPLAY, T0, request),
        ids.requested_execution_id(JOB, Cause.MANUAL, T0, b"other"),
        ids.requested_execution_id(JOB, Cause.BACKFILL, T0, request, T0 - 1),
        ids.requested_execution_id(JOB, Cause.BACKFILL, T0, request, T0 - 2),
        ids.span_id(JOB, T0, int(Status.MISSED)),
        ids.span_id(JOB, T0, int(Status.SKIPPED)),
    }
    assert len(execution_ids) == 8
    assert len({ids.attempt_id(JOB, task, number) for task, number in product("ab", (1, 2))}) == 4


@given(INSTANTS, st.lists(INSTANTS, min_size=2, max_size=5, unique_by=lambda us: us >> 17))
def test_ids_of_one_millisecond_sort_by_instant(at_us: int, instants_us: list[int]) -> None:
    execution_ids = [
        ids.requested_execution_id(JOB, Cause.BACKFILL, at_us, b"a request", us) for us in sorted(instants_us)
    ]
    assert execution_ids == sorted(execution_ids)
    now = ids.requested_execution_id(JOB, Cause.MANUAL, at_us, b"another")
    for id_ in (*execution_ids, now):
        assert (UUID(bytes=id_).version, UUID(bytes=id_).variant) == (8, "specified in RFC 4122")
        assert int.from_bytes(id_[:6]) == at_us // 1000
        assert id_ <= now


def test_ids_of_triggers_sort_by_microsecond() -> None:
    start_us = T0 - T0 % 1000
    execution_ids = [
        ids.requested_execution_id(JOB, Cause.MANUAL, start_us + us, bytes([us % 256])) for us in range(1000)
    ]
    assert execution_ids == sorted(execution_ids)


def test_ids_of_scheduled_and_dependency_runs_never_change() -> None:
    """Nodes of different releases must compute the same id."""
    assert ids.scheduled_execution_id(JOB, T0).hex() == "01a3185c500088c391afe4573ed0e46c"
    assert ids.requested_execution_id(JOB, Cause.DEPENDENCY, T0, bytes(16)).hex() == "01a3185c50008a24a64fc1fc0dcae108"


def test_ids_of_many_jobs_equal_single_ids() -> None:
    jobs = [("default", "a", 1), ("other", "ä", 2), ("default", "b" * 200, 10**9)]
    assert ids.job_ids(jobs) == [ids.job_id(*job) for job in jobs]
    assert ids.job_ids([]) == []


# --- statuses


def test_the_transition_table_is_complete_and_final_means_final() -> None:
    assert set(TRANSITIONS) == {None, *Status}
    assert set(TASK_TRANSITIONS) == {None, *TaskStatus}
    for old, new in product((None, *Status), Status):
        assert is_allowed_transition(old, new) == (new in TRANSITIONS[old])
        if old is not None and old.final:
            assert not is_allowed_transition(old, new)
    reached = {status for targets in TRANSITIONS.values() for status in targets}
    assert reached == set(Status)
    tasks_reached = {status for targets in TASK_TRANSITIONS.values() for status in targets}
    assert tasks_reached == set(TaskStatus)


def test_every_open_status_leads_to_an_end() -> None:
    def ends(status: Status, seen: frozenset[Status] = frozenset()) -> bool:
        return status.final or any(ends(s, seen | {status}) for s in TRANSITIONS[status] if s not in seen)

    assert all(ends(status) for status in Status)


def test_every_reason_has_a_sentence() -> None:
    for code in ReasonCode:
        assert Reason.of(code).message.endswith(".")
    assert Reason.of(ReasonCode.OVERLAP, "because").message == "because"


# --- settings


def test_a_lower_level_overrides_settings_of_an_upper_one() -> None:
    server = Settings(retry=Retry(max_attempts=5), priority=7)
    job = Settings(retry=Retry(initial_us=9), overlap=Overlap.QUEUE, recovery=Recovery(strategy=RecoveryStrategy.ALL))
    task = Settings(on_failure=OnFailure.CONTINUE, retry=Retry(max_attempts=1))
    effective = resolve_settings(server, job, task)
    assert (effective.max_attempts, effective.retry_initial_us, effective.retry_multiplier) == (1, 9, 2.0)
    assert (effective.priority, effective.overlap, effective.on_failure) == (7, Overlap.QUEUE, OnFailure.CONTINUE)
    assert (effective.recovery, effective.recovery_max_count, effective.mode) == (
        RecoveryStrategy.ALL,
        100,
        Mode.SEQUENTIAL,
    )
    assert resolve_settings() == resolve_settings(DEFAULTS)


def test_a_level_stores_only_its_own_settings() -> None:
    spec = JobSpec(
        schedule=ScheduleSpec(text="0 9 * * *"),
        tasks=(Task(name="a", target=Target(kind="http", options={"url": "x"})),),
        settings=Settings(overlap=Overlap.QUEUE),
    )
    text = msgspec.json.encode(spec)
    assert b"retry" not in text
    assert b"null" not in text
    assert msgspec.json.decode(text, type=JobSpec) == spec


SETTINGS = st.builds(
    Settings,
    priority=st.none() | st.integers(1, 10),
    overlap=st.none() | st.sampled_from(Overlap),
    retry=st.none() | st.builds(Retry, max_attempts=st.none() | st.integers(0, 5), jitter=st.none() | st.just(0.5)),
    concurrency=st.none() | st.builds(Concurrency, limit=st.none() | st.integers(0, 3), key=st.none() | st.just("k")),
)


@given(SETTINGS, SETTINGS, SETTINGS)
def test_merging_is_associative(a: Settings, b: Settings, c: Settings) -> None:
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert resolve_settings(a, b, c) == resolve_settings(merge(a, b), c)
