"""Job states: concurrent changes against an expected state, and changes together with a saved set of jobs."""

import asyncio

from chronos.core.config import Overlap
from chronos.core.execution import Span, Status
from chronos.core.ids import span_id
from chronos.core.job import Job, JobState
from chronos.core.reasons import Reason, ReasonCode
from chronos.errors import Conflict
from chronos.store.commands import JobRow, SaveJobs, SetJobState
from chronos.store.contract import ExecutionFilter, Hint
from chronos.testing.conformance.fixture import SECOND_US, T0_US, StoreFixture, raises


def _resume(job: Job, upto_us: int) -> SetJobState:
    """Build the command that resumes a job at ``upto_us``, as seen paused."""
    assert job.next_us is not None
    skipped = Span(
        id=span_id(job.id, job.next_us, int(Status.SKIPPED)),
        job=job.id,
        status=Status.SKIPPED,
        from_us=job.next_us,
        to_us=upto_us,
        count=(upto_us - job.next_us) // SECOND_US + 1,
        reason=Reason.of(ReasonCode.PAUSED),
        recorded_us=upto_us,
    )
    return SetJobState(
        job=job.id,
        state=JobState.ACTIVE,
        now_us=upto_us,
        next_us=upto_us + SECOND_US,
        spans=(skipped,),
        expect=job.version,
        expect_state=JobState.PAUSED,
    )


async def case_a_job_is_resumed_only_once(fixture: StoreFixture) -> None:
    saved = await fixture.save()
    await fixture.set_state(saved.id, JobState.PAUSED)
    paused = await fixture.job()
    later, earlier = _resume(paused, T0_US + 9 * SECOND_US), _resume(paused, T0_US + 5 * SECOND_US)
    assert await fixture.store.apply(later) is True
    audited = len((await fixture.store.audit(namespace="default", limit=99)).items)
    assert await fixture.store.apply(earlier) is False
    assert (await fixture.job()).next_us == T0_US + 10 * SECOND_US
    page = await fixture.store.list_executions(ExecutionFilter(job=saved.id), limit=9)
    assert [(span.count, span.to_us) for span in page.items if isinstance(span, Span)] == [(9, T0_US + 9 * SECOND_US)]
    assert len((await fixture.store.audit(namespace="default", limit=99)).items) == audited


async def case_one_of_many_concurrent_resumes_wins(fixture: StoreFixture) -> None:
    saved = await fixture.save()
    await fixture.set_state(saved.id, JobState.PAUSED)
    paused = await fixture.job()
    commands = [_resume(paused, T0_US + (5 + n) * SECOND_US) for n in range(8)]
    results = await asyncio.gather(*(fixture.store.apply(command) for command in commands))
    assert sorted(results) == [False] * 7 + [True]
    assert (await fixture.job()).next_us == commands[results.index(True)].next_us


async def case_concurrent_state_changes_of_jobs_are_independent(fixture: StoreFixture) -> None:
    names = [f"job-{n}" for n in range(6)]
    for name in names:
        await fixture.save(name, overlap=Overlap.QUEUE)
    ready = [await fixture.admit_one(name, claim=False) for name in names]
    jobs = [await fixture.job(name) for name in names]
    await fixture.set_state(jobs[4].id, JobState.PAUSED, note="earlier")
    await fixture.set_state(jobs[5].id, JobState.DISABLED)

    def set_state(job: Job, n: int, state: JobState, was: JobState) -> SetJobState:
        next_us = None if state is JobState.PAUSED else T0_US + 90 * SECOND_US
        keeps = state is JobState.PAUSED
        return SetJobState(
            job=job.id,
            state=state,
            now_us=fixture.tick(),
            next_us=next_us,
            keep_cursor=keeps,
            note=f"no {n}",
            expect_state=was,
        )

    def pauses() -> list[SetJobState]:
        return [set_state(job, n, JobState.PAUSED, JobState.ACTIVE) for n, job in enumerate(jobs)]

    sent = pauses()
    results = await asyncio.gather(*map(fixture.store.apply, sent[:5]))
    assert results == [True, True, True, True, False]
    paused = [await fixture.job(name) for name in names]
    notes = [(job.state, job.note, job.paused_us) for job in paused[:4]]
    assert notes == [(JobState.PAUSED, f"no {n}", sent[n].now_us) for n in range(4)]
    assert (paused[4].note, paused[5].state) == ("earlier", JobState.DISABLED)
    assert [job.next_us for job in paused[:4]] == [job.next_us for job in jobs[:4]]
    lines = (await fixture.store.audit(namespace="default", limit=4)).items
    assert {(line.action, line.subject, line.detail) for line in lines} == {
        ("pause", f"job-{n}", f"no {n}") for n in range(4)
    }
    assert [run.id for run in await fixture.claim()] == [ready[5].id]
    commands = [set_state(job, n, JobState.ACTIVE, JobState.PAUSED) for n, job in enumerate(jobs)]
    outcomes = await asyncio.gather(*map(fixture.store.apply, commands), return_exceptions=True)
    assert outcomes[:5] == [True] * 5
    assert isinstance(outcomes[5], Conflict)
    resumed = [await fixture.job(name) for name in names]
    assert [(job.state, job.next_us) for job in resumed[:5]] == [(JobState.ACTIVE, T0_US + 90 * SECOND_US)] * 5
    assert {run.id for run in await fixture.claim()} == {run.id for run in ready[:5]}
    assert await fixture.store.verify() == []


