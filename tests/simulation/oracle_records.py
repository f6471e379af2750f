"""The first oracle: joins runs and records by execution id and claim token."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from chronos.core.config import Delivery, Overlap
from chronos.core.execution import Execution, Status
from tests.simulation.history import Fault, Run, RunOutcome, describe_run
from tests.simulation.node_lifetimes import JobLifetime
from tests.simulation.scenario import SCHEDULED_CAUSES, Evidence
from tests.support.verdicts import Finding, Verdict


class RecordOracle:
    """Checks runs against the records of their executions."""

    def __init__(self, evidence: Evidence, jobs: Mapping[bytes, JobLifetime]) -> None:
        self._evidence, self._history, self._jobs = evidence, evidence.history, jobs
        self._suspect_s = evidence.scenario.suspect_s
        self._records = {record.id: record for record in evidence.records}
        self._runs: dict[bytes, list[Run]] = defaultdict(list)
        self._runs_by_job: dict[bytes, list[Run]] = defaultdict(list)
        for run in sorted(self._history.runs, key=lambda run: run.start_s):
            self._runs[run.execution].append(run)
            self._runs_by_job[run.job].append(run)

    def find(self) -> Iterator[Finding]:
        for execution, runs in self._runs.items():
            if execution not in self._records:
                yield Finding(Verdict.PHANTOM, f"{describe_run(runs[0])} has no record")
            yield from self._check_repeated(runs)
            yield from self._check_killed(runs)
            yield from self._check_resurrected(runs)
        for record in self._records.values():
            yield from self._check_record(record)
        for note in self._history.settled.values():
            if note.token < note.newest:
                yield Finding(Verdict.UNFENCED, f"{note.execution.hex()}: token {note.token}, newest {note.newest}")
        yield from self._check_lost_acks()
        for job, runs in self._runs_by_job.items():
            yield from self._check_overlaps(self._jobs[job], runs)
            yield from self._check_disorder(self._jobs[job], runs)

    def _check_repeated(self, runs: list[Run]) -> Iterator[Finding]:
        sim_job = self._jobs[runs[0].job].sim_job
        seen = {(run.task, run.token, run.number) for run in runs}
        if len(seen) < len(runs):
            yield Finding(Verdict.DUPLICATE, f"{describe_run(runs[0])}: one claim started twice")
        tasks = {run.task for run in runs}
        if sim_job.delivery is Delivery.AT_MOST_ONCE and len(runs) > len(tasks):
            yield Finding(Verdict.DUPLICATE, f"{describe_run(runs[0])} must run at most once, ran {len(runs)} times")
        for task in sorted(tasks):
            yield from self._check_done_again([run for run in runs if run.task == task])

    def _check_killed(self, runs: list[Run]) -> Iterator[Finding]:
        """Work is killed only with its machine, or because its machine was unreachable."""
        for run in runs:
            if run.outcome is not RunOutcome.KILLED or run.end_s is None or run.end_s >= self._evidence.end_s:
                continue
            if not self._history.disturbed(run.machine, run.start_s - self._suspect_s, run.end_s):
                yield Finding(Verdict.KILLED, f"{describe_run(run)} was killed, and its machine was undisturbed")

    def _check_done_again(self, runs: list[Run]) -> Iterator[Finding]:
        """Check the attempts of one task of one execution."""
        for run, following in pairwise(runs):
            if run.outcome is RunOutcome.DONE and not self._history.disturbed(
                run.machine, run.start_s - self._suspect_s, following.start_s
            ):  # otherwise its node may have been taken for dead before its outcome was known
                yield Finding(Verdict.DUPLICATE, f"{describe_run(run)} was done, and was done again")

    def _check_resurrected(self, runs: list[Run]) -> Iterator[Finding]:
        settled = self._history.settled.get(runs[0].execution)
        for run in runs:
            if settled is None or run.start_s <= settled.at_s:
                continue
            late = self._history.disturbed(run.machine, run.start_s - self._suspect_s, run.start_s, Fault.FREEZE)
            if run.token >= settled.token or not late:
                yield Finding(Verdict.RESURRECTED, f"{describe_run(run)} started after its end at {settled.at_s:.0f} s")

    def _check_record(self, record: Execution) -> Iterator[Finding]:
        lifetime = self._jobs[record.job]
        runs = self._runs.get(record.id, [])
        done = {run.task for run in runs if run.outcome is RunOutcome.DONE}
        if record.status is Status.SUCCEEDED and not done.union(self._find_carried(record)).issuperset(
            lifetime.sim_job.task_names
        ):
            yield Finding(Verdict.PHANTOM, f"{lifetime.name} {record.id.hex()} succeeded, and no run finished")
        if record.status in (Status.SKIPPED, Status.MISSED) and runs:
            yield Finding(Verdict.PHANTOM, f"{lifetime.name} {record.id.hex()} is {record.status.name}, and ran")
        if not record.status.final:
            yield from self._check_stuck(lifetime, record)

    def _find_carried(self, record: Execution) -> set[str]:
        """The tasks that a replay from the failed tasks need not repeat, because its original did them."""
        first = self._records.get(self._history.carried.get(record.id, b""))
        if first is None:
            return set()
        done = {run.task for run in self._runs.get(first.id, []) if run.outcome is RunOutcome.DONE}
        return done | self._find_carried(first)

    def _check_stuck(self, lifetime: JobLifetime, record: Execution) -> Iterator[Finding]:
        """Find executions that are open for longer than it takes to settle and to run.

        Queued ones count only if their queue does not move either.
        """
        allowed_s = self._evidence.scenario.settles_s + lifetime.sim_job.longest_s
        since_us = record.admitted_us if record.attempt_us is None else record.attempt_us
        age_s = (self._evidence.end_us - since_us) / 1e6
        if record.status is Status.QUEUED:
            moved_s = max((run.start_s for run in self._runs_by_job[lifetime.job]), default=0.0)
            age_s = min(age_s, self._evidence.end_s - moved_s)
        if age_s > allowed_s:
            yield Finding(Verdict.STUCK, f"{lifetime.name} {record.id.hex()} is {record.status.name} for {age_s:.0f} s")

    def _check_lost_acks(self) -> Iterator[Finding]:
        for execution, status in self._history.acked.items():
            record = self._records.get(execution)
            if record is None or record.status is not status:
                recorded = "nothing" if record is None else record.status.name
                yield Finding(
                    Verdict.LOST_ACK, f"{execution.hex()} was acknowledged as {status.name}, on record is {recorded}"
                )
        for execution in self._history.triggered:
            if execution not in self._records:
                yield Finding(Verdict.LOST_ACK, f"trigger {execution.hex()} was acknowledged and has no record")

    def _check_overlaps(self, lifetime: JobLifetime, runs: list[Run]) -> Iterator[Finding]:
        for before, after in _find_overlapping(runs, self._evidence.end_s):
            forbidden = lifetime.sim_job.exclusive or before.execution == after.execution
            if forbidden and not any(self._was_frozen(run, after.start_s) for run in (before, after)):
                yield Finding(Verdict.OVERLAP, f"{describe_run(before)} and {describe_run(after)}")

    def _was_frozen(self, run: Run, at_s: float) -> bool:
        """Whether the run is a zombie: its machine was frozen meanwhile, so only fencing helps."""
        until_s = run.end_s if run.end_s is not None else self._evidence.end_s
        return self._history.disturbed(run.machine, min(run.start_s, at_s - self._suspect_s), until_s, Fault.FREEZE)

    def _check_disorder(self, lifetime: JobLifetime, runs: list[Run]) -> Iterator[Finding]:
        """Instants of a queue start in order. Requested runs have no order."""
        if lifetime.sim_job.overlap is not Overlap.QUEUE:
            return
        latest_us = 0
        seen: set[bytes] = set()
        for run in runs:
            record = self._records.get(run.execution)
            if record is None or record.cause not in SCHEDULED_CAUSES or run.execution in seen:
                continue
            seen.add(run.execution)
            if run.scheduled_us < latest_us:
                yield Finding(Verdict.DISORDER, f"{describe_run(run)} started after the instant {latest_us}")
            latest_us = max(latest_us, run.scheduled_us)


def _find_overlapping(runs: list[Run], end_s: float) -> Iterator[tuple[Run, Run]]:
    """Pairs of runs that ran at the same time. ``runs`` are in start order."""
    running: list[Run] = []
    for run in runs:
        running = [other for other in running if (other.end_s if other.end_s is not None else end_s) > run.start_s]
        for other in running:
            yield other, run
        running.append(run)
