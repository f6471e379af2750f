"""Duties of a node: which failures are counted, and that a failing duty does not block others."""

from typing import Any

from chronos.core.events import ProblemReported
from chronos.core.execution import Status
from chronos.engine.duties import Duties
from chronos.errors import ChronosError, StoreBroken, StoreUnavailable
from chronos.store.commands import Command, Trim
from tests.support.engine_world import World, in_world

REFUSED = "PostgreSQL at db is not as this release expects it"


class Clocked:
    """Duties with a clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.reported: list[str] = []
        self.duties = Duties(lambda: self.now_s, after_s=30, report=lambda duty, _: self.reported.append(duty))

    def fails(self, *errors: ChronosError, every_s: float = 10) -> dict[str, int]:
        """Let retention fail with these errors, one after the other. Returns the failing duties and their counts."""
        for error in errors:
            with self.duties.count_failures("retention"):
                raise error
            self.now_s += every_s
        return {duty: failure.times for duty, failure in self.duties.failing.items()}


def test_the_same_failure_in_a_row_counts_after_a_while() -> None:
    clocked = Clocked()
    assert clocked.fails(*[StoreBroken(REFUSED)] * 3) == {}  # within 20 s
    assert clocked.fails(StoreBroken(REFUSED)) == {"retention": 4}
    assert clocked.reported == ["retention"] * 4


def test_a_few_failures_do_not_count_however_long_they_take() -> None:
    assert Clocked().fails(*[StoreBroken(REFUSED)] * 2, every_s=3_600) == {}


def test_another_failure_starts_the_count_again() -> None:
    clocked = Clocked()
    clocked.fails(*[StoreBroken(REFUSED)] * 4)
    assert clocked.fails(StoreUnavailable(REFUSED)) == {}
    assert clocked.fails(*[StoreBroken(f"{REFUSED}\nDETAIL: process {n}") for n in range(4)]) == {"retention": 4}


def test_a_success_resets_the_count() -> None:
    clocked = Clocked()
    clocked.fails(*[StoreBroken(REFUSED)] * 4)
    with clocked.duties.count_failures("retention"):
        pass
    assert clocked.duties.failing == {}


@in_world
async def test_failing_retention_does_not_block_other_duties(world: World) -> None:
    node = await world.node()
    work = world.work("work")
    apply = world.store.apply
    broken = True

    async def refuse(command: Command[Any]) -> Any:
        if broken and isinstance(command, Trim):
            raise StoreBroken(REFUSED)
        return await apply(command)

    node.link.apply = refuse  # type: ignore[method-assign]
    maintained: list[int] = []

    async def maintain(now_us: int) -> None:
        maintained.append(now_us)

    node.link.maintain = maintain  # type: ignore[attr-defined]
    await world.job("work", schedule="@every 100s", recovery="all")
    await world.advance(750)
    assert {run.status for run in await world.runs("work")} == {Status.SUCCEEDED}
    assert (len(work.ends), len(maintained)) == (7, 3)
    assert list(node.engine.node.duties.failing) == ["retention"]
    troubles = [event for event in node.events if isinstance(event, ProblemReported)]
    assert {(event.duty, event.error) for event in troubles} == {("retention", REFUSED)}
    broken = False
    await world.advance(11)
    assert node.engine.node.duties.failing == {}
