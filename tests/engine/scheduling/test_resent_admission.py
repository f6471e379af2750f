"""A resent admission: its answer was lost, and meanwhile another node may hold what it admitted."""

import asyncio

from chronos.core.config import Overlap
from chronos.core.execution import Status
from chronos.core.ids import scheduled_execution_id
from chronos.core.reasons import ReasonCode
from chronos.store.commands import Admit, AdmitRow, RegisterNode, SaveJobs, Settle, SettleRow
from tests.simulation.jobs import SimJob
from tests.simulation.store_link import ResendAwareStore

NOW_US = 1_800_000_000_000_000
MINUTE_US = 60_000_000


def test_a_resent_admission_does_not_start_an_execution_of_another_node() -> None:
    """Found by simulation: both nodes started the same claim, under ``replace``."""

    async def main() -> None:
        store = ResendAwareStore()
        await store.open()
        row = SimJob(name="replace", cron="* * * * *", overlap=Overlap.REPLACE).row(NOW_US)
        [job] = await store.apply(SaveJobs(rows=(row,), now_us=NOW_US))
        mine, other = [
            await store.apply(RegisterNode(name=name, incarnation=name.encode() * 8, now_us=NOW_US, slots=1, labels={}))
            for name in ("me", "it")
        ]
        first_us = row.next_us or 0

        def admit(at_us: int, node: int, request: bytes) -> Admit:
            id_ = scheduled_execution_id(job.id, at_us)
            admitted = AdmitRow(job.id, 1, at_us, at_us + MINUTE_US, id_, at_us, True, True)
            return Admit(rows=(admitted,), node=node, now_us=at_us, request=request)

        [running] = await store.apply(admit(first_us, other, b"other"))
        lost = admit(first_us + MINUTE_US, mine, b"mine")
        [queued] = await store.apply(lost)  # this answer is lost
        assert (running.status, queued.status) == (Status.RUNNING, Status.QUEUED)
        ended = SettleRow(running.id, job.id, running.token, Status.CANCELED, ReasonCode.REPLACED, None, first_us)
        lanes = tuple(await store.lanes())
        settled = await store.apply(Settle(rows=(ended,), node=other, now_us=first_us, take=1, take_lanes=lanes))
        assert [taken.id for taken in settled.started_successors] == [queued.id]
        store.resent_requests.add(b"mine")
        assert not [answer for answer in await store.apply(lost) if answer.status is Status.RUNNING]
        await store.close()

    asyncio.run(main())
