"""The first oracle: joins runs and records by execution id, and knows of tokens."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from chronos.core.config import Delivery, Overlap
from chronos.core.execution import Execution, Status
from tests.simulation.history import Fate, Fault, Run
from tests.simulation.node_lifetimes import Life
from tests.simulation.scenario import BY_CALENDAR, Evidence
from tests.simulation.verdicts import Finding, Verdict, shown


class ById:
    def __init__(self, evidence: Evidence, jobs: Mapping[bytes, Life]) -> None:
        self._evidence, self._history, self._jobs = evidence, evidence.history, jobs
        self._suspect_s = evidence.scenario.suspect_s
        self._records = {record.id: record for record in evidence.records}
        self._runs: dict[bytes, list[Run]] = defaultdict(list)
        self._of_job: dict[bytes, list[Run]] = defaultdict(list)
        for run in sorted(self._history.runs, key=lambda run: run.start_s):
            self._runs[run.execution].append(run)
            self._of_job[run.job].append(run)

    def findings(self) -> Iterator[Finding]:
        for execution, runs in self._runs.items():
            if execution not in self._records:
                yield Finding(Verdict.PHANTOM, f"{shown(runs[0])} has no record")
            yield from self._repeated(runs)
            yield from self._killed(runs)
            yield from self._resurrected(runs)
        for record in self._records.values():
            yield from self._record(record)
        for note in self._history.settled.values():
            if note.token < note.newest:
                yield Finding(Verdict.ZOMBIE, f"{note.execution.hex()}: token {note.token}, newest {note.newest}")
        yield from self._lost_acks()
        for job, runs in self._of_job.items():
            yield from self._overlaps(self._jobs[job], runs)
            yield from self._disorder(self._jobs[job], runs)

    def _repeated(self, runs: list[Run]) -> Iterator[Finding]:
        behaves = self._jobs[runs[0].job].behaves
        seen = {(run.task, run.token, run.number) for run in runs}
        if len(seen) < len(runs):
            yield Finding(Verdict.DUPLICATE, f"{shown(runs[0])}: one claim started twice")
        tasks = {run.task for run in runs}
        if behaves.delivery is Delivery.AT_MOST_ONCE and len(runs) > len(tasks):
            yield Finding(Verdict.DUPLICATE, f"{shown(runs[0])} must run at most once, ran {len(runs)} times")
        for task in sorted(tasks):
            yield from self._done_again([run for run in runs if run.task == task])

    def _killed(self, runs: list[Run]) -> Iterator[Finding]:
        """Work ends by force with its machine, or because that could not be heard: not because others were unwell."""
        for run in runs:
            if run.fate is not Fate.KILLED or run.end_s is None or run.end_s >= self._evidence.end_s:
                continue
            if not self._history.disturbed(run.machine, run.start_s - self._suspect_s, run.end_s):
                yield Finding(Verdict.KILLED, f"{shown(run)} was killed, and its machine was well")

    def _done_again(self, runs: list[Run]) -> Iterator[Finding]:
        """Tries of one task of one execution."""
        for run, again in pairwise(runs):
            if run.fate is Fate.DONE and not self._history.disturbed(
                run.machine, run.start_s - self._suspect_s, again.start_s
            ):  # else whoever made it may have been taken for dead before its outcome was known
                yield Finding(Verdict.DUPLICATE, f"{shown(run)} was done, and done again")

    def _resurrected(self, runs: list[Run]) -> Iterator[Finding]:
        settled = self._history.settled.get(runs[0].execution)
        for run in runs:
            if settled is None or run.start_s <= settled.at_s:
                continue
            late = self._history.disturbed(run.machine, run.start_s - self._suspect_s, run.start_s, Fault.FREEZE)
            if run.token >= settled.token or not late:
                yield Finding(Verdict.RESURRECTED, f"{shown(run)} began after its end at {settled.at_s:.0f} s")

    def _record(self, record: Execution) -> Iterator[Finding]:
        life = self._jobs[record.job]
        runs = self._runs.get(record.id, [])
        done = {run.task for run in runs if run.fate is Fate.DONE}
        if record.status is Status.SUCCEEDED and not done.union(self._carried(record)).issuperset(
            life.behaves.task_names
        ):
            yield Finding(Verdict.PHANTOM, f"{life.name} {record.id.hex()} succeeded, and nobody did it")
        if record.status in (Status.SKIPPED, Status.MISSED) and runs:
            yield Finding(Verdict.PHANTOM, f"{life.name} {record.id.hex()} is {record.status.name}, and ran")
        if not record.status.final:
            yield from self._stuck(life, record)

    def _carried(self, record: Execution) -> set[str]:
        """What a replay from the failed tasks need not do again, because the first one has done it."""
        first = self._records.get(self._history.carried.get(record.id, b""))
        if first is None:
            return set()
        done = {run.task for run in self._runs.get(first.id, []) if run.fate is Fate.DONE}
        return done | self._carried(first)

    def _stuck(self, life: Life, record: Execution) -> Iterator[Finding]:
        """Open for longer than it takes to settle and to run; in a queue, if that does not move either."""
        patience_s = self._evidence.scenario.settles_s + life.behaves.longest_s
        since_us = record.admitted_us if record.attempt_us is None else record.attempt_us
        age_s = (self._evidence.end_us - since_us) / 1e6
        if record.status is Status.QUEUED:
            moved_s = max((run.start_s for run in self._of_job[life.job]), default=0.0)
            age_s = min(age_s, self._evidence.end_s - moved_s)
        if age_s > patience_s:
            yield Finding(Verdict.STUCK, f"{life.name} {record.id.hex()} is {record.status.name} for {age_s:.0f} s")

    def _lost_acks(self) -> Iterator[Finding]:
        for execution, status in self._history.acked.items():
            record = self._records.get(execution)
            if record is None or record.status is not status:
                found = "nothing" if record is None else record.status.name
                yield Finding(Verdict.LOST_ACK, f"{execution.hex()} was said to be {status.name}, on record is {found}")
        for execution in self._history.asked:
            if execution not in self._records:
                yield Finding(Verdict.LOST_ACK, f"trigger {execution.hex()} was acknowledged, there is no record")

    def _overlaps(self, life: Life, runs: list[Run]) -> Iterator[Finding]:
        for before, after in _meeting(runs, self._evidence.end_s):
            forbidden = life.behaves.exclusive or before.execution == after.execution
            if forbidden and not any(self._frozen(run, after.start_s) for run in (before, after)):
                yield Finding(Verdict.OVERLAP, f"{shown(before)} and {shown(after)}")

    def _frozen(self, run: Run, at_s: float) -> bool:
        """Whether it is a zombie: its machine was frozen whole meanwhile, and only fencing helps."""
        until_s = run.end_s if run.end_s is not None else self._evidence.end_s
        return self._history.disturbed(run.machine, min(run.start_s, at_s - self._suspect_s), until_s, Fault.FREEZE)

    def _disorder(self, life: Life, runs: list[Run]) -> Iterator[Finding]:
        """Instants of a queue begin in their order (what was asked for by hand has none)."""
        if life.behaves.overlap is not Overlap.QUEUE:
            return
        latest_us = 0
        seen: set[bytes] = set()
        for run in runs:
            record = self._records.get(run.execution)
            if record is None or record.cause not in BY_CALENDAR or run.execution in seen:
                continue
            seen.add(run.execution)
            if run.scheduled_us < latest_us:
                yield Finding(Verdict.DISORDER, f"{shown(run)} began after the instant {latest_us}")
            latest_us = max(latest_us, run.scheduled_us)


def _meeting(runs: list[Run], end_s: float) -> Iterator[tuple[Run, Run]]:
    """Pairs of runs that went on at the same time; ``runs`` by their start."""
    going: list[Run] = []
    for run in runs:
        going = [other for other in going if (other.end_s if other.end_s is not None else end_s) > run.start_s]
        for other in going:
            yield other, run
        going.append(run)
