"""The third oracle: the operator's actions took effect from the moment the store applied them.

- After a pause nothing starts that had not started, except manual runs.
- After a cancellation nothing of that execution starts, and after a deletion nothing of that job. Running work stops
  with the next heartbeat.
- After an update nothing starts with the previous version.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from chronos.core.execution import Cause
from tests.simulation.history import Action, ClaimNote, Run, describe_run
from tests.simulation.node_lifetimes import JobLifetime
from tests.simulation.scenario import Evidence
from tests.support.verdicts import Finding, Verdict


class EffectOracle:
    """Checks that pauses, cancellations, deletions and updates took effect."""

    def __init__(self, evidence: Evidence, jobs: Mapping[bytes, JobLifetime]) -> None:
        self._evidence, self._history, self._jobs = evidence, evidence.history, jobs
        self._records = {record.id: record for record in evidence.records}
        self._canceled = {c.job: c.at_s for c in reversed(self._history.changes) if c.action is Action.CANCEL}
        self._runs: dict[bytes, list[Run]] = defaultdict(list)
        for run in self._history.runs:
            self._runs[run.execution].append(run)

    def find(self) -> Iterator[Finding]:
        for note in self._history.claims.values():
            yield from self._check_claim(note)
        for execution, at_s in self._canceled.items():
            yield from self._check_stopped(self._runs[execution], at_s)
        for lifetime in self._jobs.values():
            if lifetime.deleted is not None:
                yield from self._check_stopped(
                    [r for r in self._history.runs if r.job == lifetime.job], lifetime.deleted.at_s
                )

    def _check_claim(self, note: ClaimNote) -> Iterator[Finding]:
        record = self._records.get(note.execution)
        if record is None:
            return  # the first oracle reports it
        lifetime = self._jobs[record.job]
        subject = f"{lifetime.name} {note.execution.hex()[:12]} token {note.token} at {note.at_s:.0f} s"
        if note.first and record.cause is not Cause.MANUAL and lifetime.is_paused_at(note.at_s):
            yield Finding(Verdict.IGNORED, f"{subject} started while its job was paused")
        if note.at_s > self._canceled.get(note.execution, self._evidence.end_s):
            yield Finding(Verdict.IGNORED, f"{subject} started after it had been canceled")
        if lifetime.deleted is not None and note.at_s > lifetime.deleted.at_s:
            yield Finding(Verdict.IGNORED, f"{subject} started after its job had been deleted")
        if note.first and note.behind > 0:
            yield Finding(Verdict.OUTDATED, f"{subject}: {note.behind} versions behind")

    def _check_stopped(self, runs: list[Run], at_s: float) -> Iterator[Finding]:
        """Work that was asked to stop, and still runs long after on an undisturbed machine."""
        scenario = self._evidence.scenario
        before_s = at_s - scenario.odds.max_unreachable_s  # a request from then may still wait
        by_s = at_s + scenario.options.heartbeat_s + scenario.options.grace_s + 15 * scenario.odds.longest_s
        for run in runs:
            until_s = self._evidence.end_s if run.end_s is None else run.end_s
            if run.start_s <= at_s and until_s > by_s and not self._history.disturbed(run.machine, before_s, by_s):
                yield Finding(Verdict.IGNORED, f"{describe_run(run)} was asked to stop at {at_s:.0f} s")
