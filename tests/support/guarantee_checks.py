"""What tests of the guarantees share: recorded instants, the one-at-a-time check, the node that works."""

from chronos.core.execution import Cause, Execution, Span, Status
from chronos.store.commands import Admit, Claim, Recover, Settle, Suspend
from chronos.store.contract import ExecutionFilter
from tests.support.engine_world import SECOND_US, NodeOfWorld, World

LOSABLE = (Admit, Claim, Recover, Settle, Suspend)


def covered(world: World, records: list[Execution | Span], every_s: float) -> list[float]:
    """The instants that are on record, each as often as it is."""
    found: list[float] = []
    for record in records:
        if isinstance(record, Span):
            instants = range(record.from_us, record.to_us + 1, round(every_s * SECOND_US))
            assert len(instants) == record.count
            found += [world.second(at_us) for at_us in instants]
        elif record.cause in (Cause.SCHEDULE, Cause.RECOVERY):
            found.append(world.second(record.scheduled_us))
    return sorted(found)


def instants(first: float, last: float, every_s: float) -> list[float]:
    return [round(first + n * every_s, 3) for n in range(round((last - first) / every_s) + 1)]


async def never_two(world: World, job: bytes, seconds: float, step_s: float = 0.5) -> None:
    """Let time pass and look, again and again, that no two executions of a job run."""
    for _ in range(round(seconds / step_s)):
        await world.advance(step_s)
        running = await world.store.list_executions(ExecutionFilter(job=job, status=Status.RUNNING), limit=10)
        assert len(running.items) <= 1


def holder(world: World) -> NodeOfWorld:
    """The one node that works on something."""
    [node] = [node for node in world.nodes if node.alive and node.engine.busy]
    return node
