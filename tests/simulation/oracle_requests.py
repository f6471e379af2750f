"""The fourth oracle: runs that do not come from schedules: requests of the operator, and dependent jobs.

- One idempotency key creates one execution, and acknowledged requests are not left out.
- A backfill runs each instant of its range once, by the brute-force calendar.
- A replay is for the instant of its original. From the failed tasks on, it repeats nothing that was done.
- The dead letters are exactly the executions that failed for good and that the operator has not handled.
- Each end of a job starts each dependent job once, and not before that end.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from chronos.core.execution import Cause, Execution, Status
from chronos.core.job import UpstreamCondition, UpstreamJob
from tests.simulation.history import Backfill, Replay, Run, SettledNote, describe_run
from tests.simulation.jobs import calendar
from tests.simulation.node_lifetimes import JobLifetime
from tests.simulation.scenario import SCHEDULED_CAUSES, Evidence
from tests.support.verdicts import Finding, Verdict

_OUTBOX_TICKS = 5  # the outbox is read this often, even if hints were lost
_SATISFIED = {
    UpstreamCondition.SUCCESS: (Status.SUCCEEDED, Status.COMPLETED_WITH_ERRORS),
    UpstreamCondition.FAILURE: (Status.FAILED, Status.STALE),
    UpstreamCondition.COMPLETION: tuple(set(Status) - {Status.SKIPPED}),
}


class RequestOracle:
    """Checks requested runs, dead letters and dependent jobs."""

    def __init__(self, evidence: Evidence, jobs: Mapping[bytes, JobLifetime]) -> None:
        self._evidence, self._history, self._jobs = evidence, evidence.history, jobs
        self._records = {record.id: record for record in evidence.records}
        self._runs: dict[bytes, list[Run]] = defaultdict(list)
        for run in self._history.runs:
            self._runs[run.execution].append(run)

    def find(self) -> Iterator[Finding]:
        for key, created in self._history.keys.items():
            if len(created) > 1:
                yield Finding(Verdict.DUPLICATE, f"{key} was used once, and created {len(created)} executions")
        for record in self._records.values():
            if record.status is Status.SKIPPED and record.cause not in (*SCHEDULED_CAUSES, Cause.DEPENDENCY):
                yield Finding(Verdict.DROPPED, f"{record.id.hex()} was requested ({record.cause.name}), and skipped")
        for backfill in self._history.backfills:
            yield from self._check_backfill(backfill)
        for execution, replay in self._history.replays.items():
            yield from self._check_replay(execution, replay)
        yield from self._check_dead_letters()
        for lifetime in self._jobs.values():
            for after in lifetime.sim_job.after:
                yield from self._check_followed(lifetime, after)

    def _check_backfill(self, backfill: Backfill) -> Iterator[Finding]:
        lifetime = self._jobs[backfill.job]
        records = [self._records[id_] for id_ in backfill.ids if id_ in self._records]  # others are lost acks
        subject = f"backfill of {backfill.name} from {backfill.from_us} to {backfill.to_us}"
        if any(record.cause is not Cause.BACKFILL or record.job != backfill.job for record in records):
            yield Finding(Verdict.PHANTOM, f"{subject}: something else is on record")
        saves = [save for save in lifetime.saves if save.at_s <= backfill.at_s]
        if len(saves) > 1:
            return  # it is unknown which schedule was used
        [save] = saves
        expected = calendar(save.schedule, save.now_us, backfill.from_us - 1, backfill.to_us)
        recorded = Counter(record.scheduled_us for record in records)
        if missing := [us for us in expected if not recorded[us]]:
            yield Finding(Verdict.MISSED, f"{subject}: {missing} are not on record")
        known = {*expected, save.now_us}  # the anchor of an interval is an instant too
        if unknown := [us for us in recorded if us not in known]:
            yield Finding(Verdict.PHANTOM, f"{subject}: {unknown} are not instants")
        if twice := [us for us, count in recorded.items() if count > 1]:
            yield Finding(Verdict.DUPLICATE, f"{subject}: {twice} are recorded more than once")

    def _check_replay(self, execution: bytes, replay: Replay) -> Iterator[Finding]:
        first, again = self._records.get(replay.first), self._records.get(execution)
        if first is None or again is None:
            return  # a lost ack
        subject = f"{self._jobs[again.job].name} {execution.hex()[:12]}, a replay of {replay.first.hex()[:12]}"
        if (again.cause, again.job, again.scheduled_us) != (Cause.REPLAY, first.job, first.scheduled_us):
            yield Finding(Verdict.PHANTOM, f"{subject}, is for another instant")
        if replay.from_failed:
            done = self._find_certainly_done(replay.first) & {run.task for run in self._runs[execution]}
            for task in sorted(done):
                yield Finding(Verdict.DUPLICATE, f"{subject}, did {task} again")

    def _find_certainly_done(self, execution: bytes) -> set[str]:
        """The tasks that certainly succeeded: a later task started, and tasks run in sequence."""
        names = self._jobs[self._records[execution].job].sim_job.task_names
        started = [names.index(run.task) for run in self._runs[execution]]
        return set(names[: max(started, default=0)])

    def _check_dead_letters(self) -> Iterator[Finding]:
        failed = {id_ for id_, record in self._records.items() if record.status in (Status.FAILED, Status.STALE)}
        listed = set(self._evidence.dead_letters)
        for id_ in sorted(failed - self._history.dropped - listed):
            yield Finding(Verdict.WRONG_DEAD_LETTER, f"{id_.hex()} failed for good, and is not among the dead letters")
        for id_ in sorted(listed - failed) + sorted(listed & self._history.dropped):
            yield Finding(Verdict.WRONG_DEAD_LETTER, f"{id_.hex()} is among the dead letters, and should not be")

    # --- dependent jobs

    def _check_followed(self, lifetime: JobLifetime, after: UpstreamJob) -> Iterator[Finding]:
        """Each end of the upstream job has one execution, whose instant is the moment of that end."""
        upstream = {job.job for job in self._jobs.values() if job.name == after.job}
        ends: dict[int, list[Execution]] = defaultdict(list)  # two ends may have the same time: a clock was set back
        for record in self._records.values():
            if record.job in upstream and record.status.final:
                ends[record.finished_us or 0].append(record)
        dependents: dict[int, list[Execution]] = defaultdict(list)
        for record in self._records.values():
            if record.job == lifetime.job and record.cause is Cause.DEPENDENCY:
                dependents[record.scheduled_us].append(record)
                yield from self._check_follower(lifetime, after, record, ends.get(record.scheduled_us, []))
        for finished_us, ended in ends.items():
            if len(dependents[finished_us]) > len(ended):
                yield Finding(Verdict.DUPLICATE, f"{lifetime.name} follows {ended[0].id.hex()} more than once")
            due = [end for end in ended if self._must_follow(lifetime, after, end)]
            if len(dependents[finished_us]) < len(due):
                yield Finding(
                    Verdict.MISSED, f"{lifetime.name} does not follow {due[0].id.hex()}, {due[0].status.name}"
                )

    def _must_follow(self, lifetime: JobLifetime, after: UpstreamJob, end: Execution) -> bool:
        note = self._history.settled.get(end.id)
        applies = end.status in _SATISFIED[after.on] or after.on is UpstreamCondition.SUCCESS
        return applies and note is not None and self._could_follow(lifetime, note)

    def _check_follower(
        self, lifetime: JobLifetime, after: UpstreamJob, record: Execution, ended: list[Execution]
    ) -> Iterator[Finding]:
        subject = f"{lifetime.name} {record.id.hex()[:12]}"
        upstream = (record.detail or {}).get("upstream", [])  # skipped executions do not name it
        end = next((end for end in ended if end.id.hex() in upstream or not upstream), None)
        if end is None:
            yield Finding(Verdict.PHANTOM, f"{subject} follows nothing that has ended")
            return
        satisfied = end.status in _SATISFIED[after.on]
        runs = self._runs[record.id]
        if runs and not satisfied:
            yield Finding(Verdict.PHANTOM, f"{subject} ran, though what it follows is {end.status.name}")
        if record.status is Status.SKIPPED and all(end.status in _SATISFIED[after.on] for end in ended):
            yield Finding(Verdict.DROPPED, f"{subject} is skipped, though what it follows is {end.status.name}")
        note = self._history.settled.get(end.id)
        for run in runs[:1]:
            if note is not None and run.start_s < note.at_s:
                yield Finding(Verdict.EARLY, f"{describe_run(run)}: what it follows ended at {note.at_s:.0f} s")

    def _could_follow(self, lifetime: JobLifetime, note: SettledNote) -> bool:
        """Whether there was time to deliver that end: with faults it may take until everything healed."""
        scenario = self._evidence.scenario
        allowed_s = scenario.settles_s + _OUTBOX_TICKS * scenario.options.tick_s
        return lifetime.deleted is None and lifetime.created_s < note.at_s < self._evidence.end_s - allowed_s
