"""The log and the metrics have the same reason for the end of an execution as its record."""

from chronos.core.events import ExecutionAdmitted, ExecutionEnded
from chronos.core.execution import Execution, Status
from chronos.core.reasons import ReasonCode
from tests.support.engine_world import World, in_world

ONE_TRY = {"max_attempts": 1}


@in_world
async def test_the_logged_reason_is_the_reason_of_the_record(world: World) -> None:
    for name in ("overlaps", "keyed", "queues", "replaces", "canceled", "slow", "slower"):
        world.work(name, takes=1_000)
    world.work("fails", fails=True)
    world.work("good")
    node = await world.node()
    every = {"schedule": "@every 10s", "end": "2027-01-01T00:00:45Z"}
    await world.job("overlaps", **every)
    await world.job("keyed", **every, overlap="skip", queue_max=0, concurrency={"key": "k", "limit": 1})
    await world.job("other", **every, does="keyed", overlap="skip", queue_max=0, concurrency={"key": "k", "limit": 1})
    await world.job("queues", **every, overlap="queue", queue_max=1)
    await world.job("replaces", **every, overlap="replace")
    await world.job("canceled", schedule="now")
    await world.job("slow", schedule="now", timeout="5s", retry=ONE_TRY)
    await world.job("slower", schedule="now", timeout="1h", execution_timeout="5s", retry=ONE_TRY)
    await world.job("fails", schedule="now", retry=ONE_TRY)
    await world.job("good", schedule="@every 10s")
    await world.advance(1)
    await world.executions.cancel((await world.last("canceled")).id, message="not needed")
    await world.advance(60)
    told: dict[bytes, tuple[Status, ReasonCode | None, str | None]] = {}
    for event in node.events:
        if isinstance(event, ExecutionEnded):
            told[event.execution] = event.status, event.code, event.message
        elif isinstance(event, ExecutionAdmitted) and event.status is Status.SKIPPED:
            told[event.execution] = event.status, event.code, None
    records = [one for one in await world.records_of(None) if isinstance(one, Execution) and one.status.final]
    reasons = {one.id: one.reason for one in records if one.reason is not None and one.id in told}
    assert {id_: told[id_][1] for id_ in reasons} == {id_: reason.code for id_, reason in reasons.items()}
    for id_, (_, _, message) in told.items():
        assert message is None or message == reasons[id_].message
    codes = {code for _, code, _ in told.values()}
    assert codes >= {
        ReasonCode.SUCCEEDED,
        ReasonCode.TASK_FAILED,
        ReasonCode.EXECUTION_TIMEOUT,
        ReasonCode.OVERLAP,
        ReasonCode.QUEUE_FULL,
        ReasonCode.CANCELED,
        ReasonCode.REPLACED,
    }
    jobs = {(await world.get(name)).id: name for name in ("keyed", "other")}
    keyed = {one.reason.code for one in records if one.job in jobs and one.reason and one.status is Status.SKIPPED}
    assert keyed == {ReasonCode.OVERLAP, ReasonCode.QUEUE_FULL}, "of the job and of its key"
