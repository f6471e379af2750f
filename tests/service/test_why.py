"""Explanations of why a run happened or did not."""

from chronos.core.calendar import SECOND_US
from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.ids import scheduled_execution_id
from chronos.core.node import Actor
from chronos.core.planner import Gap, plan
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.schedule_change import resolve_instants
from chronos.core.shortage import build_offer
from chronos.service.serializers import id_text
from chronos.service.why.steps import WhyStep, WhyVerdict
from chronos.store.commands import Beat, EndedAttempt, Reap, ReapRow, Recover, RegisterNode, RunRow, StopNode
from chronos.store.contract import ExecutionFilter
from tests.support.service_world import HOUR_US, START_US, World, in_world

ANA = Actor(name="ana")


def verdicts(steps: list[WhyStep]) -> list[str]:
    return [step.verdict.value for step in steps]


def sentences(steps: list[WhyStep]) -> str:
    return "\n".join(step.sentence for step in steps)


async def recover(world: World, name: str = "job") -> None:
    """Recover a gap as the engine does."""
    job = await world.jobs.get(name)
    instants = resolve_instants(job.spec, job.name)
    assert instants is not None
    gap = plan(
        job=job.id,
        state=job.state,
        instants=instants,
        effective=await world.jobs.effective_settings(job),
        next_us=job.next_us,
        now_us=world.clock.us,
    )
    assert isinstance(gap, Gap)
    runs = tuple(RunRow(one.id, Cause.RECOVERY, one.scheduled_us, one.due_us) for one in gap.firings)
    await world.store.apply(
        Recover(
            job=job.id,
            version=job.version,
            expect_us=gap.expect_us,
            next_us=gap.next_us,
            runs=runs,
            spans=gap.spans,
            now_us=world.clock.us,
        )
    )


def test_a_run_that_succeeded_is_explained_step_by_step() -> None:
    async def case(world: World) -> None:
        await world.save()
        world.clock.us = START_US + HOUR_US + 5 * SECOND_US
        run = await world.admit()
        world.tick()
        await world.settle(run)
        steps = await world.why.why("job", START_US + HOUR_US)
        assert verdicts(steps) == ["due", "admitted", "started", "ended", "coming"]
        assert "Scheduled for Fri 1 Jan 01:00 UTC (v1)." in sentences(steps)
        assert "Started on node-a, 5s late." in sentences(steps)
        assert f"Succeeded. {Reason.of(ReasonCode.SUCCEEDED).message}" in sentences(steps)
        assert steps[-1].sentence == "The next run is on Fri 1 Jan 02:00 UTC."
        assert await world.why.why_execution(run.id) == steps[:-1]

    in_world(case)


def test_a_skipped_run_names_the_run_that_was_in_progress() -> None:
    async def case(world: World) -> None:
        await world.save()
        first = await world.admit()
        skipped = await world.admit()
        assert skipped.status is Status.SKIPPED
        steps = await world.why.why("job", START_US + 2 * HOUR_US)
        assert f"Skipped. {Reason.of(ReasonCode.OVERLAP).message}" in sentences(steps)
        assert f"The run of Fri 1 Jan 01:00 UTC was still in progress ({id_text(first.id)})." in sentences(steps)

    in_world(case)


def test_missed_runs_name_the_run_that_recovered_them() -> None:
    async def case(world: World) -> None:
        saved = await world.save()
        world.clock.us = START_US + 5 * HOUR_US + 60 * SECOND_US
        await recover(world)
        steps = await world.why.why("job", START_US + 3 * HOUR_US)
        assert verdicts(steps) == ["missed", "recovered", "coming"]
        assert steps[0].sentence.startswith("4 scheduled times from Fri 1 Jan 01:00 to 04:00 UTC were missed")
        run = scheduled_execution_id(saved.job_id, START_US + 5 * HOUR_US)
        assert steps[1].sentence == f"Recovered the run of Fri 1 Jan 05:00 UTC as {id_text(run)}."
        last = await world.why.why("job", START_US + 5 * HOUR_US)
        assert "missed, and run later by the job's recovery" in sentences(last)
        assert "Waiting: no " in sentences(last)

    in_world(case)