async def case_an_unexpected_state_is_a_conflict(fixture: StoreFixture) -> None:
    saved = await fixture.save()
    seen = await fixture.job()
    await fixture.set_state(saved.id, JobState.DISABLED)
    with raises(Conflict, '"job" changed since you read it: it was active and is now disabled'):
        await fixture.set_state(saved.id, JobState.PAUSED, expect_state=JobState.ACTIVE)
    await fixture.set_state(
        saved.id, JobState.PAUSED, next_us=seen.next_us, keep_cursor=False, expect_state=JobState.DISABLED
    )
    seen = await fixture.job()
    assert await fixture.store.apply(_resume(seen, T0_US + 5 * SECOND_US))
    await fixture.set_state(saved.id, JobState.PAUSED, expect_state=JobState.ACTIVE)
    with raises(Conflict, "was resumed and paused again"):
        await fixture.store.apply(_resume(seen, T0_US + 7 * SECOND_US))
    job = await fixture.job()
    assert (job.state, job.next_us) == (JobState.PAUSED, T0_US + 6 * SECOND_US)


async def case_a_note_is_changed_without_changing_the_state(fixture: StoreFixture) -> None:
    saved = await fixture.save()
    await fixture.set_state(saved.id, JobState.PAUSED, note="one")
    await fixture.set_state(saved.id, JobState.PAUSED, note="two", expect_state=JobState.PAUSED)
    assert (await fixture.job()).note == "two"
    await fixture.set_state(saved.id, JobState.PAUSED, note="three", expect_state=JobState.ACTIVE)
    assert (await fixture.job()).note == "two", "another user paused it, with another note"


def _build_disabled_row(fixture: StoreFixture, name: str) -> JobRow:
    return fixture.build_job_row(
        name, overlap=Overlap.QUEUE, state=JobState.DISABLED, next_us=None, expect_state=JobState.ACTIVE, expect=1
    )


async def case_an_unchanged_definition_changes_state_with_its_set(fixture: StoreFixture) -> None:
    for name in ("a", "b"):
        await fixture.save(name, overlap=Overlap.QUEUE)
    hints: list[Hint] = []
    fixture.store.on_hint(hints.append)
    rows = (
        _build_disabled_row(fixture, "a"),
        fixture.build_job_row("b", overlap=Overlap.QUEUE, expect_state=JobState.ACTIVE),
        fixture.build_job_row("c"),
    )
    saved = await fixture.store.apply(SaveJobs(rows=rows, now_us=fixture.tick()))
    assert [(s.version, s.created, s.changed) for s in saved] == [(1, False, True), (1, False, False), (1, True, True)]
    off = await fixture.job("a")
    assert (off.state, off.next_us, off.version, off.updated_us) == (JobState.DISABLED, None, 1, fixture.now_us)
    assert (await fixture.job("b")).state is JobState.ACTIVE
    assert any(Hint.JOBS in hint for hint in hints)
    assert (await fixture.store.counts()).jobs == {JobState.ACTIVE: 2, JobState.DISABLED: 1}
    actions = [(e.action, e.subject) for e in (await fixture.store.audit(namespace="default", limit=2)).items]
    assert sorted(actions) == [("create", "c"), ("disable", "a")]
    on = fixture.build_job_row(
        "a", overlap=Overlap.QUEUE, next_us=T0_US + 7 * SECOND_US, expect_state=JobState.DISABLED
    )
    await fixture.store.apply(SaveJobs(rows=(on,), now_us=fixture.tick()))
    assert ((await fixture.job("a")).state, (await fixture.job("a")).next_us) == (
        JobState.ACTIVE,
        T0_US + 7 * SECOND_US,
    )
    assert (await fixture.store.audit(namespace="default", limit=1)).items[0].action == "enable"
    assert len(await fixture.store.versions(saved[0].id, limit=9)) == 1


async def case_saving_a_set_releases_held_executions(fixture: StoreFixture) -> None:
    saved = await fixture.save("a", overlap=Overlap.QUEUE)
    ready = await fixture.admit_one("a", claim=False)
    await fixture.set_state(saved.id, JobState.PAUSED, note="why")
    assert await fixture.claim() == []
    row = fixture.build_job_row(
        "a", overlap=Overlap.QUEUE, state=JobState.DISABLED, next_us=None, expect_state=JobState.PAUSED
    )
    await fixture.store.apply(SaveJobs(rows=(row,), now_us=fixture.tick()))
    assert [run.id for run in await fixture.claim()] == [ready.id]
    job = await fixture.job("a")
    assert (job.note, job.paused_us) == ("", None)


async def case_a_set_is_rejected_if_a_state_changed(fixture: StoreFixture) -> None:
    for name in ("a", "b"):
        await fixture.save(name, overlap=Overlap.QUEUE)
    await fixture.set_state((await fixture.job("b")).id, JobState.PAUSED)
    changed = fixture.build_job_row("b", overlap=Overlap.QUEUE, description="new", expect_state=JobState.ACTIVE)
    for second in (_build_disabled_row(fixture, "b"), changed):
        with raises(Conflict, '"b" changed since you read it: it was active and is now paused'):
            await fixture.store.apply(
                SaveJobs(
                    rows=(_build_disabled_row(fixture, "a"), second, fixture.build_job_row("c")), now_us=fixture.tick()
                )
            )
    assert [(await fixture.job(name)).state for name in ("a", "b")] == [JobState.ACTIVE, JobState.PAUSED]
    assert (await fixture.job("b")).version == 1
    assert await fixture.store.job_named("default", "c") is None
