"""Checks shared by the tests of the guarantees: recorded instants, overlaps, the busy node."""

from chronos.core.execution import Cause, Execution, Span, Status
from chronos.store.commands import Admit, Claim, Recover, Settle, Suspend
from chronos.store.contract import ExecutionFilter
from tests.support.engine_world import SECOND_US, NodeOfWorld, World

COMMANDS_THAT_MAY_BE_LOST = (Admit, Claim, Recover, Settle, Suspend)


def list_recorded_instants(world: World, records: list[Execution | Span], every_s: float) -> list[float]:
    """The instants on record, each as often as it is recorded."""
    recorded: list[float] = []
    for record in records:
        if isinstance(record, Span):
            instants = range(record.from_us, record.to_us + 1, round(every_s * SECOND_US))
            assert len(instants) == record.count
            recorded += [world.second(at_us) for at_us in instants]
        elif record.cause in (Cause.SCHEDULE, Cause.RECOVERY):
            recorded.append(world.second(record.scheduled_us))
    return sorted(recorded)


def list_instants(first: float, last: float, every_s: float) -> list[float]:
    return [round(first + n * every_s, 3) for n in range(round((last - first) / every_s) + 1)]


async def check_no_overlap(world: World, job: bytes, seconds: float, step_s: float = 0.5) -> None:
    """Let time pass, and assert at every step that at most one execution of a job runs."""
    for _ in range(round(seconds / step_s)):
        await world.advance(step_s)
        running = await world.store.list_executions(ExecutionFilter(job=job, status=Status.RUNNING), limit=10)
        assert len(running.items) <= 1


def find_busy_node(world: World) -> NodeOfWorld:
    """The one node that runs something."""
    [node] = [node for node in world.nodes if node.alive and node.engine.running_count]
    return node
