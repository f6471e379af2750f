"""Why a run happened, or did not."""

from chronos.core.calendar import SECOND_US
from chronos.core.execution import AttemptStatus, Cause, Status
from chronos.core.ids import scheduled_execution_id
from chronos.core.node import Actor
from chronos.core.planner import Gap, plan
from chronos.core.reasons import ReasonCode
from chronos.core.schedule_change import resolve_instants
from chronos.core.shortage import build_offer
from chronos.service.serializers import id_text
from chronos.service.why_steps import WhyStep, WhyVerdict
from chronos.store.commands import Beat, EndedAttempt, Reap, ReapRow, Recover, RegisterNode, RunRow, StopNode
from chronos.store.contract import ExecutionFilter
from tests.support.service_world import HOUR_US, START_US, World, in_world

ANA = Actor(name="ana")


def verdicts(steps: list[WhyStep]) -> list[str]:
    return [step.verdict.value for step in steps]


def said(steps: list[WhyStep]) -> str:
    return "\n".join(step.sentence for step in steps)


async def recover(world: World, name: str = "job") -> None:
    """What an engine does about a gap."""
    job = await world.jobs.get(name)
    instants = resolve_instants(job.spec, job.name)
    assert instants is not None
    gap = plan(
        job=job.id,
        state=job.state,
        instants=instants,
        effective=world.jobs.effective(job.spec),
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


def test_a_run_that_happened() -> None:
    async def case(world: World) -> None:
        await world.save()
        world.clock.us = START_US + HOUR_US + 5 * SECOND_US
        run = await world.admit()
        world.tick()
        await world.settle(run)
        steps = await world.why.why("job", START_US + HOUR_US)
        assert verdicts(steps) == ["due", "admitted", "started", "ended", "coming"]
        assert "The schedule names this instant." in said(steps)
        assert "node-a started it, 5 seconds late." in said(steps)
        assert "It succeeded. Every task succeeded." in said(steps)
        assert steps[-1].sentence == "It will next run at 2027-01-01T02:00:00Z."
        assert await world.why.why_execution(run.id) == steps[:-1]

    in_world(case)


def test_a_run_that_was_skipped() -> None:
    async def case(world: World) -> None:
        await world.save()
        first = await world.admit()
        skipped = await world.admit()
        assert skipped.status is Status.SKIPPED
        steps = await world.why.why("job", START_US + 2 * HOUR_US)
        assert "It was skipped. An earlier execution of the job was still under way." in said(steps)
        assert f"{id_text(first.id)}, of 2027-01-01T01:00:00Z, was under way." in said(steps)

    in_world(case)


def test_runs_that_were_missed_and_recovered() -> None:
    async def case(world: World) -> None:
        saved = await world.save()
        world.clock.us = START_US + 5 * HOUR_US + 60 * SECOND_US
        await recover(world)
        steps = await world.why.why("job", START_US + 3 * HOUR_US)
        assert verdicts(steps) == ["missed", "recovered", "coming"]
        assert steps[0].sentence.startswith("4 instants from 2027-01-01T01:00:00Z to 2027-01-01T04:00:00Z were missed")
        run = scheduled_execution_id(saved.job_id, START_US + 5 * HOUR_US)
        assert steps[1].sentence == f"The instant 2027-01-01T05:00:00Z was recovered as {id_text(run)}."
        last = await world.why.why("job", START_US + 5 * HOUR_US)
        assert "which was missed, and the job's recovery runs it" in said(last)
        assert "It waits: no node is alive." in said(last)

    in_world(case)


def test_while_a_job_was_paused() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.switch("pause", "job", reason="too loud", actor=ANA)
        world.tick(3 * HOUR_US)
        now = await world.why.why("job", START_US + HOUR_US)
        assert now[0].verdict is WhyVerdict.PAUSED
        assert now[0].sentence == "The job was paused by ana at 2027-01-01T00:00:00Z: too loud"
        assert now[-1].sentence == "It will not run until it is resumed."
        ahead = await world.why.why("job", START_US + 9 * HOUR_US)
        assert verdicts(ahead) == ["paused", "paused", "coming"]
        await world.switch("resume", "job")
        then = await world.why.why("job", START_US + HOUR_US)
        assert verdicts(then) == ["paused", "skipped", "coming"]
        assert "by ana" in then[0].sentence

    in_world(case)


def test_instants_that_are_none() -> None:
    async def case(world: World) -> None:
        await world.save(exclude=["2027-01-02"])
        before = await world.why.why("job", START_US - HOUR_US)
        assert "did not exist then" in before[0].sentence
        between = await world.why.why("job", START_US + HOUR_US // 2)
        assert "the next after it is 2027-01-01T01:00:00Z" in between[0].sentence
        excluded = await world.why.why("job", START_US + 25 * HOUR_US)
        assert excluded[0].sentence == "The schedule leaves it out: 2027-01-02 are excluded."
        ahead = await world.why.why("job", START_US + 2 * HOUR_US)
        assert verdicts(ahead) == ["coming", "coming"]
        await world.save("hand", schedule="manual")
        hand = await world.why.why("hand", START_US)
        assert "has no schedule" in hand[0].sentence
        assert hand[-1].sentence == "It runs only when it is triggered."

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


def test_what_nobody_has_dealt_with_yet() -> None:
    async def case(world: World) -> None:
        await world.save()
        world.tick(HOUR_US + 10 * SECOND_US)
        steps = await world.why.why("job", START_US + HOUR_US)
        assert steps[0].sentence == "It is due since 10 seconds, and no node has dealt with it yet."
        await world.switch("disable", "job", actor=ANA)
        world.tick(HOUR_US)
        off = await world.why.why("job", START_US + 2 * HOUR_US)
        assert "disabled by ana" in off[0].sentence

    in_world(case)


def test_somebody_asked_for_it() -> None:
    async def case(world: World) -> None:
        await world.save()
        asked = await world.runs.trigger("job", reason="a test", actor=ANA)
        steps = await world.why.why_execution(asked.id)
        assert steps[0].sentence == "ana asked for it. The reason given: a test"
        [run] = await world.claim()
        await world.runs.cancel(run.id)
        assert "It was asked to stop." in said(await world.why.why_execution(run.id))

    in_world(case)


def test_an_instant_that_a_backfill_ran_later() -> None:
    async def case(world: World) -> None:
        world.clock.us = START_US + 10 * HOUR_US
        await world.save()
        asked = await world.backfills.run("job", START_US + HOUR_US, START_US + HOUR_US, actor=ANA)
        at = await world.runs.trigger("job", at_us=START_US + 2 * HOUR_US, actor=ANA)
        steps = await world.why.why("job", START_US + HOUR_US)
        assert "The job did not exist then" in steps[0].sentence
        assert f"A backfill asked for it at 2027-01-01T10:00:00Z: {id_text(asked.ids[0])} is ready." in said(steps)
        [run] = await world.claim()
        await world.settle(run)
        assert "ana asked for it." in said(await world.why.why_execution(run.id))
        steps = await world.why.why("job", START_US + HOUR_US)
        assert verdicts(steps) == ["off", "ended", "coming"]
        assert f"{id_text(run.id)} succeeded." in said(steps)
        steps = await world.why.why("job", START_US + 2 * HOUR_US)
        assert f"A trigger asked for it at 2027-01-01T10:00:00Z: {id_text(at.id)}" in said(steps)

    in_world(case)


def test_that_no_node_was_alive() -> None:
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
        absent = "No node was alive from 2027-01-01T00:30:00Z to 2027-01-01T05:01:00Z."
        assert absent in said(await world.why.why("job", START_US + 3 * HOUR_US))
        assert absent in said(await world.why.why("job", START_US + 5 * HOUR_US))

    in_world(case)


def test_what_no_live_node_can_take_says_what_is_missing() -> None:
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
        assert f"is ready, and waits: {missing}" in said(await world.why.why("job"))
        assert f"It waits: {missing}" in said(await world.why.why_execution(run.id))
        await world.store.apply(Beat(node=2, beat=1, now_us=world.tick(), offer=build_offer(None, ["lost"]).text))
        assert "no live node" not in said(await world.why.why("job"))
        assert "a worker with a free slot" in said(await world.why.why_execution(run.id))

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
        told = said(await world.why.why_execution(run.id))
        assert "node-a started it." in told
        assert 'Attempt 1 of "main" on node-a was lost' in told

    in_world(case)


def test_without_an_instant_the_last_ones_and_the_next() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.settle(await world.admit())
        run = await world.admit()
        await world.settle(run, Status.FAILED)
        await world.switch("pause", "job", actor=ANA)
        steps = await world.why.why("job")
        assert verdicts(steps) == ["ended", "failed", "paused", "coming"]
        assert "The run of 2027-01-01T02:00:00Z failed" in steps[1].sentence
        assert "a task failed for good." in steps[1].sentence

    in_world(case)