def test_instants_of_a_paused_job_name_who_paused_it() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.switch("pause", "job", reason="too loud", actor=ANA)
        world.tick(3 * HOUR_US)
        now = await world.why.why("job", START_US + HOUR_US)
        assert now[0].verdict is WhyVerdict.PAUSED
        assert now[0].sentence == "Paused by ana on Fri 1 Jan 00:00 UTC: too loud"
        assert now[-1].sentence == "The job will not run until it is resumed."
        ahead = await world.why.why("job", START_US + 9 * HOUR_US)
        assert verdicts(ahead) == ["paused", "paused", "coming"]
        await world.switch("resume", "job")
        then = await world.why.why("job", START_US + HOUR_US)
        assert verdicts(then) == ["paused", "skipped", "coming"]
        assert "by ana" in then[0].sentence

    in_world(case)


def test_a_time_that_is_not_scheduled_is_explained() -> None:
    async def case(world: World) -> None:
        await world.save(exclude=["2027-01-02"])
        before = await world.why.why("job", START_US - HOUR_US)
        assert "did not exist yet" in before[0].sentence
        between = await world.why.why("job", START_US + HOUR_US // 2)
        assert "Fri 1 Jan 00:30 UTC is not a scheduled time" in between[0].sentence
        assert "The next one is Fri 1 Jan 01:00 UTC." in between[0].sentence
        excluded = await world.why.why("job", START_US + 25 * HOUR_US)
        assert excluded[0].sentence == "Excluded from the schedule by 2027-01-02."
        ahead = await world.why.why("job", START_US + 2 * HOUR_US)
        assert verdicts(ahead) == ["coming", "coming"]
        await world.save("hand", schedule="manual")
        hand = await world.why.why("hand", START_US)
        assert "has no schedule" in hand[0].sentence
        assert hand[-1].sentence == "The job runs only when it is triggered."

    in_world(case)


def test_the_version_that_was_in_force_decides() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.settle(await world.admit())
        world.tick(60 * SECOND_US)
        await world.save(schedule="30 * * * *")
        steps = await world.why.why("job", START_US + HOUR_US // 2)
        assert steps[0].verdict is WhyVerdict.NO_INSTANT
        assert "Every hour, UTC" in steps[0].sentence

    in_world(case)


def test_a_due_instant_without_a_record_is_late() -> None:
    async def case(world: World) -> None:
        await world.save()
        world.tick(HOUR_US + 10 * SECOND_US)
        steps = await world.why.why("job", START_US + HOUR_US)
        assert steps[0].sentence == "10s late: no node has admitted it yet."
        await world.switch("disable", "job", actor=ANA)
        world.tick(HOUR_US)
        off = await world.why.why("job", START_US + 2 * HOUR_US)
        assert "Disabled by ana" in off[0].sentence

    in_world(case)


def test_a_requested_run_names_its_requester_and_reason() -> None:
    async def case(world: World) -> None:
        await world.save()
        requested = await world.runs.trigger("job", reason="a test", actor=ANA)
        steps = await world.why.why_execution(requested.id)
        assert steps[0].sentence == "Requested by ana. Reason: a test"
        [run] = await world.claim()
        await world.runs.cancel(run.id)
        assert "A cancellation was requested." in sentences(await world.why.why_execution(run.id))

    in_world(case)


def test_a_later_backfill_of_an_instant_is_explained() -> None:
    async def case(world: World) -> None:
        world.clock.us = START_US + 10 * HOUR_US
        await world.save()
        requested = await world.backfills.run("job", START_US + HOUR_US, START_US + HOUR_US, actor=ANA)
        at = await world.runs.trigger("job", at_us=START_US + 2 * HOUR_US, actor=ANA)
        steps = await world.why.why("job", START_US + HOUR_US)
        assert "The job did not exist yet" in steps[0].sentence
        assert (
            f"a backfill on Fri 1 Jan 10:00 UTC: the run {id_text(requested.ids[0])} is waiting for a slot."
            in sentences(steps)
        )
        [run] = await world.claim()
        await world.settle(run)
        assert "Requested by ana as a backfill of Fri 1 Jan 01:00 UTC." in sentences(
            await world.why.why_execution(run.id)
        )
        steps = await world.why.why("job", START_US + HOUR_US)
        assert verdicts(steps) == ["off", "ended", "coming"]
        assert f"{id_text(run.id)} succeeded." in sentences(steps)
        steps = await world.why.why("job", START_US + 2 * HOUR_US)
        assert f"Requested as a trigger on Fri 1 Jan 10:00 UTC: the run {id_text(at.id)}" in sentences(steps)

    in_world(case)


def test_missed_instants_name_the_period_without_a_live_node() -> None:
    async def case(world: World) -> None:
        await world.save()
        first = await world.store.apply(
            RegisterNode(name="a", incarnation=world.request(), now_us=world.clock.us, slots=8)
        )
        world.tick(HOUR_US // 2)
        await world.store.apply(StopNode(node=first, now_us=world.clock.us))
        world.clock.us = START_US + 5 * HOUR_US + 60 * SECOND_US
        await world.store.apply(RegisterNode(name="b", incarnation=world.request(), now_us=world.clock.us, slots=8))
        await recover(world)
        absent = "No live node from Fri 1 Jan 00:30 to 05:01 UTC."
        assert absent in sentences(await world.why.why("job", START_US + 3 * HOUR_US))
        assert absent in sentences(await world.why.why("job", START_US + 5 * HOUR_US))

    in_world(case)


def test_a_ready_run_that_no_live_node_can_run_names_what_is_missing() -> None:
    async def case(world: World) -> None:
        for name, offer in (("old", build_offer(None, ["lost"])), ("vm", build_offer(["default"], ["there"]))):
            number = await world.store.apply(
                RegisterNode(name=name, incarnation=world.request(), now_us=world.clock.us, slots=8, offer=offer.text)
            )
            if name == "old":
                await world.store.apply(StopNode(node=number, now_us=world.clock.us))
        await world.save("job", schedule="now", python={"name": "lost"})
        [run] = (await world.runs.list(ExecutionFilter(), limit=9)).items
        missing = 'no live node has the function "lost"; live nodes: vm.'
        assert f"is waiting: {missing}" in sentences(await world.why.why("job"))
        assert f"Waiting: {missing}" in sentences(await world.why.why_execution(run.id))
        await world.store.apply(Beat(node=2, beat=1, now_us=world.tick(), offer=build_offer(None, ["lost"]).text))
        assert "no live node" not in sentences(await world.why.why("job"))
        assert "a free slot on a live node" in sentences(await world.why.why_execution(run.id))

    in_world(case)


def test_each_attempt_names_its_own_node_and_the_start_the_first() -> None:
    async def case(world: World) -> None:
        await world.save()
        run = await world.admit()
        first = world.node
        lost = EndedAttempt(run.id, "main", 1, AttemptStatus.LOST, world.clock.us, world.clock.us, first)
        row = ReapRow(run.id, run.job, run.token, Status.READY, ReasonCode.WORKER_LOST, 2, (lost,))
        await world.store.apply(Reap(node=first, beat=0, rows=(row,), now_us=world.tick(SECOND_US)))
        world.node = await world.store.apply(
            RegisterNode(name="node-b", incarnation=world.request(), now_us=world.clock.us, slots=8)
        )
        await world.claim()
        text = sentences(await world.why.why_execution(run.id))
        assert "Started on node-a." in text
        assert "main: attempt 1 was lost" in text
        assert "on node-a" in text

    in_world(case)


def test_without_a_time_the_last_runs_and_the_next_are_explained() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.settle(await world.admit())
        run = await world.admit()
        await world.settle(run, Status.FAILED)
        await world.switch("pause", "job", actor=ANA)
        steps = await world.why.why("job")
        assert verdicts(steps) == ["ended", "failed", "paused", "coming"]
        assert "The run of Fri 1 Jan 02:00 UTC failed" in steps[1].sentence
        assert Reason.of(ReasonCode.TASK_FAILED).message[1:] in steps[1].sentence

    in_world(case)


def test_times_are_in_the_zone_of_the_job() -> None:
    async def case(world: World) -> None:
        await world.save(schedule="0 9 * * *", timezone="Asia/Kathmandu")
        steps = await world.why.why("job")
        assert steps[-1].sentence == "The next run is on Fri 1 Jan 09:00 Asia/Kathmandu."
        world.clock.us = START_US - 24 * HOUR_US
        assert "Fri 1 Jan 2027 09:00" in (await world.why.why("job"))[-1].sentence

    in_world(case)


def test_no_sentence_has_a_raw_instant() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.settle(await world.admit())
        await world.switch("pause", "job", actor=ANA)
        world.tick(9 * HOUR_US)
        await world.switch("resume", "job", actor=ANA)
        steps = await world.why.why("job")
        steps += [step for hour in range(-1, 12) for step in await world.why.why("job", START_US + hour * HOUR_US)]
        assert not [step.sentence for step in steps if "T0" in step.sentence or "Z" in step.sentence]

    in_world(case)
